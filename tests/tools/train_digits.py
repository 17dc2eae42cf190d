"""Trains the bundled digits network and writes the files of sdk/cli/assets.

Requirements: Python >= 3.11, numpy 2.4.6, scikit-learn 1.9.1, onnx 1.23.2,
onnxruntime 1.32.0, jax 0.10.2 (CPU); the versions are those that made the
bundled files. From a clean environment:

    pip install numpy==2.4.6 scikit-learn==1.9.1 onnx==1.23.2 onnxruntime==1.32.0 "jax[cpu]==0.10.2"
    python tests/tools/train_digits.py [--out FOLDER]      # default: sdk/cli/assets

Deterministic: fixed seeds, one XLA thread, no data-dependent choice (the last
step's weights are exported, the test set is only measured). A rerun on the same
kind of CPU with the versions above gives the same bytes; another CPU may round
differently in training, so that the weights differ while the accuracy stays.
"""

import argparse
import os
import pathlib
import sys

# Read when jax is imported. XLA splits sums by the number of its threads, so that
# their order, and with it the last bits, would depend on the machine's CPU count.
os.environ["NPROC"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

from digits_files import ASSETS, BN_EPSILON, check_files, split_digits, write_files

SEED = 7
EPOCHS = 80
BATCH = 64
PEAK_RATE = 4e-3
WEIGHT_DECAY = 5e-4
BN_MOMENTUM = 0.95
MAX_SHIFT = 1
# Pixels are 0..16. Training sees 0..1, the exported stem weights carry the factor:
# a power of two, so the exported network is the trained one exactly.
PIXEL_SCALE = 1.0 / 16.0

CONVS = {
    "stem": (16, 1, 3, 3),
    "depthwise": (16, 1, 3, 3),
    "pointwise": (32, 16, 1, 1),
    "residual": (32, 32, 3, 3),
    "top": (64, 32, 3, 3),
}


def init_weights(rng):
    """He-initialised trainable weights, and the running statistics of the norms."""
    weights, stats = {}, {}
    for name, shape in CONVS.items():
        deviation = np.sqrt(2.0 / np.prod(shape[1:]))
        weights[f"{name}.weight"] = rng.standard_normal(shape) * deviation
        weights[f"{name}_bn.gamma"] = np.ones(shape[0])
        weights[f"{name}_bn.beta"] = np.zeros(shape[0])
        stats[f"{name}_bn.mean"] = np.zeros(shape[0])
        stats[f"{name}_bn.var"] = np.ones(shape[0])
    weights["dense.weight"] = rng.standard_normal((10, 64)) * np.sqrt(1.0 / 64.0)
    weights["dense.bias"] = np.zeros(10)

    def to_f32(tensors):
        return {name: jnp.asarray(value, jnp.float32) for name, value in tensors.items()}

    return to_f32(weights), to_f32(stats)


def conv_norm(x, name, weights, batch_stats, groups=1):
    """Convolution and batch norm by the statistics of this batch, which are kept."""
    x = jax.lax.conv_general_dilated(
        x, weights[f"{name}.weight"], (1, 1), "SAME", feature_group_count=groups,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    batch_stats[f"{name}_bn.mean"], batch_stats[f"{name}_bn.var"] = mean, var

    def channels(v):
        return v[None, :, None, None]

    scale = weights[f"{name}_bn.gamma"] / jnp.sqrt(var + BN_EPSILON)
    return (x - channels(mean)) * channels(scale) + channels(weights[f"{name}_bn.beta"])


def forward(weights, x):
    """Logits and batch statistics; `network_nodes` in digits_files.py is its twin."""
    stats = {}
    x = jax.nn.relu(conv_norm(x, "stem", weights, stats))
    x = jax.nn.relu(conv_norm(x, "depthwise", weights, stats, groups=16))
    x = jax.nn.relu(conv_norm(x, "pointwise", weights, stats))
    x = jax.nn.relu(conv_norm(x, "residual", weights, stats) + x)
    n, c, h, w = x.shape
    x = x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))
    x = jax.nn.relu(conv_norm(x, "top", weights, stats))
    x = x.mean((2, 3))
    return x @ weights["dense.weight"].T + weights["dense.bias"], stats


def loss(weights, x, labels):
    logits, stats = forward(weights, x)
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probs, labels[:, None], 1).mean(), stats


@jax.jit
def train_step(state, x, labels, step, rate):
    """One step of AdamW; the norms' statistics follow the batches exponentially."""
    weights, stats, first, second = state
    gradient, batch_stats = jax.grad(loss, has_aux=True)(weights, x, labels)

    def blend(old, new, momentum):
        return jax.tree.map(lambda a, b: momentum * a + (1 - momentum) * b, old, new)

    first = blend(first, gradient, 0.9)
    second = blend(second, jax.tree.map(jnp.square, gradient), 0.999)

    def updated(name):
        m = first[name] / (1 - 0.9**step)
        v = second[name] / (1 - 0.999**step)
        decay = WEIGHT_DECAY * weights[name] if name.endswith(".weight") else 0.0
        return weights[name] - rate * (m / (jnp.sqrt(v) + 1e-8) + decay)

    weights = {name: updated(name) for name in weights}
    return weights, blend(stats, batch_stats, BN_MOMENTUM), first, second


def shifted(x, rng):
    """Each image moved by up to MAX_SHIFT pixels each way, the border filled with 0."""
    out = np.zeros_like(x)
    padded = np.pad(x, ((0, 0), (0, 0), (MAX_SHIFT, MAX_SHIFT), (MAX_SHIFT, MAX_SHIFT)))
    offsets = rng.randint(0, 2 * MAX_SHIFT + 1, (len(x), 2))
    for i, (dy, dx) in enumerate(offsets):
        out[i] = padded[i, :, dy : dy + x.shape[2], dx : dx + x.shape[3]]
    return out


def train():
    """Returns the trained weights and statistics by their names in the ONNX file."""
    rng = np.random.RandomState(SEED)
    pixels, labels = split_digits()["train"]
    images = pixels.astype(np.float32) * np.float32(PIXEL_SCALE)
    weights, stats = init_weights(rng)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, stats, zeros, zeros)
    per_epoch = len(images) // BATCH
    for step in range(EPOCHS * per_epoch):
        if step % per_epoch == 0:
            order = rng.permutation(len(images))
        chosen = order[step % per_epoch * BATCH :][:BATCH]
        rate = PEAK_RATE * 0.5 * (1 + np.cos(np.pi * step / (EPOCHS * per_epoch)))
        batch = shifted(images[chosen], rng)
        state = train_step(state, batch, labels[chosen], step + 1.0, rate)
        if (step + 1) % (10 * per_epoch) == 0:
            print(f"epoch {(step + 1) // per_epoch} of {EPOCHS}", flush=True)
    trained = {name: np.array(value) for name, value in {**state[0], **state[1]}.items()}
    trained["stem.weight"] *= np.float32(PIXEL_SCALE)
    return trained


def main():
    parser = argparse.ArgumentParser(description="Train the bundled digits network.")
    parser.add_argument("--out", type=pathlib.Path, default=ASSETS, help="folder for the files")
    folder = parser.parse_args().out
    folder.mkdir(parents=True, exist_ok=True)
    weights = train()
    print(f"{sum(value.size for value in weights.values())} numbers in the network")
    write_files(weights, folder)
    problems = check_files(folder)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
