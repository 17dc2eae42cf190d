#!/usr/bin/env python3
"""Calibration against float inference: CPU time per sample and peak memory.

    tests/bench/calibration.py OTTAVA ASSETS [SAMPLES] [REPEATS]

Both commands run on the same rows, interleaved, on one thread; the least CPU time of the repeats counts, and what they
take for a single row (loading, compiling) is taken off. The bounds: time at most 1.5 times that of inference, memory at
most 1.2 times plus 64 KiB for each tensor. Exit status 1 if one is exceeded. Needs numpy.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

MAX_TIME = 1.5
MAX_MEMORY = 1.2
BYTES_PER_TENSOR = 64 << 10


def rows(source, n, folder, name):
    """The first n rows of each array of an npz file, as a file of their own."""
    path = folder / f"{name}-{n}.npz"
    arrays = {k: source[k] for k in source if k != "labels" and k != "group"}
    np.savez(path, **{k: np.concatenate([v] * (n // len(v) + 1))[:n] for k, v in arrays.items()})
    return path


def networks(models, folder):
    load = lambda name: dict(np.load(models / "data" / name))
    # The detector's images are only counted, not looked at: noise takes as long.
    noise = np.random.default_rng(1).random((8, 3, 352, 352), dtype=np.float32)
    yield "resnet8", "resnet8_cifar10_f32.onnx", load("cifar10_calib_128_jpeg.npz"), ["--affine", "1,0"]
    yield "mobilenet", "mobilenet_v1_025_128_f32deq.onnx", load("imagenet_128_calib_60.npz"), ["--affine", "0.0078125,-1"]
    yield "fastestdet", "fastestdet_352.onnx", {"x": noise}, []
    yield "minilm", "minilm_l3_f16w.onnx", load("minilm_l3_calib_50.npz"), []


# A child's peak starts at the size of the process that forks it, so a small one does.
LAUNCHER = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)
answer = child.stdout.read().decode()
_, status, usage = os.wait4(child.pid, 0)
json.dump([usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, status, answer], sys.stdout)
"""


def run(command):
    """CPU seconds, peak bytes, and what the command says of itself."""
    done = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, *map(str, command)], capture_output=True, text=True)
    cpu, peak, status, answer = json.loads(done.stdout)
    if status:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return cpu, peak, json.loads(answer)


def measure(ottava, model, data, extra, n, repeats, folder):
    files = {k: rows(data, k, folder, model.stem) for k in (1, n)}
    common = ["--json", "--quiet", "--threads", "1", *extra]
    commands = {
        "infer": lambda f: [ottava, "eval", model, "--data", f, "--outputs", folder / "out.npz", *common],
        "calibrate": lambda f: [ottava, "calibrate", model, "--data", f, "-o", folder / "out.calib", *common],
    }
    seconds, peak, tensors = {}, {}, 0
    for _ in range(repeats):
        for name, command in commands.items():
            for k, file in files.items():
                cpu, rss, answer = run(command(file))
                seconds[name, k] = min(cpu, seconds.get((name, k), cpu))
                peak[name] = max(rss, peak.get(name, 0))
                tensors = max(tensors, answer.get("tensors", 0))
    per = {name: (seconds[name, n] - seconds[name, 1]) / (n - 1) for name in commands}
    return per, peak, tensors


def main():
    ottava, models = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]) / "models"
    n = int(sys.argv[3]) if len(sys.argv) > 3 else 33
    repeats = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    exceeded = []
    print(f"{'network':12} {'infer ms':>9} {'calibrate ms':>12} {'ratio':>6} {'infer MiB':>10} {'calibrate MiB':>13} {'bound MiB':>10}")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, file, data, extra in networks(models, folder):
            per, peak, tensors = measure(ottava, models / file, data, extra, n, repeats, folder)
            ratio = per["calibrate"] / per["infer"]
            bound = MAX_MEMORY * peak["infer"] + tensors * BYTES_PER_TENSOR
            mib = lambda b: b / (1 << 20)
            print(f"{name:12} {1e3 * per['infer']:9.2f} {1e3 * per['calibrate']:12.2f} {ratio:6.2f} "
                  f"{mib(peak['infer']):10.1f} {mib(peak['calibrate']):13.1f} {mib(bound):10.1f}")
            if ratio > MAX_TIME or peak["calibrate"] > bound:
                exceeded.append(name)
    if exceeded:
        sys.exit(f"over the bounds: {', '.join(exceeded)}")


if __name__ == "__main__":
    main()
