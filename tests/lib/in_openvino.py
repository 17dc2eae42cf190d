"""Runs a quantized ONNX file in OpenVINO and prints how far its outputs are from Ottava's.

Requirements: Python >= 3.11, numpy, openvino, and what onnx_to_qdq_check.py needs.

    ottava eval Q.onnx --data D.npz --affine S,O --outputs OUT.npz
    python tests/lib/in_openvino.py Q.onnx D.npz OUT.npz [--affine S,O] [--rows N]

OpenVINO computes such a file with kernels and roundings of its own, so a difference is
printed, not judged. Exit 1 where the file does not load or run or an output is not finite, 3 where
OpenVINO is not installed.
"""

import argparse
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "tools"))
from onnx_to_qdq_check import convert, output_steps, parse_affine

try:
    import openvino
except ImportError:
    print("openvino is not installed", file=sys.stderr)
    sys.exit(3)


def run(path, data, rows, affine):
    """All outputs of the first `rows` rows, in the order of the file."""
    core = openvino.Core()
    model = core.read_model(path)
    names = [value.any_name for value in model.inputs]
    if all(value.partial_shape[0].is_dynamic for value in model.inputs):
        shapes = {name: [rows, *data_of(data, name, names).shape[1:]] for name in names}
        model.reshape(shapes)
    compiled = core.compile_model(model, "CPU", {"INFERENCE_NUM_THREADS": 1})
    feeds = {}
    for value in compiled.inputs:
        array = data_of(data, value.any_name, names)[:rows]
        feeds[value.any_name] = convert(array, value.get_element_type().to_dtype().type, affine)
    batch = compiled.inputs[0].shape[0]
    parts = []
    for at in range(0, rows, batch):
        result = compiled({name: array[at : at + batch] for name, array in feeds.items()})
        parts.append([result[value].copy() for value in compiled.outputs])
    return [np.concatenate(column) for column in zip(*parts)]


def data_of(data, name, names):
    return data["x"] if len(names) == 1 and name not in data else data[name]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quantized")
    parser.add_argument("data")
    parser.add_argument("outputs")
    parser.add_argument("--affine", type=parse_affine, default=parse_affine("1,0"))
    parser.add_argument("--rows", type=int, default=50)
    arguments = parser.parse_args()
    data, ours = dict(np.load(arguments.data)), dict(np.load(arguments.outputs))
    steps = output_steps(arguments.quantized)
    rows = min(arguments.rows, *(len(ours[name]) for name in steps))
    theirs = run(arguments.quantized, data, rows, arguments.affine)
    for (name, step), found in zip(steps.items(), theirs, strict=True):
        a, b = ours[name][:rows].astype(np.float64), found.astype(np.float64)
        if a.shape != b.shape or not np.isfinite(b).all():
            print(f"error: {name}: {b.shape} in OpenVINO, {a.shape} here, or not finite", file=sys.stderr)
            return 1
        step = step or np.ptp(a) / 255
        distance = np.abs(a - b) / step
        print(f"{name}: {np.mean(distance <= 1.001):.6f} within one step, largest distance {distance.max():.3g} steps in OpenVINO")
    return 0


if __name__ == "__main__":
    sys.exit(main())
