//! Softmax and LayerNormalization over contiguous f32 rows (numeric contract, section 7).
//!
//! A sum has one accumulator per row and ascending index. To be fast none the less, the sums of eight rows are computed side by side:
//! eight chains of additions that do not wait for each other. Everything else is a plain loop over a row.

use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;
use crate::pointwise::exp;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Rows whose sums are computed side by side.
const SIDE: usize = 8;
/// Elements of a row that are summed between two looks at the lengths.
const STEP: usize = 16;

/// Softmax of rows of `len`: subtract the maximum, `exp`, sum, divide.
///
/// # Errors
/// When the slices are not whole rows of one size, or a task panicked.
pub fn softmax_f32(exec: Exec<'_>, len: usize, x: &[f32], out: &mut [f32]) -> Result<()> {
    rows(exec, len, x, out, &|x, out| exec.isa.run(Softmax { len, x, out }))
}

/// LayerNormalization of rows: mean, then the sum of squared differences, `1 / sqrt(var + eps)`, scale, bias.
///
/// # Errors
/// When the slices are not whole rows of one size, or scale or bias are no row.
pub fn layer_norm_f32(exec: Exec<'_>, norm: &LayerNorm<'_>, x: &[f32], out: &mut [f32]) -> Result<()> {
    for values in [norm.scale, norm.bias].into_iter().flatten() {
        check_len("scale or bias", values.len(), norm.len)?;
    }
    rows(exec, norm.len, x, out, &|x, out| exec.isa.run(Norm { norm, x, out }))
}

/// Parameters of [`layer_norm_f32`].
#[derive(Clone, Copy, Debug)]
pub struct LayerNorm<'a> {
    /// Elements of a row.
    pub len: usize,
    /// One factor per element; none leaves the multiplication out.
    pub scale: Option<&'a [f32]>,
    /// One summand per element; none leaves the addition out.
    pub bias: Option<&'a [f32]>,
    /// What is added to the variance.
    pub eps: f32,
}

/// Calls `f` with groups of up to [`SIDE`] rows and their places in `out`.
fn rows(exec: Exec<'_>, len: usize, x: &[f32], out: &mut [f32], f: &(dyn Fn(&[f32], &mut [f32]) + Sync)) -> Result<()> {
    check_len("the output", out.len(), x.len())?;
    if len == 0 || !x.len().is_multiple_of(len) {
        return Err(KernelError::Length { what: "the input", found: x.len(), expected: len });
    }
    let group = len.saturating_mul(SIDE);
    let (parts, out) = (exec.parts(x.len().saturating_mul(16), usize::MAX), SharedOut::new(out));
    exec.split(x.len(), group, parts, &|from, to| {
        let mut at = from;
        while at < to {
            let n = group.min(to - at);
            // SAFETY: `split` hands out disjoint ranges, and each task takes one group at a time.
            f(&x[at..at + n], unsafe { out.part(at, n) });
            at += n;
        }
    })
}

/// The sums of up to [`SIDE`] rows of `len`, each from +0 in ascending order: of the elements, or of their squared distances.
#[inline(always)]
fn sums<const SQUARES: bool>(len: usize, x: &[f32], mean: &[f32; SIDE]) -> [f32; SIDE] {
    let mut acc = [0f32; SIDE];
    if x.len() == SIDE * len {
        let whole = len / STEP * STEP;
        for at in (0..whole).step_by(STEP) {
            let mut part = [[0f32; STEP]; SIDE];
            for (r, part) in part.iter_mut().enumerate() {
                if let Some(from) = x[r * len + at..].first_chunk() {
                    *part = *from;
                }
            }
            for j in 0..STEP {
                for r in 0..SIDE {
                    acc[r] += term::<SQUARES>(part[r][j], mean[r]);
                }
            }
        }
        for j in whole..len {
            for r in 0..SIDE {
                acc[r] += term::<SQUARES>(x[r * len + j], mean[r]);
            }
        }
    } else {
        for ((row, acc), mean) in x.chunks_exact(len).zip(&mut acc).zip(mean) {
            for x in row {
                *acc += term::<SQUARES>(*x, *mean);
            }
        }
    }
    acc
}

#[inline(always)]
fn term<const SQUARES: bool>(x: f32, mean: f32) -> f32 {
    if SQUARES {
        let d = x - mean;
        d * d
    } else {
        x
    }
}

struct Softmax<'a> {
    len: usize,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorize for Softmax<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (y, x) in self.out.chunks_exact_mut(self.len).zip(self.x.chunks_exact(self.len)) {
            let most = maximum(x);
            for (y, x) in y.iter_mut().zip(x) {
                *y = exp(*x - most);
            }
        }
        let totals = sums::<false>(self.len, self.out, &[0.0; SIDE]);
        for (y, total) in self.out.chunks_exact_mut(self.len).zip(totals) {
            for y in y {
                *y /= total;
            }
        }
    }
}

/// The greater value; NaN if either is.
#[inline(always)]
fn greater(a: f32, b: f32) -> f32 {
    if a > b || a.is_nan() { a } else { b }
}

/// The greatest element, NaN if there is one. Which zero is found does not matter to what is subtracted.
#[inline(always)]
fn maximum(x: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; STEP];
    let (whole, last) = x.as_chunks::<STEP>();
    for x in whole {
        for (most, x) in most.iter_mut().zip(x) {
            *most = greater(*most, *x);
        }
    }
    let mut one = f32::NEG_INFINITY;
    for x in most.iter().chain(last) {
        one = greater(one, *x);
    }
    one
}

struct Norm<'a> {
    norm: &'a LayerNorm<'a>,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorize for Norm<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let LayerNorm { len, scale, bias, eps } = *self.norm;
        let n = len as f32;
        let mut means = sums::<false>(len, self.x, &[0.0; SIDE]);
        for mean in &mut means {
            *mean /= n;
        }
        let squares = sums::<true>(len, self.x, &means);
        let groups = self.out.chunks_exact_mut(len).zip(self.x.chunks_exact(len));
        for (r, (y, x)) in groups.enumerate() {
            let (mean, inv) = (means[r], 1.0 / (squares[r] / n + eps).sqrt());
            for (y, x) in y.iter_mut().zip(x) {
                *y = (*x - mean) * inv;
            }
            if let Some(scale) = scale {
                for (y, scale) in y.iter_mut().zip(scale) {
                    *y *= scale;
                }
            }
            if let Some(bias) = bias {
                for (y, bias) in y.iter_mut().zip(bias) {
                    *y += bias;
                }
            }
        }
    }
}
