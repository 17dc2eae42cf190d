"""The PyTorch networks of this folder: small, of our own design, with seeded weights.

No network is trained. Weights are drawn so that activations keep their size, and
batch normalization has statistics that are not the identity, so that folding it wrongly
would show.
"""

import numpy as np
import torch
from torch import nn


class SqueezeExcite(nn.Module):
    """Channel attention with the piecewise linear sigmoid that mobile networks use."""

    def __init__(self, channels, squeezed):
        super().__init__()
        self.down = nn.Conv2d(channels, squeezed, 1)
        self.up = nn.Conv2d(squeezed, channels, 1)
        self.gate = nn.Hardsigmoid()

    def forward(self, x):
        pooled = nn.functional.adaptive_avg_pool2d(x, 1)
        return x * self.gate(self.up(torch.relu(self.down(pooled))))


class Block(nn.Module):
    """Inverted residual: widen, filter by channel, attend, narrow, add."""

    def __init__(self, channels, wide):
        super().__init__()
        self.widen = nn.Sequential(nn.Conv2d(channels, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.Hardswish())
        depthwise = nn.Conv2d(wide, wide, 3, padding=1, groups=wide, bias=False)
        self.filter = nn.Sequential(depthwise, nn.BatchNorm2d(wide), nn.ReLU6())
        self.attend = SqueezeExcite(wide, 4)
        self.narrow = nn.Sequential(nn.Conv2d(wide, channels, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return x + self.narrow(self.attend(self.filter(self.widen(x))))


class Cnn(nn.Module):
    """Images [N, 3, 16, 16] to five classes."""

    input_shape = (3, 16, 16)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6())
        self.block = Block(8, 24)
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(8 * 4 * 4, 5)

    def forward(self, x):
        x = self.pool(self.block(self.stem(x)))
        return self.head(torch.flatten(x, 1))


class PlainCnn(nn.Module):
    """Images [N, 3, 12, 12] to five classes: what an integer-only network holds, for the quantized routes."""

    input_shape = (3, 12, 12)

    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.first = nn.Conv2d(8, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.relu0, self.relu1, self.relu2 = nn.ReLU(), nn.ReLU(), nn.ReLU()
        self.pool = nn.AvgPool2d(2)
        self.head = nn.Linear(8 * 3 * 3, 5)

    def forward(self, x):
        x = self.relu0(self.stem(x))
        y = self.second(self.relu1(self.first(x)))
        return self.head(torch.flatten(self.pool(self.relu2(x + y)), 1))


class BatchNormCnn(nn.Module):
    """Images [N, 3, 12, 12] to five classes, with batch normalization that training for quantization keeps."""

    input_shape = (3, 12, 12)

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.depthwise = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8 * 6 * 6, 5)

    def forward(self, x):
        return self.head(torch.flatten(self.depthwise(self.stem(x)), 1))


class Norm(nn.Module):
    """Layer normalization written out, as many networks carry it."""

    def __init__(self, width):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        centred = x - x.mean(-1, keepdim=True)
        variance = centred.pow(2).mean(-1, keepdim=True)
        return centred / torch.sqrt(variance + 1e-5) * self.weight + self.bias


def gelu(x):
    """GELU by its definition."""
    return x * 0.5 * (1.0 + torch.erf(x / 2.0**0.5))


class Attention(nn.Module):
    """Self-attention of two heads."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def split(self, x):
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1)
        mixed = (weights @ v).transpose(1, 2)
        return self.out(mixed.reshape(x.shape))


class Transformer(nn.Module):
    """Sequences [N, 6, 16] through one layer to [N, 4]."""

    input_shape = (6, 16)

    def __init__(self):
        super().__init__()
        self.before, self.between = Norm(16), Norm(16)
        self.attention = Attention(16, 2)
        self.widen, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = x + self.attention(self.before(x))
        x = x + self.narrow(gelu(self.widen(self.between(x))))
        return torch.tanh(self.head(x.mean(1)))


class Encoder(nn.Module):
    """The same task with torch's own layer normalization, GELU and attention."""

    input_shape = (6, 16)

    def __init__(self):
        super().__init__()
        self.before, self.between = nn.LayerNorm(16), nn.LayerNorm(16)
        self.query_key_value, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.widen, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)

    def attend(self, x):
        heads = self.query_key_value(x).reshape(x.shape[0], 6, 3, 2, 8).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2])
        return self.out(mixed.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.before(x))
        return x + self.narrow(nn.functional.gelu(self.widen(self.between(x))))


class Lstm(nn.Module):
    """Sequences [N, 7, 5]: an LSTM of both directions, classes of the last step."""

    input_shape = (7, 5)

    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(5, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)

    def forward(self, x):
        steps, _ = self.cells(x)
        return torch.softmax(self.head(steps[:, -1]), -1)


class Gru(nn.Module):
    """Sequences [N, 7, 5] to all hidden states and the last one, two layers."""

    input_shape = (7, 5)

    def __init__(self):
        super().__init__()
        self.cells = nn.GRU(5, 6, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.cells(x)


NETWORKS = {"cnn": Cnn, "transformer": Transformer, "encoder": Encoder, "lstm": Lstm, "gru": Gru}


def seeded(make, random):
    """A network with weights from `random` (a numpy generator), ready for inference."""
    network = make().eval()
    draw = lambda shape, scale: torch.from_numpy(random.normal(0.0, scale, tuple(shape)).astype(np.float32))
    with torch.no_grad():
        for parameter in network.parameters():
            fan_in = int(np.prod(parameter.shape[1:])) if parameter.dim() > 1 else 25
            parameter.copy_(draw(parameter.shape, fan_in**-0.5))
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.add_(1.0)
                module.running_mean.copy_(draw(module.running_mean.shape, 0.2))
                module.running_var.copy_(draw(module.running_var.shape, 0.3).exp())
            if isinstance(module, (Norm, nn.LayerNorm)):
                module.weight.add_(1.0)
    return network


def images(network, random, rows):
    """Inputs for a network."""
    return random.normal(0.0, 1.0, (rows, *network.input_shape)).astype(np.float32)
