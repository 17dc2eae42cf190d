#!/usr/bin/env bash
# Quantized files that Ottava writes load in onnxruntime (all optimisation off) and agree within one step; and they load
# and run in OpenVINO, where the difference is printed.
#
# 99.9 % of the outputs are wanted. onnxruntime emulates the integers in f32; its sums round, and in deep networks the
# few values that fall on the other side of a rounding boundary spread until the last layer. Networks that reach less
# for that reason have the share that they are held to as an argument.
# Usage: onnxruntime.sh OTTAVA PYTHON [ASSETS]
set -euo pipefail
source "$(dirname "$0")/common.sh"
ottava=$1 python=$2 assets=${3:-}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
has_openvino=yes
if ! "$python" -c 'import openvino' >/dev/null 2>&1; then
    has_openvino=no
    [ -z "${OTTAVA_SKIP_LOG:-}" ] || note_skip "quantized files in OpenVINO" "the Python environment has no openvino"
fi

check() { # name, model, calibration, evaluation, affine, share, rows
    check_form qdq "$@"
    check_form qoperator "$@"
}

check_form() { # form, then as check
    local form=$1
    shift
    "$ottava" quantize "$2" --data "$3" --affine "$5" --format "$form" -o "$out/$1.onnx" >/dev/null
    "$ottava" eval "$out/$1.onnx" --data "$4" --affine "$5" --limit "${7:-500}" --outputs "$out/$1.npz" >/dev/null
    printf '%-18s %-10s' "$1" "$form"
    "$python" tests/tools/onnx_to_qdq_check.py "$out/$1.onnx" "$2" "$4" "$out/$1.npz" --affine "$5" \
        --min-share "${6:-0.999}" | grep "within one step"
    if [ $has_openvino = yes ] && [ $form = qdq ]; then
        printf '%-18s %-10s' "$1" openvino
        "$python" tests/lib/in_openvino.py "$out/$1.onnx" "$4" "$out/$1.npz" --affine "$5"
    fi
}

check_blocks() { # name, model, evaluation, affine, rows: 4-bit weights in blocks, float activations
    "$ottava" quantize "$2" --dynamic --weights s4 --block 32 -o "$out/$1.onnx" >/dev/null
    "$ottava" eval "$out/$1.onnx" --data "$3" --affine "$4" --limit "${5:-500}" --outputs "$out/$1.npz" >/dev/null
    printf '%-18s %-10s' "$1" "s4/32"
    "$python" tests/tools/onnx_to_qdq_check.py "$out/$1.onnx" "$2" "$3" "$out/$1.npz" --affine "$4" | grep "within one step"
}

bundled=sdk/cli/assets
check_blocks digits $bundled/digits.onnx $bundled/digits_test.npz 1,0
check digits $bundled/digits.onnx $bundled/digits_calib.npz $bundled/digits_test.npz 1,0
if [ ! -d "$assets/models" ]; then
    exit 0
fi
# Smooth random images: what matters here is that others read the file, not what the network finds.
"$python" - "$out" <<'PYTHON'
import sys
import numpy as np
random = np.random.default_rng(8)
coarse = random.integers(0, 256, (6, 3, 12, 12)).astype(np.float32)
x = np.kron(coarse, np.ones((30, 30), np.float32))[:, :, :352, :352]
x = (x + np.roll(x, 9, 2) + np.roll(x, 9, 3)) / 3
np.savez(f"{sys.argv[1]}/images_calib.npz", x=x[:4].astype(np.uint8))
np.savez(f"{sys.argv[1]}/images_eval.npz", x=x[4:].astype(np.uint8))
PYTHON
m=$assets/models
check resnet8 $m/resnet8_cifar10_f32.onnx $m/data/cifar10_calib_128_jpeg.npz $m/data/cifar10_ic01_200.npz 1,0 0.99
check kws $m/kws_dscnn_f32_bn.onnx $m/data/kws01_calib_100.npz $m/data/kws01_eval_500.npz 0.58470291,-48.53034153
check vww96 $m/vww96_f32.onnx $m/data/vww01_calib_100.npz $m/data/vww01_eval_300.npz 0.00392156863,0 0.985
check mobilenet_v1_025 $m/mobilenet_v1_025_128_f32deq.onnx $m/data/imagenet_128_calib_60.npz $m/data/imagenet_128_eval_100.npz 0.0078125,-1 0.998
check ad01 $m/ad01_f32.onnx $m/data/ad01_calib_10.npz $m/data/ad01_eval_50.npz 1,0
check_blocks minilm $m/minilm_l3_f16w.onnx $m/data/minilm_l3_eval_150.npz 1,0 40
check_form qdq minilm $m/minilm_l3_f16w.onnx $m/data/minilm_l3_calib_50.npz $m/data/minilm_l3_eval_150.npz 1,0 0.95 40
check_form qdq fastestdet $m/fastestdet_352.onnx "$out/images_calib.npz" "$out/images_eval.npz" 0.00392156863,0 0.96 2
