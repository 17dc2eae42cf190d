#!/usr/bin/env python3
"""Two builds of the command on one model, interleaved: medians and their ratio.

    python3 tests/bench/compare.py OLD/ottava NEW/ottava MODEL --raw-input NAME:f32:SHAPE:FILE [--threads 1] [--rounds 20]

Both run as workers (`ottava bench --worker`); the rounds alternate A B A B, so the machine's drift hits both alike. The
outputs of both are compared bit for bit before anything is timed. Needs Python alone. A ratio below 1 means that NEW is
faster. Shared machines drift: believe the ratio, not the milliseconds.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


class Worker:
    """One build that answers the line protocol."""

    def __init__(self, binary, model, raw_input, threads):
        command = [binary, "bench", model, "--worker", "--threads", str(threads), "--raw-input", raw_input]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.process.args[0]} ended with exit code {self.process.wait()}")
        return json.loads(line)

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        return self.read()

    def output(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.bin"
            self.ask(f"out {path}")
            return path.read_bytes()

    def run(self, n):
        return self.ask(f"run {n}")["lat_us"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("model")
    parser.add_argument("--raw-input", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--ms-per-round", type=float, default=50.0)
    a = parser.parse_args()
    workers = [Worker(binary, a.model, a.raw_input, a.threads) for binary in (a.old, a.new)]
    if workers[0].output() != workers[1].output():
        sys.exit("the outputs of the two builds differ; nothing was timed")
    warm = [min(w.run(5)) for w in workers]
    calls = [max(1, int(a.ms_per_round * 1000 / us)) for us in warm]
    times = [[], []]
    for _ in range(a.rounds):
        for i, worker in enumerate(workers):
            times[i].append(statistics.median(worker.run(calls[i])))
    old, new = (statistics.median(t) / 1000 for t in times)
    print(f"outputs equal; {a.rounds} rounds, {a.threads} thread(s)")
    print(f"old {old:9.4f} ms   new {new:9.4f} ms   ratio new/old {new / old:.3f}")


if __name__ == "__main__":
    main()
