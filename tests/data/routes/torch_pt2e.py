"""A network quantized after training with torchao's PT2E flow, exported as Q/DQ by the dynamo exporter.

Made with Python 3.11 and the versions of torch_qat.py, and torchao==0.18.0:

    pip install torchao==0.18.0
    python torch_pt2e.py
"""

import warnings

import torch
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

from common import FILES, check_sizes, rng, run_onnx, save_arrays, strip_origins
from networks import PlainCnn, images, seeded

OPSET = 18
ROWS = 4


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    FILES.mkdir(exist_ok=True)
    name, random = "pt2e_per_channel", rng("pt2e_per_channel")
    network = seeded(PlainCnn, random)
    example = torch.from_numpy(images(network, random, ROWS))
    exported = torch.export.export(network, (example,)).module()
    prepared = prepare_pt2e(exported, XNNPACKQuantizer().set_global(get_symmetric_quantization_config(is_per_channel=True)))
    for _ in range(8):
        prepared(torch.from_numpy(images(network, random, ROWS)))
    quantized = convert_pt2e(prepared)
    path = FILES / f"{name}.onnx"
    program = torch.onnx.export(quantized, (example,), dynamo=True, opset_version=OPSET, verbose=False)
    program.save(path, external_data=False)
    strip_origins(path)
    save_arrays(name, [example.numpy()], run_onnx(path, [example.numpy()]))
    check_sizes(name, ".onnx")


if __name__ == "__main__":
    main()
