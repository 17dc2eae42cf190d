//! `gemm_u8_s8_s32_8x16x4_sve`: eight rows by as many columns as a vector has 32-bit lanes, at most sixteen, of `sdot`.
//!
//! A step's weights are 64 bytes: one register of 512 bits, two of 256, four of 128; longer vectors are masked. So a panel is walked
//! once per register of columns. As in the kernel for FEAT_DotProd, activations are flipped to s8 and a row of zeros is subtracted.
//! Steps with 16-bit weights, and panels of 4-bit ones, run as NEON, which every CPU with SVE has.

use crate::aarch64::neon::{self, tile_store, wide};
use crate::aarch64::reader::{Reader, only};
use crate::aarch64::simd::Neon;
use crate::gemm::{COLS, Form, Panel, Run};
use crate::generic;
use crate::tile::{GEMM_ROWS, GemmRows, GemmTile};

/// Most rows that are multiplied together.
const ROWS: usize = GEMM_ROWS;

/// The inner loop.
pub(in crate::aarch64) trait Columns: Copy {
    /// What every AArch64 CPU has.
    type Base: Neon;

    /// The proof that the CPU has the rest.
    fn base(self) -> Self::Base;
    /// Bytes of a vector: four per column.
    fn vector(self) -> usize;
    /// Products of `R` rows with the columns from `column` on that a vector holds, into `tile`, and into `zero` those of a row of zeros:
    /// the sum over steps of dot products of four s8 weights with four activations XORed with 0x80, as s8.
    ///
    /// # Safety
    /// `x` was made for the run's panel, whose form is [`Form::Dot`]; `column < 16`.
    unsafe fn dots<const R: usize>(
        self,
        x: Reader<R>,
        run: Run<'_>,
        column: usize,
        tile: &mut [[i32; COLS]],
        zero: &mut [i32; COLS],
    );
}

/// See [`crate::generic::gemm_u8::tile`].
#[inline(always)]
pub(in crate::aarch64) fn run<S: Columns>(s: S, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    const { assert!(Form::Dot.blocks() == 2 && Form::Dot.width() == 4) }
    rows.check(a.len(), panel.reach, 0);
    if !only(panel, &[Form::Dot, Form::Nibbles, Form::Wide]) {
        return generic::gemm_u8::tile(a, rows, panel, tile);
    }
    if !panel.run(Form::Nibbles).offsets.is_empty() {
        return neon::gemm_u8_with(s.base(), a, rows, panel, tile);
    }
    // SAFETY: the check proves what every step reads from every row.
    unsafe {
        match rows.n {
            1 => rows_of::<S, 1>(s, a, rows, panel, tile),
            2..=4 => rows_of::<S, 4>(s, a, rows, panel, tile),
            _ => rows_of::<S, ROWS>(s, a, rows, panel, tile),
        }
    }
}

/// # Safety
/// `rows` were checked for this panel.
#[inline(always)]
unsafe fn rows_of<S: Columns, const R: usize>(s: S, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    let mut zero = [0; COLS];
    for column in (0..COLS).step_by(s.vector() / 4) {
        // SAFETY: passed on to the caller.
        unsafe { s.dots(Reader::<R>::new(a, rows, 0), panel.run(Form::Dot), column, &mut tile.0[..R], &mut zero) };
    }
    for row in &mut tile.0[..R] {
        row.iter_mut().zip(zero).for_each(|(sum, zero)| *sum = sum.wrapping_sub(zero));
    }
    let run = panel.run(Form::Wide);
    for first in (0..rows.n).step_by(4).filter(|_| !run.offsets.is_empty()) {
        // SAFETY: passed on to the caller.
        unsafe { add_wide(s.base(), Reader::<4>::new(a, rows, first), run, first, tile) };
    }
}

/// Adds the steps with 16-bit weights to the four rows of the tile from `first` on.
///
/// # Safety
/// `x` was made for the run's panel.
#[inline(always)]
unsafe fn add_wide<N: Neon>(n: N, x: Reader<4>, run: Run<'_>, first: usize, tile: &mut GemmTile) {
    let mut acc = [[n.zero(); 4]; 4];
    for (acc, row) in acc.iter_mut().zip(&tile.0[first..]) {
        acc.iter_mut().zip(row.as_chunks::<4>().0).for_each(|(acc, sums)| *acc = n.load_s32(sums));
    }
    // SAFETY: passed on to the caller.
    unsafe { wide(n, x, run, &mut acc) };
    tile_store(n, acc, first, tile);
}
