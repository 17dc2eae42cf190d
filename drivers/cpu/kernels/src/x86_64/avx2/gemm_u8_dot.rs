//! Steps of neighbouring k, widened: what `vpmaddwd` adds in 32 bits is exact for all weights.
//!
//! ```text
//! acc[row][2 halves of 8 columns] = 0
//! for each step: weights in 16 bits, the even k of each column apart from the odd ones
//!     for each row:
//!         x <- broadcast the 4 bytes at row + offset, even and odd bytes in 16 bits
//!         acc += vpmaddwd(even x, even weights) + vpmaddwd(odd x, odd weights)
//! ```

use core::arch::x86_64::*;

use super::gemm_u8_nibbles::nibbles;
use crate::gemm::{Block, Form, Panel, Run};
use crate::tile::{GemmRows, GemmTile};

type Half = [__m256i; 2];
pub(super) type Acc<const R: usize> = [Half; R];

/// The product of all rows with the runs `Dot`, `Wide` and `Nibbles` of a panel.
///
/// # Safety
/// `rows.check(a.len(), panel.reach, 0)` passed.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn tile(a: &[u8], rows: &GemmRows, panel: &Panel<'_>, tile: &mut GemmTile) {
    let mut done = 0;
    while done < rows.n {
        // SAFETY: passed on to the caller.
        done += unsafe {
            match rows.n - done {
                1 => run::<1>(a, rows, done, panel, tile),
                2 => run::<2>(a, rows, done, panel, tile),
                3 => run::<3>(a, rows, done, panel, tile),
                _ => run::<4>(a, rows, done, panel, tile),
            }
        };
    }
}

/// Base addresses of `R` activation rows.
///
/// Invariant: `rows.check` passed for the slice they point into, so each step of the panel may be read at any row.
#[derive(Clone, Copy)]
pub(super) struct Reader<const R: usize>([*const u8; R]);

impl<const R: usize> Reader<R> {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn broadcast(&self, row: usize, offset: u32) -> __m256i {
        // SAFETY: the invariant of the type; offsets come from the panel that was checked.
        let group = unsafe { self.0[row].add(offset as usize).cast::<i32>().read_unaligned() };
        _mm256_set1_epi32(group)
    }
}

/// # Safety
/// `rows.check(a.len(), panel.reach, 0)` passed.
#[target_feature(enable = "avx2")]
unsafe fn run<const R: usize>(
    a: &[u8],
    rows: &GemmRows,
    first: usize,
    panel: &Panel<'_>,
    tile: &mut GemmTile,
) -> usize {
    // SAFETY: the rows lie within `a`, as checked by the caller.
    let x = Reader::<R>(core::array::from_fn(|r| unsafe { a.as_ptr().add(rows.at[first + r]) }));
    let mut acc: Acc<R> = [[_mm256_setzero_si256(); 2]; R];
    dot(x, panel.run(Form::Dot), &mut acc);
    wide(x, panel.run(Form::Wide), &mut acc);
    nibbles(x, panel.run(Form::Nibbles), &mut acc);
    for (sums, [low, high]) in tile.0[first..].iter_mut().zip(acc) {
        let to = sums.as_mut_ptr().cast::<__m256i>();
        // SAFETY: a tile row is 16 i32: two unaligned 32-byte stores fill it.
        unsafe {
            _mm256_storeu_si256(to, low);
            _mm256_storeu_si256(to.add(1), high);
        }
    }
    R
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(block: &Block) -> __m256i {
    // SAFETY: a block is 32 bytes on a 32-byte boundary.
    unsafe { _mm256_load_si256(block.0.as_ptr().cast()) }
}

/// Blocks between what is multiplied and what is fetched: with few rows the weights come from memory, a line per step.
const AHEAD: usize = 64;

/// Asks for the weights that come [`AHEAD`] blocks later, perhaps those of the next panel.
#[inline]
#[target_feature(enable = "avx2")]
fn ahead(block: &Block) {
    // A prefetch reads nothing that the program can see, whatever the address.
    _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(block).wrapping_add(AHEAD).cast());
}

#[inline]
#[target_feature(enable = "avx2")]
fn dot<const R: usize>(x: Reader<R>, run: Run<'_>, acc: &mut Acc<R>) {
    for (blocks, at) in run.blocks.as_chunks::<{ Form::Dot.blocks() }>().0.iter().zip(run.offsets) {
        ahead(&blocks[0]);
        let w = [load(&blocks[0]), load(&blocks[1])];
        let even = w.map(|w| _mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(w)));
        add(x, *at, even, w.map(|w| _mm256_srai_epi16::<8>(w)), acc);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn wide<const R: usize>(x: Reader<R>, run: Run<'_>, acc: &mut Acc<R>) {
    for ([a, b, c, d], at) in run.blocks.as_chunks::<{ Form::Wide.blocks() }>().0.iter().zip(run.offsets) {
        add(x, *at, [load(a), load(b)], [load(c), load(d)], acc);
    }
}

/// Adds the products of four neighbouring bytes with the even and odd weights of both halves.
#[inline]
#[target_feature(enable = "avx2")]
fn add<const R: usize>(x: Reader<R>, at: u32, even_w: Half, odd_w: Half, acc: &mut Acc<R>) {
    let low_bytes = _mm256_set1_epi16(0xff);
    for (r, acc) in acc.iter_mut().enumerate() {
        let group = x.broadcast(r, at);
        let (even, odd) = (_mm256_and_si256(group, low_bytes), _mm256_srli_epi16::<8>(group));
        for h in 0..2 {
            let sum = _mm256_add_epi32(_mm256_madd_epi16(even, even_w[h]), _mm256_madd_epi16(odd, odd_w[h]));
            acc[h] = _mm256_add_epi32(acc[h], sum);
        }
    }
}
