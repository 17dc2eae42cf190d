"""Float networks by torch's exporter of captured graphs (dynamo), operator sets 18 and newest.

Made with Python 3.11 and the versions of torch_torchscript.py, and onnxscript==0.7.2:

    pip install torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 numpy==2.4.6
    python torch_dynamo.py
"""

import warnings

import torch

from common import FILES, check_sizes, rng, save_arrays, strip_origins
from networks import NETWORKS, images, seeded

# Exporter's default, and the newest that its converter writes.
OPSETS = (18, 23)
ROWS = 3


def export(kind, opset):
    name = f"dynamo{opset}_{kind}"
    network = seeded(NETWORKS[kind], rng(kind))
    x = torch.from_numpy(images(network, rng(name), ROWS))
    with torch.no_grad():
        y = network(x)
    outputs = y if isinstance(y, tuple) else (y,)
    program = torch.onnx.export(
        network, (x,), dynamo=True, opset_version=opset, verbose=False,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
    )
    program.save(FILES / f"{name}.onnx", external_data=False)
    strip_origins(FILES / f"{name}.onnx")
    save_arrays(name, [x.numpy()], [o.numpy() for o in outputs])
    check_sizes(name, ".onnx")


def main():
    warnings.filterwarnings("ignore")
    FILES.mkdir(exist_ok=True)
    for kind in NETWORKS:
        for opset in OPSETS:
            export(kind, opset)


if __name__ == "__main__":
    main()
