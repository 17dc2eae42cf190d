//! `gemm_u8_s8_s32_4x16x4_avx2`: exact u8 x s8 product of four rows with a packed panel.
//!
//! ```text
//! acc[row][2 halves of 8 columns] = 0
//! for each form, for each of its steps:
//!     weights (and shuffle controls) <- next blocks of the panel
//!     for each row:
//!         x <- broadcast the 4 bytes at row + offset        (a second group for the quad forms)
//!         shuffle x as the form says
//!         acc += form's multiply sequence(x, weights)
//! ```
//! Packing has proved for each step that its 16-bit sums cannot saturate, so the order of steps and the forms do not matter to the
//! result: it is the exact sum.

use core::arch::x86_64::*;

use crate::gemm::{Block, Form, GROUP, Panel};
use crate::tile::{ROWS, Rows, Tile, check_panel};

type Half = [__m256i; 2];
type Acc<const R: usize> = [Half; R];

/// Positions of the activation bytes in pairing 1 and 2, as one 32-bit shuffle control.
const SHUFFLE: [i32; 3] = [0x0302_0100, 0x0301_0200, 0x0201_0300];

/// See [`crate::generic::gemm_u8::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(a: &[u8], rows: &Rows, panel: &Panel<'_>, tile: &mut Tile) {
    rows.check(a.len(), panel.max_offset, GROUP);
    check_panel(panel);
    // SAFETY: the checks above prove every activation read (see `Reader`).
    unsafe {
        match rows.n {
            1 => run::<1>(a, rows, panel, tile),
            2 => run::<2>(a, rows, panel, tile),
            _ => run::<ROWS>(a, rows, panel, tile),
        }
    }
}

/// Base addresses of `R` activation rows.
///
/// Invariant: `rows.check` passed for the slice they point into, so 4 bytes at any row plus any offset of the panel may be read.
#[derive(Clone, Copy)]
struct Reader<const R: usize>([*const u8; R]);

impl<const R: usize> Reader<R> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn broadcast(&self, row: usize, offset: u32) -> __m256i {
        // SAFETY: the invariant of the type; offsets come from the panel that was checked.
        let group = unsafe { self.0[row].add(offset as usize).cast::<i32>().read_unaligned() };
        _mm256_set1_epi32(group)
    }
}

/// # Safety
/// `rows.check(a.len(), panel.max_offset, 4)` passed.
#[target_feature(enable = "avx2")]
unsafe fn run<const R: usize>(a: &[u8], rows: &Rows, panel: &Panel<'_>, tile: &mut Tile) {
    // SAFETY: the rows lie within `a`, as checked by the caller.
    let x = Reader::<R>(core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[r]) }));
    let mut acc: Acc<R> = [[_mm256_setzero_si256(); 2]; R];
    let mut cursor = Cursor { blocks: panel.blocks, offsets: panel.offsets };
    let n = |form: Form| panel.steps[form as usize] as usize;
    quad(x, cursor.take(n(Form::Quad)), &mut acc);
    quad_alike(x, cursor.take(n(Form::Quad02)), SHUFFLE[1], &mut acc);
    quad_alike(x, cursor.take(n(Form::Quad03)), SHUFFLE[2], &mut acc);
    quad_columns(x, cursor.take(n(Form::QuadCol)), &mut acc);
    pair(x, cursor.take(n(Form::Pair)), &mut acc);
    pair_alike(x, cursor.take(n(Form::Pair02)), SHUFFLE[1], &mut acc);
    pair_alike(x, cursor.take(n(Form::Pair03)), SHUFFLE[2], &mut acc);
    pair_columns(x, cursor.take(n(Form::PairCol)), &mut acc);
    wide(x, cursor.take(n(Form::Wide)), &mut acc);
    for (sums, [low, high]) in tile.0.iter_mut().zip(acc) {
        let to = sums.as_mut_ptr().cast::<__m256i>();
        // SAFETY: a tile row is 16 i32: two unaligned 32-byte stores fill it.
        unsafe {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to.add(1), high);
        }
    }
}

/// What is left of a panel.
struct Cursor<'a> {
    blocks: &'a [Block],
    offsets: &'a [u32],
}

impl<'a> Cursor<'a> {
    /// The next `n` steps of `B` blocks and `G` offsets each.
    #[inline(always)]
    fn take<const B: usize, const G: usize>(&mut self, n: usize) -> (&'a [[Block; B]], &'a [[u32; G]]) {
        let (blocks, rest) = self.blocks.split_at(n * B);
        let (offsets, rest_offsets) = self.offsets.split_at(n * G);
        (self.blocks, self.offsets) = (rest, rest_offsets);
        (blocks.as_chunks().0, offsets.as_chunks().0)
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(block: &Block) -> __m256i {
    // SAFETY: a block is 32 bytes on a 32-byte boundary.
    unsafe { _mm256_load_si256(block.0.as_ptr().cast()) }
}

/// `acc += widened pair sums of s`.
#[inline]
#[target_feature(enable = "avx2")]
fn widen_add(acc: &mut __m256i, s: __m256i) {
    *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(s, _mm256_set1_epi16(1)));
}

/// Both groups multiplied and added in 16 bits, both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn add_quad(acc: &mut Half, x: Half, y: __m256i, wx: Half, wy: Half) {
    for h in 0..2 {
        let sum = _mm256_add_epi16(_mm256_maddubs_epi16(x[h], wx[h]), _mm256_maddubs_epi16(y, wy[h]));
        widen_add(&mut acc[h], sum);
    }
}

type Steps<'a, const B: usize, const G: usize> = (&'a [[Block; B]], &'a [[u32; G]]);

#[inline]
#[target_feature(enable = "avx2")]
fn quad<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 4, 2>, acc: &mut Acc<R>) {
    for ([a, b, c, d], [p, q]) in blocks.iter().zip(offsets) {
        let (wx, wy) = ([load(a), load(b)], [load(c), load(d)]);
        for (r, acc) in acc.iter_mut().enumerate() {
            add_quad(acc, [x.broadcast(r, *p); 2], x.broadcast(r, *q), wx, wy);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn quad_alike<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 4, 2>, shuffle: i32, acc: &mut Acc<R>) {
    let shuffle = in_lanes(shuffle);
    for ([a, b, c, d], [p, q]) in blocks.iter().zip(offsets) {
        let (wx, wy) = ([load(a), load(b)], [load(c), load(d)]);
        for (r, acc) in acc.iter_mut().enumerate() {
            let y = _mm256_shuffle_epi8(x.broadcast(r, *q), shuffle);
            add_quad(acc, [x.broadcast(r, *p); 2], y, wx, wy);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn quad_columns<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 5, 2>, acc: &mut Acc<R>) {
    for ([control, a, b, c, d], [p, q]) in blocks.iter().zip(offsets) {
        let by_column = controls(control);
        let (wx, wy) = ([load(a), load(b)], [load(c), load(d)]);
        for (r, acc) in acc.iter_mut().enumerate() {
            let group = x.broadcast(r, *p);
            let halves = by_column.map(|c| _mm256_shuffle_epi8(group, c));
            add_quad(acc, halves, x.broadcast(r, *q), wx, wy);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn pair<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 2, 1>, acc: &mut Acc<R>) {
    for ([a, b], [p]) in blocks.iter().zip(offsets) {
        let w = [load(a), load(b)];
        for (r, acc) in acc.iter_mut().enumerate() {
            add_pair(acc, [x.broadcast(r, *p); 2], w);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn pair_alike<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 2, 1>, shuffle: i32, acc: &mut Acc<R>) {
    let shuffle = in_lanes(shuffle);
    for ([a, b], [p]) in blocks.iter().zip(offsets) {
        let w = [load(a), load(b)];
        for (r, acc) in acc.iter_mut().enumerate() {
            add_pair(acc, [_mm256_shuffle_epi8(x.broadcast(r, *p), shuffle); 2], w);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn pair_columns<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 3, 1>, acc: &mut Acc<R>) {
    for ([control, a, b], [p]) in blocks.iter().zip(offsets) {
        let by_column = controls(control);
        let w = [load(a), load(b)];
        for (r, acc) in acc.iter_mut().enumerate() {
            let group = x.broadcast(r, *p);
            add_pair(acc, by_column.map(|c| _mm256_shuffle_epi8(group, c)), w);
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_pair(acc: &mut Half, x: Half, w: Half) {
    for h in 0..2 {
        widen_add(&mut acc[h], _mm256_maddubs_epi16(x[h], w[h]));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn wide<const R: usize>(x: Reader<R>, (blocks, offsets): Steps<'_, 4, 1>, acc: &mut Acc<R>) {
    let low_bytes = _mm256_set1_epi16(0xff);
    for ([a, b, c, d], [p]) in blocks.iter().zip(offsets) {
        let (even_w, odd_w) = ([load(a), load(b)], [load(c), load(d)]);
        for (r, acc) in acc.iter_mut().enumerate() {
            let group = x.broadcast(r, *p);
            let (even, odd) = (_mm256_and_si256(group, low_bytes), _mm256_srli_epi16::<8>(group));
            for h in 0..2 {
                let sum = _mm256_add_epi32(_mm256_madd_epi16(even, even_w[h]), _mm256_madd_epi16(odd, odd_w[h]));
                acc[h] = _mm256_add_epi32(acc[h], sum);
            }
        }
    }
}

/// The shuffle control of one 32-bit lane for all lanes. `vpshufb` indexes within 16 bytes, and all four groups there are equal.
#[inline]
#[target_feature(enable = "avx2")]
fn in_lanes(shuffle: i32) -> __m256i {
    _mm256_set1_epi32(shuffle)
}

/// Controls of columns 0..8 and 8..16. The low half keeps the other half's bits 4 to 6, which `vpshufb` ignores (values are below 4).
#[inline]
#[target_feature(enable = "avx2")]
fn controls(block: &Block) -> Half {
    let both = load(block);
    [both, _mm256_srli_epi16::<4>(both)]
}
