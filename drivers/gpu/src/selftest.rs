//! The test of a device's arithmetic: a recipe of one launch with questions whose answers `refmath` knows.
//!
//! Kernels rely on correctly rounded `+`, `-`, `*` that nobody contracts, on conversions, and on integers; division they
//! make themselves. Vulkan and OpenCL promise less than that, and drivers have errors, so a driver runs this when it
//! opens a device: one that gives a single wrong answer gets [`crate::Target::exact`] `= false`.
//!
//! The questions are the edges where a device that computes differently differs: quotients half way between two
//! integers and their neighbours, multipliers of all sizes in all modes, products whose last bits a fused
//! multiply-add would keep, the borders of f16 and bf16. Subnormal f32 are not asked for: a device may flush them and
//! says so ([`ottava_hal::DeviceInfo::flushes_denormals`]).

use crate::recipe::{Dispatch, Place, Recipe, Slice, Step};
use crate::{Target, kernels};
use half::{bf16, f16};
use ottava_hal::refmath::quantize::{dequantize, quantize_f32};
use ottava_hal::refmath::requant::{Q31, RequantMode, requant_fp32, requant_q31_double, requant_q31_single};
use ottava_hal::{DataType, Error, Result, Status, TensorType};
use smallvec::SmallVec;

/// Words of a question.
const WORDS: usize = 8;

/// What is asked; the numbers are those of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Quantize = 0,
    Requantize = 1,
    Dequantize = 2,
    Quotient = 3,
    ToF16 = 4,
    OfF16 = 5,
    ToBf16 = 6,
    SumOfProduct = 7,
    HighProduct = 8,
    FloatOfInt = 9,
    Shifted = 10,
    ProductDifference = 11,
}

/// A question and its answer.
struct Question {
    kind: Kind,
    words: [u32; WORDS],
    answer: u32,
}

/// The questions in their order.
#[derive(Default)]
struct Questions(Vec<Question>);

/// Ranges of the integers that kernels make.
const RANGES: [(i32, i32); 4] = [(-128, 127), (0, 255), (-32768, 32767), (0, 65535)];

impl Questions {
    fn all() -> Self {
        let mut all = Self::default();
        all.quantize();
        all.requantize();
        all.floats();
        all.integers();
        all
    }

    /// Words behind the kind: `a, b, c, shift, zero point, lowest, highest`.
    fn ask(&mut self, kind: Kind, rest: [u32; WORDS - 1], answer: u32) {
        let mut words = [kind as u32; WORDS];
        words[1..].copy_from_slice(&rest);
        self.0.push(Question { kind, words, answer });
    }

    fn quantize(&mut self) {
        let scales = [1.0f32, 0.1, 1.0 / 3.0, 0.003_921_569, 1.7e-5, 0.999_999_94, 1.000_000_1, 37_813.7, 6.1e-30];
        for (n, scale) in scales.into_iter().enumerate() {
            let (lo, hi) = RANGES[n % RANGES.len()];
            let zp = [0, lo, hi, 3][n / 2 % 4].clamp(lo, hi);
            let mut ask = |x: f32| {
                let rest = [x.to_bits(), scale.to_bits(), 0, 0, zp as u32, lo as u32, hi as u32];
                self.ask(Kind::Quantize, rest, quantize_f32(x, scale, zp, lo, hi) as u32);
                let q = x / scale;
                if (0.125..1_048_576.0).contains(&q.abs()) {
                    self.ask(Kind::Quotient, [x.to_bits(), scale.to_bits(), 0, 0, 0, 0, 0], q.to_bits());
                }
            };
            for k in (-140i16..140).step_by(7).chain([-1, 0, 1, 2, 254, 255, 30_001]) {
                // Half way between two integers, and the floats beside it.
                let x = (f32::from(k) + 0.5) * scale;
                [x, x.next_up(), x.next_down(), f32::from(k) * scale].into_iter().for_each(&mut ask);
            }
            for x in [0.0, -0.0, f32::MAX, f32::MIN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN] {
                ask(x);
            }
        }
    }

    fn requantize(&mut self) {
        let reals = [0.5, 0.003_7, 0.999_999_999, 1.0, 1.7, 23.4, 1.0 / 3.0, 2.4e-7, 1.1e-9];
        let powers = (0..31).step_by(5).map(|e| 1i32 << e);
        let near = |v: i32| [v - 1, v, v.saturating_add(1), 1 - v, -v, -1 - v];
        let mut sums: Vec<i32> = powers.flat_map(near).collect();
        sums.extend([0, 3, 5, 129, -1_000_003, 123_456_789, i32::MAX, i32::MIN, i32::MIN + 1]);
        for (n, real) in reals.into_iter().enumerate() {
            let (lo, hi) = RANGES[n % RANGES.len()];
            let zp = [0, lo, 5, hi][n % 4];
            for (mode, &acc) in RequantMode::ALL.into_iter().flat_map(|m| sums.iter().map(move |acc| (m, acc))) {
                let Some((multiplier, shift, answer)) = requantized(mode, real, acc, zp, (lo, hi)) else { continue };
                let rest = [acc as u32, mode.as_u32(), multiplier, shift as u32, zp as u32, lo as u32, hi as u32];
                self.ask(Kind::Requantize, rest, answer as u32);
            }
        }
    }

    fn floats(&mut self) {
        let values = [0.0f32, 1.0, -1.5, 0.1, 65_504.0, 65_519.9, 65_520.0, 6.1e-5, 3.3e-6, 1e-8, -2.7e4, 1.000_488_3];
        let more = [1.000_976_6f32, 1.003_906_3, 1.011_718_8, 3.389e38, 0.333_333_34, f32::INFINITY, 2049.0, 2051.0];
        let values: Vec<f32> = values.into_iter().chain(more).collect();
        for (i, &a) in values.iter().enumerate() {
            let b = -values[(i * 7 + 3) % values.len()];
            let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
            let words = [a.to_bits(), b.to_bits(), 0, 0, 0, 0, 0];
            self.ask(Kind::ToF16, words, pair(f16::from_f32(a).to_bits(), f16::from_f32(b).to_bits()));
            self.ask(Kind::ToBf16, words, pair(bf16::from_f32(a).to_bits(), bf16::from_f32(b).to_bits()));
            let half = f16::from_f32(a);
            let word = pair(half.to_bits(), f16::from_f32(b).to_bits());
            self.ask(Kind::OfF16, [word, 0, 0, 0, 0, 0, 0], half.to_f32().to_bits());
        }
        // 1 + 2^-12 squared has a last bit that a fused multiply-add keeps and a rounded product loses.
        for e in 1..24 {
            let a = 1.0 + f32::from_bits((127 - e) << 23);
            for (b, c) in [(a, -1.0), (a.next_up(), -a), (1.0 / 3.0, 0.1), (-0.7, a)] {
                let words = [a.to_bits(), b.to_bits(), c.to_bits(), 0, 0, 0, 0];
                let product = a * b;
                self.ask(Kind::SumOfProduct, words, (product + c).to_bits());
                self.ask(Kind::ProductDifference, words, (c - product).to_bits());
            }
        }
        for (q, zp, scale) in [(127, -128, 0.1f32), (-128, 127, 1.0 / 3.0), (65_535, 0, 1.7e-5), (-3, 5, 0.007)] {
            let words = [q as u32, scale.to_bits(), 0, 0, zp as u32, 0, 0];
            self.ask(Kind::Dequantize, words, dequantize(q, zp, scale).to_bits());
        }
    }

    fn integers(&mut self) {
        let values = [0, 1, -1, 2, 65_535, -65_536, 16_777_217, 16_777_219, -33_554_435, 1 << 30, i32::MAX, i32::MIN];
        for (i, &a) in values.iter().enumerate() {
            self.ask(Kind::FloatOfInt, [a as u32, 0, 0, 0, 0, 0, 0], (a as f32).to_bits());
            for &b in &values {
                let high = (i64::from(a) * i64::from(b)) >> 32;
                self.ask(Kind::HighProduct, [a as u32, b as u32, 0, 0, 0, 0, 0], high as u32);
            }
            let by = (i * 5 % 32) as u32;
            self.ask(Kind::Shifted, [a as u32, by, 0, 0, 0, 0, 0], (a >> by) as u32);
        }
    }
}

/// Multiplier, shift and answer; none where the mode does not take the sum.
fn requantized(mode: RequantMode, real: f64, acc: i32, zp: i32, (lo, hi): (i32, i32)) -> Option<(u32, i32, i32)> {
    if mode == RequantMode::Fp32Rne {
        let m = real as f32;
        return Some((m.to_bits(), 0, requant_fp32(acc, m, zp, lo, hi)));
    }
    let q = Q31::from_real(real, mode).ok()?;
    let answer = if mode == RequantMode::Q31Single {
        requant_q31_single(acc, q, zp, lo, hi)
    } else {
        q.check_left_shift(acc.into(), acc.into()).ok()?;
        requant_q31_double(acc, q, zp, lo, hi)
    };
    Some((q.multiplier as u32, q.shift, answer))
}

/// The recipe: no inputs, and one output that [`check`] looks at.
pub fn recipe(target: &Target) -> Result<Recipe> {
    let kernel = kernels::find("selftest", &[]);
    let kernel = kernel.ok_or_else(|| Error::failed(Status::Internal, "the kernel of the self-test is missing"))?;
    let questions = Questions::all().0;
    let n = questions.len();
    let first = target.alignment.max(16);
    let mut constants = (n as u32).to_le_bytes().to_vec();
    constants.resize(first, 0);
    constants.extend(questions.iter().flat_map(|q| q.words).flat_map(u32::to_le_bytes));
    let slice = |place, offset, len| Slice { place, offset, len };
    let buffers = SmallVec::from_slice(&[
        slice(Place::Constants, 0, 4),
        slice(Place::Constants, first, 4 * WORDS * n),
        slice(Place::Output(0), 0, 4 * n),
    ]);
    let local = [target.group.max(1), 1, 1];
    let groups = [(n as u32).div_ceil(local[0]), 1, 1];
    let launch = Dispatch { kernel, spec: SmallVec::new(), buffers, groups, local, node: 0 };
    Ok(Recipe {
        steps: vec![Step::Dispatch(launch)],
        constants,
        arena_bytes: 0,
        inputs: Vec::new(),
        outputs: vec![TensorType::fixed(DataType::S32, &[n])],
        kernels: vec![("selftest".into(), "selftest".into())],
    })
}

/// Whether the bytes of the output are all the right answers; else how many are not, and the first of them.
pub fn check(found: &[u8]) -> Result<(), String> {
    let questions = Questions::all().0;
    if found.len() != 4 * questions.len() {
        return Err(format!("{} bytes of answers to {} questions", found.len(), questions.len()));
    }
    let answers = found.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let wrong: Vec<(&Question, u32)> = questions.iter().zip(answers).filter(|(q, found)| *found != q.answer).collect();
    let Some((first, found)) = wrong.first() else { return Ok(()) };
    Err(format!(
        "{} of {} answers are wrong; the first: {:?} {:x?} gives {found:#x}, not {:#x}",
        wrong.len(),
        questions.len(),
        first.kind,
        &first.words[1..],
        first.answer
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers() -> Vec<u8> {
        Questions::all().0.iter().flat_map(|q| q.answer.to_le_bytes()).collect()
    }

    #[test]
    fn right_answers_pass_and_one_wrong_bit_does_not() {
        let right = answers();
        assert_eq!(check(&right), Ok(()));
        assert!(check(&right[4..]).unwrap_err().contains("questions"));
        let mut wrong = right;
        wrong[41] ^= 1;
        assert!(check(&wrong).unwrap_err().starts_with("1 of "));
    }

    #[test]
    fn questions_of_every_kind_tell_wrong_arithmetic_from_right() {
        let all = Questions::all().0;
        let kinds: Vec<u32> = all.iter().map(|q| q.kind as u32).collect();
        assert!((0..12).all(|k| kinds.contains(&k)));
        // A fused multiply-add, a division by the reciprocal, ties away from zero: each must be noticed.
        let float = |w: u32| f32::from_bits(w);
        let differs = |kind: Kind, f: &dyn Fn(&[u32; WORDS]) -> u32| {
            all.iter().filter(|q| q.kind == kind && f(&q.words) != q.answer).count()
        };
        let fused = |w: &[u32; WORDS]| float(w[1]).mul_add(float(w[2]), float(w[3])).to_bits();
        assert!(differs(Kind::SumOfProduct, &fused) > 10);
        let reciprocal = |w: &[u32; WORDS]| (float(w[1]) * (1.0 / float(w[2]))).to_bits();
        assert!(differs(Kind::Quotient, &reciprocal) > 50);
        let away = |w: &[u32; WORDS]| {
            let (zp, lo, hi) = (w[5] as i32, w[6] as i32, w[7] as i32);
            let rounded = f64::from(float(w[1]) / float(w[2])).round() as i64;
            rounded.saturating_add(i64::from(zp)).clamp(lo.into(), hi.into()) as u32
        };
        assert!(differs(Kind::Quantize, &away) > 20);
    }
}
