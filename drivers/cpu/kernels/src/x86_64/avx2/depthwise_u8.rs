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

use core::arch::asm;
use core::arch::x86_64::*;
use core::ops::Range;

use crate::depthwise::{
    Band, CHANNELS, DepthwiseB, DepthwisePanel, DepthwiseWindow, LINES, PIXELS, Requant, Sums, Uses,
};
use crate::epilogue::Store;
use crate::gemm::Block;

type Acc = [[__m256i; PIXELS]; LINES];

/// See [`crate::generic::depthwise_u8::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    band.check(panel, x0 + PIXELS);
    // SAFETY: the check proves the reads of the tile at `x0`.
    unsafe { raw(band, panel, x0, sums) }
}

/// Whole output rows of all channels, requantized (`fp32_rne`) into `out`, which holds one or two output rows; false where the shape
/// is not one for this kernel.
#[target_feature(enable = "avx2")]
pub(crate) fn lines(band: &Band<'_>, filter: &DepthwiseB, to: &Requant<'_>, out: &mut [u8]) -> bool {
    let (window, channels) = (filter.window(), filter.channels());
    if to.wide < PIXELS || channels < CHANNELS || filter.steps().len() > MAX_STEPS {
        return false;
    }
    let n_lines = out.len() / (to.wide * channels);
    assert!((1..=LINES).contains(&n_lines), "{n_lines} output rows");
    band.check(&filter.block(filter.n_blocks() - 1), to.wide);
    let job = Job { band, filter, to, n_lines };
    // SAFETY: the check proves the reads of every tile within `wide` pixels for the last block of channels, and
    // so for all.
    unsafe {
        match (window.dilation[1], window.kernel[1], window.stride[1]) {
            (1, 3, 1) => requant::<3, 1>(&job, out),
            (1, 3, 2) => requant::<3, 2>(&job, out),
            (1, 5, 1) => requant::<5, 1>(&job, out),
            (1, 5, 2) => requant::<5, 2>(&job, out),
            (1, 7, 1) => requant::<7, 1>(&job, out),
            _ => requant::<ANY, 1>(&job, out),
        }
    }
    true
}

/// Most steps of a window that the kernel over whole rows keeps at hand: kernels of up to 31 rows.
const MAX_STEPS: usize = 16;

/// Arguments of [`lines`].
struct Job<'a> {
    band: &'a Band<'a>,
    filter: &'a DepthwiseB,
    to: &'a Requant<'a>,
    n_lines: usize,
}

/// A step in a band: where its rows begin, and its first weights within a block of channels.
#[derive(Clone, Copy)]
struct At {
    rows: [*const u8; 2],
    weights: usize,
    uses: Uses,
}

/// The steps of a band; the first `filter.steps().len()` are set.
fn steps_at(band: &Band<'_>, filter: &DepthwiseB) -> [At; MAX_STEPS] {
    let start = band.a.as_ptr();
    let mut at = [At { rows: [start; 2], weights: 0, uses: Uses::First }; MAX_STEPS];
    let mut weights = 0;
    for (at, step) in at.iter_mut().zip(filter.steps()) {
        *at = At { rows: step.rows.map(|row| start.wrapping_add(band.row(row))), weights, uses: step.uses };
        weights += filter.window().kernel[1] * step.uses.lines().len();
    }
    at
}

/// Kernel width that stands for the loop over any window.
const ANY: usize = 0;

/// # Safety
/// `band.check(panel, x0 + 4)` passed.
#[target_feature(enable = "avx2")]
unsafe fn raw(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    let mut acc = [[_mm256_setzero_si256(); PIXELS]; LINES];
    let first = x0 * panel.window.stride[1] * band.pixel + panel.channel;
    let mut weights = panel.weights;
    for step in panel.steps {
        // SAFETY: the rows are the band's, whose columns for this tile lie within `a`.
        let [p, q] = step.rows.map(|row| unsafe { band.a.as_ptr().add(band.row(row) + first) });
        let (mine, rest) = weights.split_at(panel.window.kernel[1] * step.uses.lines().len());
        weights = rest;
        // SAFETY: as above.
        unsafe { general(&mut acc, [p, q], band.pixel, panel.window, step.uses, mine) };
    }
    for (sums, acc) in sums.as_flattened_mut().iter_mut().zip(acc.as_flattened()) {
        // SAFETY: eight i32 are 32 bytes.
        unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *acc) }
    }
}

/// # Safety
/// `band.check` passed for the last block of channels and all pixels of a row; `WIDTH`, `STRIDE` are the window's (without dilation),
/// or `WIDTH` is [`ANY`].
#[target_feature(enable = "avx2")]
unsafe fn requant<const WIDTH: usize, const STRIDE: usize>(job: &Job<'_>, out: &mut [u8]) {
    let (to, pixel) = (job.to, job.band.pixel);
    let at = steps_at(job.band, job.filter);
    let at = &at[..job.filter.steps().len()];
    let line = to.wide * pixel;
    assert!(out.len() == job.n_lines * line && to.wide >= PIXELS);
    let chunk = chunk(job);
    for group in (0..job.filter.n_blocks()).step_by(GROUP) {
        for from in (0..to.wide).step_by(chunk) {
            for block in group..(group + GROUP).min(job.filter.n_blocks()) {
                // SAFETY: passed on to the caller.
                unsafe { tiles::<WIDTH, STRIDE>(job, at, block, from..(from + chunk).min(to.wide), out) }
            }
        }
    }
}

/// Blocks of channels that share cache lines.
const GROUP: usize = 64 / CHANNELS;
/// Bytes of activations and output that a group of blocks passes over before the next chunk of pixels: half of a first-level cache.
const CHUNK: usize = 16 << 10;

/// Pixels of a chunk, a multiple of [`PIXELS`]; all chunks of a row are about equally long.
fn chunk(job: &Job<'_>) -> usize {
    let lines = job.band.n_rows * job.filter.window().stride[1] + LINES;
    let most = (CHUNK / (GROUP * CHANNELS) / lines).max(2 * PIXELS);
    job.to.wide.div_ceil(job.to.wide.div_ceil(most)).next_multiple_of(PIXELS)
}

/// Pixels `range` of a block of channels.
///
/// # Safety
/// As [`requant`], whose assertion holds; the range is within a row.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn tiles<const WIDTH: usize, const STRIDE: usize>(
    job: &Job<'_>,
    at: &[At],
    block: usize,
    range: Range<usize>,
    out: &mut [u8],
) {
    let (to, pixel, panel) = (job.to, job.band.pixel, job.filter.block(block));
    let bias = load(eight(to.bias, panel.channel));
    let quantize = Quantize::new(eight(to.m, panel.channel), to.store);
    for x0 in range.step_by(PIXELS) {
        // A last, partial tile begins early and repeats pixels of the one before it.
        let x0 = x0.min(to.wide - PIXELS);
        // SAFETY: the tile's pixels are among the row's.
        let [first, second] = unsafe { product::<WIDTH, STRIDE>(job.band, &panel, at, x0, bias) };
        let place = x0 * pixel + panel.channel;
        // SAFETY: these are eight channels of pixels `x0 .. x0 + 4` of the first and, where there is one, the second output row.
        unsafe {
            store(out.as_mut_ptr().add(place), pixel, quantize.bytes(&first));
            if job.n_lines > 1 {
                store(out.as_mut_ptr().add(to.wide * pixel + place), pixel, quantize.bytes(&second));
            }
        }
    }
}

/// Eight per-channel values.
fn eight<T>(values: &[T], channel: usize) -> &[T; CHANNELS] {
    values[channel..].first_chunk().expect("per-channel vectors are padded by a panel")
}

/// The sums of a tile on top of `start`.
///
/// # Safety
/// As [`requant`]; `x0 + 4` pixels are within a row.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn product<const WIDTH: usize, const STRIDE: usize>(
    band: &Band<'_>,
    panel: &DepthwisePanel<'_>,
    steps: &[At],
    x0: usize,
    start: __m256i,
) -> Acc {
    let mut acc = [[start; PIXELS]; LINES];
    let window = panel.window;
    let (stride, width) = if WIDTH == ANY { (window.stride[1], window.kernel[1]) } else { (STRIDE, WIDTH) };
    let first = x0 * stride * band.pixel + panel.channel;
    for At { rows, weights, uses } in steps {
        // SAFETY: the tile's columns lie within `a` for every row of the band.
        let rows = unsafe { [rows[0].add(first), rows[1].add(first)] };
        let n = width * uses.lines().len();
        debug_assert!(weights + n <= panel.weights.len());
        // SAFETY: the steps' weights fill the panel's, one after the other.
        let weights = unsafe { panel.weights.get_unchecked(*weights..*weights + n) };
        // SAFETY: the rows are as above.
        unsafe {
            match uses {
                _ if WIDTH == ANY => general(&mut acc, rows, band.pixel, window, *uses, weights),
                Uses::Both => columns::<WIDTH, STRIDE, 0, 2>(&mut acc, rows, band.pixel, weights),
                Uses::First => columns::<WIDTH, STRIDE, 0, 1>(&mut acc, rows, band.pixel, weights),
                Uses::Second => columns::<WIDTH, STRIDE, 1, 1>(&mut acc, rows, band.pixel, weights),
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
    window: &DepthwiseWindow,
    uses: Uses,
    weights: &[Block],
) {
    let lines = uses.lines();
    for (kx, weights) in weights.chunks_exact(lines.len()).enumerate() {
        for px in 0..PIXELS {
            let at = (px * window.stride[1] + kx * window.dilation[1]) * pixel;
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
        0, -1, 1, -1, 2, -1, 3, -1, 4, -1, 5, -1, 6, -1, 7, -1, 8, -1, 9, -1, 10, -1, 11, -1, 12, -1, 13, -1, 14, -1,
        15, -1,
    );
    // SAFETY: passed on to the caller. Both halves of a register hold the eight bytes.
    let [x, y] = unsafe { [p.cast::<i64>().read_unaligned(), q.cast::<i64>().read_unaligned()] };
    let (x, y) = (_mm256_set1_epi64x(x), _mm256_set1_epi64x(y));
    _mm256_shuffle_epi8(_mm256_unpacklo_epi8(x, y), spread)
}

/// `acc += vpmaddwd(x, weights)`. In assembly, with the weights as an operand in memory: the compiler would regroup the sums and keep
/// weights in registers, and so run out of them.
#[inline]
#[target_feature(enable = "avx2")]
fn add(acc: &mut __m256i, x: __m256i, weights: &Block) {
    // SAFETY: two AVX2 instructions; the block is 32 bytes.
    unsafe {
        asm!(
            "vpmaddwd {t}, {x}, ymmword ptr [{w}]",
            "vpaddd {acc}, {acc}, {t}",
            t = out(ymm_reg) _,
            x = in(ymm_reg) x,
            w = in(reg) weights,
            acc = inout(ymm_reg) *acc,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load<T>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) }
    // SAFETY: the reference is to 32 bytes.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(from).cast()) }
}

/// `sat(rne(fl32(f32(acc) * m)) + zp)` in registers, with the values of `finish.rs`. The bounds are integers, so clamping after rounding
/// is clamping before it. The conversion to integers yields the smallest one where its operand is out of range: as it must below;
/// above, a multiplier under 1 keeps the product in range, and others are clamped beforehand. The product cannot be NaN.
struct Quantize {
    m: __m256,
    /// Every multiplier is less than 1.
    small: bool,
    top: __m256,
    zp: __m256i,
    lo: __m256i,
    hi: __m256i,
    flip: __m256i,
}

impl Quantize {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new(m: &[f32; CHANNELS], store: &Store) -> Self {
        let Store { lo, hi, zp, flip } = *store;
        let byte = |v: i32| _mm256_set1_epi8(v as u8 as i8);
        Self {
            m: _mm256_castsi256_ps(load(m)),
            small: m.iter().all(|m| m.abs() < 1.0),
            top: _mm256_set1_ps(hi),
            zp: _mm256_set1_epi16(zp as i16),
            lo: byte(lo as i32 + zp),
            hi: byte(hi as i32 + zp),
            flip: byte(i32::from(flip)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn scaled(&self, acc: __m256i) -> __m256 {
        _mm256_mul_ps(_mm256_cvtepi32_ps(acc), self.m)
    }

    /// Pixels (0, 1) and (2, 3), eight channels each.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn bytes(&self, acc: &[__m256i; PIXELS]) -> [__m128i; 2] {
        let mut t = [self.scaled(acc[0]), self.scaled(acc[1]), self.scaled(acc[2]), self.scaled(acc[3])];
        if !self.small {
            for t in &mut t {
                *t = _mm256_min_ps(*t, self.top);
            }
        }
        // Per half of a register: channels 0..4 or 4..8 of each pixel.
        let ab = _mm256_packs_epi32(_mm256_cvtps_epi32(t[0]), _mm256_cvtps_epi32(t[1]));
        let cd = _mm256_packs_epi32(_mm256_cvtps_epi32(t[2]), _mm256_cvtps_epi32(t[3]));
        let all = _mm256_packus_epi16(_mm256_adds_epi16(ab, self.zp), _mm256_adds_epi16(cd, self.zp));
        let all = _mm256_xor_si256(_mm256_min_epu8(_mm256_max_epu8(all, self.lo), self.hi), self.flip);
        let (low, high) = (_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
        [_mm_unpacklo_epi32(low, high), _mm_unpackhi_epi32(low, high)]
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
