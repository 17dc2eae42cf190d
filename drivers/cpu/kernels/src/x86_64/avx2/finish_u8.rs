//! The epilogues with byte output on whole registers: the definition of [`crate::finish`], with fewer instructions.
//!
//! The definition clamps `t` to the bounds, rounds it and adds the zero point. Here only the upper bound is applied before rounding;
//! too small a value (or NaN) converts to a large negative integer at worst, which the saturating packs and the byte maximum bring to
//! the lower bound. Both bounds are integers, so clamping before and after rounding is the same.

use core::arch::x86_64::*;

use crate::epilogue::{Kind, Source, Store};
use crate::finish::{Finish, Out};
use crate::gemm::COLS;
use crate::isa::Avx2;
use crate::shared_out::SharedOut;

type Pair<T> = [T; 2];

/// Stores the tile, if the epilogue has a fast form here and the panel is whole.
#[inline]
pub(crate) fn finish_u8(_proof: Avx2, finish: &Finish<'_>) -> bool {
    let Out::Bytes(out) = finish.out else { return false };
    if finish.place.cols != COLS {
        return false;
    }
    // SAFETY: the token proves AVX2.
    unsafe {
        match &finish.epilogue.kind {
            Kind::Requant { m, store } => requant(finish, out, finish.lanes(m), store),
            Kind::Residual { xw, other, lo, hi, y_scale, store } => {
                residual(finish, out, finish.lanes(xw), other, [*lo, *hi], *y_scale, store);
            }
            _ => return false,
        }
    }
    true
}

/// Rows of the output that the task owns: where they begin, and how far apart.
///
/// Invariant: `n` rows of sixteen bytes lie inside the output.
struct Rows {
    first: *mut u8,
    stride: usize,
    n: usize,
}

impl Rows {
    #[inline]
    fn new(finish: &Finish<'_>, out: &SharedOut<'_, u8>) -> Self {
        let place = &finish.place;
        let n = place.rows.min(finish.tile.len());
        let first = out.address(place.at, n.saturating_sub(1).saturating_mul(place.stride).saturating_add(COLS));
        Self { first, stride: place.stride, n }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(&self, r: usize, y: __m128i) {
        debug_assert!(r < self.n);
        // SAFETY: the invariant of the type; by the contract of `Finish` the task owns these bytes alone.
        unsafe { _mm_storeu_si128(self.first.add(r * self.stride).cast(), y) }
    }
}

#[target_feature(enable = "avx2")]
fn requant(finish: &Finish<'_>, out: &SharedOut<'_, u8>, m: &[f32; COLS], store: &Store) {
    let (bias, m, pack) = (load_i32(finish.lanes(&finish.epilogue.bias)), load_f32(m), Pack::new(store));
    let rows = Rows::new(finish, out);
    for (r, acc) in finish.tile[..rows.n].iter().enumerate() {
        rows.store(r, pack.bytes(scaled(acc, bias, m)));
    }
}

#[target_feature(enable = "avx2")]
fn residual(
    finish: &Finish<'_>,
    out: &SharedOut<'_, u8>,
    xw: &[f32; COLS],
    other: &Source,
    [lo, hi]: [f32; 2],
    y_scale: f32,
    store: &Store,
) {
    let (bias, xw, pack) = (load_i32(finish.lanes(&finish.epilogue.bias)), load_f32(xw), Pack::new(store));
    let [lo, hi, y_scale, scale] = [lo, hi, y_scale, other.scale].map(|v| _mm256_set1_ps(v));
    let (zp, flip) = (_mm256_set1_epi32(other.zp), _mm_set1_epi8(other.flip as i8));
    let rows = Rows::new(finish, out);
    for (r, acc) in finish.tile[..rows.n].iter().enumerate() {
        let bytes: &[u8; COLS] = finish.residual[finish.place.at + r * rows.stride..]
            .first_chunk()
            .expect("the residual is as long as the output");
        // SAFETY: sixteen bytes of an array.
        let bytes = _mm_xor_si128(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }, flip);
        let other = [bytes, _mm_srli_si128::<8>(bytes)].map(|b| {
            let value = _mm256_sub_epi32(_mm256_cvtepu8_epi32(b), zp);
            _mm256_mul_ps(_mm256_cvtepi32_ps(value), scale)
        });
        let mut t = scaled(acc, bias, xw);
        for (t, other) in t.iter_mut().zip(other) {
            // The second operand is returned when one is NaN, which keeps NaN as the definition does.
            let clipped = _mm256_min_ps(hi, _mm256_max_ps(lo, _mm256_add_ps(*t, other)));
            *t = _mm256_div_ps(clipped, y_scale);
        }
        rows.store(r, pack.bytes(t));
    }
}

/// `fl32(f32(acc + bias) * m)`.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(acc: &[i32; COLS], bias: Pair<__m256i>, m: Pair<__m256>) -> Pair<__m256> {
    let acc = load_i32(acc);
    [0, 1].map(|i| _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(acc[i], bias[i])), m[i]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_i32(values: &[i32; COLS]) -> Pair<__m256i> {
    // SAFETY: both halves of sixteen values.
    [0, 8].map(|at| unsafe { _mm256_loadu_si256(values.as_ptr().add(at).cast()) })
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_f32(values: &[f32; COLS]) -> Pair<__m256> {
    // SAFETY: both halves of sixteen values.
    [0, 8].map(|at| unsafe { _mm256_loadu_ps(values.as_ptr().add(at)) })
}

/// [`Store`] in registers.
struct Pack {
    hi: __m256,
    zp: __m256i,
    lo: __m128i,
    flip: __m128i,
}

impl Pack {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(store: &Store) -> Self {
        Self {
            hi: _mm256_set1_ps(store.hi),
            zp: _mm256_set1_epi16(store.zp as i16),
            lo: _mm_set1_epi8(store.least as i8),
            flip: _mm_set1_epi8(store.flip as i8),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes(&self, t: Pair<__m256>) -> __m128i {
        let [a, b] = t.map(|t| _mm256_cvtps_epi32(_mm256_min_ps(self.hi, t)));
        let words = _mm256_adds_epi16(_mm256_packs_epi32(a, b), self.zp);
        // Packing works within 128-bit halves: a0-3 b0-3 | a4-7 b4-7.
        let bytes = _mm256_packus_epi16(words, words);
        let (low, high) = (_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes));
        let ordered = _mm_unpacklo_epi32(low, high);
        _mm_xor_si128(_mm_max_epu8(ordered, self.lo), self.flip)
    }
}
