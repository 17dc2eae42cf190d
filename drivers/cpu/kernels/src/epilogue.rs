//! What happens to an i32 accumulator before it is stored: the public description and its checked, per-channel form.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use crate::error::{KernelError, Result, check_len};
use crate::gemm::COLS;

/// An 8-bit output: zero point and clamp bounds in the output type's own range (u8 0..=255, s8 -128..=127).
///
/// A folded activation (Relu, Relu6, Clip) narrows `lo` and `hi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutQ {
    /// Zero point.
    pub zero_point: i32,
    /// Smallest stored value.
    pub lo: i32,
    /// Largest stored value.
    pub hi: i32,
    /// s8 (stored as two's complement bytes) instead of u8.
    pub signed: bool,
}

impl OutQ {
    /// Full-range u8 output.
    pub fn u8(zero_point: i32) -> Self {
        Self { zero_point, lo: 0, hi: 255, signed: false }
    }

    /// Full-range s8 output.
    pub fn s8(zero_point: i32) -> Self {
        Self { zero_point, lo: -128, hi: 127, signed: true }
    }
}

/// An 8-bit input: scale, zero point in its own range, and whether the bytes are s8.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OtherQ {
    /// Scale, finite and positive.
    pub scale: f32,
    /// Zero point.
    pub zero_point: i32,
    /// The bytes are s8 (two's complement) instead of u8.
    pub signed: bool,
}

/// From accumulator to output. Per-channel vectors hold 1 or `out_c` entries.
#[derive(Clone, Debug, PartialEq)]
pub enum Epilogue {
    /// `fp32_rne`: `sat(rne(fl32(f32(acc) * m[c])) + zp)`.
    Requant {
        /// `fl32(fl32(xs * ws[c]) / ys)`.
        m: Vec<f32>,
        /// Output type and clamp.
        out: OutQ,
    },
    /// `q31_double` or `q31_single`.
    Q31 {
        /// Q31 multipliers.
        m: Vec<i32>,
        /// Shifts, -31..=30; positive shifts left.
        shift: Vec<i32>,
        /// `q31_double` instead of `q31_single`.
        double: bool,
        /// Output type and clamp.
        out: OutQ,
    },
    /// The fused residual form: `t = fl32(f32(acc) * xw[c])`, plus the dequantized other operand, clip, then Quantize by division.
    Residual {
        /// `fl32(xs * ws[c])`.
        xw: Vec<f32>,
        /// The other operand, passed to `run` as `residual`.
        other: OtherQ,
        /// Lower activation bound in f32 (`-inf` for none).
        lo: f32,
        /// Upper activation bound in f32 (`inf` for none).
        hi: f32,
        /// Output scale.
        y_scale: f32,
        /// Output type and clamp.
        out: OutQ,
    },
    /// [`Epilogue::Requant`], then the QDQ sum of its bytes and the other operand, as if in two steps: `Quantize` of
    /// `fl32(dequantize(y1) + dequantize(other))` by division.
    RequantAdd {
        /// `fl32(fl32(xs * ws[c]) / inner_scale)`.
        m: Vec<f32>,
        /// Type and clamp of the product's own result.
        inner: OutQ,
        /// Scale of the product's own result.
        inner_scale: f32,
        /// The other operand, passed to `run` as `residual`.
        other: OtherQ,
        /// Output scale.
        y_scale: f32,
        /// Output type and clamp.
        out: OutQ,
    },
    /// f32 output `clip(fl32(f32(acc) * xw[c]))`.
    Float {
        /// `fl32(xs * ws[c])`.
        xw: Vec<f32>,
        /// Lower bound (`-inf` for none).
        lo: f32,
        /// Upper bound (`inf` for none).
        hi: f32,
    },
    /// The accumulator itself, as i32.
    Raw,
}

/// An output slice of the type that the epilogue produces.
#[derive(Debug)]
pub enum OutMut<'a> {
    /// u8, or s8 as two's complement bytes.
    Bytes(&'a mut [u8]),
    /// f32.
    F32(&'a mut [f32]),
    /// i32.
    I32(&'a mut [i32]),
}

/// [`OutQ`] ready for kernels: everything in u8 order, the final byte XORed with `flip`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    /// Clamp of the rounded value before the zero point is added.
    pub(crate) lo: f32,
    pub(crate) hi: f32,
    /// Zero point in u8 order.
    pub(crate) zp: i32,
    /// Smallest stored value in u8 order.
    pub(crate) least: u8,
    pub(crate) flip: u8,
}

impl Store {
    pub(crate) fn new(out: OutQ) -> Result<Self> {
        let (min, max, flip) = if out.signed { (-128, 127, 0x80) } else { (0, 255, 0) };
        let inside = |v: i32| (min..=max).contains(&v);
        if !inside(out.zero_point) || !inside(out.lo) || !inside(out.hi) || out.lo > out.hi {
            let what = format!("{out:?}: zero point and lo <= hi must lie in {min}..={max}");
            return Err(KernelError::Parameter { what });
        }
        let rel = |v: i32| (v - out.zero_point) as f32;
        Ok(Self { lo: rel(out.lo), hi: rel(out.hi), zp: out.zero_point - min, least: (out.lo - min) as u8, flip })
    }
}

/// [`OtherQ`] ready for kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub(crate) scale: f32,
    /// Zero point in u8 order.
    pub(crate) zp: i32,
    pub(crate) flip: u8,
}

impl Source {
    pub(crate) fn new(q: OtherQ) -> Result<Self> {
        let (min, flip) = if q.signed { (-128, 0x80) } else { (0, 0) };
        if !(min..=min + 255).contains(&q.zero_point) {
            let what = format!("zero point {} outside {min}..={}", q.zero_point, min + 255);
            return Err(KernelError::Parameter { what });
        }
        check_scale("input scale", q.scale)?;
        Ok(Self { scale: q.scale, zp: q.zero_point - min, flip })
    }
}

/// `Err` unless the scale is finite and positive.
pub(crate) fn check_scale(what: &str, scale: f32) -> Result<()> {
    if scale.is_finite() && scale > 0.0 {
        return Ok(());
    }
    Err(KernelError::Parameter { what: format!("{what} is {scale}, expected a finite number above 0") })
}

/// The operation of a [`Prepared`] epilogue; vectors cover every channel plus one panel, so that whole panels may be read.
pub(crate) enum Kind {
    Requant {
        m: Vec<f32>,
        store: Store,
    },
    Q31 {
        m: Vec<i32>,
        shift: Vec<i32>,
        double: bool,
        store: Store,
    },
    Residual {
        xw: Vec<f32>,
        other: Source,
        lo: f32,
        hi: f32,
        y_scale: f32,
        store: Store,
    },
    /// The zero point of the product's own result cancels out, so its clamp relative to it is all that is left of it.
    RequantAdd {
        m: Vec<f32>,
        inner: Inner,
        other: Source,
        y_scale: f32,
        store: Store,
    },
    Float {
        xw: Vec<f32>,
        lo: f32,
        hi: f32,
    },
    Raw,
}

/// How the kernels that store bytes from registers scale their sums; the vectors are padded by a panel.
#[derive(Clone, Copy)]
pub(crate) enum Scales<'a> {
    /// `fp32_rne`.
    Float(&'a [f32]),
    /// `q31_double` or `q31_single`.
    Q31 { m: &'a [i32], shift: &'a [i32], double: bool },
}

impl Kind {
    /// Scales and output of the forms that rescale sums and add nothing.
    pub(crate) fn scales(&self) -> Option<(Scales<'_>, &Store)> {
        match self {
            Self::Requant { m, store } => Some((Scales::Float(m), store)),
            Self::Q31 { m, shift, double, store } => Some((Scales::Q31 { m, shift, double: *double }, store)),
            _ => None,
        }
    }
}

/// The result of a product that is never stored: clamp of the rounded value before its zero point is added, and scale.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inner {
    pub(crate) lo: f32,
    pub(crate) hi: f32,
    pub(crate) scale: f32,
}

/// A checked epilogue with the folded bias of every channel.
pub(crate) struct Prepared {
    pub(crate) bias: Vec<i32>,
    pub(crate) kind: Kind,
}

impl Prepared {
    /// `bias` is complete (zero-point terms folded in) and holds one entry per channel.
    pub(crate) fn new(epilogue: Epilogue, bias: &[i32]) -> Result<Self> {
        let n = bias.len();
        let kind = match epilogue {
            Epilogue::Requant { m, out } => {
                Kind::Requant { m: spread_f32("multipliers", &m, n)?, store: Store::new(out)? }
            }
            Epilogue::Q31 { m, shift, double, out } => {
                check_shifts(&shift)?;
                let (m, shift) = (spread("Q31 multipliers", &m, n)?, spread("Q31 shifts", &shift, n)?);
                Kind::Q31 { m, shift, double, store: Store::new(out)? }
            }
            Epilogue::Residual { xw, other, lo, hi, y_scale, out } => {
                check_scale("output scale", y_scale)?;
                let (xw, other) = (spread_f32("accumulator scales", &xw, n)?, Source::new(other)?);
                Kind::Residual { xw, other, lo, hi, y_scale, store: Store::new(out)? }
            }
            Epilogue::RequantAdd { m, inner, inner_scale, other, y_scale, out } => {
                check_scale("scale of the product's result", inner_scale)?;
                check_scale("output scale", y_scale)?;
                let Store { lo, hi, .. } = Store::new(inner)?;
                let inner = Inner { lo, hi, scale: inner_scale };
                let (m, other) = (spread_f32("multipliers", &m, n)?, Source::new(other)?);
                Kind::RequantAdd { m, inner, other, y_scale, store: Store::new(out)? }
            }
            Epilogue::Float { xw, lo, hi } => Kind::Float { xw: spread_f32("accumulator scales", &xw, n)?, lo, hi },
            Epilogue::Raw => Kind::Raw,
        };
        Ok(Self { bias: spread("bias", bias, n)?, kind })
    }

    /// Whether `run` needs a residual operand.
    pub(crate) fn wants_residual(&self) -> bool {
        matches!(self.kind, Kind::Residual { .. } | Kind::RequantAdd { .. })
    }
}

fn check_shifts(shift: &[i32]) -> Result<()> {
    match shift.iter().find(|s| !(-31..=30).contains(*s)) {
        Some(s) => Err(KernelError::Parameter { what: format!("Q31 shift {s}, expected -31..=30") }),
        None => Ok(()),
    }
}

fn spread_f32(what: &'static str, values: &[f32], n: usize) -> Result<Vec<f32>> {
    if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
        return Err(KernelError::Parameter { what: format!("{what} contain {bad}, expected finite numbers") });
    }
    spread(what, values, n)
}

/// One value per channel plus a panel of zeros; a single value is repeated.
pub(crate) fn spread<T: Copy + Default>(what: &'static str, values: &[T], n: usize) -> Result<Vec<T>> {
    let mut out = match values {
        [one] => vec![*one; n],
        _ => {
            check_len(what, values.len(), n)?;
            values.to_vec()
        }
    };
    out.resize(n + COLS, T::default());
    Ok(out)
}
