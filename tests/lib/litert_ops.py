"""Compares single TFLite operators with LiteRT's reference kernels: one small file for each operator and type, random
numbers, drawn from a fixed seed.

Usage: litert_ops.py OTTAVA [NAME...]. Needs numpy and ai-edge-litert. Prints one line per case; the exit status is 1 if
a case differs by more than the table allows. `float` cases may differ by 1e-5 relative to the largest output.
"""
import os
import subprocess
import sys
import tempfile

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

TYPES = {"float32": 0, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}


class T:
    """A tensor: type, extents, scales, zero point; `data` makes it a constant, `axis` has a scale for each index."""

    def __init__(self, dtype, shape, scale=None, zero=0, data=None, axis=0):
        self.dtype, self.shape, self.zero, self.data, self.axis = dtype, list(shape), zero, data, axis
        self.scales = [] if scale is None else list(np.atleast_1d(scale))

    @classmethod
    def const(cls, data, scale=None, zero=0, axis=0):
        """A constant."""
        return cls(data.dtype.name, data.shape, scale, zero, data, axis)


def model(code, inputs, outputs, options=None):
    """The bytes of a file of one operator; the inputs that are no constants are the network's."""
    made = schema.ModelT()
    made.version, made.description = 3, "one operator"
    operator_code = schema.OperatorCodeT()
    operator_code.builtinCode, operator_code.deprecatedBuiltinCode = code, min(code, 127)
    operator_code.version = 1
    made.operatorCodes, made.buffers = [operator_code], [schema.BufferT()]
    graph = schema.SubGraphT()
    graph.name, graph.tensors = "main", []
    for i, t in enumerate(inputs + outputs):
        graph.tensors.append(tensor(made, t, f"t{i}"))
    n = len(inputs)
    graph.inputs = [i for i, t in enumerate(inputs) if t.data is None]
    graph.outputs = list(range(n, n + len(outputs)))
    operator = schema.OperatorT()
    operator.inputs, operator.outputs = list(range(n)), graph.outputs
    if options is not None:
        name = type(options).__name__[:-1]
        operator.builtinOptionsType = getattr(schema.BuiltinOptions, name)
        operator.builtinOptions = options
    graph.operators = [operator]
    made.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(made.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def tensor(made, t, name):
    """A tensor of the schema, and its buffer."""
    found = schema.TensorT()
    found.name, found.shape, found.type, found.buffer = name, t.shape, TYPES[t.dtype], 0
    if t.data is not None:
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(t.data.tobytes(), np.uint8)
        made.buffers.append(buffer)
        found.buffer = len(made.buffers) - 1
    if t.scales:
        quant = schema.QuantizationParametersT()
        quant.scale, quant.zeroPoint = t.scales, [t.zero] * len(t.scales)
        quant.quantizedDimension = t.axis
        found.quantization = quant
    return found


def litert(path, feeds):
    """All outputs of LiteRT's reference kernels."""
    net = Interpreter(path, experimental_op_resolver_type=OpResolverType.BUILTIN_REF, num_threads=1)
    net.allocate_tensors()
    for info, x in zip(net.get_input_details(), feeds):
        net.set_tensor(info["index"], x)
    net.invoke()
    return [net.get_tensor(info["index"]).copy() for info in net.get_output_details()]


def ottava(command, path, names, feeds, device, folder):
    """All outputs, or the message of a refusal."""
    args = [command, "run", path, "-o", folder, "--device", device, "--json"]
    for name, x in zip(names, feeds):
        file = os.path.join(folder, f"in_{name}.npy")
        np.save(file, x)
        args += ["--input", f"{name}={file}"]
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        return None, done.stderr.strip()
    import json

    found = [np.load(o["file"] if os.path.exists(o["file"]) else os.path.join(folder, o["file"]))
             for o in json.loads(done.stdout)["outputs"]]
    return found, ""


def draw(random, t):
    """Numbers for an input."""
    if t.dtype == "float32":
        return random.normal(0.0, 2.0, t.shape).astype(np.float32)
    if t.dtype == "bool":
        return random.integers(0, 2, t.shape).astype(bool)
    if t.dtype in ("int32", "int64"):
        return random.integers(-5, 6, t.shape).astype(t.dtype)
    limits = np.iinfo(t.dtype)
    return random.integers(limits.min, limits.max + 1, t.shape).astype(t.dtype)
