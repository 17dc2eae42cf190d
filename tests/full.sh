#!/usr/bin/env bash
# What takes longer than run.sh allows: the same tests in release mode with overflow checks, many more mutations and random
# networks, and the memory checks of valgrind where it is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
source tests/lib/common.sh
export OTTAVA_TEST_ASSETS=${OTTAVA_TEST_ASSETS:-$(cd .. && pwd)/shared}
export OTTAVA_SKIP_LOG=$(mktemp)
trap 'rm -f "$OTTAVA_SKIP_LOG"' EXIT

step "All tests, optimized, with overflow checks"
CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS=true \
    cargo test --release --workspace --no-fail-fast --target-dir target/full

step "Kernels under valgrind: reads and writes outside of buffers"
if command -v valgrind >/dev/null; then
    runner=$(cargo test --no-run -p ottava-kernels --test '*' --message-format short 2>&1 | sed -n 's/.*(\(target[^)]*\)).*/\1/p')
    for test in $runner; do
        valgrind --quiet --error-exitcode=9 "$test" --test-threads=1
    done
else
    note_skip "kernels under valgrind" "valgrind is not installed"
fi

print_skips
