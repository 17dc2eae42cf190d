//! `dw_f32_f32_f32_4x16_avx2`: four pixels by two registers of eight channels.
//!
//! ```text
//! acc[pixel][2] = +0
//! for each tap, ascending:
//!     w <- 16 channels of the tap
//!     for each pixel: acc[pixel] = fma(a[pixel][tap], w, acc[pixel])
//! ```
//! The last channels of a pixel are covered by a block of eight that ends with the last one: it repeats some channels, with equal
//! results. Fewer than eight channels run one by one.

use core::arch::x86_64::*;

use crate::depthwise_f32::DepthwiseRow;

/// Pixels of a block.
const PIXELS: usize = 4;
/// Channels of a register.
const LANES: usize = 8;

/// See [`crate::generic::depthwise_f32::run`].
#[target_feature(enable = "avx2,fma,f16c")]
pub(crate) fn run(job: DepthwiseRow<'_>) {
    let n = job.check();
    if job.channels < LANES {
        return super::compiled(Narrow(job));
    }
    // SAFETY: `check` proves that all taps of `n` pixels and all channels lie inside the slices.
    unsafe { pixels(job, n) }
}

/// Too few channels for a register.
struct Narrow<'a>(DepthwiseRow<'a>);

impl crate::vectorize::Vectorize for Narrow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        crate::generic::depthwise_f32::run(self.0);
    }
}

/// # Safety
/// `job.check()` returned `n`, and a pixel has at least eight channels.
#[target_feature(enable = "avx2,fma")]
unsafe fn pixels(mut job: DepthwiseRow<'_>, n: usize) {
    let mut p = 0;
    while p < n {
        // SAFETY: the caller's promise; the pixels of each block are below `n`.
        unsafe {
            match (n - p, job.taps[1]) {
                (PIXELS.., 3) => channels::<PIXELS, 3>(&mut job, p),
                (PIXELS.., 5) => channels::<PIXELS, 5>(&mut job, p),
                (PIXELS.., _) => channels::<PIXELS, 0>(&mut job, p),
                (3, _) => channels::<3, 0>(&mut job, p),
                (2, _) => channels::<2, 0>(&mut job, p),
                _ => channels::<1, 0>(&mut job, p),
            }
        }
        p += PIXELS;
    }
}

/// # Safety
/// As [`pixels`], for `P` pixels from `p` on that see `X` columns of taps; any number if `X` is 0.
#[target_feature(enable = "avx2,fma")]
unsafe fn channels<const P: usize, const X: usize>(job: &mut DepthwiseRow<'_>, p: usize) {
    let whole = job.channels - job.channels % (2 * LANES);
    // SAFETY: the caller's promise; each block of channels ends at or before the last channel.
    unsafe {
        for c in (0..whole).step_by(2 * LANES) {
            block::<P, 2, X>(job, p, c);
        }
        if job.channels - whole > LANES {
            block::<P, 1, X>(job, p, whole);
        }
        if job.channels > whole {
            block::<P, 1, X>(job, p, job.channels - LANES);
        }
    }
}

/// # Safety
/// As [`channels`], for `8 * V` channels from `c` on.
#[inline]
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const P: usize, const V: usize, const X: usize>(job: &mut DepthwiseRow<'_>, p: usize, c: usize) {
    let mut acc = [[_mm256_setzero_ps(); V]; P];
    let [row, column, step] = job.a_steps;
    for y in 0..job.taps[0] {
        for x in 0..if X > 0 { X } else { job.taps[1] } {
            // SAFETY: `check` has covered every tap of every pixel and channel, in activations and in weights.
            unsafe {
                let a = job.a.as_ptr().add(y * row + x * column + p * step + c);
                let w = job.weights.as_ptr().add(y * job.w_step + x * job.channels + c);
                let w: [__m256; V] = core::array::from_fn(|v| _mm256_loadu_ps(w.add(v * LANES)));
                for (i, acc) in acc.iter_mut().enumerate() {
                    for (v, acc) in acc.iter_mut().enumerate() {
                        *acc = _mm256_fmadd_ps(_mm256_loadu_ps(a.add(i * step + v * LANES)), w[v], *acc);
                    }
                }
            }
        }
    }
    let (lo, hi) = (_mm256_set1_ps(job.bounds[0]), _mm256_set1_ps(job.bounds[1]));
    for (i, acc) in acc.iter().enumerate() {
        for (v, acc) in acc.iter().enumerate() {
            let (c, mut sum) = (c + v * LANES, *acc);
            let at = (p + i) * job.channels + c;
            // SAFETY: `check` has covered every channel of every pixel in bias, residual and output.
            unsafe {
                if let Some(bias) = job.bias {
                    sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias.as_ptr().add(c)));
                }
                if let Some(residual) = job.residual {
                    sum = _mm256_add_ps(sum, _mm256_loadu_ps(residual.as_ptr().add(at)));
                }
                // Both return their second operand when it is NaN.
                sum = _mm256_min_ps(hi, _mm256_max_ps(lo, sum));
                _mm256_storeu_ps(job.out.as_mut_ptr().add(at), sum);
            }
        }
    }
}
