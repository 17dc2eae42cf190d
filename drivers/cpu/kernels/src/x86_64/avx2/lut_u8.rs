//! `lut_u8_u8_128_avx2`: a table of 256 bytes as sixteen shuffles of sixteen bytes.
//!
//! A shuffle looks its low four bits up and gives 0 where bit 7 is set. Let `x` be below 128 and `t[h]` the sixteen entries from
//! `16 h` on. The shuffle of `t[0]` by `x`, XORed with that of `t[h] ^ t[h - 1]` by `x - 16 h` for h = 1..8, is the entry: each
//! difference counts from its own h on, since before `x - 16 h` is negative. The subtraction saturates, so that it stays so. The
//! upper half of the table is looked up by `x ^ 0x80` in the same way; of the two halves one always gives 0.

use core::arch::x86_64::*;

/// Vectors at a time: each shuffle's table is read once for all.
const WIDE: usize = 4;
const BYTES: usize = 32;

/// The first sixteen entries of both halves, then differences of neighbours.
type Steps = [[[u8; 16]; 8]; 2];

/// As [`crate::generic::lut_u8::run`].
#[target_feature(enable = "avx2")]
pub(crate) fn run(table: &[u8; 256], x: &[u8], out: &mut [u8]) {
    let steps = steps(table);
    let n = x.len().min(out.len());
    let (xs, x_rest) = x[..n].as_chunks::<{ WIDE * BYTES }>();
    let (outs, out_rest) = out[..n].as_chunks_mut::<{ WIDE * BYTES }>();
    xs.iter().zip(outs).for_each(|(x, out)| block::<WIDE, _>(&steps, x, out));
    let (xs, x_rest) = x_rest.as_chunks::<BYTES>();
    let (outs, out_rest) = out_rest.as_chunks_mut::<BYTES>();
    xs.iter().zip(outs).for_each(|(x, out)| block::<1, _>(&steps, x, out));
    crate::generic::lut_u8::run(table, x_rest, out_rest);
}

fn steps(table: &[u8; 256]) -> Steps {
    let mut steps = Steps::default();
    for (i, entry) in table.iter().enumerate() {
        let before = if i % 128 < 16 { 0 } else { table[i - 16] };
        steps[i / 128][i % 128 / 16][i % 16] = entry ^ before;
    }
    steps
}

/// `N` vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn block<const N: usize, const LEN: usize>(steps: &Steps, x: &[u8; LEN], out: &mut [u8; LEN]) {
    const { assert!(LEN == N * BYTES) }
    let (less, top) = (_mm256_set1_epi8(16), _mm256_set1_epi8(-128));
    let mut index = [_mm256_setzero_si256(); N];
    let mut found = index;
    for (to, from) in index.iter_mut().zip(x.as_chunks::<BYTES>().0) {
        // SAFETY: 32 bytes of an array.
        *to = unsafe { _mm256_loadu_si256(from.as_ptr().cast()) };
    }
    for half in steps {
        let mut rest = index;
        for step in half {
            // SAFETY: sixteen bytes of an array.
            let step = _mm256_broadcastsi128_si256(unsafe { _mm_loadu_si128(step.as_ptr().cast()) });
            for (found, rest) in found.iter_mut().zip(&mut rest) {
                *found = _mm256_xor_si256(*found, _mm256_shuffle_epi8(step, *rest));
                *rest = _mm256_subs_epi8(*rest, less);
            }
        }
        index.iter_mut().for_each(|index| *index = _mm256_xor_si256(*index, top));
    }
    for (from, to) in found.iter().zip(out.as_chunks_mut::<BYTES>().0) {
        // SAFETY: 32 bytes of an array.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), *from) };
    }
}
