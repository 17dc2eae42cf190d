#!/bin/sh
# Every benchmark of this folder that needs no second build, one after the other.
#
#     tests/bench/all.sh FOLDER [OUT]
#
# FOLDER holds networks (NAME.u8.onnx, NAME.fp32.onnx, NAME.f32.bin, NAME.json). Figures also go to OUT as JSON.
# OLD=path/to/ottava compares with another build; PYTHON=python with onnxruntime adds it; ONLY=names picks networks.
# Nothing here passes or fails by a time.
set -eu
[ $# -ge 1 ] || { echo "usage: $0 FOLDER [OUT]" >&2; exit 2; }
models=$1
[ -d "$models" ] || { echo "$models: there is no such folder" >&2; exit 2; }
out=${2:-target/bench}
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${PYTHON:-python3}
only=${ONLY:-resnet50,mnv2,resnet8,dscnn,bert4}
here=$root/tests/bench
mkdir -p "$out"
cd "$root"

cargo build --release -p ottava-cli
ottava=${CARGO_TARGET_DIR:-target}/release/ottava

echo "== kernels: share of what this core can do"
for example in drivers/cpu/kernels/examples/*.rs; do
    name=$(basename "$example" .rs)
    echo "-- $name"
    cargo run --release -q -p ottava-kernels --example "$name"
done

echo "== networks beside ONNX Runtime"
python3 "$here/network.py" "$ottava" --models "$models" --only "$only" --variant u8,fp32 --python "$python" \
    --json "$out/network.json"

if [ -n "${OLD:-}" ]; then
    echo "== this build beside $OLD"
    python3 "$here/compare.py" "$OLD" "$ottava" --models "$models" --only "$only" --json "$out/compare.json"
fi

echo "== instructions"
if command -v valgrind >/dev/null; then
    before=$out/instructions.json
    against=
    if [ -f "$before" ]; then
        cp "$before" "$out/instructions.before.json"
        against="--against $out/instructions.before.json"
    fi
    # shellcheck disable=SC2086 # two words or none
    python3 "$here/instructions.py" "$ottava" --models "$models" --only "$only" $against --json "$before"
else
    echo "skipped: valgrind is not installed"
fi
