"""What the scripts of this folder share: where files go, seeds, and how a case is stored.

A case is two files in files/: NAME.onnx or NAME.tflite, and NAME.npz with the
arrays in0, in1, ... and out0, out1, ... in the model's own order. The outputs are
those of the framework (float models) or of the plainest kernels that run the file
(quantized models): onnxruntime with all optimisation off, LiteRT's reference kernels.
"""

import io
import pathlib
import zipfile

import numpy as np

FILES = pathlib.Path(__file__).parent / "files"
MAX_BYTES = 40_000
SEED = 20_240


def rng(name):
    """Random numbers that depend on the case's name only."""
    return np.random.default_rng([SEED, *name.encode()])


def save_arrays(name, inputs, outputs):
    """Writes NAME.npz; equal arrays give equal bytes (entries have no time)."""
    arrays = {f"in{i}": a for i, a in enumerate(inputs)}
    arrays |= {f"out{i}": a for i, a in enumerate(outputs)}
    path = FILES / f"{name}.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array))
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), buffer.getvalue())
    return path


def check_sizes(name, suffix):
    """A case is small: it lies in the repository."""
    for path in (FILES / f"{name}{suffix}", FILES / f"{name}.npz"):
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise SystemExit(f"{path.name} has {size} bytes; {MAX_BYTES} are allowed")
    print(f"{name}{suffix}: {(FILES / f'{name}{suffix}').stat().st_size} bytes")


def strip_origins(path):
    """Removes what the exporter says about source lines: paths of the machine that ran it."""
    import onnx

    model = onnx.load(path)
    for part in (model.graph, *model.functions):
        for item in (part, *part.node, *part.value_info):
            del item.metadata_props[:]
    for item in (*model.graph.input, *model.graph.output, *model.graph.initializer):
        del item.metadata_props[:]
    onnx.save(model, path)


def run_onnx(path, inputs):
    """Outputs of an ONNX file by onnxruntime, each node computed as it is written."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))
