"""What the scripts here share: workers that speak the line protocol of `ottava bench --worker`, networks, tables.

A worker is timed by two clocks: its own wall time per call, and the time that its process was on a processor. The smaller
one counts at one thread, because other load on the machine hardly moves it. With more threads processor time adds up over
them, so wall time counts.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def start(command):
    """A process that reads and writes lines; a command that is not there ends the run with one line."""
    try:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    except OSError as e:
        sys.exit(f"{command[0]}: {e.strerror}")


def run(main):
    """Runs a script; a path that cannot be read or written is one line and no traceback."""
    try:
        main()
    except BrokenPipeError:
        sys.exit("a worker ended early")
    except OSError as e:
        sys.exit(f"{e.filename}: {e.strerror}" if e.filename else str(e))


class Worker:
    """A process that is ready to run one network."""

    def __init__(self, label, command):
        self.label = label
        self.process = start(command)
        self.ready = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.label}: {self.process.args[0]} ended with exit code {self.process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            sys.exit(f"{self.label}: {answer['error']}")
        return answer

    def ask(self, request):
        self.process.stdin.write(request + "\n")
        return self.read()

    def output(self):
        """The first output as bytes of f32."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.bin"
            self.ask(f"out {path}")
            return path.read_bytes()

    def on_cpu_us(self):
        """Time of the whole process on processors; the kernel's finest clock, where it has one."""
        try:
            tasks = Path(f"/proc/{self.process.pid}/task").iterdir()
            return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3
        except (OSError, ValueError, IndexError):
            return None

    def run(self, calls, threads):
        """Microseconds per call of one round."""
        before = self.on_cpu_us()
        wall = statistics.median(self.ask(f"run {calls}")["lat_us"])
        after = self.on_cpu_us()
        if threads != 1 or before is None or after is None or after <= before:
            return wall
        return min(wall, (after - before) / calls)

    def calls_for(self, ms):
        """Calls that take about so long."""
        least = min(self.ask("run 3")["lat_us"])
        return max(1, int(ms * 1000 / max(least, 1)))

    def end(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.close()
        self.process.wait()


def ottava(binary, model, raw_input, threads, *options):
    """The command of a worker of ours."""
    inputs = ["--raw-input", raw_input] if raw_input else []
    return [binary, "bench", model, "--worker", "--threads", str(threads), *inputs, *options]


def add_networks(parser):
    """The two ways to name networks."""
    parser.add_argument("model", nargs="*", help="model files; each takes the input of --raw-input, or random data")
    parser.add_argument("--raw-input", default="", help="NAME:DTYPE:SHAPE:FILE for all of them")
    parser.add_argument("--models", help="a folder with NAME.VARIANT.onnx, NAME.f32.bin and NAME.json (its `shape`)")
    parser.add_argument("--only", default="resnet50,mnv2,resnet8,dscnn,bert4", help="names in that folder")
    parser.add_argument("--variant", default="u8", help="variants in that folder, with commas")


def networks(arguments):
    """Label, model file and raw input of each network that was named."""
    found = [(Path(model).stem, model, arguments.raw_input) for model in arguments.model]
    if not arguments.models:
        return found or sys.exit("name a model, or a folder with --models")
    folder = Path(arguments.models)
    if not folder.is_dir():
        sys.exit(f"{folder}: there is no such folder")
    for name in arguments.only.split(","):
        for variant in arguments.variant.split(","):
            model = folder / f"{name}.{variant}.onnx"
            if not model.is_file():
                print(f"{name}.{variant}: skipped, there is no {model}", file=sys.stderr)
                continue
            found.append((f"{name}.{variant}", str(model), described(folder, name)))
    return found or sys.exit("none of the named networks is there")


def described(folder, name):
    """The raw input that the description of a network names; nothing if there is none."""
    try:
        about = json.loads((folder / f"{name}.json").read_text())["input"]
        shape = "x".join(str(n) for n in about["shape"])
        return f"{about['name']}:f32:{shape}:{folder / f'{name}.f32.bin'}"
    except (OSError, KeyError, ValueError):
        return ""


def spread(values):
    """The middle half of the values as a part of their median, in percent."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return 100 * (high - low) / middle if middle else 0.0


def geometric(values):
    return statistics.geometric_mean(values) if values else float("nan")


def table(head, rows):
    """Aligned columns; numbers to the right."""
    cells = [[str(cell) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        parts = [cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths))]
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)
