"""Float networks by torch's exporter of traced graphs (TorchScript), operator sets 11, 13 and 17.

Made with Python 3.11 and torch==2.15.0, onnx==1.23.2, numpy==2.4.6:

    pip install torch==2.15.0 onnx==1.23.2 numpy==2.4.6
    python torch_torchscript.py
"""

import warnings

import torch

from common import FILES, check_sizes, rng, save_arrays
from networks import NETWORKS, images, seeded

OPSETS = (11, 13, 17)
ROWS = 3


def export(kind, opset):
    name = f"torchscript{opset}_{kind}"
    network = seeded(NETWORKS[kind], rng(kind))
    x = torch.from_numpy(images(network, rng(name), ROWS))
    with torch.no_grad():
        y = network(x)
    outputs = y if isinstance(y, tuple) else (y,)
    names = [f"y{i}" for i in range(len(outputs))]
    # A hidden state has its batch on axis 1.
    batch_axes = {n: {0 if o.shape[0] == ROWS else 1: "batch"} for n, o in zip(names, outputs)}
    torch.onnx.export(
        network, (x,), FILES / f"{name}.onnx", dynamo=False, opset_version=opset,
        input_names=["x"], output_names=names, dynamic_axes={"x": {0: "batch"}, **batch_axes},
    )
    save_arrays(name, [x.numpy()], [o.numpy() for o in outputs])
    check_sizes(name, ".onnx")


def main():
    warnings.filterwarnings("ignore")
    FILES.mkdir(exist_ok=True)
    for kind in NETWORKS:
        for opset in OPSETS:
            # The exporter knows torch's attention from operator set 14 on.
            if kind != "encoder" or opset >= 14:
                export(kind, opset)


if __name__ == "__main__":
    main()
