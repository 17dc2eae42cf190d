//! The Q31 epilogues on whole registers: the definition of [`crate::finish`], eight channels at a time.
//!
//! Products are 64 bits wide, so the even and the odd channels of a register are multiplied apart and joined again.
//! AVX2 shifts 64 bits right only without their sign: `q31_double` needs the low 32 bits alone, which are the same, and
//! `q31_single` sets the sign apart (`x >> n = ((x + 2^63) >>> n) - (2^63 >>> n)`). A left shift of `q31_single` can leave 32
//! bits; panels that have one take the plain loop. Results are clamped from above in 32 bits, from below by saturating
//! packs and the maximum of bytes, as in `finish_u8`.

use core::arch::x86_64::*;

use super::finish_u8::{Pack, Rows, load_i32};
use crate::epilogue::Store;
use crate::finish::Finish;
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

type Pair<T> = [T; 2];

/// Multipliers and shifts of sixteen channels.
pub(super) struct Panel<'a> {
    pub(super) m: &'a [i32; COLS],
    pub(super) shift: &'a [i32; COLS],
    pub(super) double: bool,
}

/// Stores the tile; false where a channel shifts left in `q31_single`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn q31<const WHOLE: bool>(
    finish: &Finish<'_>,
    out: &SharedOut<'_, u8>,
    panel: &Panel<'_>,
    store: &Store,
) -> bool {
    if panel.double {
        rows::<WHOLE, true>(finish, out, panel, store);
        return true;
    }
    if panel.shift.iter().any(|s| *s > 0) {
        return false;
    }
    rows::<WHOLE, false>(finish, out, panel, store);
    true
}

#[target_feature(enable = "avx2")]
fn rows<const WHOLE: bool, const DOUBLE: bool>(
    finish: &Finish<'_>,
    out: &SharedOut<'_, u8>,
    panel: &Panel<'_>,
    store: &Store,
) {
    let (bias, pack) = (load_i32(finish.lanes(&finish.epilogue.bias)), Pack::new(store));
    let (m, shift) = (load_i32(panel.m), load_i32(panel.shift));
    let halves = [Half::new(bias[0], m[0], shift[0]), Half::new(bias[1], m[1], shift[1])];
    let most = _mm256_set1_epi32(store.hi as i32);
    let to = Rows::new(finish, out);
    let (pairs, last) = finish.tile[..to.n].as_chunks::<2>();
    for (i, [low, high]) in pairs.iter().enumerate() {
        let (low, high) = (row::<DOUBLE>(&halves, low), row::<DOUBLE>(&halves, high));
        to.store_two::<WHOLE>(2 * i, pack.bytes_of([low, high], most));
    }
    if let [only] = last {
        let y = row::<DOUBLE>(&halves, only);
        to.store::<WHOLE>(to.n - 1, _mm256_castsi256_si128(pack.bytes_of([y, y], most)));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn row<const DOUBLE: bool>(halves: &Pair<Half>, acc: &[i32; COLS]) -> Pair<__m256i> {
    let [a, b] = load_i32(acc);
    match DOUBLE {
        true => [halves[0].double(a), halves[1].double(b)],
        false => [halves[0].single(a), halves[1].single(b)],
    }
}

/// The constants of eight channels.
struct Half {
    bias: __m256i,
    /// Multipliers of the even channels, and of the odd ones, at the low half of 64 bits.
    m: Pair<__m256i>,
    left: __m256i,
    right: __m256i,
    /// The bits that `right` drops, and half of them.
    dropped: __m256i,
    half: __m256i,
    /// What `q31_single` adds to the products of even and odd channels, shifts them by, and takes off again.
    round: Pair<__m256i>,
    total: Pair<__m256i>,
    sign: Pair<__m256i>,
}

impl Half {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(bias: __m256i, m: __m256i, shift: __m256i) -> Self {
        let zero = _mm256_setzero_si256();
        let right = _mm256_max_epi32(_mm256_sub_epi32(zero, shift), zero);
        let one = _mm256_set1_epi32(1);
        let dropped = _mm256_sub_epi32(_mm256_sllv_epi32(one, right), one);
        let total = _mm256_add_epi32(right, _mm256_set1_epi32(31));
        let total = [_mm256_and_si256(total, _mm256_set1_epi64x(0xFFFF_FFFF)), _mm256_srli_epi64::<32>(total)];
        let (top, one64) = (_mm256_set1_epi64x(i64::MIN), _mm256_set1_epi64x(1));
        let round = |total| _mm256_srli_epi64::<1>(_mm256_sllv_epi64(one64, total));
        Self {
            bias,
            m: [m, _mm256_srli_epi64::<32>(m)],
            left: _mm256_max_epi32(shift, zero),
            right,
            dropped,
            half: _mm256_srli_epi32::<1>(dropped),
            // The sign is added here, so that the shift may be one without it.
            round: [_mm256_xor_si256(round(total[0]), top), _mm256_xor_si256(round(total[1]), top)],
            sign: [_mm256_srlv_epi64(top, total[0]), _mm256_srlv_epi64(top, total[1])],
            total,
        }
    }

    /// `q31_double` before the zero point.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn double(&self, acc: __m256i) -> __m256i {
        let acc = _mm256_sllv_epi32(_mm256_add_epi32(acc, self.bias), self.left);
        let nudge = _mm256_set1_epi64x(1 << 30);
        let even = _mm256_add_epi64(_mm256_mul_epi32(acc, self.m[0]), nudge);
        let odd = _mm256_add_epi64(_mm256_mul_epi32(_mm256_srli_epi64::<32>(acc), self.m[1]), nudge);
        let high = _mm256_blend_epi32::<0b1010_1010>(_mm256_srli_epi64::<31>(even), _mm256_slli_epi64::<1>(odd));
        let rest = _mm256_and_si256(high, self.dropped);
        let tie = _mm256_sub_epi32(self.half, _mm256_srai_epi32::<31>(high));
        _mm256_sub_epi32(_mm256_srav_epi32(high, self.right), _mm256_cmpgt_epi32(rest, tie))
    }

    /// `q31_single` before the zero point, for shifts to the right.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn single(&self, acc: __m256i) -> __m256i {
        let acc = _mm256_add_epi32(acc, self.bias);
        let even = self.rounded::<0>(_mm256_mul_epi32(acc, self.m[0]));
        let odd = self.rounded::<1>(_mm256_mul_epi32(_mm256_srli_epi64::<32>(acc), self.m[1]));
        _mm256_blend_epi32::<0b1010_1010>(even, _mm256_slli_epi64::<32>(odd))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rounded<const ODD: usize>(&self, product: __m256i) -> __m256i {
        let sum = _mm256_add_epi64(product, self.round[ODD]);
        _mm256_sub_epi64(_mm256_srlv_epi64(sum, self.total[ODD]), self.sign[ODD])
    }
}
