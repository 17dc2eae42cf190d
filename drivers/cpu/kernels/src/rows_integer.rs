//! Integer functions over rows, and rows that are quantized at run time.
//!
//! The sequences are those of the numeric contract (sections 4 and 6): integers of a fixed width that the caller has proved to
//! suffice, and single f32 operations. Nothing here depends on the number of threads.

use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Elements whose largest is found side by side.
const UNIT: usize = 32;
/// Adding and subtracting it rounds values below 2^22 to the nearest integer, ties to even.
const ROUND: f32 = 12_582_912.0;
/// Half of the range of a byte: what is added to a signed code to hold it as u8.
const HALF: f32 = 128.0;

/// The constants of an integer LayerNorm (section 6), apart from the gains and offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NormInt {
    /// `rne(n^2 * eps / xs^2 * 2^fraction)`.
    pub eps_term: u64,
    /// Fraction bits of `D`: 16 for bytes, 8 for 16 bits.
    pub fraction: u32,
    /// Zero point of the stored output.
    pub zero_point: i32,
    /// Least stored output.
    pub lo: i32,
    /// Greatest stored output.
    pub hi: i32,
}

/// An element of a row that [`layer_norm_int`] normalizes.
pub trait NormElement: Copy + Into<i32> + Sync {}
impl NormElement for u8 {}
impl NormElement for i16 {}
impl NormElement for u16 {}

/// `layernorm_int` of every row of as many elements as there are gains. `D < 2^62`, `|offset| < 2^62` and rows of at most 65 535
/// elements are the caller's proof.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn layer_norm_int<X: NormElement>(
    exec: Exec<'_>,
    norm: NormInt,
    gains: &[i32],
    offsets: &[i64],
    x: &[X],
    out: &mut [u8],
) -> Result<()> {
    check_len("the offsets", offsets.len(), gains.len())?;
    rows(exec, gains.len(), 8, x, out, &|x, out| exec.isa.run(Norm { norm, gains, offsets, x, out }))
}

/// Calls `f` with ranges of whole rows of `x` and `out`; an element costs so many multiply-adds.
fn rows<X: Sync, Y: Send>(
    exec: Exec<'_>,
    len: usize,
    cost: usize,
    x: &[X],
    out: &mut [Y],
    f: &(dyn Fn(&[X], &mut [Y]) + Sync),
) -> Result<()> {
    check_len("the output", out.len(), x.len())?;
    if len == 0 || !x.len().is_multiple_of(len) {
        return Err(KernelError::Length { what: "the input", found: x.len(), expected: len });
    }
    let (n, cost, out) = (x.len() / len, x.len().saturating_mul(cost), SharedOut::new(out));
    exec.split(n, 1, exec.parts(cost, n), &|from, to| {
        // SAFETY: `split` gives each row to one task.
        let out = unsafe { out.part(from * len, (to - from) * len) };
        f(&x[from * len..to * len], out);
    })
}

struct Norm<'a, X> {
    norm: NormInt,
    gains: &'a [i32],
    offsets: &'a [i64],
    x: &'a [X],
    out: &'a mut [u8],
}

impl<X: NormElement> Vectorize for Norm<'_, X> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let len = self.gains.len();
        for (x, out) in self.x.chunks_exact(len).zip(self.out.chunks_exact_mut(len)) {
            let (mut s, mut q) = (0i64, 0i64);
            for v in x {
                let v: i32 = (*v).into();
                s += i64::from(v);
                q += i64::from(v) * i64::from(v);
            }
            let n = len as i64;
            // n * q >= s * s by Cauchy's inequality.
            let d = (((n * q - s * s) as u64) << self.norm.fraction) + self.norm.eps_term;
            let (t, r) = reciprocal_root(d);
            let shift = 46 - self.norm.fraction / 2 - t;
            let half = 1i64 << (shift - 1);
            let NormInt { zero_point, lo, hi, .. } = self.norm;
            for (((y, v), gain), offset) in out.iter_mut().zip(x).zip(self.gains).zip(self.offsets) {
                let v: i32 = (*v).into();
                let z = ((n * i64::from(v) - s) * r + half) >> shift;
                let sum = (i64::from(*gain) * z + offset + (1 << 29)) >> 30;
                *y = (sum + i64::from(zero_point)).clamp(lo.into(), hi.into()) as u8;
            }
        }
    }
}

/// `(t, r)` with `r = 2^(62-t) / sqrt(D)`, rounded; `(0, 0)` for `D = 0`.
#[inline(always)]
fn reciprocal_root(d: u64) -> (u32, i64) {
    let d = d.min((1 << 62) - 1);
    if d == 0 {
        return (0, 0);
    }
    let t = (d.leading_zeros() - 2) / 2;
    let g = (d << (2 * t)).isqrt();
    (t, (((1 << 62) + (g >> 1)) / g) as i64)
}

/// The scale of each row of `len` elements, `max|x| / 127`, 0 counting as 1.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn row_scales(exec: Exec<'_>, len: usize, x: &[f32], scales: &mut [f32]) -> Result<()> {
    check_len("the input", x.len(), scales.len().saturating_mul(len))?;
    let (n, out) = (scales.len(), SharedOut::new(scales));
    exec.split(n, 1, exec.parts(x.len(), n), &|from, to| {
        // SAFETY: `split` gives each row to one task.
        let out = unsafe { out.part(from, to - from) };
        exec.isa.run(Scales { len, x: &x[from * len..to * len], out });
    })
}

struct Scales<'a> {
    len: usize,
    x: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorize for Scales<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for (x, out) in self.x.chunks_exact(self.len).zip(self.out) {
            let mut most = [0f32; UNIT];
            // A comparison with NaN is false, so NaN has no part in the largest value.
            let larger = |m: f32, v: f32| if v.abs() > m { v.abs() } else { m };
            let (whole, rest) = x.as_chunks::<UNIT>();
            whole.iter().for_each(|x| (0..UNIT).for_each(|i| most[i] = larger(most[i], x[i])));
            rest.iter().for_each(|x| most[0] = larger(most[0], *x));
            let scale = most.into_iter().fold(0.0, larger) / 127.0;
            *out = if scale == 0.0 { 1.0 } else { scale };
        }
    }
}

/// Rows of `len` elements in the codes of their scales, -127 to 127 (NaN is 0), held as u8 with 128 as zero.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn quantize_rows(exec: Exec<'_>, len: usize, x: &[f32], scales: &[f32], out: &mut [u8]) -> Result<()> {
    check_len("the input", x.len(), scales.len().saturating_mul(len))?;
    check_len("the output", out.len(), x.len())?;
    let (n, out) = (scales.len(), SharedOut::new(out));
    exec.split(n, 1, exec.parts(x.len().saturating_mul(4), n), &|from, to| {
        // SAFETY: `split` gives each row to one task.
        let out = unsafe { out.part(from * len, (to - from) * len) };
        exec.isa.run(Codes { len, x: &x[from * len..to * len], scales: &scales[from..to], out });
    })
}

struct Codes<'a> {
    len: usize,
    x: &'a [f32],
    scales: &'a [f32],
    out: &'a mut [u8],
}

impl Vectorize for Codes<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let rows = self.x.chunks_exact(self.len).zip(self.out.chunks_exact_mut(self.len)).zip(self.scales);
        for ((x, out), scale) in rows {
            for (y, x) in out.iter_mut().zip(x) {
                let t = *x / *scale;
                let t = if t.is_nan() { 0.0 } else { t };
                let t = if t < -127.0 { -127.0 } else { t };
                let t = if t > 127.0 { 127.0 } else { t };
                *y = ((t + ROUND - ROUND) + HALF) as i32 as u8;
            }
        }
    }
}

/// `sum * (row scale * column scale) (+ bias)`, for rows of as many sums as there are column scales; without a bias the list is
/// empty.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn scale_rows(
    exec: Exec<'_>,
    sums: &[f32],
    scales: &[f32],
    columns: &[f32],
    bias: &[f32],
    out: &mut [f32],
) -> Result<()> {
    let len = columns.len();
    check_len("the sums", sums.len(), scales.len().saturating_mul(len))?;
    check_len("the output", out.len(), sums.len())?;
    if !bias.is_empty() {
        check_len("the bias", bias.len(), len)?;
    }
    let (n, out) = (scales.len(), SharedOut::new(out));
    exec.split(n, 1, exec.parts(sums.len(), n), &|from, to| {
        // SAFETY: `split` gives each row to one task.
        let out = unsafe { out.part(from * len, (to - from) * len) };
        exec.isa.run(Scaled { sums: &sums[from * len..to * len], scales: &scales[from..to], columns, bias, out });
    })
}

struct Scaled<'a> {
    sums: &'a [f32],
    scales: &'a [f32],
    columns: &'a [f32],
    bias: &'a [f32],
    out: &'a mut [f32],
}

impl Vectorize for Scaled<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let len = self.columns.len().max(1);
        let rows = self.sums.chunks_exact(len).zip(self.out.chunks_exact_mut(len)).zip(self.scales);
        for ((sums, out), scale) in rows {
            for ((y, sum), column) in out.iter_mut().zip(sums).zip(self.columns) {
                *y = *sum * (*scale * *column);
            }
            if !self.bias.is_empty() {
                out.iter_mut().zip(self.bias).for_each(|(y, bias)| *y += *bias);
            }
        }
    }
}

/// `sat(rne(fl32(x / scale)) + zp)` in 16 signed bits; NaN gives the lower bound.
///
/// # Errors
/// When the lengths do not fit, or a task panicked.
pub fn quantize_s16(exec: Exec<'_>, x: &[f32], scale: f32, zero_point: i32, out: &mut [i16]) -> Result<()> {
    rows(exec, 1, 4, x, out, &|x, out| exec.isa.run(Words { x, scale, zero_point, out }))
}

struct Words<'a> {
    x: &'a [f32],
    scale: f32,
    zero_point: i32,
    out: &'a mut [i16],
}

impl Vectorize for Words<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (lo, hi) = ((-32768 - self.zero_point) as f32, (32767 - self.zero_point) as f32);
        for (y, x) in self.out.iter_mut().zip(self.x) {
            let t = *x / self.scale;
            // NaN takes the first branch.
            let t = if t >= lo { t } else { lo };
            let t = if t > hi { hi } else { t };
            *y = ((t + ROUND - ROUND) as i32 + self.zero_point) as i16;
        }
    }
}
