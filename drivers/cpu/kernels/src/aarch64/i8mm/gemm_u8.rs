//! `gemm_u8_s8_s32_8x16x8_i8mm`: `usmmla`, 2 x 8 activations by 8 x 2 weights, four rows by sixteen columns at a time.
//!
//! ```text
//! for each step of eight k:
//!     x[pair of rows] <- 8 bytes of each row at its offset
//!     for each two columns: acc[pair] += usmmla(x[pair], w)         2 rows x 2 columns per register
//! ```
//! The instruction takes u8 by s8, so nothing is corrected. Steps of four k run as dot products (`sudot`, u8 by s8 too).

use crate::aarch64::dotprod::{dots, nibbles};
use crate::aarch64::neon::{tile_store, wide};
use crate::aarch64::reader::{Reader, only};
use crate::aarch64::simd::{MatrixProduct, Neon, Q};
use crate::gemm::{Form, Panel, Run};
use crate::generic;
use crate::tile::{GemmRows, GemmTile};

/// See [`crate::generic::gemm_u8::tile`].
#[inline(always)]
pub(crate) fn run<S: MatrixProduct>(s: S, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    const { assert!(S::FLIP == 0) }
    rows.check(a.len(), panel.reach, 0);
    if !only(panel, &[Form::Dot, Form::Dot8, Form::Nibbles, Form::Wide]) {
        return generic::gemm_u8::tile(a, rows, panel, tile);
    }
    for first in (0..rows.n).step_by(4) {
        // SAFETY: the check proves what every step reads from every row.
        unsafe {
            match rows.n - first {
                1 | 2 => rows_of::<S, 1, 2>(s, a, rows, first, panel, tile),
                _ => rows_of::<S, 2, 4>(s, a, rows, first, panel, tile),
            }
        }
    }
}

/// `P` pairs of rows, `R` rows, from `first` on.
///
/// # Safety
/// `rows` were checked for this panel.
#[inline(always)]
unsafe fn rows_of<S: MatrixProduct, const P: usize, const R: usize>(
    s: S,
    a: &[u8],
    rows: &GemmRows,
    first: usize,
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) {
    const { assert!(R == 2 * P) }
    let n = s.base();
    let (mut pairs, mut acc) = ([[n.zero(); 8]; P], [[n.zero(); 4]; R]);
    // SAFETY: passed on to the caller.
    unsafe {
        let x = Reader::<R>::new(a, rows, first);
        matrices(s, x, panel.run(Form::Dot8), &mut pairs);
        for (rows, pair) in acc.as_chunks_mut::<2>().0.iter_mut().zip(&pairs) {
            for (i, [left, right]) in pair.as_chunks::<2>().0.iter().enumerate() {
                (rows[0][i], rows[1][i]) = (n.lows(*left, *right), n.highs(*left, *right));
            }
        }
        dots(s, x, panel.run(Form::Dot), &mut acc);
        nibbles(s, x, panel.run(Form::Nibbles), &mut acc);
        wide(n, x, panel.run(Form::Wide), &mut acc);
    }
    tile_store(n, acc, first, tile);
}

/// Adds the steps of a run of [`Form::Dot8`] to `acc[pair of rows][two columns each]`.
///
/// # Safety
/// `x` was made for the run's panel.
#[inline(always)]
unsafe fn matrices<S: MatrixProduct, const P: usize, const R: usize>(
    s: S,
    x: Reader<R>,
    run: Run<'_>,
    acc: &mut [[Q<S>; 8]; P],
) {
    const { assert!(Form::Dot8.blocks() == 4 && Form::Dot8.width() == 8) }
    let n = s.base();
    for (blocks, offset) in run.blocks.as_chunks::<4>().0.iter().zip(run.offsets) {
        let mut pairs = [n.zero(); P];
        for (p, pair) in pairs.iter_mut().enumerate() {
            // SAFETY: passed on to the caller.
            *pair = unsafe { n.load8(x.at(2 * p, *offset), x.at(2 * p + 1, *offset)) };
        }
        for i in 0..8 {
            let w = n.bytes(&blocks[i / 2].0.as_chunks().0[i % 2]);
            for (acc, pair) in acc.iter_mut().zip(pairs) {
                acc[i] = s.matrix(acc[i], pair, w);
            }
        }
    }
}
