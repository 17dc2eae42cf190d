#!/usr/bin/env python3
"""Two builds of the command on some networks, interleaved: medians, their ratio, and how far the ratio is spread.

    python3 tests/bench/compare.py OLD/ottava NEW/ottava MODEL.. [--raw-input NAME:f32:SHAPE:FILE] [--threads 1]
    python3 tests/bench/compare.py OLD/ottava NEW/ottava --models FOLDER [--only resnet8,dscnn] [--variant u8,s8]

Both run as workers (`ottava bench --worker`); the rounds alternate A B B A, so the machine's drift hits both alike, and a
ratio is taken in each round. The outputs of both are compared bit for bit before anything is timed. Needs Python alone. A
ratio below 1 means that NEW is faster. Shared machines drift: believe the ratio, not the milliseconds, and no ratio
that is nearer to 1 than its spread.
"""
import argparse
import json
import statistics
import sys
from pathlib import Path

import worker


def measure(arguments, model, raw_input):
    """Times of both builds by round, microseconds."""
    pair = [
        worker.Worker(label, worker.ottava(binary, model, raw_input, arguments.threads))
        for label, binary in (("old", arguments.old), ("new", arguments.new))
    ]
    if pair[0].output() != pair[1].output():
        sys.exit(f"{model}: the outputs of the two builds differ; nothing was timed")
    calls = [w.calls_for(arguments.ms_per_round) for w in pair]
    times = [[], []]
    for turn in range(arguments.rounds):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            times[i].append(pair[i].run(calls[i], arguments.threads))
    for w in pair:
        w.end()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    worker.add_networks(parser)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ms-per-round", type=float, default=50.0)
    parser.add_argument("--json", metavar="FILE", help="also write the figures here")
    a = parser.parse_args()
    rows, figures = [], []
    for label, model, raw_input in worker.networks(a):
        old, new = measure(a, model, raw_input)
        ratios = [n / o for o, n in zip(old, new)]
        middle = [statistics.median(values) for values in (old, new, ratios)]
        figures.append({"network": label, "old_us": middle[0], "new_us": middle[1], "ratio": middle[2],
                        "spread_percent": worker.spread(ratios), "least_ratio": min(new) / min(old)})
        f = figures[-1]
        rows.append([label, f"{middle[0] / 1e3:.4f}", f"{middle[1] / 1e3:.4f}", f"{middle[2]:.3f}",
                     f"{f['spread_percent']:.1f} %", f"{f['least_ratio']:.3f}"])
    print(f"outputs equal; {a.rounds} rounds, {a.threads} thread(s)")
    print(worker.table(["network", "old ms", "new ms", "ratio", "spread", "ratio of least"], rows))
    print(f"geometric mean of the ratios: {worker.geometric([f['ratio'] for f in figures]):.3f}")
    if a.json:
        Path(a.json).write_text(json.dumps({"threads": a.threads, "rounds": a.rounds, "networks": figures}, indent=1))


if __name__ == "__main__":
    worker.run(main)
