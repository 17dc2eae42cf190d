#!/usr/bin/env python3
"""Networks beside ONNX Runtime, interleaved in one run: latency, ratio, and whether the outputs are right.

    python3 tests/bench/network.py target/release/ottava --models FOLDER [--only resnet8,dscnn] [--variant u8,fp32]
    python3 tests/bench/network.py target/release/ottava MODEL --raw-input NAME:f32:SHAPE:FILE [--python VENV/bin/python]

Before anything is timed, our output is compared bit for bit with that of our reference interpreter (`--device reference`);
a difference ends the run. ONNX Runtime runs in its default mode (`ort`, which saturates on x86 without VNNI) and in its exact mode
(`ort exact`) where the interpreter named by `--python` can import it; without it our figures stand alone. Their largest
difference from ours is shown in parts of the output's range. At one thread the smaller of wall and processor time counts.
A ratio below 1 means that ours is faster.
"""
import argparse
import json
import statistics
import struct
import subprocess
import sys
from pathlib import Path

import worker

HERE = Path(__file__).resolve().parent


def has_peer(python):
    probe = [python, "-c", "import onnxruntime, numpy"]
    try:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def check(arguments, label, model, raw_input, ours):
    """Our output is that of the reference; ends the run otherwise."""
    if arguments.no_check:
        return "not checked"
    command = [arguments.ottava, "bench", model, "--worker", "--device", "reference"]
    reference = worker.Worker("reference", command + (["--raw-input", raw_input] if raw_input else []))
    is_equal = reference.output() == ours.output()
    reference.end()
    if not is_equal:
        sys.exit(f"{label}: the output differs from that of the reference; nothing was timed")
    return "equal"


def difference(ours, theirs):
    """The largest difference as a part of the range of our values."""
    if len(ours) != len(theirs):
        return None
    a, b = (struct.unpack(f"<{len(data) // 4}f", data) for data in (ours, theirs))
    span = max(a) - min(a)
    return max(abs(x - y) for x, y in zip(a, b)) / span if span else max(abs(x - y) for x, y in zip(a, b))


def start(arguments, label, model, raw_input, with_peer):
    ours = worker.Worker("ottava", worker.ottava(arguments.ottava, model, raw_input, arguments.threads))
    runners = [ours]
    if with_peer and raw_input:
        command = [arguments.python, str(HERE / "onnxruntime_worker.py"), model, raw_input, "--threads", str(arguments.threads)]
        runners.append(worker.Worker("ort", command))
        if not label.endswith("fp32"):
            runners.append(worker.Worker("ort exact", [*command, "--exact"]))
    elif with_peer:
        print(f"{label}: without --raw-input there is no common input; ours alone", file=sys.stderr)
    return runners


def measure(arguments, label, model, raw_input, with_peer):
    """One row per runner."""
    runners = start(arguments, label, model, raw_input, with_peer)
    verdict = check(arguments, label, model, raw_input, runners[0])
    own = runners[0].output()
    calls = [w.calls_for(arguments.ms_per_round) for w in runners]
    times = [[] for _ in runners]
    for turn in range(arguments.rounds):
        for k in range(len(runners)):
            i = (turn + k) % len(runners)
            times[i].append(runners[i].run(calls[i], arguments.threads))
    rows = []
    for i, w in enumerate(runners):
        ratios = [a / b for a, b in zip(times[0], times[i])]
        rows.append({
            "network": label, "runner": w.label, "median_us": statistics.median(times[i]), "least_us": min(times[i]),
            "ours_over_it": statistics.median(ratios), "spread_percent": worker.spread(ratios),
            "load_ms": w.ready.get("load_ms"), "output": verdict if i == 0 else difference(own, w.output()),
        })
        w.end()
    return rows


def line(row):
    output = row["output"] if isinstance(row["output"], str) else "other shape" if row["output"] is None else f"{row['output']:.1e}"
    own = row["runner"] == "ottava"
    return [row["network"], row["runner"], f"{row['median_us'] / 1e3:.4f}", f"{row['least_us'] / 1e3:.4f}",
            "" if own else f"{row['ours_over_it']:.3f}", "" if own else f"{row['spread_percent']:.1f} %",
            f"{row['load_ms']:.0f}", output]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ottava")
    worker.add_networks(parser)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that may have onnxruntime")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--ms-per-round", type=float, default=100.0)
    parser.add_argument("--no-check", action="store_true", help="leave the reference out, which is slow on large networks")
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    a = parser.parse_args()
    with_peer = has_peer(a.python)
    if not with_peer:
        print(f"{a.python} cannot import onnxruntime and numpy: our figures stand alone", file=sys.stderr)
    rows = [row for network in worker.networks(a) for row in measure(a, *network, with_peer)]
    print(worker.table(["network", "runner", "median ms", "least ms", "ours/it", "spread", "load ms", "output"], map(line, rows)))
    for peer in sorted({row["runner"] for row in rows} - {"ottava"}):
        ratios = [row["ours_over_it"] for row in rows if row["runner"] == peer]
        print(f"geometric mean of ours/{peer} over {len(ratios)} networks: {worker.geometric(ratios):.3f}")
    if a.json:
        Path(a.json).write_text(json.dumps({"threads": a.threads, "rounds": a.rounds, "rows": rows}, indent=1))


if __name__ == "__main__":
    worker.run(main)
