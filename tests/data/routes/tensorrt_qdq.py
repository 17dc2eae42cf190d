"""Networks quantized in the style of TensorRT's tools, exported as Q/DQ.

Made with Python 3.11 and the versions of torch_qat.py:

    python tensorrt_qdq.py

The conventions of that style: everything is s8 and symmetric (zero point 0), only the
inputs and the weights of convolutions and products are quantized, weights per channel,
the bias is float. Nothing quantizes an output: the sum of a residual connection takes the float
result of a convolution on one side, and on the other side what was quantized for it. The
quantizers here are modules of our own around torch's fake quantization.
"""

import warnings

import torch
from torch import nn

from common import FILES, check_sizes, rng, run_onnx, save_arrays
from networks import images, seeded

OPSET = 17
ROWS = 4


class Quantizer(nn.Module):
    """Symmetric s8: measures the largest magnitude while `collect` is set, quantizes afterwards."""

    def __init__(self, axis=None):
        super().__init__()
        self.axis, self.collect = axis, True
        self.register_buffer("amax", torch.tensor(0.0))

    def forward(self, x):
        if self.collect:
            over = [i for i in range(x.dim()) if i != self.axis] if self.axis is not None else list(range(x.dim()))
            self.amax = torch.maximum(self.amax, x.detach().abs().amax(over))
            return x
        scale = self.amax / 127.0
        if self.axis is None:
            return torch.fake_quantize_per_tensor_affine(x, float(scale), 0, -128, 127)
        zeros = torch.zeros(scale.shape, dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(x, scale, zeros, self.axis, -128, 127)


class QuantConv(nn.Conv2d):
    """A convolution with quantized input and weights."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.of_input, self.of_weight = Quantizer(), Quantizer(axis=0)

    def forward(self, x):
        return self._conv_forward(self.of_input(x), self.of_weight(self.weight), self.bias)


class QuantLinear(nn.Linear):
    """A product with quantized input and weights."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.of_input, self.of_weight = Quantizer(), Quantizer(axis=0)

    def forward(self, x):
        return nn.functional.linear(self.of_input(x), self.of_weight(self.weight), self.bias)


class Residual(nn.Module):
    """Images [N, 3, 12, 12] to five classes, over two residual blocks."""

    input_shape = (3, 12, 12)

    def __init__(self):
        super().__init__()
        self.stem = QuantConv(3, 8, 3, stride=2, padding=1)
        self.a0, self.a1 = QuantConv(8, 8, 3, padding=1), QuantConv(8, 8, 3, padding=1)
        self.b0, self.b1 = QuantConv(8, 8, 3, padding=1, groups=8), QuantConv(8, 8, 1)
        self.skip0, self.skip1 = Quantizer(), Quantizer()
        self.head = QuantLinear(8 * 3 * 3, 5)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        x = torch.relu(self.a1(torch.relu(self.a0(x))) + self.skip0(x))
        x = torch.relu(self.b1(torch.relu(self.b0(x))) + self.skip1(x))
        return self.head(torch.flatten(torch.max_pool2d(x, 2), 1))


class Mlp(nn.Module):
    """Sequences [N, 6, 16]: two products along the last axis around a GELU, and a residual connection."""

    input_shape = (6, 16)

    def __init__(self):
        super().__init__()
        self.widen, self.narrow = QuantLinear(16, 32), QuantLinear(32, 16)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.widen(x)))


def export(name, make):
    random = rng(name)
    network = seeded(make, random)
    network(torch.from_numpy(images(network, random, 32)))
    for module in network.modules():
        if isinstance(module, Quantizer):
            module.collect = False
    x = torch.from_numpy(images(network, random, ROWS))
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
    export("tensorrt_residual", Residual)
    export("tensorrt_mlp", Mlp)


if __name__ == "__main__":
    main()
