#!/usr/bin/env bash
# The tests of the Vulkan and OpenCL drivers on the devices of this machine: real hardware where it is, nothing pinned and
# nothing installed. Needs the Rust toolchain and a working driver; without one everything is skipped, and said so.
#
# Prints the devices, the variants taken, bit equality with the reference on the real networks in $OTTAVA_TEST_ASSETS
# (default: ../shared beside the checkout), and multiply-adds per second.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/lib/common.sh
export OTTAVA_TEST_ASSETS=${OTTAVA_TEST_ASSETS:-$(cd .. && pwd)/shared}
export OTTAVA_SKIP_LOG=$(mktemp)
trap 'rm -f "$OTTAVA_SKIP_LOG"' EXIT

step "Devices"
cargo run --release --quiet -- devices --why

step "The drivers: memory, queues, fences, lost devices, caches, operator cases"
OTTAVA_GPU=full cargo test --release -p ottava-driver-vulkan -p ottava-driver-opencl -p ottava-gpu --no-fail-fast

step "Operators, products and networks, bit for bit"
OTTAVA_GPU=full cargo test --release -p ottava-e2e --test gpu_operators --test gpu_products --test gpu_networks \
    --no-fail-fast -- --nocapture

step "Speed of products"
cargo run --release -p ottava-e2e --example gpu_speed

print_skips
