//! The integer LSTM of TFLite: 8-bit values and weights, 16-bit cell state (numerics.md section 11).
//!
//! * (C1) a gate's argument is an s16 in Q3.12: the product with the input, scaled and saturated, then the product with
//!   the hidden state, scaled and added, saturated again. Zero points are folded into the accumulators.
//! * (C2) `i`, `f`, `o` are logistic, `g` is tanh, all Q0.15 ([`super::fixed16`]).
//! * (C3) `c' = sat(wrap(f*c >> 15) + wrap(i*g >> (30 + n)))`, the cell's scale being `2^n`; shifts round half away from
//!   zero. A positive clip bounds `c'`. Coupled gates: `i = 32767 - f`.
//! * (C4) `m = sat8(Q(o * tanh(c')) - zm)`: TFLite *subtracts* the zero point of the hidden value.
//! * (C5) without a projection `h' = m`; with one, `h' = sat8(Q(sum W m + b) + zh)`, bounded by a positive clip.

use super::error::{RefmathError, check_scale};
use super::fixed16::{MAX_INTEGER_BITS, tanh};
use super::requant::{Q31, RequantMode};
use super::round::{rdp, sat_i64};

/// Everything that does not depend on data. Gates are in the order i, f, g, o.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LstmInt {
    /// `q31_double` or `q31_single`.
    pub mode: RequantMode,
    /// (C1) `xs * ws / 2^-12` of each gate.
    pub input: [Q31; 4],
    /// (C1) `hs * rs / 2^-12` of each gate.
    pub recurrent: [Q31; 4],
    /// (C3) `n`: the exponent of the cell's scale, -15 ..= -9.
    pub cell_exponent: i32,
    /// (C3) Bound of the cell state; 0: none.
    pub cell_clip: i16,
    /// (C4) `2^-30 / ms`.
    pub hidden: Q31,
    /// (C4) `zm`.
    pub hidden_zp: i32,
}

/// The scales that an [`LstmInt`] is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LstmScales {
    /// Scale of the input.
    pub input: f32,
    /// Scale of the hidden state between steps.
    pub state: f32,
    /// Scales of the gates' input weights.
    pub weights: [f32; 4],
    /// Scales of the gates' recurrent weights.
    pub recurrent: [f32; 4],
    /// Scale of the cell state: a power of two.
    pub cell: f32,
    /// Scale of the value before the projection.
    pub hidden: f32,
}

impl LstmInt {
    /// Computes the constants. Products of scales are f32, as TFLite computes them; `2^-12` divides exactly.
    pub fn new(mode: RequantMode, s: &LstmScales, hidden_zp: i32, cell_clip: f32) -> Result<Self, RefmathError> {
        for scale in [s.input, s.state, s.cell, s.hidden].into_iter().chain(s.weights).chain(s.recurrent) {
            check_scale(scale)?;
        }
        let q31 = |r: f32| Q31::from_real(f64::from(r), mode);
        let gates = |weights: [f32; 4], x: f32| -> Result<[Q31; 4], RefmathError> {
            let one = |i: usize| q31(weights[i] * x / Q3_12);
            Ok([one(0)?, one(1)?, one(2)?, one(3)?])
        };
        Ok(Self {
            mode,
            input: gates(s.weights, s.input)?,
            recurrent: gates(s.recurrent, s.state)?,
            cell_exponent: exponent(s.cell)?,
            cell_clip: clip(cell_clip, s.cell, i16::MIN.into(), i16::MAX.into()) as i16,
            hidden: q31((libm::exp2(-30.0) / f64::from(s.hidden)) as f32)?,
            hidden_zp,
        })
    }

    /// (C1) The argument of gate `gate` from the accumulators of input and hidden state, zero points folded in.
    pub fn argument(&self, gate: usize, input: i32, state: i32) -> i16 {
        let from_input = sat16(self.input[gate].scale(input, self.mode));
        sat16(self.recurrent[gate].scale(state, self.mode) + i64::from(from_input))
    }

    /// (C3) The next cell state. `input` is `None` where the gates are coupled.
    pub fn cell(&self, forget: i16, cell: i16, input: Option<i16>, candidate: i16) -> i16 {
        let input = i32::from(input.unwrap_or(i16::MAX.wrapping_sub(forget)));
        let kept = rdp(i32::from(forget) * i32::from(cell), 15) as i16;
        let new = rdp(input * i32::from(candidate), (30 + self.cell_exponent) as u32) as i16;
        let next = sat16(i64::from(kept) + i64::from(new));
        if self.cell_clip > 0 { next.clamp(-self.cell_clip, self.cell_clip) } else { next }
    }

    /// (C4) The hidden value of an output gate and a cell state.
    pub fn hidden(&self, output: i16, cell: i16) -> i8 {
        let t = tanh(cell, (15 + self.cell_exponent) as u32);
        let scaled = self.hidden.scale(i32::from(output) * i32::from(t), self.mode);
        sat_i64(scaled - i64::from(self.hidden_zp), i8::MIN.into(), i8::MAX.into()) as i8
    }
}

/// (C5) The projection from the hidden value to the state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LstmProjection {
    mode: RequantMode,
    /// `ps * ms / hs`.
    pub multiplier: Q31,
    zp: i32,
    clip: i8,
}

impl LstmProjection {
    /// Computes the constants; `weight`, `hidden` and `state` are scales, `zp` is the zero point of the state.
    pub fn new(
        mode: RequantMode,
        [weight, hidden, state]: [f32; 3],
        zp: i32,
        limit: f32,
    ) -> Result<Self, RefmathError> {
        [weight, hidden, state].into_iter().try_for_each(check_scale)?;
        let multiplier = Q31::from_real(f64::from(weight * hidden / state), mode)?;
        Ok(Self { mode, multiplier, zp, clip: clip(limit, state, i8::MIN.into(), i8::MAX.into()) as i8 })
    }

    /// (C5) The state of an accumulator, zero points folded in.
    pub fn state(&self, acc: i32) -> i8 {
        let wide = self.multiplier.scale(acc, self.mode) + i64::from(self.zp);
        let state = sat_i64(wide, i8::MIN.into(), i8::MAX.into()) as i8;
        if self.clip > 0 { state.clamp(-self.clip, self.clip) } else { state }
    }
}

/// One unit of Q3.12.
const Q3_12: f32 = 1.0 / 4096.0;

fn sat16(v: i64) -> i16 {
    sat_i64(v, i16::MIN.into(), i16::MAX.into()) as i16
}

/// (C3) The exponent of a scale that is a power of two, such that `tanh` has the format of the cell.
fn exponent(scale: f32) -> Result<i32, RefmathError> {
    let (fraction, exponent) = libm::frexp(f64::from(scale));
    let n = exponent - 1;
    let formats = -15..=MAX_INTEGER_BITS as i32 - 15;
    if fraction == 0.5 && formats.contains(&n) {
        return Ok(n);
    }
    let limit = libm::ldexp(1.0, MAX_INTEGER_BITS as i32 - 14);
    let what = "the scale of the cell state, a power of two from 2^-15 to 2^-9,";
    Err(RefmathError::Bound { what, found: f64::from(scale), limit })
}

/// A bound in stored units, truncated; 0 where there is none.
fn clip(limit: f32, scale: f32, lo: i32, hi: i32) -> i32 {
    if limit > 0.0 { (limit / scale).clamp(lo as f32, hi as f32) as i32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::super::fixed16::logistic;
    use super::*;

    const SCALES: LstmScales = LstmScales {
        input: 0.0625,
        state: 0.0078125,
        weights: [0.03125; 4],
        recurrent: [0.0078125; 4],
        cell: 1.0 / 2048.0,
        hidden: 0.0078125,
    };

    fn lstm() -> LstmInt {
        LstmInt::new(RequantMode::Q31Double, &SCALES, 0, 0.0).expect("valid")
    }

    #[test]
    fn c1_arguments_are_scaled_one_by_one() {
        let l = lstm();
        // 1/512 / 2^-12 = 8; 2^-14 / 2^-12 = 1/4.
        assert_eq!(l.input[0], Q31 { multiplier: 1 << 30, shift: 4 });
        assert_eq!(l.recurrent[3], Q31 { multiplier: 1 << 30, shift: -1 });
        assert_eq!(l.argument(0, 100, 10), 803, "2.5 rounds away from zero");
        assert_eq!(l.argument(0, 100_000, -400), 32_667, "the first product saturates before the second is added");
        assert_eq!(l.argument(2, -100_000, -400), i16::MIN);
    }

    #[test]
    fn c3_cell_update() {
        let l = lstm();
        assert_eq!(l.cell_exponent, -11);
        // 0.5 * 1000 + (0.5 * 0.25 in Q4.11 = 256).
        assert_eq!(l.cell(1 << 14, 1000, Some(1 << 14), 1 << 13), 756);
        assert_eq!(l.cell(i16::MAX, i16::MAX, Some(i16::MAX), i16::MAX), i16::MAX);
        assert_eq!(l.cell(i16::MAX, 3, None, i16::MAX), 3, "coupled: the input gate is 0");
        let clipped = LstmInt { cell_clip: 700, ..l };
        assert_eq!(clipped.cell(1 << 14, 1000, Some(1 << 14), 1 << 13), 700);
        assert_eq!(clipped.cell(i16::MAX, -1000, Some(0), 0), -700);
    }

    #[test]
    fn c4_hidden_subtracts_its_zero_point() {
        // tanh(1) = 0.76159; 0.5 * 0.76159 / 2^-7 = 48.7.
        assert_eq!(lstm().hidden(logistic(0), 2048), 49);
        let shifted = LstmInt { hidden_zp: 9, ..lstm() };
        assert_eq!(shifted.hidden(logistic(0), 2048), 40);
        assert_eq!(shifted.hidden(i16::MAX, i16::MAX), 119);
    }

    #[test]
    fn c5_projection() {
        let p = LstmProjection::new(RequantMode::Q31Single, [0.5, 0.5, 0.5], 3, 0.0).expect("valid");
        assert_eq!([p.state(10), p.state(-11), p.state(1000)], [8, -2, 127]);
        let p = LstmProjection::new(RequantMode::Q31Single, [0.5, 0.5, 0.5], 3, 2.5).expect("valid");
        assert_eq!([p.state(10), p.state(1)], [5, 4]);
    }

    #[test]
    fn constants_without_an_integer_form_are_refused() {
        let of = |s: &LstmScales| LstmInt::new(RequantMode::Q31Double, s, 0, 0.0);
        assert!(of(&LstmScales { cell: 0.001, ..SCALES }).is_err(), "no power of two");
        assert!(of(&LstmScales { cell: 1.0, ..SCALES }).is_err(), "more than 6 integer bits");
        assert!(of(&LstmScales { cell: 1.0 / 512.0, ..SCALES }).is_ok());
        assert!(of(&LstmScales { state: f32::NAN, ..SCALES }).is_err());
        let clipped = LstmInt::new(RequantMode::Q31Double, &SCALES, 0, 10.0).expect("valid");
        assert_eq!(clipped.cell_clip, 20_480);
        let clipped = LstmInt::new(RequantMode::Q31Double, &SCALES, 0, 1e9).expect("valid");
        assert_eq!(clipped.cell_clip, i16::MAX);
    }
}
