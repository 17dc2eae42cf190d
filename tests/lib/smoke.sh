#!/usr/bin/env bash
# Calls every verb once on the bundled network, the way the README shows it, and checks exit codes.
set -euo pipefail
ottava=$1
assets=sdk/cli/assets
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

"$ottava" devices
"$ottava" inspect $assets/digits.onnx
"$ottava" calibrate $assets/digits.onnx --data $assets/digits_calib.npz -o "$out/digits.calib"
"$ottava" quantize $assets/digits.onnx --calibration "$out/digits.calib" -o "$out/digits_int8.onnx"
"$ottava" eval "$out/digits_int8.onnx" --data $assets/digits_test.npz
"$ottava" bench "$out/digits_int8.onnx" --runs 20
"$ottava" validate "$out/digits_int8.onnx" --float $assets/digits.onnx --data $assets/digits_test.npz --device cpu
"$ottava" compile "$out/digits_int8.onnx" -o "$out/digits.plan"
"$ottava" eval "$out/digits.plan" --data $assets/digits_test.npz
"$ottava" explain "$out/digits.plan"
"$ottava" simulate "$out/digits_int8.onnx" --npu edge16 -o "$out/cycles.csv"
"$ottava" demo -o "$out/demo"
for file in report.html trace.json digits_int8.onnx chip.ron; do
    [ -s "$out/demo/$file" ] || { echo "demo did not write $file"; exit 1; }
done

expect() { # wanted exit code, then the command
    local want=$1 got=0
    shift
    "$@" >/dev/null 2>"$out/err" || got=$?
    if [ "$got" != "$want" ]; then
        printf 'expected exit code %s, got %s: %s\n' "$want" "$got" "$*"
        cat "$out/err"
        exit 1
    fi
}
expect 0 "$ottava" --help
expect 2 "$ottava" nonsense
expect 3 "$ottava" inspect "$out/missing.onnx"
expect 1 "$ottava" eval "$out/digits_int8.onnx" --data $assets/digits_test.npz --min 1.01
echo "smoke: every verb ran"
