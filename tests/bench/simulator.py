#!/usr/bin/env python3
"""Speed of the NPU simulator on one core: without data on a list of layers, with data on networks.

    python3 tests/bench/simulator.py target/release/ottava SPEED LAYERS.csv MODEL.. [--npu edge16] [--json FILE]

SPEED is the built example `speed` of `ottava-npu`. Goals (not checked: nothing here passes or fails by a time): 100 GMAC/s
without data, 1 GMAC/s with data and timing.
"""
import argparse
import json
import re
import subprocess
import tempfile
from pathlib import Path


def timing_only(arguments):
    command = [arguments.speed, arguments.layers, "resnet50", arguments.npu]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    print(f"timing only: {out}")
    return float(re.search(r"([0-9.]+) GMAC/s", out).group(1))


def functional(arguments, model, config):
    command = [arguments.ottava, "--config", config, "bench", model, "--device", "npu", "--warmup", "1", "--runs", "5", "--json"]
    figures = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rate = figures["macs"] / figures["p10_ms"] / 1e6
    print(f"functional and timing: {Path(model).name}: {figures['p10_ms']:.1f} ms, {rate:.2f} GMAC/s")
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ottava")
    parser.add_argument("speed")
    parser.add_argument("layers")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--npu", default="edge16")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    figures = {"timing_only_gmacs_per_s": timing_only(arguments)}
    with tempfile.NamedTemporaryFile("w", suffix=".ron") as config:
        config.write(f'Ottava(devices: [(id: "npu", driver: "npu", options: {{"config": "{arguments.npu}"}})])')
        config.flush()
        for model in arguments.models:
            figures[Path(model).name] = functional(arguments, model, config.name)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
