#!/usr/bin/env python3
"""Speed of the NPU simulator on one core: without data on ResNet-50's list of layers, with data on networks.

    python3 tests/bench/simulator.py target/release/ottava ASSETS [--npu edge16] [--slices 20] [--json FILE]

ASSETS holds `reference/npu/topologies/layer_list.csv` and `models/`. `ottava simulate --speed` measures: processor time of its
threads, the least and the median of several slices. Of a network the chip's outputs must be the bits of the reference before
anything is measured. Rates are multiply-accumulates simulated per second; the goals are 100 GMAC/s without data and 1 GMAC/s
with data and timing, and nothing here passes or fails by a time.
"""
import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from worker import run

LAYERS = "reference/npu/topologies/layer_list.csv"
NETWORKS = ["models/mobilenet_v1_025_128_uint8_qdq.onnx", "models/resnet8_cifar10_int8_qdq.onnx"]
WHAT = {
    "compile_and_verify": "tiled, timed, verified",
    "timing": "timed",
    "functional": "executed",
    "functional_and_timing": "executed and timed",
}


def unfolded(layers, network, path):
    """The list of one network, every repetition a layer of its own with a width of its own: nothing is computed once and
    counted often."""
    with open(layers, newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["network"] == network]
    if not rows:
        sys.exit(f"{layers}: no network `{network}`")
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        for row in rows:
            for copy in range(int(row["count"])):
                writer.writerow({**row, "M": int(row["M"]) + copy, "count": 1})


def speed(arguments, workload, folder):
    """What `ottava simulate --speed` says; it ends the run where the outputs differ from the reference."""
    command = [arguments.ottava, "--quiet", "simulate", workload, "--npu", arguments.npu, "-o", folder / "cycles.csv"]
    command += ["--speed", str(arguments.slices), "--threads", "1", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{workload}: `ottava simulate` ended with exit code {done.returncode}")
    return json.loads(done.stdout)["speed"]


def show(name, what, figures):
    rates = f"{figures['gmacs_per_s']:9.2f} {figures['median_gmacs_per_s']:9.2f}"
    times = f"{figures['min_ms']:9.3f} {figures['median_ms']:9.3f}"
    print(f"{name:32} {what:24} {rates} {times}  {figures['slices']} slices, {figures['clock']} time")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ottava")
    parser.add_argument("assets", type=Path)
    parser.add_argument("--npu", default="edge16", help="a preset's name or an Npu(...) file")
    parser.add_argument("--slices", type=int, default=20, help="of a tenth of a second, per figure")
    parser.add_argument("--json", type=Path, help="write the figures to a file")
    arguments = parser.parse_args()
    figures = {}
    print(f"{'workload':32} {'what':24} {'GMAC/s':>9} {'median':>9} {'least ms':>9} {'median':>9}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        layers = folder / "resnet50.csv"
        unfolded(arguments.assets / LAYERS, "resnet50", layers)
        figures["resnet50 (list of layers)"] = speed(arguments, layers, folder)
        show("resnet50 (list of layers)", "closed forms", figures["resnet50 (list of layers)"]["timing"])
        for network in NETWORKS:
            path = arguments.assets / network
            if not path.is_file():
                sys.exit(f"{path}: there is no such file")
            figures[path.stem] = speed(arguments, path, folder)
            for what, words in WHAT.items():
                show(path.stem, words, figures[path.stem][what])
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run(main)
