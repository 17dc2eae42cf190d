"""The files of the bundled digits example: data split, npz and ONNX writers, check.

Requirements: Python >= 3.11, numpy, scikit-learn, onnx, onnxruntime.

    python tests/tools/digits_files.py        # check the bundled files, exit 1 on a difference

The split and the writers are deterministic: the same weights give the same bytes.
`train_digits.py` trains the network and calls `write_files`; running this file
alone makes all files again, from scikit-learn's images and the bundled weights,
compares them byte for byte and measures the bundled network with onnxruntime.
"""

import io
import pathlib
import sys
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

ASSETS = pathlib.Path(__file__).resolve().parents[2] / "sdk" / "cli" / "assets"
SPLIT_SEED = 20240917
TEST_PER_CLASS = 54
CALIB_PER_CLASS = 20
BN_EPSILON = 1e-5
MIN_ACCURACY = 0.97
SIZE_LIMIT = 1 << 20
ATTRIBUTION = (
    "Handwritten digits, trained on: Alpaydin, E. & Kaynak, C. (1998), Optical Recognition "
    "of Handwritten Digits, UCI Machine Learning Repository, doi:10.24432/C50P49, CC BY 4.0."
)


def split_digits():
    """Returns {"train" | "calib" | "test": (x u8 [n,1,8,8], labels s64 [n])}.

    Stratified: of each class, shuffled by a frozen generator, the first
    TEST_PER_CLASS images are the test set, the rest is the training set, whose
    first CALIB_PER_CLASS are the calibration set. Each set keeps the order of
    the original, so any prefix of it mixes the classes.
    """
    digits = load_digits()
    images = digits.images.astype(np.uint8)[:, None]
    labels = digits.target.astype(np.int64)
    # RandomState's streams are frozen by numpy; those of Generator may change.
    rng = np.random.RandomState(SPLIT_SEED)
    chosen = {"test": [], "train": [], "calib": []}
    for digit in range(10):
        order = rng.permutation(np.flatnonzero(labels == digit))
        train = order[TEST_PER_CLASS:]
        chosen["test"].append(order[:TEST_PER_CLASS])
        chosen["train"].append(train)
        chosen["calib"].append(train[:CALIB_PER_CLASS])
    indices = {name: np.sort(np.concatenate(parts)) for name, parts in chosen.items()}
    return {name: (images[i], labels[i]) for name, i in indices.items()}


def npz_bytes(**arrays):
    """An uncompressed npz: sorted names, a fixed date, no dependence on zlib."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # otherwise differs between Windows and Unix
            member = io.BytesIO()
            np.lib.format.write_array(member, arrays[name], version=(1, 0), allow_pickle=False)
            archive.writestr(entry, member.getvalue())
    return buffer.getvalue()


def data_files(splits):
    """The bundled npz files as {file name: bytes}."""
    return {
        f"digits_{name}.npz": npz_bytes(x=splits[name][0], labels=splits[name][1])
        for name in ("calib", "test")
    }


def conv(name, source, groups, kernel):
    """A convolution of stride 1 that keeps height and width; no bias, BN follows."""
    return helper.make_node(
        "Conv", [source, f"{name}.weight"], [f"{name}.out"], name=name, group=groups,
        kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, strides=[1, 1],
    )


def batch_norm(name, source):
    stats = [f"{name}.{part}" for part in ("gamma", "beta", "mean", "var")]
    return helper.make_node(
        "BatchNormalization", [source, *stats], [f"{name}.out"], name=name, epsilon=BN_EPSILON
    )


def unary(op, name, source, **attributes):
    return helper.make_node(op, [source], [f"{name}.out"], name=name, **attributes)


def network_nodes():
    """The network, node by node; `forward` in train_digits.py is its twin."""
    return [
        conv("stem", "image", 1, 3),
        batch_norm("stem_bn", "stem.out"),
        unary("Relu", "stem_relu", "stem_bn.out"),
        conv("depthwise", "stem_relu.out", 16, 3),
        batch_norm("depthwise_bn", "depthwise.out"),
        unary("Relu", "depthwise_relu", "depthwise_bn.out"),
        conv("pointwise", "depthwise_relu.out", 1, 1),
        batch_norm("pointwise_bn", "pointwise.out"),
        unary("Relu", "pointwise_relu", "pointwise_bn.out"),
        conv("residual", "pointwise_relu.out", 1, 3),
        batch_norm("residual_bn", "residual.out"),
        helper.make_node(
            "Add", ["residual_bn.out", "pointwise_relu.out"], ["add.out"], name="add"
        ),
        unary("Relu", "add_relu", "add.out"),
        unary("MaxPool", "pool", "add_relu.out", kernel_shape=[2, 2], strides=[2, 2]),
        conv("top", "pool.out", 1, 3),
        batch_norm("top_bn", "top.out"),
        unary("Relu", "top_relu", "top_bn.out"),
        unary("GlobalAveragePool", "mean", "top_relu.out"),
        unary("Flatten", "flatten", "mean.out", axis=1),
        helper.make_node(
            "Gemm", ["flatten.out", "dense.weight", "dense.bias"], ["logits"],
            name="dense", transB=1,
        ),
        helper.make_node("Softmax", ["logits"], ["probs"], name="softmax", axis=1),
    ]


def onnx_bytes(weights):
    """The ONNX file for `weights` ({initializer name: f32 array})."""
    float_value = helper.make_tensor_value_info
    graph = helper.make_graph(
        network_nodes(),
        "digits",
        [float_value("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [float_value("probs", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(weights[name], name) for name in sorted(weights)],
    )
    model = helper.make_model(
        graph, producer_name="train_digits.py", doc_string=ATTRIBUTION, ir_version=8,
        opset_imports=[helper.make_opsetid("", 17)],
    )
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


def accuracy(model, npz):
    """(correct, total) of the ONNX bytes `model` on the npz bytes, by onnxruntime."""
    session = ort.InferenceSession(model, providers=["CPUExecutionProvider"])
    data = np.load(io.BytesIO(npz))
    probs = session.run(["probs"], {"image": data["x"].astype(np.float32)})[0]
    correct = np.count_nonzero(probs.argmax(1) == data["labels"])
    return int(correct), len(data["labels"])


def write_files(weights, folder):
    """Writes the three files into `folder`."""
    files = {"digits.onnx": onnx_bytes(weights), **data_files(split_digits())}
    for name, content in files.items():
        (folder / name).write_bytes(content)


def rebuilt_files(model):
    """What the three files must be, given the weights in the ONNX bytes `model`."""
    graph = onnx.load_from_string(model).graph
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return {"digits.onnx": onnx_bytes(weights), **data_files(split_digits())}


def check_files(folder):
    """Prints sizes and accuracy of the files in `folder`; returns the problems."""
    expected = rebuilt_files((folder / "digits.onnx").read_bytes())
    files = {name: (folder / name).read_bytes() for name in sorted(expected)}
    problems = [
        f"{name}: its bytes are not those that this script writes"
        for name in files
        if files[name] != expected[name]
    ]
    for name, content in files.items():
        print(f"{name}: {len(content)} bytes")
    share = 0.0
    for name in ("digits_calib.npz", "digits_test.npz"):
        correct, total = accuracy(files["digits.onnx"], files[name])
        share = correct / total
        print(f"onnxruntime on {name}: {correct} of {total} = {share:.4f}")
    if share < MIN_ACCURACY:
        problems.append(f"the accuracy on the test set is below {MIN_ACCURACY}")
    if sum(map(len, files.values())) >= SIZE_LIMIT:
        problems.append(f"the files together reach {SIZE_LIMIT} bytes")
    return problems


def main():
    problems = check_files(ASSETS)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
