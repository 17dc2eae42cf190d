#!/usr/bin/env python3
"""ONNX Runtime behind the line protocol of `ottava bench --worker`; `network.py` starts it.

    python3 tests/bench/onnxruntime_worker.py MODEL NAME:f32:SHAPE:FILE [--threads 1] [--exact]

`--exact` asks for its products without saturation (`session.x64quantprecision`), which it has off by default.
"""
import argparse
import json
import sys
import time

import numpy
import onnxruntime

TYPES = {"f32": numpy.float32, "u8": numpy.uint8, "s8": numpy.int8, "s32": numpy.int32, "s64": numpy.int64}


def session(arguments):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = arguments.threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    if arguments.exact:
        options.add_session_config_entry("session.x64quantprecision", "1")
    return onnxruntime.InferenceSession(arguments.model, options, providers=["CPUExecutionProvider"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("raw_input")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exact", action="store_true")
    a = parser.parse_args()
    name, dtype, shape, file = a.raw_input.rsplit(":", 3)
    shape = [int(n) for n in shape.split("x") if n]
    feed = {name: numpy.fromfile(file, TYPES[dtype]).reshape(shape)}
    begin = time.perf_counter()
    runner = session(a)
    first = [runner.get_outputs()[0].name]
    run = lambda: runner.run(first, feed)[0]  # noqa: E731
    run()
    answer = {"ready": 1, "load_ms": (time.perf_counter() - begin) * 1e3}
    while True:
        print(json.dumps(answer), flush=True)
        words = sys.stdin.readline().split(maxsplit=1)
        if not words or words[0] == "quit":
            return
        if words[0] == "run":
            times = []
            for _ in range(int(words[1])):
                start = time.perf_counter_ns()
                run()
                times.append((time.perf_counter_ns() - start) / 1e3)
            answer = {"lat_us": times}
        elif words[0] == "out":
            values = numpy.ascontiguousarray(run(), dtype=numpy.float32)
            values.tofile(words[1].strip())
            answer = {"out": int(values.size)}
        else:
            answer = {"error": f"unknown command {words[0]}"}


if __name__ == "__main__":
    main()
