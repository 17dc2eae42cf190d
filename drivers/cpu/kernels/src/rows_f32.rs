//! f32 functions over rows, with the transcendental functions as arguments.
//!
//! The numeric contract (section 7) names every function as a sequence of single operations; their definitions are the caller's, and
//! here they are compiled for the instruction set. Sums have one accumulator per row in ascending index, so several rows are summed
//! side by side and no row is split.

use crate::arith::max_keep_nan;
use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
#[cfg(not(feature = "std"))]
use crate::float_ops::FloatOps as _;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Rows that are summed side by side.
const ROWS: usize = 8;
/// Elements whose largest is found side by side.
const UNIT: usize = 64;
/// What a transcendental function costs, in multiply-adds.
const COST: usize = 16;

/// Softmax of every row of `len` elements: subtract the maximum, `exp`, sum, divide.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn softmax_f32(
    exec: Exec<'_>,
    len: usize,
    exp: &(impl Fn(f32) -> f32 + Sync),
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    for_rows(exec, len, x, out, &|x, out| exec.isa.run(Softmax { len, exp, x, out }))
}

/// LayerNormalization of every row of `len` elements in two passes; `gamma` and `beta` may be absent.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn layer_norm_f32(
    exec: Exec<'_>,
    [gamma, beta]: [Option<&[f32]>; 2],
    len: usize,
    eps: f32,
    x: &[f32],
    out: &mut [f32],
) -> Result<()> {
    for affine in [gamma, beta].into_iter().flatten() {
        check_len("scale or bias", affine.len(), len)?;
    }
    for_rows(exec, len, x, out, &|x, out| exec.isa.run(LayerNorm { len, gamma, beta, eps, x, out }))
}

/// Calls `f` with ranges of whole rows of `x` and `out`.
fn for_rows(
    exec: Exec<'_>,
    len: usize,
    x: &[f32],
    out: &mut [f32],
    f: &(dyn Fn(&[f32], &mut [f32]) + Sync),
) -> Result<()> {
    check_len("the output", out.len(), x.len())?;
    if len == 0 || !x.len().is_multiple_of(len) {
        return Err(KernelError::Length { what: "the input", found: x.len(), expected: len });
    }
    let (n, cost, out) = (x.len() / len, x.len().saturating_mul(COST), SharedOut::new(out));
    exec.split(n, ROWS, exec.parts(cost, n.div_ceil(ROWS)), &|from, to| {
        // SAFETY: `split` gives each row to one task.
        let out = unsafe { out.part(from * len, (to - from) * len) };
        f(&x[from * len..to * len], out);
    })
}

/// Sums of `term` over up to eight rows, each ascending from +0; rows that are not there repeat the first.
#[inline(always)]
fn sums(x: &[f32], len: usize, term: impl Fn(usize, f32) -> f32) -> [f32; ROWS] {
    let rows: [&[f32]; ROWS] = core::array::from_fn(|r| x.chunks_exact(len).nth(r).unwrap_or(&x[..len]));
    let mut sums = [0f32; ROWS];
    for i in 0..len {
        for (r, (sum, row)) in sums.iter_mut().zip(rows).enumerate() {
            *sum += term(r, row[i]);
        }
    }
    sums
}

struct Softmax<'a, E> {
    len: usize,
    exp: &'a E,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl<E: Fn(f32) -> f32> Vectorize for Softmax<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let n = self.len;
        for (x, out) in self.x.chunks(ROWS * n).zip(self.out.chunks_mut(ROWS * n)) {
            for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
                let most = maximum(x);
                out.iter_mut().zip(x).for_each(|(y, x)| *y = (self.exp)(*x - most));
            }
            let totals = sums(out, n, |_, e| e);
            for (out, total) in out.chunks_exact_mut(n).zip(totals) {
                out.iter_mut().for_each(|y| *y /= total);
            }
        }
    }
}

/// The greatest element; NaN if there is one. Which of two zeros is returned does not matter to `exp(x - max)`.
#[inline(always)]
fn maximum(x: &[f32]) -> f32 {
    let mut most = [f32::NEG_INFINITY; UNIT];
    let mut nan = [false; UNIT];
    let mut take = |at: usize, x: f32| {
        most[at] = max_keep_nan(most[at], x);
        nan[at] |= x.is_nan();
    };
    let (whole, rest) = x.as_chunks::<UNIT>();
    whole.iter().for_each(|x| (0..UNIT).for_each(|i| take(i, x[i])));
    rest.iter().for_each(|x| take(0, *x));
    if nan.contains(&true) {
        return f32::NAN;
    }
    most.into_iter().fold(f32::NEG_INFINITY, max_keep_nan)
}

struct LayerNorm<'a> {
    len: usize,
    gamma: Option<&'a [f32]>,
    beta: Option<&'a [f32]>,
    eps: f32,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorize for LayerNorm<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (n, count) = (self.len, self.len as f32);
        for (x, out) in self.x.chunks(ROWS * n).zip(self.out.chunks_mut(ROWS * n)) {
            let means = sums(x, n, |_, x| x).map(|sum| sum / count);
            let squares = sums(x, n, |r, x| (x - means[r]) * (x - means[r]));
            for (r, (x, out)) in x.chunks_exact(n).zip(out.chunks_exact_mut(n)).enumerate() {
                let inverse = 1.0 / (squares[r] / count + self.eps).sqrt();
                out.iter_mut().zip(x).for_each(|(y, x)| *y = (*x - means[r]) * inverse);
                if let Some(gamma) = self.gamma {
                    out.iter_mut().zip(gamma).for_each(|(y, gamma)| *y *= gamma);
                }
                if let Some(beta) = self.beta {
                    out.iter_mut().zip(beta).for_each(|(y, beta)| *y += beta);
                }
            }
        }
    }
}
