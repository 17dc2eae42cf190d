#!/usr/bin/env bash
# Runs every test that fits into twenty minutes on two cores, and says which were skipped and why.
#
# Needs: the Rust toolchain of rust-toolchain.toml. Python with onnxruntime is installed into a folder of its own for the
# comparison with another runtime; real networks are looked for in $OTTAVA_TEST_ASSETS (default: ../shared beside the
# checkout). Where either is missing, the tests that need it are skipped and counted. What takes longer is in full.sh.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/lib/common.sh

export OTTAVA_TEST_ASSETS=${OTTAVA_TEST_ASSETS:-$(cd .. && pwd)/shared}
export OTTAVA_SKIP_LOG=$(mktemp)
trap 'rm -rf "$OTTAVA_SKIP_LOG" "${POCL_CACHE_DIR:-}"' EXIT

step "Format and lints"
have_component rustfmt && cargo fmt --all -- --check
if have_component clippy; then
    cargo clippy --workspace --all-targets --quiet -- -D warnings
fi

step "The kernels without the standard library"
cargo check --quiet -p ottava-kernels --no-default-features

step "Python with onnxruntime, for the comparison with another runtime"
export OTTAVA_PYTHON=$(python_with_onnxruntime)
[ -n "$OTTAVA_PYTHON" ] || note_skip "comparison with onnxruntime" "no Python environment could be made"

step "Software devices for Vulkan and OpenCL"
software_gpus

step "Unit, integration and documentation tests, real networks and random networks"
cargo test --workspace --no-fail-fast

# Its own tests have built the command.
step "The command, as a user calls it"
bash tests/lib/smoke.sh target/debug/ottava

step "A driver project in C: written, built outside the repository, loaded, run (in Rust too: full.sh)"
bash tests/lib/new_driver.sh target/debug/ottava

step "OpenCL kernels in Oclgrind: races, bytes that nobody has written, wrong calls"
bash tests/lib/oclgrind.sh

if [ -n "$OTTAVA_PYTHON" ]; then
    step "Quantized files in onnxruntime, all optimisation off"
    bash tests/lib/onnxruntime.sh target/debug/ottava "$OTTAVA_PYTHON" "$OTTAVA_TEST_ASSETS"
    "$OTTAVA_PYTHON" tests/lib/contrib.py target/debug/ottava
fi

step "TFLite networks in LiteRT's reference kernels"
litert=$(python_with_litert)
if [ -z "$litert" ]; then
    note_skip "comparison with LiteRT" "no Python environment with ai-edge-litert could be made"
elif [ ! -d "$OTTAVA_TEST_ASSETS/models" ]; then
    note_skip "comparison with LiteRT" "no test assets"
else
    bash tests/lib/litert.sh target/debug/ottava "$litert" "$OTTAVA_TEST_ASSETS"
fi

print_skips
