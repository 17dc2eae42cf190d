#!/usr/bin/env bash
# Fuzzes the importers and the compiler behind them with libFuzzer, on the stable toolchain.
#
# The flags are those that a coverage-guided build needs; an address sanitizer (it needs another toolchain) would look
# for what safe Rust cannot do. Bounds: one input may take 10 s and 256 MiB in one allocation, the process 1 GiB. Inputs
# are at most 64 KiB: a hang or an allocation out of proportion to that is a finding. Findings are left in
# target/fuzz/findings, new inputs of interest in target/fuzz/corpus. The search starts from tests/fuzz/corpus, the
# models of the ONNX node vectors, and the files of other frameworks' exporters.
# Usage: run.sh SECONDS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=$1
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(onnx tflite)
host=$(rustc -vV | sed -n 's/^host: //p')
folder=${CARGO_TARGET_DIR:-target}/fuzz
export RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
-Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
-Cllvm-args=-sanitizer-coverage-trace-compares"

# With a target triple the flags are not applied to build scripts.
cargo build --release --quiet --manifest-path tests/fuzz/Cargo.toml --target "$host" --target-dir "$folder"
seeds=$folder/seeds
mkdir -p "$seeds/onnx" "$seeds/tflite" "$folder/vectors"
for archive in node qdq24; do
    tar -xzf "tests/e2e/onnx_node/$archive.tar.gz" -C "$folder/vectors" --wildcards '*/model.onnx'
done
find "$folder/vectors" -name model.onnx | while read -r model; do
    cp "$model" "$seeds/onnx/$(basename "$(dirname "$model")").onnx"
done
cp tests/data/routes/files/*.onnx "$seeds/onnx/"
cp tests/data/routes/files/*.tflite "$seeds/tflite/"

fuzz() {
    local target=$1
    mkdir -p "$folder/corpus/$target" "$folder/findings/$target" "tests/fuzz/corpus/$target"
    "$folder/$host/release/$target" "$folder/corpus/$target" "tests/fuzz/corpus/$target" "$seeds/$target" \
        -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=256 \
        -artifact_prefix="$folder/findings/$target/" -print_final_stats=1 -verbosity=1 >"$folder/$target.log" 2>&1
}

# Side by side: each uses one core.
declare -A jobs
for target in "${targets[@]}"; do
    fuzz "$target" &
    jobs[$target]=$!
done
failed=0
for target in "${targets[@]}"; do
    printf '%s: %s s\n' "$target" "$seconds"
    if wait "${jobs[$target]}"; then
        grep -E 'DONE|stat::number_of_executed_units|stat::peak_rss_mb' "$folder/$target.log"
    else
        tail -60 "$folder/$target.log"
        failed=1
    fi
done
exit "$failed"
