"""Makes the committed ONNX seeds: what neither the node vectors nor the exporters' files hold.

    pip install onnx==1.23.2 numpy==2.4.6
    python tests/fuzz/make_corpus.py
"""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as n

FOLDER = pathlib.Path(__file__).parent / "corpus" / "onnx"
MS = "com.microsoft"


def value(name, shape, kind=T.FLOAT):
    return h.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return n.from_array(np.asarray(array), name)


def save(name, nodes, inputs, outputs, constants=(), opset=17, domains=(), functions=()):
    graph = h.make_graph(nodes, name, inputs, outputs, list(constants))
    imports = [h.make_opsetid("", opset)] + [h.make_opsetid(d, 1) for d in domains]
    model = h.make_model(graph, opset_imports=imports, functions=list(functions), producer_name="seed")
    (FOLDER / f"{name}.onnx").write_bytes(model.SerializeToString())


def functions():
    """A function with an attribute that calls another one."""
    imports = [h.make_opsetid("", 17), h.make_opsetid("own", 1)]
    scale = h.make_node("Constant", [], ["s"])
    reference = scale.attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", onnx.AttributeProto.FLOAT
    inner = h.make_function("own", "Scale", ["x"], ["y"], [scale, h.make_node("Mul", ["x", "s"], ["y"])], imports, ["by"])
    calls = [h.make_node("Scale", ["x"], ["t"], domain="own", by=2.0), h.make_node("Relu", ["t"], ["y"])]
    outer = h.make_function("own", "Twice", ["x"], ["y"], calls, imports)
    node = h.make_node("Twice", ["x"], ["y"], domain="own")
    save("functions", [node], [value("x", ["n", 3])], [value("y", ["n", 3])], domains=["own"], functions=[inner, outer])


def control_flow():
    """If with a constant condition, Loop with a carried value."""
    branch = lambda name, op: h.make_graph([h.make_node(op, ["x"], [f"{name}_y"])], name, [], [value(f"{name}_y", [3])])
    choice = h.make_node("If", ["c"], ["a"], then_branch=branch("yes", "Relu"), else_branch=branch("no", "Neg"))
    body = h.make_graph(
        [h.make_node("Identity", ["go"], ["go_on"]), h.make_node("Add", ["v", "x"], ["w"])], "body",
        [value("i", [], T.INT64), value("go", [], T.BOOL), value("v", [3])],
        [value("go_on", [], T.BOOL), value("w", [3])],
    )
    loop = h.make_node("Loop", ["trips", "c", "a"], ["y"], body=body)
    constants = [constant("c", np.array(True)), constant("trips", np.array(3, np.int64))]
    save("control_flow", [choice, loop], [value("x", [3])], [value("y", [3])], constants)


def integers():
    """A convolution with quantized ends, a float bias, and a residual sum."""
    ends = [constant("s", np.float32(0.05)), constant("z", np.uint8(120))]
    weights = [
        constant("q", np.arange(-4, 4, dtype=np.int8).reshape(2, 2, 2, 1)), constant("ws", np.float32([0.1, 0.2])),
        constant("b", np.float32([1.0, -1.0])),
    ]
    nodes = [
        h.make_node("QuantizeLinear", ["x", "s", "z"], ["xq"]), h.make_node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        h.make_node("DequantizeLinear", ["q", "ws"], ["w"], axis=0),
        h.make_node("Conv", ["xd", "w", "b"], ["c"], pads=[0, 0, 1, 0]), h.make_node("Add", ["c", "xd"], ["r"]),
        h.make_node("Clip", ["r", "lo", "hi"], ["t"]), h.make_node("QuantizeLinear", ["t", "s", "z"], ["tq"]),
        h.make_node("DequantizeLinear", ["tq", "s", "z"], ["y"]),
    ]
    limits = [constant("lo", np.float32(0.0)), constant("hi", np.float32(6.0))]
    shape = ["n", 2, 4, 4]
    save("integers", nodes, [value("x", shape)], [value("y", shape)], ends + weights + limits)


def recurrent():
    """An LSTM of both directions with lengths and a reversed GRU."""
    r = np.random.default_rng(1)
    w = lambda name, shape: constant(name, r.normal(0, 0.5, shape).astype(np.float32))
    constants = [w("w", (2, 8, 3)), w("r", (2, 8, 2)), w("b", (2, 16)), constant("len", np.int32([3, 2]))]
    constants += [w("gw", (1, 6, 3)), w("gr", (1, 6, 2))]
    nodes = [
        h.make_node("LSTM", ["x", "w", "r", "b", "len"], ["y", "h", ""], hidden_size=2, direction="bidirectional"),
        h.make_node("GRU", ["x", "gw", "gr"], ["g"], hidden_size=2, direction="reverse", linear_before_reset=1),
    ]
    outputs = [value("y", [4, 2, 2, 2]), value("h", [2, 2, 2]), value("g", [4, 1, 2, 2])]
    save("recurrent", nodes, [value("x", [4, 2, 3])], outputs, constants)


def microsoft():
    """Quantized operators of ONNX Runtime's domain, and a fused one."""
    constants = [constant("s", np.float32(0.1)), constant("z", np.int8(3)), constant("w", np.int8([[1, 2], [3, 4]]))]
    constants += [constant("gamma", np.float32([1, 2])), constant("beta", np.float32([0, 1]))]
    nodes = [
        h.make_node("QLinearAdd", ["x", "s", "z", "x", "s", "z", "s", "z"], ["a"], domain=MS),
        h.make_node("QGemm", ["a", "s", "z", "w", "s", "z", "", "s", "z"], ["b"], domain=MS),
        h.make_node("DequantizeLinear", ["b", "s", "z"], ["c"], domain=MS),
        h.make_node("SkipLayerNormalization", ["c", "c", "gamma", "beta"], ["y"], domain=MS, epsilon=1e-5),
    ]
    save("microsoft", nodes, [value("x", [3, 2], T.INT8)], [value("y", [3, 2])], constants, domains=[MS])


def odd_tensors():
    """Blocked 4-bit weights, strings, a sparse constant, data outside the file."""
    four_bits = h.make_tensor("q", T.INT4, [4, 2], [1, -2, 3, -4, 5, -6, 7, -8])
    nodes = [
        h.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=2), h.make_node("MatMul", ["x", "w"], ["y"]),
    ]
    scales = constant("s", np.float32([[1, 2], [3, 4]]))
    save("blocked", nodes, [value("x", [1, 4])], [value("y", [1, 2])], [four_bits, scales], opset=21)
    outside = T(name="w", data_type=T.FLOAT, dims=[4, 2], data_location=T.EXTERNAL)
    for key, text in (("location", "../w.bin"), ("offset", "4096"), ("length", "32")):
        outside.external_data.add(key=key, value=text)
    save("outside", [h.make_node("MatMul", ["x", "w"], ["y"])], [value("x", [1, 4])], [value("y", [1, 2])], [outside])


def shapes():
    """Shape arithmetic of an exporter around a Reshape and an Expand."""
    nodes = [
        h.make_node("Shape", ["x"], ["s"]), h.make_node("Gather", ["s", "i"], ["n"], axis=0),
        h.make_node("Unsqueeze", ["n", "axes"], ["u"]), h.make_node("Concat", ["u", "m"], ["t"], axis=0),
        h.make_node("Reshape", ["x", "t"], ["r"]), h.make_node("ConstantOfShape", ["s"], ["zeros"]),
        h.make_node("Expand", ["zeros", "s"], ["e"]), h.make_node("Flatten", ["e"], ["f"]),
        h.make_node("Add", ["r", "f"], ["y"]),
    ]
    constants = [constant("i", np.array(0)), constant("axes", np.array([0])), constant("m", np.array([-1]))]
    save("shapes", nodes, [value("x", ["n", 2, 3])], [value("y", ["n", 6])], constants)


def large():
    """What a few bytes make large: a Scan of many slices, and a size that no memory holds."""
    body = h.make_graph(
        [h.make_node("Add", ["sum", "slice"], ["next"]), h.make_node("Identity", ["next"], ["out"])], "body",
        [value("sum", []), value("slice", [])], [value("next", []), value("out", [])],
    )
    nodes = [
        h.make_node("Scan", ["first", "x"], ["y", "z"], num_scan_inputs=1, body=body), h.make_node("Size", ["w"], ["n"]),
    ]
    inputs = [value("first", []), value("x", [2175]), value("w", [6, 1 << 62])]
    save("large", nodes, inputs, [value("y", []), value("z", [2175]), value("n", [], T.INT64)], [])


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for make in (functions, control_flow, integers, recurrent, microsoft, odd_tensors, shapes, large):
        make()


if __name__ == "__main__":
    main()
