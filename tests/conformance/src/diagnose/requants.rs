//! Defects in the way from an accumulator to an output: rounding, zero point, saturation, scales, bias.

use super::Hypothesis;
use super::sums::{Sums, accumulators, requantized};
use crate::Repro;
use ottava_hal::refmath::requant::{Multiplier, Q31, Requant};
use ottava_hal::{QuantParams, RequantMode};

/// A defect: words, and what it makes of an accumulator of a channel.
type Rule = (&'static str, fn(&Sums, i64, usize) -> i64);

const RULES: &[Rule] = &[
    ("half is rounded away from zero, not to even", |s, acc, c| s.bounded(scaled(s, acc, c).round(), s.zp(c))),
    ("half is rounded up, not to even", |s, acc, c| s.bounded((scaled(s, acc, c) + 0.5).floor(), s.zp(c))),
    ("the fraction is cut off instead of rounded", |s, acc, c| s.bounded(scaled(s, acc, c).trunc(), s.zp(c))),
    ("it is always rounded down", |s, acc, c| s.bounded(scaled(s, acc, c).floor(), s.zp(c))),
    ("the zero point of the output is added before rounding", |s, acc, c| {
        s.bounded((scaled(s, acc, c) + s.zp(c) as f64).round_ties_even(), 0)
    }),
    ("the zero point of the output is not added", |s, acc, c| {
        let r = Requant { zp: 0, ..*s.requant(c) };
        requantized(&r, acc).clamp(s.clamp.0, s.clamp.1)
    }),
    ("the zero point of the output is subtracted", |s, acc, c| {
        s.bounded(unbounded(s, acc, c) - 2.0 * s.zp(c) as f64, s.zp(c))
    }),
    ("saturation is missing: the value wraps", |s, acc, c| {
        let (lo, hi) = s.storage();
        let width = hi - lo + 1;
        (unbounded(s, acc, c) as i64 + s.zp(c) - lo).rem_euclid(width) + lo
    }),
    ("the fused clamp is not applied", |s, acc, c| requantized(s.requant(c), acc)),
    ("the fused clamp is applied before the zero point is added", |s, acc, c| {
        let (lo, hi) = s.storage();
        ((unbounded(s, acc, c) as i64).clamp(s.clamp.0, s.clamp.1) + s.zp(c)).clamp(lo, hi)
    }),
    ("the scale is that of the next channel", |s, acc, c| s.right(acc, c + 1)),
    ("the scale is that of the channel before", |s, acc, c| s.right(acc, c + s.requants.len() - 1)),
    ("the scale of channel 0 is used for all channels", |s, acc, _| s.right(acc, 0)),
    ("the accumulator saturates at 16 bits", |s, acc, c| s.right(acc.clamp(-32768, 32767), c)),
    ("the accumulator wraps at 16 bits", |s, acc, c| s.right(i64::from(acc as i16), c)),
    ("the accumulator saturates at 24 bits", |s, acc, c| s.right(acc.clamp(-(1 << 23), (1 << 23) - 1), c)),
    ("the accumulator saturates at 31 bits", |s, acc, c| s.right(acc.clamp(-(1 << 30), (1 << 30) - 1), c)),
    ("the multiplier is applied in f64, without its rounding to f32", |s, acc, c| {
        s.bounded((acc as f64 * s.real(c)).round_ties_even(), s.zp(c))
    }),
];

/// An accumulator times its multiplier, as far as the contract's mode has a value before rounding.
fn scaled(s: &Sums, acc: i64, c: usize) -> f64 {
    match s.requant(c).multiplier {
        Multiplier::Fp32(m) => f64::from(acc as f32 * m),
        Multiplier::Q31(q) => acc as f64 * q.real(),
    }
}

/// The rounded value before zero point and bounds.
fn unbounded(s: &Sums, acc: i64, c: usize) -> f64 {
    let r = Requant { zp: 0, lo: i32::MIN, hi: i32::MAX, ..*s.requant(c) };
    requantized(&r, acc) as f64
}

impl Sums {
    fn zp(&self, c: usize) -> i64 {
        self.requant(c).zp.into()
    }

    fn storage(&self) -> (i64, i64) {
        self.requants.first().map_or((0, 0), |r| (r.lo.into(), r.hi.into()))
    }

    /// A rounded value with the zero point, within storage and clamp. The cast saturates.
    fn bounded(&self, rounded: f64, zp: i64) -> i64 {
        let (lo, hi) = self.storage();
        (rounded as i64).saturating_add(zp).clamp(lo, hi).clamp(self.clamp.0, self.clamp.1)
    }
}

/// Every defect of this file, with its outputs.
pub(super) fn hypotheses(repro: &Repro, sums: &Sums) -> Vec<Hypothesis> {
    let made =
        |words: String, tensor: Option<ottava_hal::Tensor>| tensor.map(|t| Hypothesis { words, outputs: vec![t] });
    let rules =
        RULES.iter().filter_map(|(words, rule)| made((*words).to_owned(), sums.map(|acc, c| rule(sums, acc, c))));
    let modes = RequantMode::ALL.into_iter().filter_map(|mode| {
        let words = format!("it is rescaled in the mode {mode}, not as the node says");
        made(words, sums.map(|acc, c| in_mode(sums, acc, c, mode)))
    });
    let others = other_sums(repro).into_iter().filter_map(|(words, acc)| {
        let values =
            Sums { acc, requants: sums.requants.clone(), reals: sums.reals.clone(), ty: sums.ty.clone(), ..*sums };
        made(words.to_owned(), values.map(|acc, c| values.right(acc, c)))
    });
    rules.chain(modes).chain(others).collect()
}

fn in_mode(s: &Sums, acc: i64, c: usize, mode: RequantMode) -> i64 {
    let multiplier = match mode {
        RequantMode::Fp32Rne => Some(Multiplier::Fp32(s.real(c) as f32)),
        _ => Q31::from_real(s.real(c), mode).ok().map(Multiplier::Q31),
    };
    let right = s.requant(c);
    let r = multiplier.map_or(*right, |multiplier| Requant { mode, multiplier, ..*right });
    requantized(&r, acc).clamp(s.clamp.0, s.clamp.1)
}

/// Accumulators that defects in front of the requantization give.
fn other_sums(repro: &Repro) -> Vec<(&'static str, Vec<i64>)> {
    let mut list = Vec::new();
    let Some(node) = repro.program.nodes.first() else { return list };
    for (operand, words) in
        [(0, "the zero point of the input is ignored"), (1, "the zero point of the weight is ignored")]
    {
        let mut program = repro.program.clone();
        let Some(value) = node.input(operand).and_then(|id| program.values.get_mut(id.0)) else { continue };
        let Some(quant) = value.ty.quant.take() else { continue };
        let zero_points = vec![0; quant.zero_points.len()];
        value.ty.quant = Some(std::sync::Arc::new(QuantParams { zero_points, ..(*quant).clone() }));
        list.extend(accumulators(&program, &repro.inputs).map(|acc| (words, acc)));
    }
    if node.input(2).is_some() {
        let mut program = repro.program.clone();
        program.nodes[0].inputs.truncate(2);
        list.extend(accumulators(&program, &repro.inputs).map(|acc| ("the bias is not added", acc)));
    }
    list
}
