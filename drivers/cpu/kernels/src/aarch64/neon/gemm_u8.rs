//! `gemm_u8_s8_s32_8x16x4_neon`: exact u8 x s8 products with `smull`, `smlsl` and `sadalp`, two groups of four k at a time.
//!
//! NEON multiplies s8 by s8 only, and a 16-bit lane holds the sum of two such products unless all four factors are -128. So the first
//! group of a pair takes activations as x - 128 and the second as 127 - y, both of which fit s8, and is *subtracted*:
//!
//! ```text
//! t = (x - 128) w - (127 - y) v              |t| <= 128 * 127 + 128 * 128 = 32640: exact in 16 bits
//! acc += neighbouring lanes of t             two sums per column; added at the end
//! ```
//! What this adds to x w + y v depends on the weights alone: it is the result for a row of zeros, which is computed with the others and
//! subtracted from them. A step of 4-bit weights is such a pair of groups.

use super::wide;
use crate::aarch64::reader::{Reader, only};
use crate::aarch64::simd::Neon;
use crate::gemm::{Block, Form, Panel, Run};
use crate::generic;
use crate::tile::{GemmRows, GemmTile};

/// Per column the sums of k 0, 1 and of k 2, 3.
type Halves<S> = [<S as Neon>::Q; 8];
/// Four columns per register.
type Columns<S> = [<S as Neon>::Q; 4];

/// See [`crate::generic::gemm_u8::tile`].
#[inline(always)]
pub(crate) fn run<S: Neon>(s: S, a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    rows.check(a.len(), panel.reach, 0);
    if !only(panel, &[Form::Dot, Form::Nibbles, Form::Wide]) {
        return generic::gemm_u8::tile(a, rows, panel, tile);
    }
    // SAFETY: the check proves what every step reads from every row.
    unsafe {
        let mut zeros = [[s.zero(); 8]; 2];
        let done = rows.n % 2;
        if done == 1 {
            let x = Reader::<1>::new(a, rows, 0);
            products(s, |r, o| if r == 0 { s.load4(x.at(0, o)) } else { s.zero() }, panel, &mut zeros);
            let zero = columns(s, &zeros[1]);
            finish(s, x, 0, [zeros[0]], &zero, panel, tile);
        } else {
            let mut alone = [[s.zero(); 8]; 1];
            products(s, |_, _| s.zero(), panel, &mut alone);
            zeros[1] = alone[0];
        }
        let zero = columns(s, &zeros[1]);
        for first in (done..rows.n).step_by(2) {
            let (x, mut acc) = (Reader::<2>::new(a, rows, first), [[s.zero(); 8]; 2]);
            products(s, |r, o| s.load4(x.at(r, o)), panel, &mut acc);
            finish(s, x, first, acc, &zero, panel, tile);
        }
    }
}

/// Adds all steps with 8-bit and 4-bit weights; `fetch(row, offset)` is a group of four activations, four times.
#[inline(always)]
fn products<S: Neon, const R: usize>(
    s: S,
    fetch: impl Fn(usize, u32) -> S::Q,
    panel: &Panel<'_>,
    acc: &mut [Halves<S>; R],
) {
    dots(s, &fetch, panel.run(Form::Dot), acc);
    nibbles(s, &fetch, panel.run(Form::Nibbles), acc);
}

/// Adds the steps of a run of [`Form::Dot`].
#[inline(always)]
fn dots<S: Neon, const R: usize>(s: S, fetch: impl Fn(usize, u32) -> S::Q, run: Run<'_>, acc: &mut [Halves<S>; R]) {
    const { assert!(Form::Dot.blocks() == 2 && Form::Dot.width() == 4) }
    let ((pairs, rest), (offsets, rest_offsets)) = (run.blocks.as_chunks::<4>(), run.offsets.as_chunks::<2>());
    for (blocks, [p, q]) in pairs.iter().zip(offsets) {
        let x = pair::<S, R>(s, &fetch, *p, *q);
        for at in 0..4 {
            let (w, v) = (s.bytes(quarter(&blocks[..2], at)), s.bytes(quarter(&blocks[2..], at)));
            add_pair(s, &x, w, v, at, acc);
        }
    }
    for (blocks, p) in rest.as_chunks::<2>().0.iter().zip(rest_offsets) {
        // The second group weighs nothing.
        let x = pair::<S, R>(s, &fetch, *p, *p);
        for at in 0..4 {
            add_pair(s, &x, s.bytes(quarter(blocks, at)), s.zero(), at, acc);
        }
    }
}

/// Adds the steps of a run of [`Form::Nibbles`].
#[inline(always)]
fn nibbles<S: Neon, const R: usize>(s: S, fetch: impl Fn(usize, u32) -> S::Q, run: Run<'_>, acc: &mut [Halves<S>; R]) {
    const { assert!(Form::Nibbles.blocks() == 2 && Form::Nibbles.width() == 8) }
    for (blocks, p) in run.blocks.as_chunks::<2>().0.iter().zip(run.offsets) {
        let x = pair::<S, R>(s, &fetch, *p, *p + 4);
        for at in 0..4 {
            let both = s.bytes(quarter(blocks, at));
            add_pair(s, &x, s.low_nibbles(both), s.high_nibbles(both), at, acc);
        }
    }
}

/// Two groups of each row: less 128, and taken from 127.
#[inline(always)]
fn pair<S: Neon, const R: usize>(s: S, fetch: impl Fn(usize, u32) -> S::Q, p: u32, q: u32) -> [[S::Q; 2]; R] {
    let mut x = [[s.zero(); 2]; R];
    for (r, x) in x.iter_mut().enumerate() {
        *x = [s.xor(fetch(r, p), s.splat(0x80)), s.xor(fetch(r, q), s.splat(0x7f))];
    }
    x
}

/// Four columns of a pair of groups with weights `w` and `v`.
#[inline(always)]
fn add_pair<S: Neon, const R: usize>(s: S, x: &[[S::Q; 2]; R], w: S::Q, v: S::Q, at: usize, acc: &mut [Halves<S>; R]) {
    for (acc, [x, y]) in acc.iter_mut().zip(x) {
        let low = s.mul_sub_low(s.mul_low(*x, w), *y, v);
        let high = s.mul_sub_high(s.mul_high(*x, w), *y, v);
        acc[at * 2] = s.add_widened_pairs(acc[at * 2], low);
        acc[at * 2 + 1] = s.add_widened_pairs(acc[at * 2 + 1], high);
    }
}

/// Sixteen bytes, four columns, of the two blocks of a step.
#[inline(always)]
fn quarter(blocks: &[Block], at: usize) -> &[u8; 16] {
    &blocks[at / 2].0.as_chunks().0[at % 2]
}

#[inline(always)]
fn columns<S: Neon>(s: S, halves: &Halves<S>) -> Columns<S> {
    let mut out = [s.zero(); 4];
    for (out, [low, high]) in out.iter_mut().zip(halves.as_chunks().0) {
        *out = s.add_pairs(*low, *high);
    }
    out
}

/// Takes the row of zeros off, adds the wide steps and stores the rows from `first` on.
///
/// # Safety
/// `x` was made for this panel.
#[inline(always)]
unsafe fn finish<S: Neon, const R: usize>(
    s: S,
    x: Reader<R>,
    first: usize,
    acc: [Halves<S>; R],
    zero: &Columns<S>,
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) {
    let mut sums = [[s.zero(); 4]; R];
    for (sums, halves) in sums.iter_mut().zip(&acc) {
        *sums = columns(s, halves);
        sums.iter_mut().zip(zero).for_each(|(sum, zero)| *sum = s.sub(*sum, *zero));
    }
    // SAFETY: passed on to the caller.
    unsafe { wide(s, x, panel.run(Form::Wide), &mut sums) };
    tile_store(s, sums, first, tile);
}

/// Stores rows from `first` on.
#[inline(always)]
pub(in crate::aarch64) fn tile_store<S: Neon, const R: usize>(
    s: S,
    sums: [Columns<S>; R],
    first: usize,
    tile: &mut GemmTile,
) {
    for (row, sums) in tile.0[first..].iter_mut().zip(sums) {
        row.as_chunks_mut::<4>().0.iter_mut().zip(sums).for_each(|(to, sums)| s.store(sums, to));
    }
}
