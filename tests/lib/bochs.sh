#!/usr/bin/env bash
# Runs the kernels of instruction sets that this machine may lack in an emulator: a bare image (tests/bochs) checks every kernel against
# naive sums on three CPU models. Fails where a model does not offer exactly the instruction sets expected of it.
#
# Usage: bochs.sh TARGET_FOLDER
# Needs: Bochs 2.7 with its text display, BIOS and VGA BIOS (Debian: bochs bochs-term bochsbios vgabios), gcc, objcopy.
set -euo pipefail
cd "$(dirname "$0")/../bochs"
target=$(realpath -m "$OLDPWD/$1")
work=$target/image
mkdir -p "$work"

missing() {
    printf 'skipped: %s\n' "$1"
    [ -z "${OTTAVA_SKIP_LOG:-}" ] || printf 'kernels in Bochs: %s\n' "$1" >>"$OTTAVA_SKIP_LOG"
    exit 0
}
for tool in bochs-bin gcc ld objcopy; do
    command -v "$tool" >/dev/null || missing "$tool is not installed"
done
[ -f /usr/share/bochs/BIOS-bochs-latest ] && [ -f /usr/share/vgabios/vgabios.bin ] || missing "no BIOS for Bochs"
[ "$(uname -m)" = x86_64 ] || missing "the image is built for x86-64 on x86-64 alone"

# The image: the crate linked as one piece, behind a boot sector that knows its length.
RUSTFLAGS="-C relocation-model=static -C link-arg=-nostdlib -C link-arg=-nostartfiles -C link-arg=-static -C link-arg=-no-pie
    -C link-arg=-Wl,--build-id=none -C link-arg=-Wl,-T,$PWD/image.ld" \
    cargo build --release --quiet --target x86_64-unknown-linux-gnu --target-dir "$target"
objcopy -O binary "$target/x86_64-unknown-linux-gnu/release/bochs-image" "$work/image.bin"
sectors=$((($(stat -c %s "$work/image.bin") + 511) / 512))
gcc -c -Wa,--defsym,SECTORS="$sectors" boot.S -o "$work/boot.o"
ld -Ttext 0x7c00 --entry boot --oformat binary "$work/boot.o" -o "$work/boot.bin"
cat "$work/boot.bin" "$work/image.bin" >"$work/disk.img"
truncate -s $((20 * 16 * 63 * 512)) "$work/disk.img"
printf 'c\nq\n' >"$work/debugger"

# check MODEL ISA...: boots the image on a CPU model, which must have exactly these instruction sets.
check() {
    local model=$1 out
    shift
    sed "s/MODEL/$model/" bochsrc >"$work/bochsrc"
    rm -f "$work/serial.txt" "$work/disk.img.lock"
    (cd "$work" && TERM=xterm timeout -s KILL 500 bochs-bin -q -f bochsrc -rc debugger >bochs.out 2>&1) || true
    out=$(tr -d '\r' <"$work/serial.txt" 2>/dev/null || true)
    printf '%s:\n%s\n' "$model" "$(sed 's/^/  /' <<<"$out")"
    [ "$(sed -n 's/^available: //p' <<<"$out" | xargs)" = "$*" ] || fail "$model should have: $*"
    for isa in "$@"; do
        grep -qE "^[1-9][0-9]* checks passed on $isa\$" <<<"$out" || fail "$model did not finish $isa"
    done
    grep -qx done <<<"$out" || fail "$model did not finish"
}
fail() {
    printf 'FAILED: %s (log: %s)\n' "$1" "$work/bochs.log"
    exit 1
}

check corei7_icelake_u portable avx2 avx512vnni256 avx512vnni
# AVX-512 without VNNI must not be taken for it.
check corei7_skylake_x portable avx2
check corei7_haswell_4770 portable avx2
