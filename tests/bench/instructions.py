#!/usr/bin/env python3
"""Instructions of one inference, counted by callgrind: the figure that no other load on the machine moves.

    python3 tests/bench/instructions.py target/release/ottava --models FOLDER [--only resnet8,dscnn] --json now.json
    python3 tests/bench/instructions.py target/release/ottava MODEL.. [--raw-input ..] --against before.json

Each network runs twice under `valgrind --tool=callgrind` at one thread, with few and with more inferences; the difference
divided by the difference of their numbers is one inference, start-up left out. The same is done function by function, which
gives the list of the kernels that take most. `--against` is the `--json` of an earlier build: ratios below 1 mean fewer
instructions. valgrind has no AVX-512: there the count is that of the AVX2 kernels. Instructions are not time: they miss
caches and ports, and tell two builds of the same kernel apart. Needs valgrind.
"""
import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import worker

FEW, MORE = 2, 4


def callgrind(arguments, model, raw_input, calls):
    """Instructions by function of a process that runs so many inferences."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "callgrind.out"
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", "--compress-strings=no", "--compress-pos=no",
                   *worker.ottava(arguments.ottava, model, raw_input, 1)]
        done = subprocess.run(command, input=f"run {calls}\nquit\n", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{model}: under valgrind the command ended with {done.returncode}:\n{done.stderr[-2000:]}")
        return functions(out.read_text())


def functions(text):
    """Own cost of each function in a callgrind file: cost lines under `fn=`, without those that follow `calls=`."""
    costs, name, skip = {}, "", False
    for line in text.splitlines():
        if line.startswith("fn="):
            name = line[3:]
        elif line.startswith("calls="):
            skip = True
        elif line[:1].isdigit() or line[:1] in "+-*":
            if skip:
                skip = False
                continue
            fields = line.split()
            if len(fields) > 1:
                costs[name] = costs.get(name, 0) + int(fields[1])
    return costs


def short(name):
    """A function's path without its hash and generic arguments."""
    name = re.sub(r"::h[0-9a-f]{16}$", "", name)
    name = re.sub(r"<([\w:]+)(?:<[^<>]*>)? as [^<>]*(?:<[^<>]*>)?>", r"\1", name)
    while (cut := re.sub(r"<[^<>]*>", "", name)) != name:
        name = cut
    name = name.replace("::::", "::")
    return name if len(name) <= 76 else "..." + name[-73:]


def measure(arguments, model, raw_input):
    """Instructions of one inference, in all and by function."""
    few, more = (callgrind(arguments, model, raw_input, n) for n in (FEW, MORE))
    by = {name: (cost - few.get(name, 0)) / (MORE - FEW) for name, cost in more.items()}
    total = sum(by.values())
    kernels = {}
    for name, cost in by.items():
        kernels[short(name)] = kernels.get(short(name), 0) + cost
    top = sorted(kernels.items(), key=lambda kv: (-kv[1], kv[0]))[: arguments.top]
    return {"instructions": round(total), "functions": {name: round(cost) for name, cost in top if cost > 0}}


def show(label, now, before):
    """The functions of a network, those of the earlier build beside them."""
    old = (before or {}).get("functions", {})
    rows = []
    for name, cost in now["functions"].items():
        ratio = f"{cost / old[name]:.3f}" if old.get(name) else ""
        rows.append([name, f"{cost:,}", f"{100 * cost / max(now['instructions'], 1):.1f} %", ratio])
    print(f"\n{label}")
    print(worker.table(["function", "instructions", "share", "ratio"], rows))


def figures_of(path):
    """What an earlier build's `--json` holds."""
    try:
        return json.loads(Path(path).read_text())["networks"]
    except (ValueError, KeyError, TypeError):
        sys.exit(f"{path}: this is no file that --json has written")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ottava")
    worker.add_networks(parser)
    parser.add_argument("--top", type=int, default=12, help="functions to list per network")
    parser.add_argument("--against", metavar="FILE", help="the --json of an earlier build")
    parser.add_argument("--json", metavar="FILE", help="write the figures here")
    a = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed, and nothing else counts instructions here; install it (apt-get install valgrind)")
    if not shutil.which(a.ottava):
        sys.exit(f"{a.ottava}: there is no such program")
    before = figures_of(a.against) if a.against else {}
    figures = {}
    for label, model, raw_input in worker.networks(a):
        figures[label] = measure(a, model, raw_input)
        show(label, figures[label], before.get(label))
    rows = []
    for label, now in figures.items():
        old = before.get(label, {}).get("instructions")
        rows.append([label, f"{now['instructions']:,}", f"{old:,}" if old else "", f"{now['instructions'] / old:.4f}" if old else ""])
    print()
    print(worker.table(["network", "instructions", "before", "ratio"], rows))
    if a.json:
        Path(a.json).write_text(json.dumps({"networks": figures}, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    worker.run(main)
