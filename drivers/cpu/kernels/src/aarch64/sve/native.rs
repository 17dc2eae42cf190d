//! The inner loop in SVE, and the kernel compiled with it.
//!
//! Rust has no types for vectors whose length the program learns when it runs, so the whole loop over steps is assembly.

use core::arch::asm;

use super::gemm_u8::{Columns, run};
use crate::aarch64::neon::Native;
use crate::aarch64::reader::Reader;
use crate::gemm::{COLS, Panel, Run};
use crate::tile::{GemmRows, GemmTile};

/// Whether this CPU has SVE.
pub(crate) fn detect() -> bool {
    has!("neon") && has!("sve")
}

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "neon,sve")]
pub(crate) fn gemm_u8(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    run(Sve(Native::new()), a, rows, panel, tile);
}

/// Proof that the CPU has NEON and SVE: made only where both are enabled.
#[derive(Clone, Copy)]
struct Sve(Native);

/// The loop for the rows whose numbers, pointers and accumulators are listed.
///
/// `p0`: all lanes; `p1`, `p2`: the bytes and the words of the columns that there are; `z24`: sums of the row of zeros; `z25`:
/// activations; `z26`: weights; `z27`: 0x80 in every byte, which is also a flipped row of zeros.
macro_rules! dots {
    ($x:ident, $run:ident, $column:ident, $tile:ident, $zero:ident, $($r:literal $row:ident $z:literal),*) => {
        asm!(
            "ptrue p0.b",
            "whilelt p1.b, {byte}, {bytes}",
            "whilelt p2.s, {column}, {columns}",
            "mov z27.b, #-128",
            "mov z24.s, #0",
            $(concat!("mov ", $z, ".s, #0"),)*
            "cbz {n}, 3f",
            "2:",
            "ldr {at:w}, [{offsets}], #4",
            "ld1b {{z26.b}}, p1/z, [{blocks}]",
            "add {blocks}, {blocks}, #64",
            "sdot z24.s, z26.b, z27.b",
            $(
                concat!("add {address}, {", stringify!($row), "}, {at}"),
                "ld1rw {{z25.s}}, p0/z, [{address}]",
                "eor z25.d, z25.d, z27.d",
                concat!("sdot ", $z, ".s, z26.b, z25.b"),
            )*
            "subs {n}, {n}, #1",
            "b.ne 2b",
            "3:",
            $(
                concat!("add {address}, {tile}, #(64 * ", $r, ")"),
                concat!("st1w {{", $z, ".s}}, p2, [{address}]"),
            )*
            "st1w {{z24.s}}, p2, [{zero}]",
            byte = in(reg) $column * 4, bytes = in(reg) COLS * 4, column = in(reg) $column, columns = in(reg) COLS,
            n = inout(reg) $run.offsets.len() => _,
            offsets = inout(reg) $run.offsets.as_ptr() => _,
            blocks = inout(reg) $run.blocks.as_ptr().cast::<u8>().wrapping_add($column * 4) => _,
            tile = in(reg) $tile.as_mut_ptr().cast::<i32>().add($column),
            zero = in(reg) $zero.as_mut_ptr().add($column),
            at = out(reg) _, address = out(reg) _,
            $($row = in(reg) $x.0[$r],)*
            out("v16") _, out("v17") _, out("v18") _, out("v19") _, out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _, out("p0") _, out("p1") _, out("p2") _,
            options(nostack)
        )
    };
}

impl Columns for Sve {
    type Base = Native;

    #[inline(always)]
    fn base(self) -> Native {
        self.0
    }

    #[inline(always)]
    fn vector(self) -> usize {
        let bytes: usize;
        // SAFETY: the token proves the instruction, which writes one register.
        unsafe { asm!("rdvl {}, #1", out(reg) bytes, options(pure, nomem, nostack, preserves_flags)) };
        bytes
    }

    #[inline(always)]
    unsafe fn dots<const R: usize>(
        self,
        x: Reader<R>,
        run: Run<'_>,
        column: usize,
        tile: &mut [[i32; COLS]],
        zero: &mut [i32; COLS],
    ) {
        assert!(tile.len() >= R && column < COLS && run.blocks.len() == 2 * run.offsets.len());
        // SAFETY: the token proves the instructions. Weights: 64 bytes per step, of which the mask reads those from `column` on.
        // Activations: four bytes at each row plus each offset, as the caller promises. Results: at most 16 columns of each row.
        unsafe {
            match R {
                1 => dots!(x, run, column, tile, zero, 0 r0 "z16"),
                4 => dots!(x, run, column, tile, zero, 0 r0 "z16", 1 r1 "z17", 2 r2 "z18", 3 r3 "z19"),
                8 => dots!(
                    x, run, column, tile, zero, 0 r0 "z16", 1 r1 "z17", 2 r2 "z18", 3 r3 "z19", 4 r4 "z20", 5 r5 "z21",
                    6 r6 "z22", 7 r7 "z23"
                ),
                _ => unreachable!("the kernel multiplies 1, 4 or 8 rows"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The script that runs this under an emulator compares the printed length with the one it asked for.
    #[test]
    fn the_vector_is_a_multiple_of_128_bits() {
        if !detect() {
            eprintln!("skipped: this machine has no SVE");
            return;
        }
        // SAFETY: both were detected.
        let bits = unsafe { vector_bits() };
        println!("SVE vector: {bits} bits");
        assert!(bits.is_multiple_of(128) && (128..=2048).contains(&bits));
    }

    #[target_feature(enable = "neon,sve")]
    fn vector_bits() -> usize {
        Sve(Native::new()).vector() * 8
    }
}
