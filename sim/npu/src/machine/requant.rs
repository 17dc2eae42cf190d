//! The requantizer: a table of biases and multipliers, and rows of accumulators through it.
//!
//! `refmath` defines the values. The loop of `fp32_rne` is written out so that compilers vectorise it; the clamp comes
//! before the rounding as there, and the test below holds the two together.

use super::memory::{Chip, put};
use crate::error::Fault;
use crate::isa::Dtype;
use crate::machine::Counters;
use crate::program::{Output, Requantize, Sums};
use ottava_hal::refmath::epilogue::acc_i64_to_f32;
use ottava_hal::refmath::requant::check_fp32_multiplier;
use ottava_hal::refmath::{Multiplier, Q31, Requant, RequantMode, Target};

/// The entries of a table, one per column.
pub(super) struct Table {
    bias: Vec<i32>,
    scale: Scale,
    output: Output,
    mode: RequantMode,
    kind: Sums,
}

/// The multipliers, by mode.
enum Scale {
    /// Multipliers, and what an f32 output adds last.
    Real(Vec<f32>, Vec<f32>),
    Fixed(Vec<Q31>),
}

impl Table {
    /// Reads and checks the table for rows of `n` columns: the multiplier must be one that the mode can have.
    pub fn read(chip: &Chip, settings: &Requantize, n: usize) -> Result<Self, Fault> {
        let bytes = chip.gather(&settings.table);
        let (chunks, _) = bytes.as_chunks::<12>();
        let count = if chunks.len() == 1 { n } else { chunks.len() };
        let chunks = || chunks.iter().cycle().take(count);
        let word = |c: &[u8; 12], i: usize| u32::from_le_bytes([c[i], c[i + 1], c[i + 2], c[i + 3]]);
        let bias = chunks().map(|c| word(c, 0).cast_signed()).collect();
        let scale = if settings.mode == RequantMode::Fp32Rne {
            let float = settings.output.dtype == Dtype::F32;
            let real = chunks().map(|c| real(word(c, 4), word(c, 8), float)).collect::<Result<Vec<_>, _>>()?;
            let (m, last) = real.into_iter().unzip();
            Scale::Real(m, last)
        } else {
            Scale::Fixed(chunks().map(|c| fixed(word(c, 4), word(c, 8))).collect::<Result<_, _>>()?)
        };
        Ok(Self { bias, scale, output: settings.output, mode: settings.mode, kind: settings.sums })
    }

    /// Bias and f32 multiplier of column `n`; 0 for an entry of the Q31 modes.
    pub fn real(&self, n: usize) -> (i32, f32) {
        (self.bias[n], if let Scale::Real(m, _) = &self.scale { m[n] } else { 0.0 })
    }

    /// The sums of a row of accumulators, with their biases.
    pub fn sums(&self, acc: &[i32]) -> Vec<i64> {
        if self.kind == Sums::Narrow {
            return acc.iter().zip(&self.bias).map(|(a, b)| a.wrapping_add(*b).into()).collect();
        }
        acc.as_chunks().0.iter().zip(&self.bias).map(|(pair, b)| wide(*pair).wrapping_add(i64::from(*b))).collect()
    }

    /// Sums in pairs of accumulators to output elements.
    fn row_of_pairs(&self, acc: &[i32], out: &mut [u8], counters: &mut Counters) {
        let Output { dtype, target: Target { zp, lo, hi, .. } } = self.output;
        for (n, sum) in self.sums(acc).into_iter().enumerate() {
            let multiplier = match &self.scale {
                Scale::Real(m, last) if dtype == Dtype::F32 => {
                    let y = acc_i64_to_f32(sum, m[n]) + last[n];
                    out[4 * n..4 * n + 4].copy_from_slice(&y.to_le_bytes());
                    continue;
                }
                Scale::Real(m, _) => Multiplier::Fp32(m[n]),
                Scale::Fixed(q) => Multiplier::Q31(q[n]),
            };
            let requant = Requant { mode: self.mode, multiplier, zp, lo, hi };
            let apply = |r: &Requant| match self.kind {
                Sums::Wide => r.apply_i64(sum),
                _ => r.apply(sum as i32),
            };
            let y = apply(&requant);
            if y == lo || y == hi {
                let open = apply(&Requant { lo: i32::MIN, hi: i32::MAX, ..requant });
                counters.saturated_low += u64::from(open < y);
                counters.saturated_high += u64::from(open > y);
            }
            put(out, n, y, dtype);
        }
    }

    /// One row of accumulators to output elements; counts the outputs that the clamp changed.
    pub fn row(&self, acc: &[i32], out: &mut [u8], counters: &mut Counters) {
        if self.kind != Sums::Narrow {
            return self.row_of_pairs(acc, out, counters);
        }
        let Output { dtype, target } = self.output;
        match &self.scale {
            Scale::Real(m, last) if dtype == Dtype::F32 => {
                let sums = acc.iter().zip(&self.bias).map(|(a, b)| a.wrapping_add(*b) as f32);
                let reals = sums.zip(m).zip(last).map(|((sum, m), last)| sum * m + last);
                out.as_chunks_mut().0.iter_mut().zip(reals).for_each(|(out, y)| *out = y.to_le_bytes());
            }
            Scale::Real(m, _) if dtype == Dtype::S16 => {
                let out = out.as_chunks_mut().0.iter_mut();
                round(acc, (&self.bias, m), target, counters, out, |o: &mut [u8; 2], y| *o = (y as i16).to_le_bytes());
            }
            Scale::Real(m, _) => {
                round(acc, (&self.bias, m), target, counters, out.iter_mut(), |o: &mut u8, y| *o = y as u8);
            }
            Scale::Fixed(q31) => {
                for (n, (acc, q)) in acc.iter().zip(q31).enumerate() {
                    let Target { zp, lo, hi, .. } = target;
                    let requant = Requant { mode: self.mode, multiplier: Multiplier::Q31(*q), zp, lo, hi };
                    put(out, n, apply(&requant, acc.wrapping_add(self.bias[n]), counters), dtype);
                }
            }
        }
    }
}

/// The 64 bits of a pair of accumulators, the low ones first.
pub(super) fn wide([low, high]: [i32; 2]) -> i64 {
    i64::from(high) << 32 | i64::from(low.cast_unsigned())
}

/// 1.5 * 2^23: adding it to an f32 below 2^22 leaves the rounded integer in the low bits.
const MAGIC: f32 = 12_582_912.0;

/// `sat(rne(fl32(f32(acc + bias) * m)) + zp)` of a row. Outputs have 16 bits at most, so that the clamped value is below
/// 2^22; a clamp to integers commutes with the rounding.
fn round<'o, O: 'o>(
    acc: &[i32],
    (bias, m): (&[i32], &[f32]),
    to: Target,
    counters: &mut Counters,
    out: impl Iterator<Item = &'o mut O>,
    write: impl Fn(&mut O, i32),
) {
    let (min, max) = (to.lo.wrapping_sub(to.zp) as f32, to.hi.wrapping_sub(to.zp) as f32);
    // What rounds beyond the clamp: ties go to even, so half a step belongs to an even bound.
    let even = |bound: f32| (bound as i32) & 1 == 0;
    let below = if even(min) { min - 0.5 } else { (min - 0.5).next_up() };
    let above = if even(max) { max + 0.5 } else { (max + 0.5).next_down() };
    let (mut low, mut high) = (0_u32, 0_u32);
    for (((out, acc), bias), m) in out.zip(acc).zip(bias).zip(m) {
        let t = acc.wrapping_add(*bias) as f32 * m;
        low += u32::from(t < below);
        high += u32::from(t > above);
        let t = if t < min { min } else { t };
        let t = if t > max { max } else { t };
        let rounded = (t + MAGIC).to_bits().wrapping_sub(MAGIC.to_bits()).cast_signed();
        write(out, rounded.wrapping_add(to.zp));
    }
    counters.saturated_low += u64::from(low);
    counters.saturated_high += u64::from(high);
}

/// The output of one accumulator; counts saturation.
pub(super) fn apply(requant: &Requant, acc: i32, counters: &mut Counters) -> i32 {
    let y = requant.apply(acc);
    if y == requant.lo || y == requant.hi {
        // A value beyond the clamp differs from the same value under the widest clamp.
        let open = Requant { lo: i32::MIN, hi: i32::MAX, ..*requant }.apply(acc);
        counters.saturated_low += u64::from(open < y);
        counters.saturated_high += u64::from(open > y);
    }
    y
}

/// An entry of `fp32_rne`: the multiplier, and for an f32 output what is added last.
fn real(bits: u32, shift: u32, float: bool) -> Result<(f32, f32), Fault> {
    let m = f32::from_bits(bits);
    check_fp32_multiplier(m).map_err(|e| Fault::Constants(e.to_string()))?;
    if shift != 0 && !float {
        let found = shift.cast_signed().into();
        return Err(Fault::Value { what: "the shift of an fp32_rne entry", found, expected: "0" });
    }
    Ok((m, f32::from_bits(shift)))
}

/// An entry of the Q31 modes.
fn fixed(bits: u32, shift: u32) -> Result<Q31, Fault> {
    let (multiplier, shift) = (bits.cast_signed(), shift.cast_signed());
    if multiplier < 0 {
        let what = "the multiplier of a Q31 entry";
        return Err(Fault::Value { what, found: multiplier.into(), expected: "0 to 2^31 - 1" });
    }
    if !(-31..=30).contains(&shift) {
        return Err(Fault::Value { what: "the shift of a Q31 entry", found: shift.into(), expected: "-31 to 30" });
    }
    Ok(Q31 { multiplier, shift })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Rng;

    #[test]
    fn the_vector_loop_is_the_definition_and_counts_saturation() {
        let mut rng = Rng::new(3);
        for round_no in 0..400 {
            let n = 37;
            let wide = round_no % 2 == 0;
            let zp = if wide { 0 } else { rng.below(256) as i32 - 128 };
            let (lo, hi) = if wide { (-32768, 32767) } else { (-128 + rng.below(9) as i32, 127 - rng.below(9) as i32) };
            let target = Target { scale: 1.0, zp, lo, hi };
            // Halves of powers of two give ties; the others everything else.
            let ms = [0.5, 0.25, 1.0 / 512.0, 0.0, -0.5, 3.0e8, 0.012_345_6, 1.0e-30];
            let m: Vec<f32> = (0..n).map(|_| ms[rng.below(8) as usize]).collect();
            let bias: Vec<i32> = (0..n).map(|_| rng.below(2000) as i32 - 1000).collect();
            let spread = 1_u64 << (4 + rng.below(28));
            let acc: Vec<i32> = (0..n).map(|_| (rng.below(spread) as i64 - spread as i64 / 2) as i32).collect();
            let (mut found, mut expected) = (Counters::default(), Counters::default());
            let mut out = vec![[0_u8; 2]; n];
            round(&acc, (&bias, &m), target, &mut found, out.iter_mut(), |o: &mut [u8; 2], y| {
                *o = (y as i16).to_le_bytes();
            });
            for i in 0..n {
                let (mode, multiplier) = (RequantMode::Fp32Rne, Multiplier::Fp32(m[i]));
                let requant = Requant { mode, multiplier, zp, lo, hi };
                let y = apply(&requant, acc[i].wrapping_add(bias[i]), &mut expected);
                assert_eq!(i32::from(i16::from_le_bytes(out[i])), y, "{} * {} to {target:?}", acc[i], m[i]);
            }
            assert_eq!(found, expected);
        }
    }
}
