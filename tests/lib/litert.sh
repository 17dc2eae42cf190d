#!/usr/bin/env bash
# TFLite networks give the integers of LiteRT's reference kernels, bit for bit, on the reference and on the CPU; float and
# dynamic-range ones agree within a tolerance, recurrent and streaming ones step by step; single operators over all values.
#
# One difference fails. The reference takes fewer samples where a network is slow on it. A minute of processor time.
# Usage: litert.sh OTTAVA PYTHON ASSETS
set -euo pipefail
ottava=$1 python=$2 assets=$3
export TF_CPP_MIN_LOG_LEVEL=3
here=$(dirname "$0")
check=$here/../tools/litert_check.py
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
m=$assets/models data=$assets/models/data
failed=0

compare() { # name, model, data, device, limit, further arguments of --prepare
    local name=$1 model=$m/$2.tflite rows=$data/$3.npz device=$4 limit=$5 tolerance=${TOLERANCE:-0}
    shift 5
    "$python" "$check" --prepare "$model" "$rows" "$out/in.npz" --limit "$limit" "$@" 2>/dev/null
    "$ottava" eval "$model" --data "$out/in.npz" --device "$device" --outputs "$out/out.npz" >/dev/null 2>&1
    printf '%-10s %-10s ' "$name" "$device"
    "$python" "$check" "$model" "$out/in.npz" "$out/out.npz" --tolerance "$tolerance" 2>/dev/null || failed=1
}

for device in cpu reference; do
    compare resnet8 resnet8_cifar10_int8 cifar10_ic01_200 $device 200 --affine 1,-128
    compare kws kws_dscnn_int8 kws01_600 $device 600
    compare vww96 vww96_int8 vww01_eval_300 $device $([ $device = cpu ] && echo 300 || echo 60) --affine 1,-128
    compare mobilenet mobilenet_v1_025_128_uint8 imagenet_128_eval_100 $device $([ $device = cpu ] && echo 100 || echo 20)
done
# The windows of 50 clips; (x / 0.3910152) + 89.
compare ad01 ad01_int8 ad01_eval_50 cpu 9800 --real 2.5574453,89
compare ad01 ad01_int8 ad01_eval_50 reference 500 --real 2.5574453,89
TOLERANCE=1e-4 compare resnet8_f32 resnet8_cifar10_f32 cifar10_ic01_200 cpu 200
TOLERANCE=1e-3 compare dynrange kws_dscnn_dynrange kws01_600 cpu 100 --affine 0.58470291,-48.53034153
"$python" "$here/litert_state.py" "$ottava" "$assets" 2>/dev/null || failed=1
"$python" "$here/litert_ops.py" "$ottava" 2>/dev/null || failed=1
exit $failed
