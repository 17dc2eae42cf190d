//! `binary_u8_u8_u8_32_avx2`: the QDQ form of a binary operation on 32 bytes at a time; same bits as the loops of
//! [`crate::elementwise`].
//!
//! A byte `q` becomes the float `2^23 + q` by writing it below the exponent of `2^23`; less `2^23 + zp` that is `q - zp`, exactly. The
//! bytes are spread by unpacking within 128-bit halves, which packing undoes, so nothing needs to be put in order.

use core::arch::x86_64::*;

use super::finish_u8::Pack;
use crate::elementwise::{BinaryOp, Bytes};
use crate::epilogue::Source;

const BYTES: usize = 32;
/// The upper half of the float 2^23.
const EXPONENT: i16 = 0x4B00;

/// `out[i] = quantize(clip(dequantize(a[i]) op dequantize(b[i])))` over slices of one length.
#[target_feature(enable = "avx2")]
pub(crate) fn run(op: BinaryOp, q: &Bytes, a: &[u8], b: &[u8], out: &mut [u8]) {
    match op {
        BinaryOp::Add => blocks(q, a, b, out, |a, b| _mm256_add_ps(a, b)),
        BinaryOp::Sub => blocks(q, a, b, out, |a, b| _mm256_sub_ps(a, b)),
        BinaryOp::Mul => blocks(q, a, b, out, |a, b| _mm256_mul_ps(a, b)),
        BinaryOp::Div => blocks(q, a, b, out, |a, b| _mm256_div_ps(a, b)),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn blocks(q: &Bytes, a: &[u8], b: &[u8], out: &mut [u8], f: impl Fn(__m256, __m256) -> __m256) {
    let (from_a, from_b, pack) = (Spread::new(q.a), Spread::new(q.b), Pack::new(&q.store));
    let (lo, hi, scale) = (_mm256_set1_ps(q.lo), _mm256_set1_ps(q.hi), _mm256_set1_ps(q.y_scale));
    let block = |a: &[u8; BYTES], b: &[u8; BYTES]| {
        let (a, b) = (from_a.floats(a), from_b.floats(b));
        // The second operand is returned when one is NaN, which keeps NaN as the definition does.
        let clipped = |t| _mm256_min_ps(hi, _mm256_max_ps(lo, t));
        let t = |i: usize| _mm256_div_ps(clipped(f(a[i], b[i])), scale);
        pack.halves([t(0), t(1)], [t(2), t(3)])
    };
    let (blocks_a, rest_a) = a.as_chunks::<BYTES>();
    let (blocks_b, rest_b) = b.as_chunks::<BYTES>();
    let (blocks_out, rest) = out.as_chunks_mut::<BYTES>();
    for ((a, b), out) in blocks_a.iter().zip(blocks_b).zip(blocks_out) {
        // SAFETY: 32 bytes of an array.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), block(a, b)) };
    }
    let mut last = [0; BYTES];
    // SAFETY: 32 bytes of an array.
    unsafe { _mm256_storeu_si256(last.as_mut_ptr().cast(), block(&padded(rest_a), &padded(rest_b))) };
    let n = rest.len();
    rest.copy_from_slice(&last[..n]);
}

/// Fewer than 32 bytes, then zeros.
fn padded(rest: &[u8]) -> [u8; BYTES] {
    let mut all = [0; BYTES];
    all[..rest.len()].copy_from_slice(rest);
    all
}

/// An operand's parameters in registers.
struct Spread {
    flip: __m256i,
    /// `2^23 + zp`.
    zero: __m256,
    scale: __m256,
}

impl Spread {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(q: Source) -> Self {
        Self {
            flip: _mm256_set1_epi8(q.flip as i8),
            zero: _mm256_set1_ps(8_388_608.0 + q.zp as f32),
            scale: _mm256_set1_ps(q.scale),
        }
    }

    /// The bytes dequantized: 0-3 and 16-19, then 4-7 and 20-23, 8-11 and 24-27, 12-15 and 28-31.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn floats(&self, bytes: &[u8; BYTES]) -> [__m256; 4] {
        // SAFETY: 32 bytes of an array.
        let bytes = _mm256_xor_si256(unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }, self.flip);
        let (zero, exponent) = (_mm256_setzero_si256(), _mm256_set1_epi16(EXPONENT));
        let (low, high) = (_mm256_unpacklo_epi8(bytes, zero), _mm256_unpackhi_epi8(bytes, zero));
        let value = |bits| _mm256_mul_ps(_mm256_sub_ps(_mm256_castsi256_ps(bits), self.zero), self.scale);
        [
            value(_mm256_unpacklo_epi16(low, exponent)),
            value(_mm256_unpackhi_epi16(low, exponent)),
            value(_mm256_unpacklo_epi16(high, exponent)),
            value(_mm256_unpackhi_epi16(high, exponent)),
        ]
    }
}
