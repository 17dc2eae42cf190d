"""Compares recurrent and streaming TFLite networks with LiteRT, state carried from row to row.

Usage: litert_state.py OTTAVA ASSETS. Needs numpy and ai-edge-litert. Prints one line per network and resolver; the exit
status is 1 if integers differ by more than allowed: within 1 step on 99 % of the outputs, never more than 3; on LiteRT's
reference kernels not at all.
"""
import os
import subprocess
import sys
import tempfile

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType

RESOLVERS = {"reference": OpResolverType.BUILTIN_REF, "default": OpResolverType.AUTO}


def litert(model, rows, resolver, reset_every):
    """The first output of every row."""
    net = Interpreter(model, experimental_op_resolver_type=resolver)
    net.allocate_tensors()
    x, y = net.get_input_details()[0]["index"], net.get_output_details()[0]["index"]
    out = []
    for i, row in enumerate(rows):
        if reset_every and i and i % reset_every == 0:
            # An interpreter of its own: reset_all_variables does not run CALL_ONCE again.
            net = Interpreter(model, experimental_op_resolver_type=resolver)
            net.allocate_tensors()
        net.set_tensor(x, row)
        net.invoke()
        out.append(net.get_tensor(y).copy())
    return np.concatenate(out)


def ottava(command, model, rows, reset_every, labels=None, device=None):
    """All outputs, and the answer of `eval`."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = os.path.join(folder, "rows.npz"), os.path.join(folder, "out.npz")
        arrays = {"x": rows.reshape(rows.shape[0], *rows.shape[2:])}
        if labels is not None:
            arrays["labels"] = labels
        np.savez(data, **arrays)
        args = [command, "eval", model, "--data", data, "--affine", "1,0", "--outputs", out]
        args += ["--reset-every", str(reset_every)] if reset_every else []
        args += ["--device", device] if device else []
        args += ["--metric", "top1"] if labels is not None else []
        text = subprocess.run(args, check=True, capture_output=True, text=True).stdout
        found = np.load(out)
        return found[found.files[0]], text


def cases(assets):
    """Name, model, rows as the network takes them, inferences between resets, labels."""
    models = os.path.join(assets, "models")
    mnist = np.load(os.path.join(models, "data", "mnist_1000.npz"))
    x, labels = mnist["x"].reshape(-1, 1, 28, 28), mnist["labels"]
    hops = np.random.default_rng(1).integers(-128, 128, (300, 1, 3, 40)).astype(np.int8)
    speech = np.clip(np.cumsum(np.random.default_rng(2).normal(0, 6, (300, 1, 3, 40)), axis=0), -128, 127)
    lstm, wake = "mnist_lstm_int8.tflite", "microwakeword_okay_nabu_int8.tflite"
    ints, reals = (x.astype(np.int32) - 128).astype(np.int8), x.astype(np.float32) / np.float32(255)
    named = [
        ("lstm int8", lstm, ints, 0, labels),
        ("lstm int8, reset", lstm, ints, 1, labels),
        ("wake word, noise", wake, hops, 0, None),
        ("wake word, slow", wake, speech.astype(np.int8), 0, None),
        ("wake word, reset", wake, hops, 75, None),
        ("lstm f32", "mnist_lstm_f32.tflite", reals, 0, labels),
        ("lstm f32, reset", "mnist_lstm_f32.tflite", reals, 1, labels),
    ]
    return [(name, os.path.join(models, model), *rest) for name, model, *rest in named]


def judge(name, kind, ours, theirs):
    """Whether two outputs agree; prints how much."""
    if ours.dtype.kind == "f":
        worst = float(np.abs(ours - theirs).max())
        print(f"{name:18} {kind:9} largest difference {worst:.3g}")
        return worst <= 1e-4
    steps = np.abs(ours.astype(np.int32) - theirs.astype(np.int32))
    equal, near, worst = (steps == 0).mean(), (steps <= 1).mean(), int(steps.max())
    print(f"{name:18} {kind:9} equal {equal:.2%}, within 1 step {near:.2%}, largest {worst}")
    return worst == 0 if kind == "reference" else near >= 0.99 and worst <= 3


def main(command, assets):
    good = True
    for name, model, rows, reset_every, labels in cases(assets):
        ours, text = ottava(command, model, rows, reset_every, labels)
        if labels is not None:
            print(f"{name:18} {text.strip().splitlines()[-1]}")
        for kind, resolver in RESOLVERS.items():
            theirs = litert(model, rows, resolver, reset_every)
            good &= judge(name, kind, ours.reshape(theirs.shape), theirs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
