//! The requantizer: a table of biases and multipliers, and rows of accumulators through it.

use super::memory::Chip;
use crate::error::Fault;
use crate::machine::Counters;
use crate::program::Requantize;
use ottava_hal::refmath::requant::check_fp32_multiplier;
use ottava_hal::refmath::{Multiplier, Q31, Requant, RequantMode};

/// The entries of a table, one for all columns or one per column.
pub(super) struct Table {
    entries: Vec<(i32, Requant)>,
}

impl Table {
    /// Reads and checks the table: the multiplier must be one that the mode can have.
    pub fn read(chip: &Chip, settings: &Requantize) -> Result<Self, Fault> {
        let bytes = chip.gather(&settings.table);
        let (chunks, _) = bytes.as_chunks::<12>();
        let entries = chunks.iter().map(|chunk| entry(chunk, settings)).collect::<Result<_, _>>()?;
        Ok(Self { entries })
    }

    /// Bias and f32 multiplier of column `n`; 0 for an entry of the Q31 modes.
    pub fn real(&self, n: usize) -> (i32, f32) {
        let (bias, requant) = &self.entries[if self.entries.len() == 1 { 0 } else { n }];
        let m = if let Multiplier::Fp32(m) = requant.multiplier { m } else { 0.0 };
        (*bias, m)
    }

    /// One row of accumulators to output bytes; counts the outputs that the clamp changed.
    pub fn row(&self, acc: &[i32], out: &mut [u8], counters: &mut Counters) {
        let single = self.entries.len() == 1;
        for (n, (acc, out)) in acc.iter().zip(out).enumerate() {
            let (bias, requant) = &self.entries[if single { 0 } else { n }];
            *out = apply(requant, acc.wrapping_add(*bias), counters) as u8;
        }
    }
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

fn entry(chunk: &[u8; 12], settings: &Requantize) -> Result<(i32, Requant), Fault> {
    let word = |i: usize| [chunk[i], chunk[i + 1], chunk[i + 2], chunk[i + 3]];
    let (bias, bits, shift) = (i32::from_le_bytes(word(0)), u32::from_le_bytes(word(4)), i32::from_le_bytes(word(8)));
    let multiplier = if settings.mode == RequantMode::Fp32Rne {
        let m = f32::from_bits(bits);
        check_fp32_multiplier(m).map_err(|e| Fault::Constants(e.to_string()))?;
        if shift != 0 {
            return Err(Fault::Value { what: "the shift of an fp32_rne entry", found: shift.into(), expected: "0" });
        }
        Multiplier::Fp32(m)
    } else {
        let multiplier = bits.cast_signed();
        if multiplier < 0 {
            let what = "the multiplier of a Q31 entry";
            return Err(Fault::Value { what, found: multiplier.into(), expected: "0 to 2^31 - 1" });
        }
        if !(-31..=30).contains(&shift) {
            return Err(Fault::Value { what: "the shift of a Q31 entry", found: shift.into(), expected: "-31 to 30" });
        }
        Multiplier::Q31(Q31 { multiplier, shift })
    };
    let target = settings.target;
    Ok((bias, Requant { mode: settings.mode, multiplier, zp: target.zp, lo: target.lo, hi: target.hi }))
}
