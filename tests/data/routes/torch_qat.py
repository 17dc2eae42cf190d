"""A network trained for quantization with torch's fake quantization, exported as Q/DQ.

Made with Python 3.11 and the versions of torch_torchscript.py, and onnxruntime==1.32.0:

    pip install torch==2.15.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime==1.32.0 numpy==2.4.6
    python torch_qat.py

What torch writes: activations u8 with a zero point, weights as float constants behind
a QuantizeLinear and a DequantizeLinear along axis 0 (s8, one scale per channel), and the
bias as a plain float constant, not quantized at all.
"""

import copy
import warnings

import torch
from torch.ao.quantization import (
    FakeQuantize, MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver, QConfig, QConfigMapping,
)
from torch.ao.quantization import disable_observer
from torch.ao.quantization.quantize_fx import prepare_qat_fx

from common import FILES, check_sizes, rng, run_onnx, save_arrays
from networks import BatchNormCnn, PlainCnn, images, seeded

OPSET = 13
STEPS = 12
ROWS = 4

ACTIVATIONS = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, dtype=torch.quint8,
    qscheme=torch.per_tensor_affine,
)
PER_CHANNEL = FakeQuantize.with_args(
    observer=MovingAveragePerChannelMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
    qscheme=torch.per_channel_symmetric, ch_axis=0,
)
PER_TENSOR = FakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=torch.qint8,
    qscheme=torch.per_tensor_symmetric,
)


def trained(network, weights, random):
    """The network with fake quantization after a few steps towards random classes."""
    torch.manual_seed(1)
    example = torch.from_numpy(images(network, random, 8))
    mapping = QConfigMapping().set_global(QConfig(activation=ACTIVATIONS, weight=weights))
    prepared = prepare_qat_fx(copy.deepcopy(network).train(), mapping, (example,))
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.01)
    for _ in range(STEPS):
        x = torch.from_numpy(images(network, random, 16))
        target = torch.from_numpy(random.integers(0, 5, 16))
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(prepared(x), target).backward()
        optimizer.step()
    return prepared.eval().apply(disable_observer)


def export(name, make, weights):
    random = rng(name)
    network = trained(seeded(make, random), weights, random)
    x = torch.from_numpy(images(make, random, ROWS))
    path = FILES / f"{name}.onnx"
    torch.onnx.export(
        network, (x,), path, dynamo=False, opset_version=OPSET, input_names=["x"], output_names=["y"],
        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}},
    )
    save_arrays(name, [x.numpy()], run_onnx(path, [x.numpy()]))
    check_sizes(name, ".onnx")


def main():
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    FILES.mkdir(exist_ok=True)
    export("qat_per_channel", PlainCnn, PER_CHANNEL)
    export("qat_per_tensor", PlainCnn, PER_TENSOR)
    export("qat_batch_norm", BatchNormCnn, PER_CHANNEL)


if __name__ == "__main__":
    main()
