#!/usr/bin/env python3
"""Runs TFLite models in LiteRT's reference kernels and compares Ottava's outputs with them, element by element.

Usage: litert_check.py MODEL.tflite IN.npz OUT.npz        (IN: rows for the one input, OUT: what `ottava eval --outputs` kept)
       litert_check.py --prepare MODEL.tflite DATA.npz IN.npz [--affine S,O] [--limit N] [--real S,O]

`--prepare` writes the rows in the network's own integers: stored * S + O, or for `--real` data that is real already,
round(x * S + O), as a program that feeds the network would. The second form prints the counts and exits with 1 if one
output differs.
"""
import argparse
import sys

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def interpreter(model):
    """The model in LiteRT's reference kernels, without delegates."""
    found = Interpreter(model_path=model, experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    found.allocate_tensors()
    return found


def prepare(args):
    """Rows of a data file in the integers of the model's input."""
    info = interpreter(args.model).get_input_details()[0]
    rows = np.load(args.data)["x"][: args.limit]
    scale, offset = (float(v) for v in (args.real or args.affine).split(","))
    values = rows.astype(np.float32) * np.float32(scale) + np.float32(offset)
    if info["dtype"] != np.float32:
        bounds = np.iinfo(info["dtype"])
        values = np.clip(np.rint(values), bounds.min, bounds.max)
    values = values.astype(info["dtype"]).reshape((len(rows),) + tuple(info["shape"][1:]))
    np.savez(args.out, x=values)


def compare(args):
    """Counts the outputs that are equal."""
    model = interpreter(args.model)
    source, sink = model.get_input_details()[0], model.get_output_details()[0]
    rows = np.load(args.data)["x"]
    kept = np.load(args.out)
    ours = kept[kept.files[0]]
    expected = np.empty((len(rows),) + tuple(sink["shape"][1:]), sink["dtype"])
    for i, row in enumerate(rows):
        model.set_tensor(source["index"], row[None])
        model.invoke()
        expected[i] = model.get_tensor(sink["index"])[0]
    ours = ours.reshape(expected.shape)
    if expected.dtype == np.float32:
        worst = float(np.abs(ours - expected).max())
        print(f"{len(rows)} samples, largest difference {worst:.3g}")
        sys.exit(worst > args.tolerance)
    equal = ours.astype(np.int64) == expected.astype(np.int64)
    whole = equal.reshape(len(rows), -1).all(axis=1)
    print(f"{equal.sum()} of {equal.size} outputs and {whole.sum()} of {len(rows)} samples equal")
    sys.exit(not equal.all())


def main():
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prepare", action="store_true")
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--affine", default="1,0")
    parser.add_argument("--real")
    parser.add_argument("--limit", type=int)
    parser.add_argument("--tolerance", type=float, default=0.0)
    args = parser.parse_args()
    prepare(args) if args.prepare else compare(args)


if __name__ == "__main__":
    main()
