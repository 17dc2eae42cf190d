#!/usr/bin/env bash
# What takes longer than run.sh allows: every test in release mode with overflow checks and debug assertions, in a target
# folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/lib/common.sh
export OTTAVA_TEST_ASSETS=${OTTAVA_TEST_ASSETS:-$(cd .. && pwd)/shared}
export OTTAVA_SKIP_LOG=$(mktemp)
trap 'rm -rf "$OTTAVA_SKIP_LOG" "${POCL_CACHE_DIR:-}"' EXIT

# One set of flags for everything in target/full, which is built once.
export CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true

step "Software devices for Vulkan and OpenCL"
software_gpus

step "All tests, optimized, with overflow checks, every combination of threads, batch and instruction set"
OTTAVA_EXHAUSTIVE=1 cargo test --release --workspace --no-fail-fast --target-dir target/full

step "200,000 random shapes of products on every instruction set of this machine, against the reference"
OTTAVA_SHAPES=200000 cargo test --release --target-dir target/full -p ottava-driver-cpu --lib shapes -- --nocapture

step "Every defect of the faulty driver and every wrong library against the conformance suite; plugins through their tables"
OTTAVA_DEFECTS='*' cargo test --release --target-dir target/full -p ottava-faulty -- --nocapture

step "Operator cases, random programs and networks on 72 simulated chips, bytes and counters (S12)"
OTTAVA_S12=full cargo test --release --target-dir target/full -p ottava-driver-npu --test npu exact -- --nocapture
OTTAVA_S12=full cargo test --release --target-dir target/full -p ottava-e2e --test npu -- --nocapture

step "The quantized set on every variant of the GPU drivers"
OTTAVA_GPU=full cargo test --release --target-dir target/full -p ottava-e2e --test gpu_networks -- --nocapture
OTTAVA_GPU=full cargo test --release --target-dir target/full -p ottava-e2e --test gpu_operators --test gpu_vectors -- --nocapture

step "GPU drivers: every case with every size of a work-group, opened 1000 times, 10,000 submissions"
OTTAVA_GPU=full cargo test --release --target-dir target/full -p ottava-driver-opencl -p ottava-driver-vulkan -- --nocapture

step "CPU kernels on emulated AArch64 CPUs"
bash tests/lib/aarch64.sh target/full

step "Kernels without a system, on CPUs with and without AVX512-VNNI, in an emulator"
bash tests/lib/bochs.sh target/bochs

step "Driver projects of a vendor, in Rust and C: written, built outside the repository, loaded, run"
export OTTAVA_PYTHON=$(python_with_onnxruntime)
cargo build --release --quiet --target-dir target/full
bash tests/lib/new_driver.sh target/full/release/ottava target/new-driver

step "The importers on any bytes"
if command -v g++ >/dev/null || command -v clang++ >/dev/null; then
    bash tests/fuzz/run.sh "${OTTAVA_FUZZ_SECONDS:-1200}"
else
    note_skip "fuzzing of the importers" "no C++ compiler, which libFuzzer needs"
fi

print_skips
