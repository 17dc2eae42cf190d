//! Defects in the way from a real number to an output, for programs of one operator that the contract defines as
//! dequantize, compute in f32, quantize.
//!
//! The reference gives the real numbers itself: the same program with a float output. They are used only if quantizing
//! them gives what was expected.

use super::Hypothesis;
use crate::Repro;
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::{DataType, Fused, Tensor, TensorType};
use ottava_reference::Interpreter;

/// The real results, and how they are quantized.
pub(crate) struct Reals {
    values: Vec<f32>,
    scale: f32,
    zp: i32,
    storage: (i32, i32),
    clamp: (i64, i64),
    ty: TensorType,
}

/// A defect: words, and what it makes of a real number.
type Rule = (&'static str, fn(&Reals, f32) -> i64);

const RULES: &[Rule] = &[
    ("half is rounded away from zero, not to even", |r, x| r.bounded(r.divided(x).round(), r.zp.into())),
    ("half is rounded up, not to even", |r, x| r.bounded((r.divided(x) + 0.5).floor(), r.zp.into())),
    ("the fraction is cut off instead of rounded", |r, x| r.bounded(r.divided(x).trunc(), r.zp.into())),
    ("it is always rounded down", |r, x| r.bounded(r.divided(x).floor(), r.zp.into())),
    ("the zero point of the output is added before rounding", |r, x| {
        r.bounded((r.divided(x) + f64::from(r.zp)).round_ties_even(), 0)
    }),
    ("it is multiplied by the reciprocal of the scale instead of divided", |r, x| {
        r.bounded(f64::from(x * (1.0 / r.scale)).round_ties_even(), r.zp.into())
    }),
    ("it is divided in f64, without the rounding to f32", |r, x| {
        r.bounded((f64::from(x) / f64::from(r.scale)).round_ties_even(), r.zp.into())
    }),
    ("the zero point of the output is not added", |r, x| r.bounded(r.divided(x).round_ties_even(), 0)),
    ("saturation is missing: the value wraps", |r, x| {
        let (lo, hi) = (i64::from(r.storage.0), i64::from(r.storage.1));
        let value = (r.divided(x).round_ties_even() as i64).saturating_add(r.zp.into());
        value.saturating_sub(lo).rem_euclid(hi - lo + 1) + lo
    }),
    ("the fused clamp is not applied", |r, x| r.quantized(x)),
];

impl Reals {
    /// The real numbers of a repro's program, if it is one operator of that kind.
    pub fn of(repro: &Repro) -> Option<Self> {
        let [node] = &repro.program.nodes[..] else { return None };
        let out = *node.outputs.first()?;
        let ty = repro.program.ty(out).clone();
        let (scale, zp) = ty.quant.as_ref()?.as_per_tensor()?;
        let (mut program, storage) = (repro.program.clone(), ty.dtype.storage_range()?);
        program.values.get_mut(out.0)?.ty = TensorType::new(DataType::F32, ty.shape.clone());
        program.nodes[0].fused = Fused { clamp: None, ..node.fused };
        let values = Interpreter::new(&program).ok()?.run(&repro.inputs).ok()?.first()?.to_f32s().ok()?;
        let clamp = node.fused.clamp.unwrap_or(storage);
        let reals = Self { values, scale, zp, storage, clamp: (clamp.0.into(), clamp.1.into()), ty };
        let again = reals.map(|r, x| r.quantized(x).clamp(r.clamp.0, r.clamp.1))?;
        (again.bytes() == repro.expected.first()?.bytes()).then_some(reals)
    }

    /// A real number by the scale, as the contract divides it.
    fn divided(&self, x: f32) -> f64 {
        f64::from(x / self.scale)
    }

    fn quantized(&self, x: f32) -> i64 {
        quantize_f32(x, self.scale, self.zp, self.storage.0, self.storage.1).into()
    }

    /// A rounded number with the zero point, within storage and clamp. The cast saturates.
    fn bounded(&self, rounded: f64, zp: i64) -> i64 {
        let (lo, hi) = (i64::from(self.storage.0), i64::from(self.storage.1));
        (rounded as i64).saturating_add(zp).clamp(lo, hi).clamp(self.clamp.0, self.clamp.1)
    }

    fn map(&self, f: impl Fn(&Self, f32) -> i64) -> Option<Tensor> {
        let values: Vec<i64> = self.values.iter().map(|x| f(self, *x)).collect();
        Tensor::from_ints(self.ty.dtype, &self.ty.shape.known()?, &values).ok()
    }

    /// How the reference comes to an element.
    pub fn steps(&self, i: usize) -> Vec<(String, String)> {
        let Some(x) = self.values.get(i) else { return Vec::new() };
        let all = [
            ("real result", format!("{x:?}")),
            ("scale of the output", format!("{:?}", self.scale)),
            ("before rounding", format!("{:?}", x / self.scale)),
            ("zero point", self.zp.to_string()),
            ("bounds", format!("{} to {}", self.clamp.0, self.clamp.1)),
        ];
        all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }

    /// Every defect of this file, with its outputs.
    pub fn hypotheses(&self) -> Vec<Hypothesis> {
        let one = |(words, rule): &Rule| {
            let output = self.map(rule)?;
            Some(Hypothesis { words: (*words).to_owned(), outputs: vec![output] })
        };
        RULES.iter().filter_map(one).collect()
    }
}
