//! `dw_u8_s16_s32_8x8x2_avx2`: eight channels of two rows of four pixels, two image rows per step.
//!
//! ```text
//! for each step, for each image column that the tile reads:
//!     x <- 8 bytes of row p,  y <- 8 bytes of row q
//!     interleave to (x0 y0 x1 y1 ...), widen to 16 bits
//!     for each pixel and output row with a tap here:
//!         acc += vpmaddwd(interleaved, weights)              x*w[p] + y*w[q] per channel, in 32 bits
//! ```
//! The accumulators stay in registers. The loop over columns is unrolled for the common windows; others read each pixel's columns anew.

use core::arch::asm;
use core::arch::x86_64::*;

use crate::depthwise::{Band, DepthwiseB, DepthwisePanel, DepthwiseWindow, LINES, PIXELS, Sums, Uses};
use crate::gemm::Block;

/// Accumulators of `PX` pixels of two output rows.
pub(super) type Acc<const PX: usize> = [[__m256i; PX]; LINES];

/// Kernel width that stands for any window, and number of steps for any steps.
pub(super) const ANY: usize = 0;

/// Most steps whose places are kept at hand: kernels of up to 31 rows.
pub(super) const MAX_STEPS: usize = 16;

/// A step in a band: where its rows begin, and its first weights within a block of channels.
#[derive(Clone, Copy)]
pub(super) struct At {
    rows: [*const u8; 2],
    weights: usize,
    uses: Uses,
}

/// The steps of a band; the first `filter.steps().len()` are set.
pub(super) fn steps_at(band: &Band<'_>, filter: &DepthwiseB) -> [At; MAX_STEPS] {
    let start = band.a.as_ptr();
    let mut at = [At { rows: [start; 2], weights: 0, uses: Uses::First }; MAX_STEPS];
    let mut weights = 0;
    for (at, step) in at.iter_mut().zip(filter.steps()) {
        *at = At { rows: step.rows.map(|row| start.wrapping_add(band.row(row))), weights, uses: step.uses };
        weights += filter.window().kernel[1] * step.uses.lines().len();
    }
    at
}

/// See [`crate::generic::depthwise_u8::tile`].
#[target_feature(enable = "avx2")]
pub(crate) fn tile(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    band.check(panel, x0 + PIXELS);
    // SAFETY: the check proves the reads of the tile at `x0`.
    unsafe { raw(band, panel, x0, sums) }
}

/// # Safety
/// `band.check(panel, x0 + 4)` passed.
#[target_feature(enable = "avx2")]
unsafe fn raw(band: &Band<'_>, panel: &DepthwisePanel<'_>, x0: usize, sums: &mut Sums) {
    let mut acc: Acc<PIXELS> = [[_mm256_setzero_si256(); PIXELS]; LINES];
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

/// The sums of pixels `x0 .. x0 + PX` on top of `start`; of the first output row alone if there is only `one`.
///
/// # Safety
/// `band.check(panel, x0 + PX)` passed and `steps` are those of `band` and the panel's filter. `WIDTH` and `STRIDE` are the window's,
/// which has no horizontal dilation, or `WIDTH` is [`ANY`]; `STEPS` is the number of steps, each of which serves both output rows, or
/// [`ANY`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn product<const WIDTH: usize, const STRIDE: usize, const STEPS: usize, const PX: usize>(
    band: &Band<'_>,
    panel: &DepthwisePanel<'_>,
    steps: &[At],
    x0: usize,
    start: __m256i,
    one: bool,
) -> Acc<PX> {
    let mut acc = [[start; PX]; LINES];
    let window = panel.window;
    let (stride, width) = if WIDTH == ANY { (window.stride[1], window.kernel[1]) } else { (STRIDE, WIDTH) };
    let first = x0 * stride * band.pixel + panel.channel;
    if STEPS != ANY {
        for (i, At { rows, .. }) in steps[..STEPS].iter().enumerate() {
            let weights = &panel.weights[i * WIDTH * LINES..][..WIDTH * LINES];
            // SAFETY: the tile's columns lie within `a` for every row of the band.
            unsafe {
                let rows = [rows[0].add(first), rows[1].add(first)];
                match one {
                    false => columns::<WIDTH, STRIDE, 0, LINES, LINES, PX>(&mut acc, rows, band.pixel, weights),
                    true => columns::<WIDTH, STRIDE, 0, LINES, 1, PX>(&mut acc, rows, band.pixel, weights),
                }
            }
        }
        return acc;
    }
    for At { rows, weights, uses } in steps {
        let weights = &panel.weights[*weights..][..width * uses.lines().len()];
        // SAFETY: as above.
        unsafe {
            let rows = [rows[0].add(first), rows[1].add(first)];
            match (uses, one) {
                _ if WIDTH == ANY => general(&mut acc, rows, band.pixel, window, *uses, weights),
                (Uses::Both, false) => columns::<WIDTH, STRIDE, 0, 2, 2, PX>(&mut acc, rows, band.pixel, weights),
                (Uses::Both, true) => columns::<WIDTH, STRIDE, 0, 2, 1, PX>(&mut acc, rows, band.pixel, weights),
                (Uses::First, _) => columns::<WIDTH, STRIDE, 0, 1, 1, PX>(&mut acc, rows, band.pixel, weights),
                (Uses::Second, false) => columns::<WIDTH, STRIDE, 1, 1, 1, PX>(&mut acc, rows, band.pixel, weights),
                (Uses::Second, true) => (),
            }
        }
    }
    acc
}

/// One step for output rows `FIRST .. FIRST + DO`, with weights for `N` rows: each image column is interleaved once.
///
/// # Safety
/// Eight bytes may be read at both rows for each column of the tile.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn columns<
    const WIDTH: usize,
    const STRIDE: usize,
    const FIRST: usize,
    const N: usize,
    const DO: usize,
    const PX: usize,
>(
    acc: &mut Acc<PX>,
    [p, q]: [*const u8; 2],
    pixel: usize,
    weights: &[Block],
) {
    let weights = &weights[..WIDTH * N];
    for column in 0..(PX - 1) * STRIDE + WIDTH {
        // SAFETY: the column belongs to the tile.
        let x = unsafe { interleaved(p.add(column * pixel), q.add(column * pixel)) };
        for px in 0..PX {
            if column >= px * STRIDE && column - px * STRIDE < WIDTH {
                for n in 0..DO {
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
unsafe fn general<const PX: usize>(
    acc: &mut Acc<PX>,
    [p, q]: [*const u8; 2],
    pixel: usize,
    window: &DepthwiseWindow,
    uses: Uses,
    weights: &[Block],
) {
    let lines = uses.lines();
    for (kx, weights) in weights.chunks_exact(lines.len()).enumerate() {
        let at = |px: usize| (px * window.stride[1] + kx * window.dilation[1]) * pixel;
        for (px, at) in (0..PX).map(|px| (px, at(px))) {
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

/// `acc += vpmaddwd(x, weights)`. In assembly, with the weights as an operand in memory and in the order of the source: the compiler
/// would regroup the sums and keep weights in registers, and so run out of them.
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
            options(readonly, nostack, preserves_flags),
        );
    }
}

/// Thirty-two bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load<T>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) }
    // SAFETY: the reference is to 32 bytes.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(from).cast()) }
}
