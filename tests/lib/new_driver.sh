#!/usr/bin/env bash
# Writes a driver project in each language with the command, builds it outside the repository, loads it, and follows the
# README that it wrote: the driver's operator must give the bytes of the reference. Arguments: the command, a target folder
# for the Rust project (without one only the project in C is built). $OTTAVA_PYTHON: a Python with numpy and onnx; without one the operator is not run, which is counted.
set -euo pipefail
ottava=$(realpath "$1")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

skip() { echo "new-driver: $1" >>"${OTTAVA_SKIP_LOG:-/dev/null}"; }

# Fails unless the driver is loaded and, where there is a Python, its operator is right.
works() { # folder of the library, README
    export OTTAVA_DRIVER_PATH=$1
    "$ottava" devices --json >"$out/devices.json"
    grep -q '"driver": "acme"' "$out/devices.json" || { "$ottava" devices --why; exit 1; }
    [ -n "${OTTAVA_PYTHON:-}" ] || return 0
    sed -n '/^```python/,/^```$/p' "$2" | grep -v '^```' >"$out/make.py"
    (
        cd "$out"
        "$OTTAVA_PYTHON" make.py
        "$ottava" explain add.onnx --device acme --json | grep -A1 '"device": "acme"' >/dev/null
        for device in acme reference; do
            "$ottava" run add.onnx --input a=a.npy --input b=b.npy --device $device -o out-$device >/dev/null
        done
        cmp out-acme/y.npy out-reference/y.npy
    )
}

if [ -n "${2:-}" ]; then
    target=$(realpath -m "$2")
    "$ottava" new-driver acme --lang rust "$out/rust"
    cp Cargo.lock "$out/rust/Cargo.lock" # the same versions as here; cargo drops what the project does not need
    (cd "$out/rust" && cargo build --quiet --target-dir "$target")
    cp "$out/rust/acme.ottava.ron" "$target/debug/"
    works "$target/debug" "$out/rust/README.md"
fi

if command -v cc >/dev/null; then
    "$ottava" new-driver acme --lang c "$out/c"
    (cd "$out/c" && eval "$(grep -m1 '^cc ' README.md)")
    works "$out/c" "$out/c/README.md"
else
    skip "the project in C: no C compiler"
fi
[ -n "${OTTAVA_PYTHON:-}" ] || skip "running the operators: no Python with onnx"
echo "new-driver: projects build, load and are right"
