//! Activations of imported TFLite models that are no table of 256 entries (numerics.md section 4, "TFLite import").
//!
//! * (C1) LOGISTIC and TANH of s16, to 1/32768: `v = (q * m + 2^(n-1)) >> n` counts steps of `1/3 * 2^-12`; the logistic
//!   function comes from [`sigmoid_entry`], interpolated over 512 (TANH, whose argument is doubled: 256) steps, and is
//!   point-symmetric but for the rounding of its last bit.
//! * (C2) PRELU: two multipliers, chosen by the sign of `q - z`, their quotients in f32.
//!
//! The constants of (C1) were measured on LiteRT 2.3: all 65536 inputs, thirteen scales from 3e-9 to 2.

use super::error::{RefmathError, check_scale};
use super::quantize::{Affine, Target};
use super::requant::{Q31, RequantMode};
use super::round::sat_i64;

/// Which function of (C1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// LOGISTIC.
    Logistic,
    /// TANH.
    Tanh,
}

/// Indices at which the table of the reference kernels is one above the correctly rounded value: bit `i % 64` of word
/// `i / 64`.
const ABOVE: [u64; 4] = [0xc046_7bae_fa7b_d110, 0x0011_0090_2044_0005, 0x80, 0];

/// (C1) `2^16 / (1 + e^(-i / 24))` as the kernels' table holds it; its last entry is 2^16 - 1.
pub fn sigmoid_entry(i: u8) -> u16 {
    if i == u8::MAX {
        return u16::MAX;
    }
    let real = 65536.0 / (1.0 + libm::exp(-f64::from(i) / 24.0));
    let above = ABOVE[usize::from(i) / 64] >> (i % 64) & 1;
    libm::rint(real) as u16 + above as u16
}

/// (C1) LOGISTIC or TANH of s16.
#[derive(Clone, Debug, PartialEq)]
pub struct TfliteCurve {
    curve: Curve,
    multiplier: i64,
    shift: u32,
    table: [u16; 256],
}

impl TfliteCurve {
    /// The constants for an input of scale `xs` and zero point 0.
    pub fn new(curve: Curve, xs: f32) -> Result<Self, RefmathError> {
        check_scale(xs)?;
        let (multiplier, shift) = Self::multiplier(curve, f64::from(xs));
        let mut table = [0; 256];
        for (entry, i) in table.iter_mut().zip(0..=u8::MAX) {
            *entry = sigmoid_entry(i);
        }
        Ok(Self { curve, multiplier, shift, table })
    }

    /// `m` and `n`: the real factor 3 * 4096 * xs with 15 bits, or exactly where the scale is that of the table. From a scale
    /// of 2.67 on the kernels' 16 bits would not hold it; a step is then wider than the table, and so is the factor here.
    fn multiplier(curve: Curve, xs: f64) -> (i64, u32) {
        match (xs * 4096.0, curve) {
            (1.0, _) => return (3, 0),
            (2.0, Curve::Tanh) => return (6, 0),
            _ => {}
        }
        let (mut real, mut shift) = (xs * 4096.0 * 3.0, 0);
        while real <= 32767.0 / 2.0 && shift <= 30 {
            real *= 2.0;
            shift += 1;
        }
        (real.min((1_i64 << 40) as f64) as i64, shift)
    }

    /// The output for the stored value `q`, in steps of 1/32768.
    #[inline]
    pub fn apply(&self, q: i16) -> i16 {
        let round = if self.shift > 0 { 1_i64 << (self.shift - 1) } else { 0 };
        let v = (i64::from(q) * self.multiplier + round) >> self.shift;
        match self.curve {
            Curve::Logistic => {
                // 25 bits behind the point.
                let y = self.interpolated(v, 9, 0x7FFF << 10);
                let y = if v >= 0 { y + (1 << 9) } else { (1 << 25) - y + (1 << 9) - 1 };
                (y >> 10) as i16
            }
            Curve::Tanh => {
                // 24 bits behind the point; tanh(x) = 2 sigmoid(2x) - 1.
                let y = self.interpolated(v, 8, 0xFFFF << 8);
                let y = if v >= 0 { y - (1 << 23) + (1 << 7) } else { (1 << 23) - y + (1 << 7) - 1 };
                (y >> 8) as i16
            }
        }
    }

    /// The logistic function of `|v|`, `bits` of it between two entries.
    fn interpolated(&self, v: i64, bits: u32, most: i64) -> i64 {
        let size = v.unsigned_abs();
        let at = (size >> bits) as usize;
        match (self.table.get(at), self.table.get(at + 1)) {
            (Some(low), Some(high)) => {
                let part = (size & ((1 << bits) - 1)) as i64;
                (i64::from(*low) << bits) + part * (i64::from(*high) - i64::from(*low))
            }
            _ => most,
        }
    }
}

/// (C2) The constants of PRELU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TflitePRelu {
    /// `q31_double` or `q31_single`.
    pub mode: RequantMode,
    /// Zero points of input and slope.
    pub zp: [i32; 2],
    /// `Q31(fl32(xs / ys))`, for `q >= z`.
    pub identity: Q31,
    /// `Q31(fl32(fl32(xs * as) / ys))`, for `q < z`.
    pub negative: Q31,
    /// The output; its scale is already in the multipliers.
    pub target: Target,
}

impl TflitePRelu {
    /// Computes the constants.
    pub fn new(mode: RequantMode, x: Affine, slope: Affine, target: Target) -> Result<Self, RefmathError> {
        for scale in [x.scale, slope.scale, target.scale] {
            check_scale(scale)?;
        }
        let identity = Q31::from_real(f64::from(x.scale / target.scale), mode)?;
        let negative = Q31::from_real(f64::from(x.scale * slope.scale / target.scale), mode)?;
        Ok(Self { mode, zp: [x.zp, slope.zp], identity, negative, target })
    }

    /// The output for the stored value `q` and the stored slope.
    #[inline]
    pub fn apply(&self, q: i32, slope: i32) -> i32 {
        let v = i64::from(q) - i64::from(self.zp[0]);
        let (acc, multiplier) = match v {
            0.. => (v, self.identity),
            _ => (v.saturating_mul(i64::from(slope) - i64::from(self.zp[1])), self.negative),
        };
        let y = multiplier.scale(sat_i64(acc, i32::MIN, i32::MAX), self.mode);
        sat_i64(y + i64::from(self.target.zp), self.target.lo, self.target.hi)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c1_table() {
        let table: [u16; 5] = std::array::from_fn(|i| sigmoid_entry(i as u8));
        assert_eq!(table, [32768, 33451, 34133, 34813, 35493]);
        assert_eq!([sigmoid_entry(100), sigmoid_entry(254), sigmoid_entry(255)], [64536, 65534, 65535]);
        assert!((0..255).all(|i| sigmoid_entry(i) <= sigmoid_entry(i + 1)));
    }

    #[test]
    fn c1_multipliers() {
        let of = |curve, xs| TfliteCurve::new(curve, xs).map(|c| (c.multiplier, c.shift));
        assert_eq!(of(Curve::Logistic, 1.0 / 4096.0), Ok((3, 0)));
        assert_eq!(of(Curve::Tanh, 1.0 / 2048.0), Ok((6, 0)));
        assert_eq!(of(Curve::Logistic, 1.0 / 2048.0), Ok((24576, 12)));
        assert_eq!(of(Curve::Tanh, 0.0003), Ok((30198, 13)));
        assert_eq!(of(Curve::Tanh, 1e30), Ok((1 << 40, 0)));
        assert!(of(Curve::Tanh, 0.0).is_err());
    }

    /// Values of LiteRT's reference kernels.
    #[test]
    fn c1_values() {
        let of = |curve, xs, q: &[i16]| {
            let curve = TfliteCurve::new(curve, xs).expect("valid");
            q.iter().map(|q| curve.apply(*q)).collect::<Vec<_>>()
        };
        let pixels = [-22555, 4349, 24700, 5975, 31096, -372, -5, -1];
        let expected = [133, 24347, 32690, 26587, 32752, 15640, 16374, 16382];
        assert_eq!(of(Curve::Logistic, 8.0 / 32768.0, &pixels), expected);
        let pixels = [-27954, -30936, 336, 8803, 2524, -8705, -5, -1];
        assert_eq!(of(Curve::Tanh, 8.0 / 32768.0, &pixels), [-32767, -32767, 2683, 31890, 17972, -31846, -40, -8]);
        assert_eq!(of(Curve::Logistic, 1e30, &[i16::MIN, -1, 0, 1, i16::MAX]), [1, 1, 16384, 32767, 32767]);
    }

    #[test]
    fn c2_prelu() {
        let target = Target { scale: 0.5, zp: 1, lo: -128, hi: 127 };
        let of = |mode| {
            let (x, slope) = (Affine { scale: 0.5, zp: 3 }, Affine { scale: 0.25, zp: -2 });
            TflitePRelu::new(mode, x, slope, target).expect("valid")
        };
        for mode in [RequantMode::Q31Double, RequantMode::Q31Single] {
            // 7 * 0.5 = 3.5; -2 * 0.5 * (2 + 2) * 0.25 = -1.
            assert_eq!([of(mode).apply(10, 2), of(mode).apply(1, 2)], [8, -1]);
            assert_eq!(of(mode).apply(-128, 127), -128);
        }
    }
}
