//! The epilogues with byte output on whole registers: the definition of [`crate::finish`], with fewer instructions.
//!
//! The definition clamps `t` to the bounds, rounds it and adds the zero point. Here only the upper bound is applied before rounding;
//! too small a value (or NaN) converts to a large negative integer at worst, which the saturating packs and the byte maximum bring to
//! the lower bound. Both bounds are integers, so clamping before and after rounding is the same.

use core::arch::x86_64::*;

use super::finish_q31::{Panel, q31};
use crate::epilogue::{Inner, Kind, Source, Store};
use crate::finish::{Finish, Out};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

type Pair<T> = [T; 2];

/// Stores the tile, if the epilogue has a fast form here.
#[target_feature(enable = "avx2")]
pub(crate) fn finish_u8(finish: &Finish<'_>) -> bool {
    if finish.place.cols == COLS { finish_columns::<true>(finish) } else { finish_columns::<false>(finish) }
}

/// `WHOLE` where the panel has all its sixteen columns.
#[inline]
#[target_feature(enable = "avx2")]
fn finish_columns<const WHOLE: bool>(finish: &Finish<'_>) -> bool {
    let Out::Bytes(out) = finish.out else { return false };
    match &finish.epilogue.kind {
        Kind::Requant { m, store } => requant::<WHOLE>(finish, out, finish.lanes(m), store),
        Kind::Residual { xw, other, lo, hi, y_scale, store } => {
            let add = AddOther::new(other, None, [*lo, *hi], *y_scale);
            sum::<WHOLE, false>(finish, out, finish.lanes(xw), &add, store);
        }
        Kind::RequantAdd { m, inner, other, y_scale, store } => {
            let add = AddOther::new(other, Some(inner), [f32::NEG_INFINITY, f32::INFINITY], *y_scale);
            sum::<WHOLE, true>(finish, out, finish.lanes(m), &add, store);
        }
        Kind::Q31 { m, shift, double, store } => {
            let panel = Panel { m: finish.lanes(m), shift: finish.lanes(shift), double: *double };
            return q31::<WHOLE>(finish, out, &panel, store);
        }
        _ => return false,
    }
    true
}

/// Rows of the output that the task owns: where they begin, and how far apart.
///
/// Invariant: `n` rows of `cols` bytes, at most sixteen, lie inside the output.
pub(super) struct Rows {
    first: *mut u8,
    stride: usize,
    pub(super) n: usize,
    cols: usize,
}

impl Rows {
    #[inline]
    pub(super) fn new(finish: &Finish<'_>, out: &SharedOut<'_, u8>) -> Self {
        let place = &finish.place;
        let (n, cols) = (place.rows.min(finish.tile.len()), place.cols.min(COLS));
        let first = out.address(place.at, n.saturating_sub(1).saturating_mul(place.stride).saturating_add(cols));
        Self { first, stride: place.stride, n, cols }
    }

    /// The other operand's row `r`; zero beyond its columns.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn other(&self, finish: &Finish<'_>, r: usize) -> __m128i {
        let row = &finish.residual[finish.place.at + r * self.stride..][..self.cols];
        if let Some(whole) = row.first_chunk::<COLS>() {
            // SAFETY: sixteen bytes of an array.
            return unsafe { _mm_loadu_si128(whole.as_ptr().cast()) };
        }
        let mut bytes = [0; COLS];
        bytes[..row.len()].copy_from_slice(row);
        // SAFETY: sixteen bytes of an array.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    /// Stores row `r`; `WHOLE` where rows are sixteen bytes.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store<const WHOLE: bool>(&self, r: usize, y: __m128i) {
        debug_assert!(r < self.n && WHOLE == (self.cols == COLS));
        // SAFETY: the invariant of the type; by the contract of `Finish` the task owns these bytes alone.
        unsafe {
            let to = self.first.add(r * self.stride);
            if WHOLE { _mm_storeu_si128(to.cast(), y) } else { store_some(to, y, self.cols) }
        }
    }

    /// Stores row `r` from the low half of `y` and row `r + 1` from the high half.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn store_two<const WHOLE: bool>(&self, r: usize, y: __m256i) {
        self.store::<WHOLE>(r, _mm256_castsi256_si128(y));
        self.store::<WHOLE>(r + 1, _mm256_extracti128_si256::<1>(y));
    }
}

/// Stores the first `cols` bytes, fewer than sixteen.
///
/// # Safety
/// `cols` bytes may be written at `to`.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_some(to: *mut u8, y: __m128i, cols: usize) {
    let (low, high) = (_mm_cvtsi128_si64(y) as u64, _mm_extract_epi64::<1>(y) as u64);
    // SAFETY: passed on to the caller; every store ends at or before `cols`.
    unsafe {
        let mut rest = low;
        if cols >= 8 {
            to.cast::<u64>().write_unaligned(low);
            rest = high;
        }
        for at in cols / 8 * 8..cols {
            to.add(at).write(rest as u8);
            rest >>= 8;
        }
    }
}

#[target_feature(enable = "avx2")]
fn requant<const WHOLE: bool>(finish: &Finish<'_>, out: &SharedOut<'_, u8>, m: &[f32; COLS], store: &Store) {
    let (bias, m, pack) = (load_i32(finish.lanes(&finish.epilogue.bias)), load_f32(m), Pack::new(store));
    let rows = Rows::new(finish, out);
    let (pairs, last) = finish.tile[..rows.n].as_chunks::<2>();
    for (i, [low, high]) in pairs.iter().enumerate() {
        rows.store_two::<WHOLE>(2 * i, pack.bytes(scaled(low, bias, m), scaled(high, bias, m)));
    }
    if let [row] = last {
        let t = scaled(row, bias, m);
        rows.store::<WHOLE>(rows.n - 1, _mm256_castsi256_si128(pack.bytes(t, t)));
    }
}

/// The forms that add the other operand; `REQUANT` where the product is rounded before.
#[target_feature(enable = "avx2")]
fn sum<const WHOLE: bool, const REQUANT: bool>(
    finish: &Finish<'_>,
    out: &SharedOut<'_, u8>,
    m: &[f32; COLS],
    add: &AddOther,
    store: &Store,
) {
    let (bias, m, pack) = (load_i32(finish.lanes(&finish.epilogue.bias)), load_f32(m), Pack::new(store));
    let rows = Rows::new(finish, out);
    let (pairs, last) = finish.tile[..rows.n].as_chunks::<2>();
    for (i, [low, high]) in pairs.iter().enumerate() {
        let low = add.row::<REQUANT>(scaled(low, bias, m), rows.other(finish, 2 * i));
        let high = add.row::<REQUANT>(scaled(high, bias, m), rows.other(finish, 2 * i + 1));
        rows.store_two::<WHOLE>(2 * i, pack.bytes(low, high));
    }
    if let [row] = last {
        let t = add.row::<REQUANT>(scaled(row, bias, m), rows.other(finish, rows.n - 1));
        rows.store::<WHOLE>(rows.n - 1, _mm256_castsi256_si128(pack.bytes(t, t)));
    }
}

/// The second half of these forms, in registers.
struct AddOther {
    scale: __m256,
    zp: __m256i,
    flip: __m128i,
    /// Bounds of the product before it is rounded, and its scale; open and 1 where it is not.
    inner: [__m256; 3],
    /// Bounds of the sum.
    lo: __m256,
    hi: __m256,
    y_scale: __m256,
}

impl AddOther {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(other: &Source, inner: Option<&Inner>, [lo, hi]: [f32; 2], y_scale: f32) -> Self {
        let Inner { lo: least, hi: most, scale } =
            inner.copied().unwrap_or(Inner { lo: f32::NEG_INFINITY, hi: f32::INFINITY, scale: 1.0 });
        Self {
            scale: _mm256_set1_ps(other.scale),
            zp: _mm256_set1_epi32(other.zp),
            flip: _mm_set1_epi8(other.flip as i8),
            inner: [_mm256_set1_ps(least), _mm256_set1_ps(most), _mm256_set1_ps(scale)],
            lo: _mm256_set1_ps(lo),
            hi: _mm256_set1_ps(hi),
            y_scale: _mm256_set1_ps(y_scale),
        }
    }

    /// A row of scaled accumulators plus the other operand's bytes, clipped and divided.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn row<const REQUANT: bool>(&self, t: Pair<__m256>, bytes: __m128i) -> Pair<__m256> {
        let bytes = _mm_xor_si128(bytes, self.flip);
        [self.half::<REQUANT>(t[0], bytes), self.half::<REQUANT>(t[1], _mm_srli_si128::<8>(bytes))]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn half<const REQUANT: bool>(&self, t: __m256, bytes: __m128i) -> __m256 {
        let value = _mm256_sub_epi32(_mm256_cvtepu8_epi32(bytes), self.zp);
        let other = _mm256_mul_ps(_mm256_cvtepi32_ps(value), self.scale);
        if REQUANT {
            // There is no activation between sum and Quantize.
            return _mm256_div_ps(_mm256_add_ps(self.rounded(t), other), self.y_scale);
        }
        let sum = _mm256_add_ps(t, other);
        // The second operand is returned when one is NaN, which keeps NaN as the definition does.
        let clipped = _mm256_min_ps(self.hi, _mm256_max_ps(self.lo, sum));
        _mm256_div_ps(clipped, self.y_scale)
    }

    /// The product's own result, dequantized. A zero may be negative here, which no sum and no rounding shows.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rounded(&self, t: __m256) -> __m256 {
        let [lo, hi, scale] = self.inner;
        // The second operand is returned when one is NaN: the lower bound, as in the definition.
        let clamped = _mm256_min_ps(_mm256_max_ps(t, lo), hi);
        let rounded = _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(clamped);
        _mm256_mul_ps(rounded, scale)
    }
}

/// `fl32(f32(acc + bias) * m)`.
#[inline]
#[target_feature(enable = "avx2")]
fn scaled(acc: &[i32; COLS], bias: Pair<__m256i>, m: Pair<__m256>) -> Pair<__m256> {
    let [a, b] = load_i32(acc);
    let (a, b) = (_mm256_add_epi32(a, bias[0]), _mm256_add_epi32(b, bias[1]));
    [_mm256_mul_ps(_mm256_cvtepi32_ps(a), m[0]), _mm256_mul_ps(_mm256_cvtepi32_ps(b), m[1])]
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_i32(values: &[i32; COLS]) -> Pair<__m256i> {
    // SAFETY: both halves of sixteen values.
    unsafe { [_mm256_loadu_si256(values.as_ptr().cast()), _mm256_loadu_si256(values.as_ptr().add(8).cast())] }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_f32(values: &[f32; COLS]) -> Pair<__m256> {
    // SAFETY: both halves of sixteen values.
    unsafe { [_mm256_loadu_ps(values.as_ptr()), _mm256_loadu_ps(values.as_ptr().add(8))] }
}

/// [`Store`] in registers.
pub(super) struct Pack {
    hi: __m256,
    zp: __m256i,
    lo: __m256i,
    flip: __m256i,
}

impl Pack {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(store: &Store) -> Self {
        Self {
            hi: _mm256_set1_ps(store.hi),
            zp: _mm256_set1_epi16(store.zp as i16),
            lo: _mm256_set1_epi8(store.least as i8),
            flip: _mm256_set1_epi8(store.flip as i8),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn words(&self, [a, b]: Pair<__m256>) -> __m256i {
        let a = _mm256_cvtps_epi32(_mm256_min_ps(self.hi, a));
        let b = _mm256_cvtps_epi32(_mm256_min_ps(self.hi, b));
        _mm256_adds_epi16(_mm256_packs_epi32(a, b), self.zp)
    }

    /// As [`Self::words`], of integers that are rounded; `most` is the upper bound before the zero point.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words_of(&self, [a, b]: Pair<__m256i>, most: __m256i) -> __m256i {
        let (a, b) = (_mm256_min_epi32(a, most), _mm256_min_epi32(b, most));
        _mm256_adds_epi16(_mm256_packs_epi32(a, b), self.zp)
    }

    /// As [`Self::bytes`], of integers that are rounded.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn bytes_of(&self, [low, high]: Pair<Pair<__m256i>>, most: __m256i) -> __m256i {
        self.ordered([self.words_of(low, most), self.words_of(high, most)])
    }

    /// The bytes of one row in the low half, of another in the high half.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes(&self, low: Pair<__m256>, high: Pair<__m256>) -> __m256i {
        self.ordered([self.words(low), self.words(high)])
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn ordered(&self, words: Pair<__m256i>) -> __m256i {
        // Packing works within 128-bit halves, in columns: low 0-3 8-11, high 0-3 8-11, then low 4-7 12-15, high 4-7 12-15.
        let bytes = _mm256_packus_epi16(words[0], words[1]);
        let ordered = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
        self.bound(ordered)
    }

    /// As [`Self::bytes`], in the order in which packing leaves them.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn halves(&self, low: Pair<__m256>, high: Pair<__m256>) -> __m256i {
        self.bound(_mm256_packus_epi16(self.words(low), self.words(high)))
    }

    /// The lower bound, and the sign of the output type.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn bound(&self, bytes: __m256i) -> __m256i {
        _mm256_xor_si256(_mm256_max_epu8(bytes, self.lo), self.flip)
    }
}
