#!/usr/bin/env bash
# Builds the tests of the CPU kernels for AArch64 and runs them on emulated CPUs, each of which must show the instruction sets that
# it is there for. Emulation proves results, not speed.
#
# usage: aarch64.sh [folder for build outputs]
# Needs: the Rust target, an AArch64 linker, qemu-aarch64; installs what is missing where it may, and is skipped otherwise.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tests/lib/common.sh

target=aarch64-unknown-linux-gnu
build=${1:-target}
export OTTAVA_SKIP_LOG=${OTTAVA_SKIP_LOG:-$(mktemp)}
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export OTTAVA_TEST_ASSETS=${OTTAVA_TEST_ASSETS:-$(cd .. && pwd)/shared}

# CPU model; length of an SVE vector in bits or 0; the instruction sets that must be detected, in order; "all" or "kernels" tests.
cpus=(
    "cortex-a72|0|portable neon|kernels"
    "neoverse-n1|0|portable neon dotprod|kernels"
    "a64fx|512|portable neon sve|all"
    "max,sve=off|0|portable neon dotprod i8mm|all"
    "max,sve128=on,sve256=off,sve512=off|128|portable neon dotprod sve i8mm|kernels"
    "max,sve256=on,sve512=off|256|portable neon dotprod sve i8mm|kernels"
    "max,sve-default-vector-length=256|2048|portable neon dotprod sve i8mm|kernels"
)

skip() {
    note_skip "kernels on emulated AArch64 CPUs" "$1"
    printf 'skipped: %s\n' "$1"
    exit 0
}

install_tools() {
    rustup target list --installed 2>/dev/null | grep -qx $target || rustup target add $target >/dev/null 2>&1 ||
        skip "the toolchain has no target $target and it cannot be added"
    if ! command -v qemu-aarch64 >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
        apt-get install -y --no-install-recommends qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null 2>&1 ||
            skip "no qemu-aarch64 or no aarch64-linux-gnu-gcc, and they cannot be installed"
    fi
}

# Writes the paths of the test programs to the file named.
build_tests() {
    cargo test --release --no-run -p ottava-kernels --lib --tests --target $target --target-dir "$build" \
        --message-format=json | grep -o '"executable":"[^"]*"' | cut -d'"' -f4 >"$1"
}

# Runs a test program and prints how many tests passed.
run_program() {
    local cpu=$1 program=$2
    shift 2
    qemu-aarch64 -L /usr/aarch64-linux-gnu -cpu "$cpu" "$program" "$@" >"$log" 2>&1 || {
        printf '%s fails on %s:\n' "$program" "$cpu" >&2
        tail -40 "$log" >&2
        return 1
    }
    sed -n 's/^test result: ok\. \([0-9]*\) passed.*/\1/p' "$log"
}

# One line of the table: all programs on one CPU.
run_cpu() {
    local cpu bits isas which n=0 log
    IFS='|' read -r cpu bits isas which <<<"$1"
    log=$(mktemp)
    export OTTAVA_EXPECT_ISAS=$isas
    for program in "${programs[@]}"; do
        case "$which/$(basename "$program")" in
        */ottava_kernels-*) args=(--nocapture --skip every_modelled_kernel) ;;
        all/* | */isa-* | */conv_u8-*) args=() ;;
        *) continue ;;
        esac
        n=$((n + $(run_program "$cpu" "$program" "${args[@]}")))
        if [[ $bits != 0 && $program == */ottava_kernels-* ]] && ! grep -q "SVE vector: $bits bits" "$log"; then
            printf '%s: no SVE vector of %s bits\n' "$cpu" "$bits" >&2
            return 1
        fi
    done
    printf '%s (%s%s): %s tests passed\n' "$cpu" "$isas" "$([[ $bits == 0 ]] || printf ', %s bits' "$bits")" "$n"
    rm -f "$log"
}

install_tools
list=$(mktemp)
build_tests "$list"
mapfile -t programs <"$list"
rm -f "$list"
[ "${#programs[@]}" -gt 2 ] || { echo "no test programs were built" >&2; exit 1; }

# Two CPUs at a time; every one is waited for by itself, so that each failure counts.
failed=0
for ((i = 0; i < ${#cpus[@]}; i += 2)); do
    jobs=()
    for line in "${cpus[@]:i:2}"; do
        run_cpu "$line" &
        jobs+=($!)
    done
    for job in "${jobs[@]}"; do wait "$job" || failed=1; done
done
exit $failed
