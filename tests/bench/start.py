#!/usr/bin/env python3
"""How long a saved plan takes until it is ready, and how long its first inference takes.

    python3 tests/bench/start.py target/release/ottava PLAN [--rounds 11] [OPTION OF bench ...]

Each round starts a worker (`ottava bench PLAN --worker`). `process` is the time from the start of the process to its first
line, which it prints after one inference; `ready` is what the worker itself measured from opening the file until the
session was there, without an inference; `first` is the first inference, the difference of `load_ms` and `ready_ms`. What
remains of `process` is starting the program. The file is read once before, so that the disk does not count. Options of
the devices (`--threads`, `--isa`) must be those that the plan was compiled with, or its programs are compiled anew. Needs
Python alone.
"""
import argparse
import json
import statistics
import sys
import time
from pathlib import Path

import worker


def start(command):
    """One worker's times in milliseconds: process, ready, first, later."""
    begin = time.perf_counter()
    process = worker.start(command)
    line = process.stdout.readline()
    until_ready = (time.perf_counter() - begin) * 1e3
    if not line:
        sys.exit(f"{command[0]} ended with exit code {process.wait()}")
    ready = json.loads(line)
    process.stdin.write("run 1\n")
    later = json.loads(process.stdout.readline())["lat_us"][0] / 1e3
    process.stdin.write("quit\n")
    process.stdin.close()
    process.wait()
    first = ready["load_ms"] - ready["ready_ms"]
    return {"process": until_ready, "to ready": until_ready - first, "ready": ready["ready_ms"], "first": first, "later": later}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("plan")
    parser.add_argument("--rounds", type=int, default=11)
    args, options = parser.parse_known_args()
    Path(args.plan).read_bytes()
    command = [args.binary, "bench", args.plan, "--worker", *options]
    rounds = [start(command) for _ in range(args.rounds)]
    print(f"{args.rounds} starts, milliseconds: median (least, most)")
    for name in rounds[0]:
        values = [r[name] for r in rounds]
        print(f"{name:>9} {statistics.median(values):8.1f} ({min(values):.1f}, {max(values):.1f})")


if __name__ == "__main__":
    worker.run(main)
