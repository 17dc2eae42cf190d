//! `dw_u8_s16_s32_8x8x2_avx2`: eight channels of two rows of four pixels, two image rows per step.
//!
//! ```text
//! for each step, for each image column that the tile reads:
//!     x <- 8 bytes of row p,  y <- 8 bytes of row q
//!     interleave to (x0 y0 x1 y1 ...), widen to 16 bits
//!     for each pixel and output row with a tap here:
//!         acc += vpmaddwd(interleaved, weights)              x*w[p] + y*w[q] per channel, in 32 bits
//! ```
//! The eight accumulators stay in registers from the bias to the stored bytes. The loop over columns is unrolled for kernels of 3, 5
//! and 7 columns at stride 1 and 2; other windows read each pixel's columns anew.

use core::arch::x86_64::*;

use crate::depthwise::{Band, CHANNELS, DepthwisePanel, LINES, PIXELS, Requant, Step, Sums, Uses};
use crate::epilogue::Store;
use crate::gemm::Block;
use crate::isa::Avx2;

type Acc = [[__m256i; PIXELS]; LINES];

/// See [`crate::generic::depthwise_u8::tile`].
pub(crate) fn tile(_proof: Avx2, band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    band.check(panel, x0 + PIXELS);
    // SAFETY: the token proves AVX2; the check proves the reads of the tile at `x0`.
    unsafe { raw(band, panel, x0, sums) }
}

/// Whole output rows of a block of eight channels, requantized (`fp32_rne`) into `out`, which holds one or two output rows.
pub(crate) fn lines(_proof: Avx2, band: &Band<'_>, panel: &DepthwisePanel<'_>, to: &Requant<'_>, out: &mut [u8]) {
    assert!(to.wide >= PIXELS && panel.n == CHANNELS && panel.channel + CHANNELS <= to.pixel, "a partial block");
    let n_lines = out.len() / (to.wide * to.pixel);
    assert!((1..=LINES).contains(&n_lines), "{n_lines} output rows");
    band.check(panel, to.wide);
    // SAFETY: the token proves AVX2; the checks prove the reads of every tile within `wide` pixels and the stores of eight bytes at
    // the panel's channel of each pixel of `n_lines` output rows.
    unsafe {
        match (panel.window.dilation[1], panel.window.kernel[1], panel.window.stride[1]) {
            (1, 3, 1) => requant::<3, 1>(band, panel, to, n_lines, out),
            (1, 3, 2) => requant::<3, 2>(band, panel, to, n_lines, out),
            (1, 5, 1) => requant::<5, 1>(band, panel, to, n_lines, out),
            (1, 5, 2) => requant::<5, 2>(band, panel, to, n_lines, out),
            (1, 7, 1) => requant::<7, 1>(band, panel, to, n_lines, out),
            _ => requant::<ANY, 1>(band, panel, to, n_lines, out),
        }
    }
}

/// Kernel width that stands for the loop over any window.
const ANY: usize = 0;

/// # Safety
/// `band.check(panel, x0 + 4)` passed.
#[target_feature(enable = "avx2")]
unsafe fn raw(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    // SAFETY: passed on to the caller.
    let acc = unsafe { product::<ANY, 1>(band, panel, x0, _mm256_setzero_si256()) };
    for (sums, acc) in sums.as_flattened_mut().iter_mut().zip(acc.as_flattened()) {
        // SAFETY: eight i32 are 32 bytes.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *acc) }
    }
}

/// # Safety
/// `band.check(panel, to.wide)` passed, and `out` holds `n_lines` rows of `to.wide` pixels of `to.pixel` bytes, each with the panel's
/// eight channels.
#[target_feature(enable = "avx2")]
unsafe fn requant<const WIDTH: usize, const STRIDE: usize>(
    band: &Band<'_>,
    panel: &DepthwisePanel<'_>,
    to: &Requant<'_>,
    n_lines: usize,
    out: &mut [u8],
) {
    let bias = load(to.bias);
    let quantize = Quantize::new(to);
    for x0 in (0..to.wide).step_by(PIXELS) {
        // A last, partial tile begins early and repeats pixels of the one before it.
        let x0 = x0.min(to.wide - PIXELS);
        // SAFETY: the tile's pixels are among the row's.
        let acc = unsafe { product::<WIDTH, STRIDE>(band, panel, x0, bias) };
        for (line, acc) in acc.iter().enumerate().take(n_lines) {
            let at = (line * to.wide + x0) * to.pixel + panel.channel;
            // SAFETY: these are pixels `x0 .. x0 + 4` of output row `line`.
            unsafe { store(out.as_mut_ptr().add(at), to.pixel, quantize.bytes(acc)) }
        }
    }
}

/// The sums of a tile on top of `start`.
///
/// # Safety
/// `band.check(panel, x0 + 4)` passed, and `WIDTH`, `STRIDE` are the window's (without dilation), or `WIDTH` is [`ANY`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn product<const WIDTH: usize, const STRIDE: usize>(
    band: &Band<'_>,
    panel: &DepthwisePanel<'_>,
    x0: usize,
    start: __m256i,
) -> Acc {
    let mut acc = [[start; PIXELS]; LINES];
    let mut weights = panel.weights;
    let first = x0 * panel.window.stride[1] * band.pixel + panel.channel;
    for Step { rows, uses } in panel.steps {
        // SAFETY: the rows are the band's, whose columns for this tile lie within `a`.
        let [p, q] = rows.map(|row| unsafe { band.a.as_ptr().add(band.row(row) + first) });
        let (mine, rest) = weights.split_at(panel.window.kernel[1] * uses.lines().len());
        weights = rest;
        // SAFETY: as above.
        unsafe {
            match uses {
                _ if WIDTH == ANY => general(&mut acc, [p, q], band.pixel, panel, *uses, mine),
                Uses::Both => columns::<WIDTH, STRIDE, 0, 2>(&mut acc, [p, q], band.pixel, mine),
                Uses::First => columns::<WIDTH, STRIDE, 0, 1>(&mut acc, [p, q], band.pixel, mine),
                Uses::Second => columns::<WIDTH, STRIDE, 1, 1>(&mut acc, [p, q], band.pixel, mine),
            }
        }
    }
    acc
}

/// One step for output rows `FIRST .. FIRST + N`: each image column is interleaved once.
///
/// # Safety
/// Eight bytes may be read at both rows for each column of the tile.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn columns<const WIDTH: usize, const STRIDE: usize, const FIRST: usize, const N: usize>(
    acc: &mut Acc,
    [p, q]: [*const u8; 2],
    pixel: usize,
    weights: &[Block],
) {
    let weights = &weights[..WIDTH * N];
    for column in 0..(PIXELS - 1) * STRIDE + WIDTH {
        // SAFETY: the column belongs to the tile.
        let x = unsafe { interleaved(p.add(column * pixel), q.add(column * pixel)) };
        for px in 0..PIXELS {
            if column >= px * STRIDE && column - px * STRIDE < WIDTH {
                for n in 0..N {
                    add(&mut acc[FIRST + n][px], x, &weights[(column - px * STRIDE) * N + n]);
                }
            }
        }
    }
}

/// One step for any window: each pixel reads its own columns.
///
/// # Safety
/// As [`columns`].
#[target_feature(enable = "avx2")]
unsafe fn general(
    acc: &mut Acc,
    [p, q]: [*const u8; 2],
    pixel: usize,
    panel: &DepthwisePanel<'_>,
    uses: Uses,
    weights: &[Block],
) {
    let lines = uses.lines();
    for (kx, weights) in weights.chunks_exact(lines.len()).enumerate() {
        for px in 0..PIXELS {
            let at = (px * panel.window.stride[1] + kx * panel.window.dilation[1]) * pixel;
            // SAFETY: the column belongs to the tile.
            let x = unsafe { interleaved(p.add(at), q.add(at)) };
            for (line, block) in lines.iter().zip(weights) {
                add(&mut acc[*line][px], x, block);
            }
        }
    }
}

/// Two rows of eight bytes as eight pairs of 16 bits.
///
/// # Safety
/// Eight bytes may be read at both addresses.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn interleaved(p: *const u8, q: *const u8) -> __m256i {
    let spread = _mm256_setr_epi8(
        0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1, 8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1, 15,
        -1,
    );
    // SAFETY: passed on to the caller. Both halves of a register hold the eight bytes.
    let [x, y] = unsafe { [p.cast::<i64>().read_unaligned(), q.cast::<i64>().read_unaligned()] };
    let (x, y) = (_mm256_set1_epi64x(x), _mm256_set1_epi64x(y));
    _mm256_shuffle_epi8(_mm256_unpacklo_epi8(x, y), spread)
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(acc: &mut __m256i, x: __m256i, weights: &Block) {
    *acc = _mm256_add_epi32(*acc, _mm256_madd_epi16(x, load(weights)));
}

#[inline]
#[target_feature(enable = "avx2")]
fn load<T>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) }
    // SAFETY: the reference is to 32 bytes.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(from).cast()) }
}

/// `sat(rne(fl32(f32(acc) * m)) + zp)` in registers, with the values of `finish.rs`: `minps` keeps the conversion in range above, below
/// it saturates, and as the bounds are integers, clamping after rounding is clamping before it. The product cannot be NaN.
struct Quantize {
    m: __m256,
    hi: __m256,
    zp: __m256i,
    lo: __m128i,
    flip: __m128i,
}

impl Quantize {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(to: &Requant<'_>) -> Self {
        let Store { lo, hi, zp, flip } = *to.store;
        Self {
            m: _mm256_castsi256_ps(load(to.m)),
            hi: _mm256_set1_ps(hi),
            zp: _mm256_set1_epi16(zp as i16),
            lo: _mm_set1_epi8((lo as i32 + zp) as i8),
            flip: _mm_set1_epi8(flip as i8),
        }
    }

    /// `rne` of the scaled sums, at most `hi`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn round(&self, acc: __m256i) -> __m256i {
        _mm256_cvtps_epi32(_mm256_min_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(acc), self.m), self.hi))
    }

    /// Pixels (0, 1) and (2, 3), eight channels each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes(&self, acc: &[__m256i; PIXELS]) -> [__m128i; 2] {
        let [a, b, c, d] = [self.round(acc[0]), self.round(acc[1]), self.round(acc[2]), self.round(acc[3])];
        // Per half of a register: channels 0..4 or 4..8 of each pixel.
        let (ab, cd) = (_mm256_packs_epi32(a, b), _mm256_packs_epi32(c, d));
        let all = _mm256_packus_epi16(_mm256_adds_epi16(ab, self.zp), _mm256_adds_epi16(cd, self.zp));
        let (low, high) = (_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        let last = |y| _mm_xor_si128(_mm_max_epu8(y, self.lo), self.flip);
        [last(_mm_unpacklo_epi32(low, high)), last(_mm_unpackhi_epi32(low, high))]
    }
}

/// # Safety
/// Eight bytes may be written at `to` and at the next three pixels.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store(to: *mut u8, pixel: usize, [ab, cd]: [__m128i; 2]) {
    // SAFETY: passed on to the caller.
    unsafe {
        _mm_storel_epi64(to.cast(), ab);
        _mm_storeh_pd(to.add(pixel).cast(), _mm_castsi128_pd(ab));
        _mm_storel_epi64(to.add(2 * pixel).cast(), cd);
        _mm_storeh_pd(to.add(3 * pixel).cast(), _mm_castsi128_pd(cd));
    }
}
