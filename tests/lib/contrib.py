"""Operators beyond the standard vectors, against onnxruntime with all optimisation off.

Each case is a model of one operator (or of control flow around a few) on random data. Integers must be equal, where a
case does not name the steps that onnxruntime's own float tables are off by; floats must be close. Weights are small
enough that no onnxruntime kernel saturates sums of two products.

Usage: contrib.py OTTAVA
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

MS = "com.microsoft"
rng = np.random.default_rng(20)
CASES = []


def u8(*shape, lo=0, hi=256):
    return rng.integers(lo, hi, shape).astype(np.uint8)


def s8(*shape, lo=-63, hi=64):
    return rng.integers(lo, hi, shape).astype(np.int8)


def f32(*shape, scale=1.0):
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def num(value, dtype=np.float32):
    return np.array(value, dtype)


def par(scale, zero, dtype=np.uint8):
    """Scale and zero point."""
    return [num(scale), num(zero, dtype)]


def case(name, op, inputs, feeds=(0,), domain=MS, outputs=1, steps=0, rtol=1e-4, atol=1e-5, **attrs):
    """Inputs at the positions `feeds` are given at run time, the others are constants; `None` is absent."""
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(inputs)]
    node = helper.make_node(op, names, [f"o{k}" for k in range(outputs)], name="n", domain=domain, **attrs)
    init = [numpy_helper.from_array(x, names[k]) for k, x in enumerate(inputs) if x is not None and k not in feeds]
    given = {names[k]: inputs[k] for k in feeds}
    add_model(name, [node], init, given, [f"o{k}" for k in range(outputs)], steps, rtol, atol)


def add_model(name, nodes, init, given, outputs, steps=0, rtol=1e-4, atol=1e-5):
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in given.items()]
    graph = helper.make_graph(nodes, name, infos, [onnx.ValueInfoProto(name=o) for o in outputs], init)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MS, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    CASES.append((name, model, given, outputs, steps, rtol, atol))


def quantized():
    for dtype, make, zero in ((np.uint8, u8, 120), (np.int8, s8, -3)):
        tag = np.dtype(dtype).name
        a, b, out = par(0.05, zero, dtype), par(0.03, zero + 2, dtype), par(0.07, zero - 5, dtype)
        for op in ("QLinearAdd", "QLinearMul"):
            case(f"{op} {tag}", op, [make(3, 5), *a, make(5), *b, *out], (0, 3))
        concat = [*out, make(2, 3), *a, make(2, 4), *b]
        case(f"QLinearConcat {tag}", "QLinearConcat", concat, (2, 5), axis=1)
        x = make(1, 4, 6, 7)
        pool = dict(kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
        case(f"QLinearAveragePool {tag}", "QLinearAveragePool", [x, *a, *out], steps=1, **pool)
        case(f"QLinearAveragePool pad {tag}", "QLinearAveragePool", [x, *a, *out], steps=1, count_include_pad=1, **pool)
        case(f"QLinearGlobalAveragePool {tag}", "QLinearGlobalAveragePool", [x, *a, *par(0.01, zero, dtype)], steps=1)
        case(f"QLinearLeakyRelu {tag}", "QLinearLeakyRelu", [x, *a, *out], steps=1, alpha=0.2)
        case(f"QLinearSigmoid {tag}", "QLinearSigmoid", [x, *a, *par(1 / 256, zero - 120, dtype)], steps=1)
        soft = par(1 / 256, 0 if dtype is np.uint8 else -128, dtype)
        case(f"QLinearSoftmax {tag}", "QLinearSoftmax", [x, *a, *soft], steps=1, axis=-1, opset=13)
        where = [rng.random((2, 5)) < 0.5, make(2, 5), *a, make(5), *b, *out]
        case(f"QLinearWhere {tag}", "QLinearWhere", where, (0, 1, 4))
        case(f"QLinearReduceMean {tag}", "QLinearReduceMean", [x, *a, *out], steps=1, axes=[2, 3], keepdims=1)
        bias = rng.integers(-500, 500, 5).astype(np.int32)
        w = [s8(5, 8) if dtype is np.int8 else u8(5, 8, lo=100, hi=150), num(0.02), num(0 if dtype is np.int8 else 128, dtype)]
        case(f"QGemm {tag}", "QGemm", [make(3, 8), *a, *w, bias, *out], transB=1)
    w = [s8(5, 8), np.abs(f32(5)) * 0.02 + 0.01, np.zeros(5, np.int8)]
    case("QGemm per channel", "QGemm", [u8(3, 8), *par(0.05, 120), *w, None, *par(0.2, 128)], transB=1)


def integer_products():
    w, scale, zero = u8(8, 5, lo=100, hi=150), num(0.02), num(128, np.uint8)
    case("DynamicQuantizeMatMul", "DynamicQuantizeMatMul", [f32(3, 8), w, scale, zero, f32(5)], rtol=1e-3)
    case("DynamicQuantizeMatMul plain", "DynamicQuantizeMatMul", [f32(3, 8), s8(8, 5), num(0.02)], rtol=1e-3)
    floats = [u8(3, 8), w, num(0.05), scale, num(120, np.uint8), zero, f32(5)]
    case("MatMulIntegerToFloat", "MatMulIntegerToFloat", floats)
    for bits, k, block in ((4, 32, 16), (4, 40, 16), (8, 32, 32), (8, 40, 16)):
        n, blocks = 6, -(-k // block)
        packed, scales = u8(n, blocks, block * bits // 8), np.abs(f32(n * blocks)) * num(0.05) + num(0.01)
        zeros = u8(n * -(-blocks * bits // 8))
        attrs = dict(K=k, N=n, bits=bits, block_size=block, atol=1e-3)
        case(f"MatMulNBits {bits} {k}", "MatMulNBits", [f32(3, k), packed, scales], **attrs)
        case(f"MatMulNBits {bits} {k} zero points", "MatMulNBits", [f32(2, 3, k), packed, scales, zeros], **attrs)
    biased = [f32(3, 32), u8(6, 2, 8), np.abs(f32(12)) + num(0.01), None, None, f32(6)]
    case("MatMulNBits bias", "MatMulNBits", biased, K=32, N=6, bits=4, block_size=16, atol=1e-3)


def floats():
    x, g, b = f32(2, 3, 8), f32(8), f32(8)
    case("Gelu", "Gelu", [x])
    case("FastGelu", "FastGelu", [x, b], atol=1e-4)
    case("BiasGelu", "BiasGelu", [x, b])
    case("QuickGelu", "QuickGelu", [x], alpha=1.702)
    case("LayerNormalization", "LayerNormalization", [x, g, b], domain="", axis=-1)
    case("SkipLayerNormalization", "SkipLayerNormalization", [x, f32(2, 3, 8), g, b, f32(8)], (0, 1), epsilon=1e-5)
    for a, t in ((0, 1), (1, 0), (1, 1)):
        left, right = f32(2, 4, 3) if a else f32(2, 3, 4), f32(2, 5, 4) if t else f32(2, 4, 5)
        case(f"FusedMatMul {a}{t}", "FusedMatMul", [left, right], (0, 1), transA=a, transB=t, alpha=0.5)
    heads = [f32(2, 3, 8), f32(2, 5, 8), f32(2, 5, 8)]
    case("MultiHeadAttention", "MultiHeadAttention", heads, (0, 1, 2), num_heads=2)
    full = [f32(2, 5, 8), *heads[1:], f32(24), None, f32(1, 2, 5, 5)]
    case("MultiHeadAttention bias", "MultiHeadAttention", full, (0, 1, 2), num_heads=2, scale=0.3)


def standard():
    boxes = num([[0, 0, 5, 4], [1.5, 2, 7.2, 7.9], [3, 3, 3.5, 3.5]])
    for ratio in (0, 2):
        inputs = [f32(2, 3, 8, 8), boxes, num([0, 1, 1], np.int64)]
        size = dict(output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=0.8)
        case(f"RoiAlign {ratio}", "RoiAlign", inputs, (0, 1), domain="", **size)
        case(f"RoiAlign max {ratio}", "RoiAlign", inputs, (0, 1), domain="", mode="max", **size)
    deform = [f32(2, 4, 6, 6), f32(4, 2, 3, 3), f32(2, 36, 4, 4), f32(4), np.abs(f32(2, 18, 4, 4))]
    case("DeformConv", "DeformConv", deform, (0, 2, 4), domain="", group=2, offset_group=2, kernel_shape=[3, 3], atol=1e-4)
    case("DFT", "DFT", [f32(2, 12, 3, 2), None, num(1, np.int64)], domain="", atol=1e-4)
    case("STFT", "STFT", [f32(2, 40), num(5, np.int64), f32(12)], domain="", atol=1e-4)
    mel = [num(8, np.int64), num(64, np.int64), num(8000, np.int64), num(50.0), num(3500.0)]
    case("MelWeightMatrix", "MelWeightMatrix", mel, (3, 4), domain="")
    case("Det", "Det", [f32(3, 4, 4)], domain="", atol=1e-4)


def body(name, nodes, inputs, outputs, init=()):
    infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
    outs = [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs]
    return helper.make_graph(nodes, name, infos, outs, list(init))


def control():
    node, f, i, b = helper.make_node, TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
    branch = lambda op: body(op, [node(op, ["x", "w"], [f"{op}_y"])], [], [(f"{op}_y", f, None)])
    choice = node("If", ["c"], ["y"], then_branch=branch("Add"), else_branch=branch("Mul"))
    for flag in (True, False):
        w = [numpy_helper.from_array(f32(3), "w")]
        add_model(f"If {flag}", [choice], w, {"x": f32(2, 3), "c": num(flag, bool)}, ["y"])
        known = [*w, numpy_helper.from_array(num(flag, bool), "c")]
        add_model(f"If known {flag}", [choice], known, {"x": f32(2, 3)}, ["y"])
    inner = [
        node("Mul", ["s", "w"], ["t"]),
        node("Add", ["t", "x"], ["next"]),
        node("ReduceSum", ["next"], ["total"], keepdims=0),
        node("Less", ["total", "limit"], ["go"]),
    ]
    states = [("k", i, []), ("c", b, []), ("s", f, [3])]
    loop = body("loop", inner, states, [("go", b, []), ("next", f, [3]), ("next2", f, [3])])
    loop.node.append(node("Identity", ["next"], ["next2"]))
    repeat = node("Loop", ["n", "", "x"], ["last", "all"], body=loop)
    data = [numpy_helper.from_array(num([1.5, 1.2, 0.9]), "w"), numpy_helper.from_array(num(60.0), "limit")]
    given = {"x": num([0.5, 1.0, 2.0]), "n": num(9, np.int64)}
    add_model("Loop until", [repeat], data, given, ["last", "all"])
    steps = [node("Mul", ["s", "x"], ["next"]), node("Identity", ["c"], ["go"]), node("Identity", ["next"], ["next2"])]
    counted = body("counted", steps, states, [("go", b, []), ("next", f, [3]), ("next2", f, [3])])
    five = [numpy_helper.from_array(num(5, np.int64), "n")]
    add_model("Loop counted", [node("Loop", ["n", "", "x"], ["y", "all"], body=counted)], five, {"x": f32(3)}, ["y", "all"])
    grows = [node("Concat", ["s", "x"], ["next"], axis=0), node("Identity", ["c"], ["go"])]
    grows = body("grows", grows, [("k", i, []), ("c", b, []), ("s", f, ["m"])], [("go", b, []), ("next", f, ["l"])])
    add_model("Loop grows", [node("Loop", ["n", "", "x"], ["y"], body=grows)], [], {"x": f32(3), "n": num(4, np.int64)}, ["y"])
    scanned = [node("Add", ["s", "v"], ["next"]), node("Mul", ["next", "w"], ["out"])]
    scanned = body("scan", scanned, [("s", f, [2]), ("v", f, [2])], [("next", f, [2]), ("out", f, [2])])
    w = [numpy_helper.from_array(f32(2), "w")]
    forms = dict(scan_input_axes=[1], scan_input_directions=[1], scan_output_axes=[-1], scan_output_directions=[1])
    for tag, attrs in (("", {}), (" backwards", forms)):
        scan = node("Scan", ["s0", "xs"], ["s", "ys"], body=scanned, num_scan_inputs=1, **attrs)
        xs = f32(2, 5) if attrs else f32(5, 2)
        add_model(f"Scan{tag}", [scan], w, {"s0": f32(2), "xs": xs}, ["s", "ys"])


def expected(model, given, outputs):
    """What onnxruntime says; `None` where it has no kernel for the case."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    try:
        session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # noqa: BLE001: every kind of refusal means the same here
        if "NOT_IMPLEMENTED" in str(e) or "NotImplemented" in type(e).__name__:
            return None
        raise
    return session.run(outputs, given)


def found(ottava, folder, model, given, outputs):
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    args = [ottava, "run", folder / "model.onnx", "-o", folder / "out", "--device", "reference"]
    for name, value in given.items():
        np.save(folder / f"{name}.npy", value)
        args += ["--input", f"{name}={folder / name}.npy"]
    run = subprocess.run(args, capture_output=True, text=True)
    if run.returncode != 0:
        return run.stderr.strip().splitlines()[0]
    return [np.load(folder / "out" / f"{name}.npy") for name in outputs]


def difference(a, b, steps, rtol, atol):
    """Why results differ, or nothing."""
    if isinstance(a, str):
        return a
    for x, y in zip(a, b, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{x.dtype}{x.shape}, expected {y.dtype}{y.shape}"
        if x.dtype.kind in "iub":
            off = np.abs(x.astype(np.int64) - y.astype(np.int64)).max(initial=0)
            if off > steps:
                return f"{off} steps apart, {(x != y).sum()} of {x.size} differ"
        elif not np.allclose(x, y, rtol=rtol, atol=atol):
            return f"{np.abs(x - y).max()} apart"
    return ""


def main():
    ottava = sys.argv[1]
    for family in (quantized, integer_products, floats, standard, control):
        family()
    wrong = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        for k, (name, model, given, outputs, steps, rtol, atol) in enumerate(CASES):
            want = expected(model, given, outputs)
            if want is None:
                skipped += 1
                print(f"skipped  {name}: onnxruntime has no kernel")
                continue
            why = difference(found(ottava, Path(folder) / str(k), model, given, outputs), want, steps, rtol, atol)
            wrong += bool(why)
            if why:
                print(f"WRONG    {name}: {why}")
    print(f"{len(CASES) - wrong - skipped} equal, {skipped} skipped, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
