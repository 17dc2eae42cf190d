"""Compares single TFLite operators with LiteRT's reference kernels: one small file for each operator and type, random
numbers, drawn from a fixed seed.

Usage: litert_ops.py OTTAVA [NAME...]. Needs numpy and ai-edge-litert. Prints the cases that differ; one that does makes the
exit status 1. Half a minute of processor time.
"""
import json
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
    """All outputs; an error that carries the message of a refusal."""
    args = [command, "run", path, "-o", folder, "--device", device, "--json"]
    for name, x in zip(names, feeds):
        file = os.path.join(folder, f"in_{name}.npy")
        np.save(file, x)
        args += ["--input", f"{name}={file}"]
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return [np.load(os.path.join(folder, os.path.basename(o["file"]))) for o in json.loads(done.stdout)["outputs"]]


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


def options(kind, **fields):
    """Options of an operator by the name of their table."""
    made = getattr(schema, f"{kind}OptionsT")()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


IMAGE = [1, 32, 32, 4]
GRID = [1, 256, 256, 1]
EVERY_16 = np.arange(-32768, 32768).astype(np.int16).reshape(GRID)
EVERY_8 = np.tile(np.arange(-128, 128).astype(np.int8), 256).reshape(GRID)
WINDOW = {"strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1, "padding": 0}


def ints(*values):
    """A constant list of int32."""
    return T.const(np.array(values, np.int32))


def functions():
    """Functions of one value, over all values: of 8 and of 16 bits."""
    half = 1 / 32768
    for name, code, made in [
        ("ABS", 101, "Abs"), ("LEAKY_RELU", 98, "LeakyRelu"), ("RELU", 19, None), ("RELU6", 21, None),
        ("RELU_N1_TO_1", 20, None), ("QUANTIZE", 114, "Quantize"), ("EXP", 47, "Exp"), ("LOG", 73, None),
        ("GELU", 150, "Gelu"),
    ]:
        opts = options(made) if made else None
        if made == "LeakyRelu":
            opts.alpha = 0.3137
        for i, (s, so) in enumerate([(0.000913, 0.000737), (0.00031, 0.0019)]):
            if name != "RELU_N1_TO_1":  # LiteRT has no kernel of 16 bits.
                yield f"{name} s16 {i}", code, [T("int16", GRID, s)], [T("int16", GRID, so)], opts, [EVERY_16]
            z = -128 if name == "LOG" else 3
            yield f"{name} s8 {i}", code, [T("int8", GRID, s * 97, z)], [T("int8", GRID, so * 97, -5)], opts, [EVERY_8]
    for s in (1 / 4096, 1 / 2048, 0.0003, 0.0001, 0.01, 1e-7, 2.0):
        yield f"LOGISTIC s16 {s:.3g}", 14, [T("int16", GRID, s)], [T("int16", GRID, half)], None, [EVERY_16]
        yield f"TANH s16 {s:.3g}", 28, [T("int16", GRID, s)], [T("int16", GRID, half)], None, [EVERY_16]
    for name, code, so, zo in [("LOGISTIC", 14, 1 / 256, -128), ("TANH", 28, 1 / 128, 0), ("HARD_SWISH", 117, 0.05, -12)]:
        yield f"{name} s8", code, [T("int8", GRID, 0.05, 3)], [T("int8", GRID, so, zo)], None, [EVERY_8]
    for name, code in [("SQRT", 75), ("RSQRT", 76)]:
        positive = np.maximum(EVERY_8, -127)
        yield f"{name} s8", code, [T("int8", GRID, 0.1, -128)], [T("int8", GRID, 0.05, -100)], None, [positive]
    yield "EXP s8 saturates", 47, [T("int8", GRID, 1.0, 3)], [T("int8", GRID, 0.1, -5)], options("Exp"), [EVERY_8]


def products(random):
    """Products, with a scale for each channel and with one."""

    def weights(*shape):
        return random.integers(-127, 128, shape).astype(np.int8)

    def bias(n, dtype, scales):
        return T.const(random.integers(-10000, 10000, n).astype(dtype), scales)

    many = [float(s) for s in random.uniform(0.005, 0.02, 6)]
    for dtype, wide, s, k in (("int16", np.int64, 0.001, 1.0), ("int8", np.int32, 0.03, 0.3)):
        z = 0 if dtype == "int16" else 3
        biases = [s * w for w in many]
        for n in (16, 64, 300):
            one = [T(dtype, [64, n], s, z), T.const(weights(32, n), 0.0123), bias(32, wide, s * 0.0123)]
            y = [T(dtype, [64, 32], s * n**0.5 * k, z)]
            yield f"FULLY_CONNECTED {dtype} {n}", 9, one, y, options("FullyConnected"), None
        each = [T(dtype, [64, 64], s, z), T.const(weights(6, 64), many), bias(6, wide, biases)]
        yield f"FULLY_CONNECTED {dtype} each", 9, each, [T(dtype, [64, 6], 9 * s * k, z)], options("FullyConnected"), None
        conv = [T(dtype, [1, 12, 12, 5], s, z), T.const(weights(6, 3, 3, 5), many), bias(6, wide, biases)]
        image = [T(dtype, [1, 12, 12, 6], 5 * s, z)]
        yield f"CONV_2D {dtype}", 3, conv, image, options("Conv2D", **WINDOW), None
        deep = [T(dtype, [1, 12, 12, 6], s, z), T.const(weights(1, 3, 3, 6), many, axis=3), bias(6, wide, biases)]
        opts = options("DepthwiseConv2D", depthMultiplier=1, **WINDOW)
        yield f"DEPTHWISE_CONV_2D {dtype}", 4, deep, image, opts, None
        wider = [ints(1, 12, 12, 6), conv[1], T(dtype, [1, 6, 6, 5], s, z), conv[2]]
        opts = options("TransposeConv", strideH=2, strideW=2, padding=0)
        yield f"TRANSPOSE_CONV {dtype}", 67, wider, image, opts, None
        for adj in (False, True):
            second = T(dtype, [2, 7, 16] if adj else [2, 16, 7], 0.7 * s, -z)
            pair = [T(dtype, [2, 9, 16], s, z), second]
            y = [T(dtype, [2, 9, 7], 0.5 * s / (1 if dtype == "int8" else 0.01) * (0.3 if dtype == "int8" else 1), z)]
            yield f"BATCH_MATMUL {dtype} {adj}", 126, pair, y, options("BatchMatMul", adjY=adj), None


def operands(random):
    """Operators of two quantized operands, reductions and windows."""
    for dtype, f, (za, zb, zo) in (("int16", 1, (0, 0, 0)), ("int8", 40, (3, -7, 5))):
        a, b = T(dtype, IMAGE, 0.001 * f, za), T(dtype, IMAGE, 0.0007 * f, zb)
        for name, code, opts, so in [
            ("ADD", 0, options("Add", potScaleInt16=False), 0.0017 * f),
            ("SUB", 41, options("Sub", potScaleInt16=False), 0.0017 * f),
            ("MUL", 18, options("Mul"), 0.014 if f == 1 else 0.056),
        ]:
            yield f"{name} {dtype}", code, [a, b], [T(dtype, IMAGE, so, zo)], opts, None
        for name, code in (("MAXIMUM", 55), ("MINIMUM", 57)):
            yield f"{name} {dtype}", code, [a, a], [a], options("MaximumMinimum"), None
        x = T(dtype, [2, 5, 6, 40], 0.001 * f, za)
        for axes, shape in ((ints(1, 2), [2, 40]), (ints(3), [2, 5, 6])):
            yield f"MEAN {dtype}", 40, [x, axes], [T(dtype, shape, 0.0007 * f, zb)], options("Reducer"), None
            for name, code in (("REDUCE_MAX", 82), ("REDUCE_MIN", 89)):
                y = T(dtype, shape, 0.001 * f, za)
                yield f"{name} {dtype}", code, [x, axes], [y], options("Reducer"), None
        for name, code in (("AVERAGE_POOL_2D", 1), ("MAX_POOL_2D", 17)):
            opts = options("Pool2D", filterHeight=3, filterWidth=3, strideH=2, strideW=2, padding=0)
            pools = [T(dtype, [1, 13, 13, 6], 0.001, za)], [T(dtype, [1, 7, 7, 6], 0.001, za)]
            yield f"{name} {dtype}", code, *pools, opts, None
        for corners, centres in ((False, False), (True, False), (False, True)):
            sizes = [T(dtype, [1, 7, 9, 3], 0.001, za), ints(15, 14)], [T(dtype, [1, 15, 14, 3], 0.001, za)]
            for name, code, kind in (("BILINEAR", 23, "ResizeBilinear"), ("NEAREST", 97, "ResizeNearestNeighbor")):
                opts = options(kind, alignCorners=corners, halfPixelCenters=centres)
                yield f"RESIZE_{name} {dtype} {corners:d}{centres:d}", code, *sizes, opts, None
    x, y = T("int8", IMAGE, 0.1, 3), T("int8", IMAGE, 0.08, 5)
    slope = T.const(random.integers(-128, 128, [1, 1, 4]).astype(np.int8), 0.01, -7)
    yield "PRELU int8", 54, [x, slope], [y], None, None
    row = T("int8", [4, 40], 0.1, 3)
    yield "SOFTMAX int8", 25, [row], [T("int8", [4, 40], 1 / 256, -128)], options("Softmax", beta=1.0), None
    yield "LOG_SOFTMAX int8", 50, [row], [T("int8", [4, 40], 16 / 256, 127)], None, None
    yield "L2_NORMALIZATION int8", 11, [row], [T("int8", [4, 40], 1 / 128, 0)], options("L2Norm"), None
    row = T("int16", [4, 40], 0.001)
    yield "SOFTMAX int16", 25, [row], [T("int16", [4, 40], 1 / 32768)], options("Softmax", beta=1.0), None


def choices(random):
    """Operators that take or place elements, and arithmetic of plain numbers."""

    def at(shape, below):
        return T.const(random.integers(0, below, shape).astype(np.int32))

    for dtype in ("float32", "int8", "int32"):
        q = {"scale": 0.1, "zero": 3} if dtype == "int8" else {}

        def of(*shape, dtype=dtype, q=q):
            return T(dtype, shape, **q)

        k = T.const(np.array(4, np.int32))
        yield f"TOPK_V2 {dtype}", 48, [of(3, 9), k], [of(3, 4), T("int32", [3, 4])], options("TopKV2"), None
        yield f"GATHER_ND {dtype}", 107, [of(3, 4, 5), at((6, 2), 3)], [of(6, 5)], options("GatherNd"), None
        opts = options("Gather", axis=1, batchDims=1)
        yield f"GATHER {dtype} batch", 36, [of(3, 4, 5), at((3, 6), 4)], [of(3, 6, 5)], opts, None
        yield f"EMBEDDING_LOOKUP {dtype}", 7, [at(3, 9), of(9, 2, 2)], [of(3, 2, 2)], None, None
        if dtype == "int8":
            continue
        places = T.const(np.array([[0], [2], [0]], np.int32))
        scattered = [places, of(3, 4), ints(5, 4)]
        yield f"SCATTER_ND {dtype}", 122, scattered, [of(5, 4)], options("ScatterNd"), None
        lengths = T.const(np.array([1, 3, 4], np.int32))
        opts = options("ReverseSequence", seqDim=1, batchDim=0)
        yield f"REVERSE_SEQUENCE {dtype}", 112, [of(3, 4, 2), lengths], [of(3, 4, 2)], opts, None
        yield f"ZEROS_LIKE {dtype}", 93, [of(2, 3)], [of(2, 3)], options("ZerosLike"), None
        a, b = draw(random, of(8, 9)), draw(random, of(8, 9))
        b[b == 0] = 3
        for name, code in (("FLOOR_DIV", 90), ("FLOOR_MOD", 95)):
            yield f"{name} {dtype}", code, [of(8, 9), of(8, 9)], [of(8, 9)], None, [a, b]
    on, off, depth = (T.const(np.array(v)) for v in (np.float32(1.5), np.float32(-1.0), np.int32(6)))
    for axis, shape in ((-1, [3, 2, 6]), (0, [6, 3, 2]), (1, [3, 6, 2])):
        hot = [T("int32", [3, 2]), depth, on, off]
        yield f"ONE_HOT {axis}", 85, hot, [T("float32", shape)], options("OneHot", axis=axis), None
    yield "WHERE", 109, [T("bool", [3, 4])], [T("int64", [1, 2])], options("Where"), None
    for name, code in (("ANY", 91), ("ALL", 140)):
        for keep, shape in ((False, [9, 2]), (True, [9, 1, 2])):
            truths = [T("bool", [9, 2, 2]), ints(1)]
            yield f"REDUCE_{name} {keep}", code, truths, [T("bool", shape)], options("Reducer", keepDims=keep), None
    two = [T("int32", [3, 4]), T("int32", [3, 4])]
    yield "BITWISE_XOR", 160, two, [T("int32", [3, 4])], options("BitwiseXor"), None
    ends = [T.const(np.array(v, np.int32)) for v in (2, 17, 3)]
    yield "RANGE", 96, ends, [T("int32", [5])], options("Range"), None


def check(command, case, random):
    """Whether all outputs of a case are equal; prints how many are."""
    name, code, inputs, outputs, opts, feeds = case
    feeds = feeds or [draw(random, t) for t in inputs if t.data is None]
    names = [f"t{i}" for i, t in enumerate(inputs) if t.data is None]
    good = True
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one.tflite")
        with open(path, "wb") as file:
            file.write(model(code, inputs, outputs, opts))
        theirs = litert(path, feeds)
        for device in ("reference", "cpu"):
            for ours, expected in zip(ottava(command, path, names, feeds, device, folder), theirs):
                equal = (ours.reshape(expected.shape) == expected).mean() if ours.size else 1.0
                if equal < 1:
                    print(f"{name:30} {device:9} {equal:.4%} of {expected.size} equal")
                good &= bool(equal == 1)
    return good


def main(command, *wanted):
    random = np.random.default_rng(5)
    groups = [functions(), products(random), operands(random), choices(random)]
    cases = [case for group in groups for case in group]
    cases = [case for case in cases if not wanted or case[0].startswith(wanted)]
    bad = [case[0] for case in cases if not check(command, case, random)]
    print(f"operators: {len(cases) - len(bad)} of {len(cases)} cases equal in all outputs, on reference and cpu")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
