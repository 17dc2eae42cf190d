#!/usr/bin/env bash
# Writes a driver project in each language with the released binary, builds it outside the repository, loads it, and runs
# its operator. Arguments: the binary, a target folder for the Rust project.
set -euo pipefail
ottava=$(realpath "$1")
target=$(realpath -m "$2")
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# Fails unless the driver is loaded and its device listed.
loaded() { # folder of the library
    OTTAVA_DRIVER_PATH=$1 "$ottava" devices --json >"$out/devices.json"
    grep -q '"driver": "acme"' "$out/devices.json" || { OTTAVA_DRIVER_PATH=$1 "$ottava" devices --why; exit 1; }
}

"$ottava" new-driver acme --lang rust "$out/rust"
cp Cargo.lock "$out/rust/Cargo.lock" # the same versions as here; cargo drops what the project does not need
(cd "$out/rust" && cargo build --quiet --target-dir "$target")
cp "$out/rust/acme.ottava.ron" "$target/debug/"
loaded "$target/debug"

if command -v cc >/dev/null; then
    "$ottava" new-driver acme --lang c "$out/c"
    (cd "$out/c" && eval "$(grep -m1 '^cc ' README.md)")
    loaded "$out/c"
else
    echo "new-driver in C: no C compiler" >>"${OTTAVA_SKIP_LOG:-/dev/null}"
fi
echo "new-driver: both projects build and load"
