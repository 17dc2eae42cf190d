//! `gemm_u8_s8_s32_8x16x4_dotprod`: four rows by sixteen columns of `sdot` by element.
//!
//! `sdot` takes s8 activations, x - 128, by flipping their highest bit. What that takes away depends on the weights alone: it is the
//! result for a row of zeros, which rides along with the first rows of a tile and is subtracted from all.
//!
//! ```text
//! for each four steps that read neighbouring groups:
//!     x[row] <- 16 bytes at row + offset, flipped
//!     for each of the four groups, four columns at a time: acc[row] += sdot(w, group of x[row])
//! ```
//! Other steps do the same with one group.

use crate::aarch64::neon::{tile_store, wide};
use crate::aarch64::reader::{Reader, only};
use crate::aarch64::simd::{DotProduct, Neon, Q};
use crate::gemm::{Block, Form, Panel, Run};
use crate::generic;
use crate::tile::{GemmRows, GemmTile};

/// Rows that are multiplied together.
const STEP: usize = 4;

/// See [`crate::generic::gemm_u8::tile`].
#[inline(always)]
pub(crate) fn run<S: DotProduct>(s: S, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    rows.check(a.len(), panel.reach, 0);
    if !only(panel, &[Form::Dot, Form::Nibbles, Form::Wide]) {
        return generic::gemm_u8::tile(a, rows, panel, tile);
    }
    // SAFETY: the check proves what every step reads from every row.
    unsafe {
        let zero = match rows.n {
            1 => first::<S, 1, 2>(s, a, rows, panel, tile),
            2 => first::<S, 2, 3>(s, a, rows, panel, tile),
            _ => first::<S, STEP, { STEP + 1 }>(s, a, rows, panel, tile),
        };
        if rows.n > STEP {
            let (x, mut acc) = (Reader::<STEP>::new(a, rows, STEP), [[s.base().zero(); 4]; STEP]);
            dots(s, x, panel.run(Form::Dot), &mut acc);
            nibbles(s, x, panel.run(Form::Nibbles), &mut acc);
            finish(s, x, STEP, acc, &zero, panel, tile);
        }
    }
}

/// The first `R` rows and, as row `R1 - 1`, one of zeros, whose result is returned.
///
/// # Safety
/// `rows` were checked for this panel.
#[inline(always)]
unsafe fn first<S: DotProduct, const R: usize, const R1: usize>(
    s: S,
    a: &[u8],
    rows: &GemmRows,
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) -> [Q<S>; 4] {
    const { assert!(R1 == R + 1) }
    let mut all = [[s.base().zero(); 4]; R1];
    // SAFETY: passed on to the caller.
    unsafe {
        let x = Reader::<R>::new(a, rows, 0);
        dots(s, x, panel.run(Form::Dot), &mut all);
        nibbles(s, x, panel.run(Form::Nibbles), &mut all);
        let (zero, mut acc) = (all[R], [[s.base().zero(); 4]; R]);
        acc.copy_from_slice(&all[..R]);
        finish(s, x, 0, acc, &zero, panel, tile);
        zero
    }
}

/// Adds all steps of a run of [`Form::Dot`] to `acc[row][4 columns each]`. Rows of `acc` past those of `x` are rows of zeros.
///
/// # Safety
/// `x` was made for the run's panel.
#[inline(always)]
pub(in crate::aarch64) unsafe fn dots<S: DotProduct, const R: usize, const R1: usize>(
    s: S,
    x: Reader<R>,
    run: Run<'_>,
    acc: &mut [[Q<S>; 4]; R1],
) {
    const { assert!(Form::Dot.blocks() == 2 && Form::Dot.width() == 4) }
    let (n, flip) = (s.base(), s.base().splat(S::FLIP));
    let (mut blocks, mut offsets) = (run.blocks, run.offsets);
    // Rows of zeros stay as they are set here.
    let mut group = [flip; R1];
    while let [p, rest @ ..] = offsets {
        let neighbours = matches!(rest, [q, r, t, ..] if [p + 4, p + 8, p + 12] == [*q, *r, *t]);
        for (i, group) in group.iter_mut().enumerate().take(R) {
            // SAFETY: passed on to the caller: one step reads four bytes, four neighbours read sixteen.
            *group = n.xor(unsafe { if neighbours { n.load(x.at(i, *p)) } else { n.load4(x.at(i, *p)) } }, flip);
        }
        multiply::<S, R1, 0>(s, &weights(s, &blocks[..2]), &group, acc);
        if neighbours {
            multiply::<S, R1, 1>(s, &weights(s, &blocks[2..4]), &group, acc);
            multiply::<S, R1, 2>(s, &weights(s, &blocks[4..6]), &group, acc);
            multiply::<S, R1, 3>(s, &weights(s, &blocks[6..8]), &group, acc);
        }
        let done = if neighbours { 4 } else { 1 };
        (blocks, offsets) = (&blocks[done * 2..], &offsets[done..]);
    }
}

/// As [`dots`], for a run of [`Form::Nibbles`]: two groups of four k whose weights share bytes.
///
/// # Safety
/// `x` was made for the run's panel.
#[inline(always)]
pub(in crate::aarch64) unsafe fn nibbles<S: DotProduct, const R: usize, const R1: usize>(
    s: S,
    x: Reader<R>,
    run: Run<'_>,
    acc: &mut [[Q<S>; 4]; R1],
) {
    const { assert!(Form::Nibbles.blocks() == 2 && Form::Nibbles.width() == 8) }
    let (n, flip) = (s.base(), s.base().splat(S::FLIP));
    let mut groups = [flip; R1];
    for (blocks, offset) in run.blocks.as_chunks::<2>().0.iter().zip(run.offsets) {
        for (i, group) in groups.iter_mut().enumerate().take(R) {
            // SAFETY: passed on to the caller: a step reads eight bytes.
            let at = unsafe { x.at(i, *offset) };
            // SAFETY: as above.
            *group = n.xor(unsafe { n.load8(at, at) }, flip);
        }
        let (mut low, mut high) = (weights(s, blocks), weights(s, blocks));
        for (low, high) in low.iter_mut().zip(&mut high) {
            (*low, *high) = (n.low_nibbles(*low), n.high_nibbles(*high));
        }
        multiply::<S, R1, 0>(s, &low, &groups, acc);
        multiply::<S, R1, 1>(s, &high, &groups, acc);
    }
}

/// The weights of a step, four columns per register.
#[inline(always)]
fn weights<S: DotProduct>(s: S, blocks: &[Block]) -> [Q<S>; 4] {
    let mut w = [s.base().zero(); 4];
    for (i, w) in w.iter_mut().enumerate() {
        *w = s.base().bytes(&blocks[i / 2].0.as_chunks().0[i % 2]);
    }
    w
}

/// `acc[row] += dot(weights, group L of row)`.
#[inline(always)]
fn multiply<S: DotProduct, const R: usize, const L: usize>(
    s: S,
    w: &[Q<S>; 4],
    x: &[Q<S>; R],
    acc: &mut [[Q<S>; 4]; R],
) {
    for (acc, x) in acc.iter_mut().zip(x) {
        for (acc, w) in acc.iter_mut().zip(w) {
            *acc = s.dot::<L>(*acc, *w, *x);
        }
    }
}

/// Takes the row of zeros off, adds the wide steps and stores the rows from `first` on.
///
/// # Safety
/// `x` was made for this panel.
#[inline(always)]
unsafe fn finish<S: DotProduct, const R: usize>(
    s: S,
    x: Reader<R>,
    first: usize,
    mut acc: [[Q<S>; 4]; R],
    zero: &[Q<S>; 4],
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) {
    for sums in &mut acc {
        sums.iter_mut().zip(zero).for_each(|(sum, zero)| *sum = s.base().sub(*sum, *zero));
    }
    // SAFETY: passed on to the caller.
    unsafe { wide(s.base(), x, panel.run(Form::Wide), &mut acc) };
    tile_store(s.base(), acc, first, tile);
}
