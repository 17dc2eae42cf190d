"""Compares Ottava's outputs of a quantized ONNX file with onnxruntime's.

Requirements: Python >= 3.11, numpy, onnx, onnxruntime.

    ottava eval Q.onnx --data D.npz --affine S,O --outputs OUT.npz
    python tests/tools/onnx_to_qdq_check.py Q.onnx FLOAT.onnx D.npz OUT.npz [--affine S,O]

onnxruntime runs Q.onnx with all optimisation disabled, so that it computes each
QuantizeLinear, operator and DequantizeLinear as written. Files of QOperator nodes run
with its exact integer kernels instead. Printed per output: the
share of values that agree within one quantization step, the share that is equal,
and the distance of both from FLOAT.onnx. Exit 1 where less than --min-share (default
0.999) agree, 2 where the files do not fit together.

The step of an output is the scale of the last quantization before it, found through
operators that only move values; 1 for an integer output. Where there is none, it is
the step with which 8 bits would cover the output's range in the float network.

An integer network is exact; onnxruntime emulates it in f32, whose sums round. One
value in about 100,000 then falls on the other side of a rounding boundary and the
difference of one step travels on, so deep networks agree less. --min-share states
the share that is asked for.
"""

import argparse
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import numpy_helper

MIN_SHARE = 0.999
CHUNK = 64
MOVING_OPS = {
    "Flatten", "Identity", "MaxPool", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
}
ORT_TYPES = {
    "tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64,
    "tensor(uint8)": np.uint8, "tensor(int8)": np.int8, "tensor(uint16)": np.uint16,
    "tensor(int16)": np.int16, "tensor(int32)": np.int32, "tensor(int64)": np.int64,
}


class Mismatch(Exception):
    """The given files do not fit together."""


def parse_affine(text):
    try:
        scale, offset = (np.float32(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not S,O, as in 0.0078125,-1") from None
    return scale, offset


def constants(graph):
    """The constant tensors of `graph`: initializers and the values of Constant nodes."""
    found = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                found[node.output[0]] = attribute.t
    return found


def output_steps(path):
    """{output name: quantization step} of the ONNX file at `path`."""
    graph = onnx.load(path).graph
    producers = {name: node for node in graph.node for name in node.output}
    tensors = constants(graph)
    floats = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.DOUBLE}
    steps = {}
    for output in graph.output:
        is_float = output.type.tensor_type.elem_type in floats
        steps[output.name] = step_before(output.name, producers, tensors) if is_float else 1.0
    return steps


def step_before(value, producers, tensors):
    """The scale of the last quantization before the float value named `value`, or None."""
    node = producers.get(value)
    while node is not None and node.op_type in MOVING_OPS:
        node = producers.get(node.input[0])
    if node is None or node.op_type != "DequantizeLinear":
        return None
    if node.input[1] not in tensors:
        raise Mismatch(f"output {value}: the scale {node.input[1]} is not a constant")
    scale = numpy_helper.to_array(tensors[node.input[1]])
    if scale.size != 1:
        raise Mismatch(f"output {value}: {scale.size} scales; one per tensor is expected")
    return float(scale.item())


def convert(array, dtype, affine):
    """`array` as fed to an input of type `dtype`, by the rule of `--affine`."""
    scale, offset = affine
    if np.issubdtype(array.dtype, np.floating):
        return array.astype(dtype)
    if np.issubdtype(dtype, np.floating):
        return (array.astype(np.float32) * scale + offset).astype(dtype)
    scaled = np.rint(array * np.float64(scale) + np.float64(offset))
    limits = np.iinfo(dtype)
    if scaled.min() < limits.min or scaled.max() > limits.max:
        raise Mismatch(f"the data do not fit {dtype.__name__}; give another --affine")
    return scaled.astype(dtype)


def feeds_for(session, data, rows, affine):
    """The first `rows` rows of `data` for each input; `x` serves a single input too."""
    inputs = session.get_inputs()
    feeds = {}
    for value in inputs:
        name = "x" if len(inputs) == 1 and value.name not in data else value.name
        if name not in data:
            raise Mismatch(f"the data have no array {value.name}; they have {sorted(data)}")
        if len(data[name]) < rows:
            raise Mismatch(f"{rows} rows of outputs, but {len(data[name])} rows of {name}")
        if value.type not in ORT_TYPES:
            raise Mismatch(f"input {value.name} is a {value.type}: not known here")
        feeds[value.name] = convert(data[name][:rows], ORT_TYPES[value.type], affine)
    return feeds


def run_model(path, data, rows, affine):
    """All outputs of the ONNX file on `rows` rows: {name: array}."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    products = ("QLinearConv", "QLinearMatMul", "QGemm")
    if any(node.op_type in products for node in onnx.load(path).graph.node):
        # Kernels of u8 x s8 saturate sums of two products where the CPU has no VNNI. The exact ones need
        # weights as u8, which a transformation of the graph makes.
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.add_session_config_entry("session.x64quantprecision", "1")
        # Its own rewriting of what stays between Q and DQ fails on float biases behind integer weights.
        options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = feeds_for(session, data, rows, affine)
    batch = session.get_inputs()[0].shape[0]
    chunk = batch if isinstance(batch, int) else CHUNK
    if isinstance(batch, int) and rows % batch:
        raise Mismatch(f"{path} takes batches of {batch}; {rows} rows are no multiple of it")
    names = [value.name for value in session.get_outputs()]
    parts = [
        session.run(names, {key: array[at : at + chunk] for key, array in feeds.items()})
        for at in range(0, rows, chunk)
    ]
    return {name: np.concatenate(column) for name, column in zip(names, zip(*parts))}


def sqnr_db(reference, other):
    """Signal to noise of `other` against `reference`, in decibels."""
    reference = reference.astype(np.float64)
    noise = np.square(other - reference).sum()
    return float("inf") if noise == 0 else 10 * np.log10(np.square(reference).sum() / noise)


def compare(name, step, ours, theirs):
    """Prints how `ours` agrees with `theirs`; returns the share within one step."""
    if ours.shape != theirs.shape:
        raise Mismatch(f"output {name}: {ours.shape} here, {theirs.shape} in onnxruntime")
    distance = np.abs(ours.astype(np.float64) - theirs.astype(np.float64))
    # Both are multiples of the step, rounded to f32: one step apart may read as a bit more.
    share = np.mean(distance <= step * 1.001)
    print(
        f"{name}: {share:.6f} of {ours.size} values within one step ({step:.6g}), "
        f"{np.mean(ours == theirs):.6f} equal, largest distance {distance.max() / step:.3g} steps"
    )
    return share


def check(arguments):
    """Compares all outputs; returns the smallest share within one step."""
    data, ours = dict(np.load(arguments.data)), dict(np.load(arguments.outputs))
    steps = output_steps(arguments.quantized)
    if missing := sorted(set(steps) - set(ours)):
        raise Mismatch(f"{arguments.outputs} lacks {missing}; it has {sorted(ours)}")
    rows = min(len(ours[name]) for name in steps)
    if rows == 0:
        raise Mismatch(f"{arguments.outputs} has no rows")
    theirs = run_model(arguments.quantized, data, rows, arguments.affine)
    floats = run_model(arguments.float, data, rows, arguments.affine)
    shares = []
    for name, step in steps.items():
        if step is None:
            step = float(np.ptp(floats[name].astype(np.float64))) / 255
        shares.append(compare(name, step, ours[name], theirs[name]))
        if name in floats and floats[name].dtype == theirs[name].dtype:
            print(
                f"{name}: SQNR against the float network {sqnr_db(floats[name], ours[name]):.2f} dB"
                f" here, {sqnr_db(floats[name], theirs[name]):.2f} dB in onnxruntime"
            )
    return min(shares)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("quantized", help="ONNX file that Ottava quantized")
    parser.add_argument("float", help="the float ONNX file it was made of")
    parser.add_argument("data", help="npz with the inputs")
    parser.add_argument("outputs", help="npz written by `ottava eval --outputs`")
    parser.add_argument("--affine", type=parse_affine, default=parse_affine("1,0"),
                        metavar="S,O", help="integer data are fed as x*S + O (default 1,0)")
    parser.add_argument("--min-share", type=float, default=MIN_SHARE, metavar="P",
                        help=f"share of values that must agree (default {MIN_SHARE})")
    arguments = parser.parse_args()
    try:
        share = check(arguments)
    except Mismatch as problem:
        print(f"error: {problem}", file=sys.stderr)
        return 2
    return 0 if share >= arguments.min_share else 1


if __name__ == "__main__":
    sys.exit(main())
