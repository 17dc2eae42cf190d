//! Whole output rows of a depthwise convolution, requantized in registers: the epilogues of the three modes on top of
//! `depthwise_u8`.
//!
//! Eight neighbouring blocks of channels share cache lines. They pass one after the other over a chunk of pixels whose activations and
//! output stay in the first-level cache, then over the next. What does not fill a tile is done by a smaller one or, together with
//! pixels that are done already, by a whole one.

use core::arch::x86_64::*;
use core::ops::Range;

use super::depthwise_u8::{ANY, At, MAX_STEPS, load, product, steps_at};
use super::finish_q31::{DOUBLE, Eight, FLOAT, SINGLE, mode};
use crate::depthwise::{Band, CHANNELS, DepthwiseB, DepthwisePanel, LINES, PIXELS, Requant, Uses};
use crate::epilogue::{Scales, Store};

/// Blocks of channels that share cache lines.
const GROUP: usize = 64 / CHANNELS;
/// Bytes of activations and output that a group of blocks passes over before the next chunk of pixels: half of a first-level cache.
const CHUNK: usize = 16 << 10;
/// Pixels of the smaller tile.
const FEW: usize = PIXELS / 2;

/// Whole output rows of all channels, requantized into `out`, which holds one or two output rows; false where shape or scales are
/// none for this kernel.
#[target_feature(enable = "avx2")]
pub(crate) fn lines(band: &Band<'_>, filter: &DepthwiseB, to: &Requant<'_>, out: &mut [u8]) -> bool {
    let channels = filter.channels();
    let Some(mode) = mode(to.scales, 0..channels) else { return false };
    if to.wide < PIXELS || channels < CHANNELS || filter.steps().len() > MAX_STEPS {
        return false;
    }
    let line = to.wide * channels;
    let n_lines = out.len() / line;
    assert!((1..=LINES).contains(&n_lines) && out.len() == n_lines * line, "{} bytes of output rows", out.len());
    assert!(band.pixel == channels, "pixels of {} channels, {} bytes apart", channels, band.pixel);
    band.check(&filter.block(filter.n_blocks() - 1), to.wide);
    let job = Job { band, filter, to, n_lines };
    // SAFETY: the check proves the reads of every tile within `wide` pixels for the last block of channels, and
    // so for all; the assertions prove the stores.
    unsafe {
        match mode {
            FLOAT => of_shape::<FLOAT>(&job, out),
            DOUBLE => of_shape::<DOUBLE>(&job, out),
            _ => of_shape::<SINGLE>(&job, out),
        }
    }
    true
}

/// # Safety
/// The checks of [`lines`] passed.
#[target_feature(enable = "avx2")]
unsafe fn of_shape<const MODE: u8>(job: &Job<'_>, out: &mut [u8]) {
    let window = job.filter.window();
    // SAFETY: passed on to the caller.
    unsafe {
        match (window.dilation[1], window.kernel[1], window.stride[1], shared(job.filter)) {
            (1, 3, 1, 2) => requant::<3, 1, 2, MODE>(job, out),
            (1, 3, 1, _) => requant::<3, 1, ANY, MODE>(job, out),
            (1, 3, 2, _) => requant::<3, 2, ANY, MODE>(job, out),
            (1, 5, 1, _) => requant::<5, 1, ANY, MODE>(job, out),
            (1, 5, 2, _) => requant::<5, 2, ANY, MODE>(job, out),
            (1, 7, 1, _) => requant::<7, 1, ANY, MODE>(job, out),
            _ => requant::<ANY, 1, ANY, MODE>(job, out),
        }
    }
}

/// The number of steps, if all of them serve both output rows.
fn shared(filter: &DepthwiseB) -> usize {
    let all = filter.steps().iter().all(|step| step.uses == Uses::Both);
    if all { filter.steps().len() } else { ANY }
}

/// Checked arguments of [`lines`].
struct Job<'a> {
    band: &'a Band<'a>,
    filter: &'a DepthwiseB,
    to: &'a Requant<'a>,
    n_lines: usize,
}

/// # Safety
/// The checks of [`lines`] passed; the constants are those of [`product`].
#[target_feature(enable = "avx2")]
unsafe fn requant<const WIDTH: usize, const STRIDE: usize, const STEPS: usize, const MODE: u8>(
    job: &Job<'_>,
    out: &mut [u8],
) {
    let at = steps_at(job.band, job.filter);
    let (to, n_blocks, chunk) = (job.to, job.filter.n_blocks(), chunk(job));
    let small = match to.scales {
        Scales::Float(m) => m[..job.filter.channels()].iter().fold(true, |small, m| small & (m.abs() < 1.0)),
        Scales::Q31 { .. } => false,
    };
    let quantize = Quantize::new(small, to.store);
    for group in (0..n_blocks).step_by(GROUP) {
        for from in (0..to.wide).step_by(chunk) {
            for block in group..(group + GROUP).min(n_blocks) {
                let panel = job.filter.block(block);
                let bias = load(eight(to.bias, panel.channel));
                let scale = Eight::new(to.scales, panel.channel);
                let tiles =
                    Tiles { job, steps: &at[..job.filter.steps().len()], panel, bias, scale, quantize: &quantize };
                // SAFETY: passed on to the caller; the range lies within a row, and only a row's end is no whole tile.
                unsafe { tiles.run::<WIDTH, STRIDE, STEPS, MODE>(from..(from + chunk).min(to.wide), out) }
            }
        }
    }
}

/// Pixels of a chunk, a multiple of [`PIXELS`]; all chunks of a row are about equally long.
fn chunk(job: &Job<'_>) -> usize {
    let lines = job.band.n_rows.saturating_mul(job.filter.window().stride[1]).saturating_add(LINES);
    let most = (CHUNK / (GROUP * CHANNELS) / lines).max(2 * PIXELS);
    job.to.wide.div_ceil(job.to.wide.div_ceil(most)).next_multiple_of(PIXELS)
}

/// Eight per-channel values.
fn eight<T>(values: &[T], channel: usize) -> &[T; CHANNELS] {
    values[channel..].first_chunk().expect("per-channel vectors are padded by a panel")
}

/// A block of channels over pixels of a band.
struct Tiles<'a> {
    job: &'a Job<'a>,
    steps: &'a [At],
    panel: DepthwisePanel<'a>,
    bias: __m256i,
    scale: Eight,
    quantize: &'a Quantize,
}

impl Tiles<'_> {
    /// # Safety
    /// As [`requant`]; at least four pixels lie before the range's end.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn run<const WIDTH: usize, const STRIDE: usize, const STEPS: usize, const MODE: u8>(
        &self,
        range: Range<usize>,
        out: &mut [u8],
    ) {
        let rest = range.len() % PIXELS;
        let few = (1..=FEW).contains(&rest);
        // One place calls each size of tile, so that both are inlined.
        let end = if few { range.end - rest } else { range.end };
        // SAFETY: the tiles lie before the range's end, and so within a row.
        unsafe {
            for x0 in (range.start..end).step_by(PIXELS) {
                self.tile::<WIDTH, STRIDE, STEPS, MODE, PIXELS>(x0.min(range.end - PIXELS), out);
            }
            if few {
                self.tile::<WIDTH, STRIDE, STEPS, MODE, FEW>(range.end - FEW, out);
            }
        }
    }

    /// # Safety
    /// As [`requant`]; pixels `x0 .. x0 + PX` lie within a row.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn tile<const WIDTH: usize, const STRIDE: usize, const STEPS: usize, const MODE: u8, const PX: usize>(
        &self,
        x0: usize,
        out: &mut [u8],
    ) {
        let (job, pixel) = (self.job, self.job.band.pixel);
        let place = x0 * pixel + self.panel.channel;
        // SAFETY: the pixels are the row's; in `out` they begin at `place` of the first and, where there is one, the second output row.
        unsafe {
            let [first, second] =
                product::<WIDTH, STRIDE, STEPS, PX>(job.band, &self.panel, self.steps, x0, self.bias, job.n_lines == 1);
            store::<PX>(out.as_mut_ptr().add(place), pixel, self.quantize.bytes::<MODE, PX>(&self.scale, &first));
            if job.n_lines > 1 {
                let to = out.as_mut_ptr().add(job.to.wide * pixel + place);
                store::<PX>(to, pixel, self.quantize.bytes::<MODE, PX>(&self.scale, &second));
            }
        }
    }
}

/// `sat(rne(fl32(f32(acc) * m)) + zp)` in registers, with the values of `finish.rs`. The bounds are integers, so clamping after rounding
/// is clamping before it. The conversion to integers yields the smallest one where its operand is out of range: as it must below;
/// above, a multiplier under 1 keeps the product in range, and others are clamped beforehand. The product cannot be NaN.
struct Quantize {
    /// Every multiplier is less than 1.
    small: bool,
    top: __m256,
    /// The same as an integer.
    most: __m256i,
    zp: __m256i,
    lo: __m256i,
    hi: __m256i,
    flip: __m256i,
    /// Bounds are those of u8, and bytes are stored as they are.
    plain: bool,
}

impl Quantize {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(small: bool, store: &Store) -> Self {
        let Store { lo, hi, zp, flip, .. } = *store;
        let byte = |v: i32| _mm256_set1_epi8(v as u8 as i8);
        Self {
            small,
            top: _mm256_set1_ps(hi),
            most: _mm256_set1_epi32(hi as i32),
            zp: _mm256_set1_epi16(zp as i16),
            lo: byte(lo as i32 + zp),
            hi: byte(hi as i32 + zp),
            flip: byte(i32::from(flip)),
            plain: lo as i32 + zp == 0 && hi as i32 + zp == 255 && flip == 0,
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn rounded(&self, t: __m256) -> __m256i {
        _mm256_cvtps_epi32(if self.small { t } else { _mm256_min_ps(t, self.top) })
    }

    /// Pixels (0, 1) and (2, 3), eight channels each; `PX` of them count.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes<const MODE: u8, const PX: usize>(&self, scale: &Eight, acc: &[__m256i; PX]) -> [__m128i; 2] {
        let mut y = [_mm256_setzero_si256(); PIXELS];
        for (y, acc) in y.iter_mut().zip(acc) {
            *y = if MODE == FLOAT { self.rounded(scale.float(*acc)) } else { scale.q31::<MODE>(*acc, self.most) };
        }
        // Per half of a register: channels 0..4 or 4..8 of each pixel.
        let (ab, cd) = (_mm256_packs_epi32(y[0], y[1]), _mm256_packs_epi32(y[2], y[3]));
        let mut all = _mm256_packus_epi16(_mm256_adds_epi16(ab, self.zp), _mm256_adds_epi16(cd, self.zp));
        if !self.plain {
            all = _mm256_xor_si256(_mm256_min_epu8(_mm256_max_epu8(all, self.lo), self.hi), self.flip);
        }
        let (low, high) = (_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        [_mm_unpacklo_epi32(low, high), _mm_unpackhi_epi32(low, high)]
    }
}

/// # Safety
/// Eight bytes may be written at `to` and at the next `PX - 1` pixels; `PX` is 2 or 4.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const PX: usize>(to: *mut u8, pixel: usize, [ab, cd]: [__m128i; 2]) {
    const { assert!(PX == FEW || PX == PIXELS) }
    // SAFETY: passed on to the caller.
    unsafe {
        _mm_storel_epi64(to.cast(), ab);
        _mm_storeh_pd(to.add(pixel).cast(), _mm_castsi128_pd(ab));
        if PX == PIXELS {
            _mm_storel_epi64(to.add(2 * pixel).cast(), cd);
            _mm_storeh_pd(to.add(3 * pixel).cast(), _mm_castsi128_pd(cd));
        }
    }
}
