//! Steps of four-bit weights, widened to bytes in registers.
//!
//! ```text
//! for each four steps: sum[row] = 0                                   in 16 bits
//!     for each step: low, high <- both halves of its bytes as s8
//!         for each row: sum += vpmaddubsw(4 bytes, low) + vpmaddubsw(next 4 bytes, high)
//!     acc[row] += vpmaddwd(sum, 1)
//! ```
//! A pair is at most 2 * 255 * 8 in size, so that eight of them fit s16 for every activation.

use core::arch::x86_64::*;

use super::gemm_u8_dot::{Acc, Reader, load};
use crate::dot::S4;
use crate::gemm::{Block, Form, Run};

/// Blocks per step.
const BLOCKS: usize = Form::Nibbles.blocks();
/// Steps whose sums fit s16 together.
const TOGETHER: usize = 4;
const _: () = assert!(TOGETHER * 2 * 2 * 255 * 8 <= i16::MAX as usize);

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn nibbles<const R: usize>(x: Reader<R>, run: Run<'_>, acc: &mut Acc<R>) {
    let (steps, last) = run.blocks.as_chunks::<BLOCKS>().0.as_chunks::<TOGETHER>();
    let (offsets, last_offsets) = run.offsets.as_chunks::<TOGETHER>();
    for (steps, offsets) in steps.iter().zip(offsets) {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        for (step, at) in steps.iter().zip(offsets) {
            add(x, step, *at, &mut sums);
        }
        widen(&sums, acc);
    }
    for (step, at) in last.iter().zip(last_offsets) {
        let mut sums = [[_mm256_setzero_si256(); 2]; R];
        add(x, step, *at, &mut sums);
        widen(&sums, acc);
    }
}

/// Adds one step in 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn add<const R: usize>(x: Reader<R>, step: &[Block; BLOCKS], at: u32, sums: &mut Acc<R>) {
    let mask = _mm256_set1_epi8(15);
    // SAFETY: the table has sixteen bytes.
    let table = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(S4.as_ptr().cast()) });
    for h in 0..2 {
        let w = load(&step[h]);
        let low = _mm256_shuffle_epi8(table, _mm256_and_si256(w, mask));
        let high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16::<4>(w), mask));
        for (r, sums) in sums.iter_mut().enumerate() {
            let low = _mm256_maddubs_epi16(x.broadcast(r, at), low);
            let high = _mm256_maddubs_epi16(x.broadcast(r, at + 4), high);
            sums[h] = _mm256_add_epi16(sums[h], _mm256_add_epi16(low, high));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn widen<const R: usize>(sums: &Acc<R>, acc: &mut Acc<R>) {
    let ones = _mm256_set1_epi16(1);
    for (acc, sums) in acc.iter_mut().zip(sums) {
        for h in 0..2 {
            acc[h] = _mm256_add_epi32(acc[h], _mm256_madd_epi16(sums[h], ones));
        }
    }
}
