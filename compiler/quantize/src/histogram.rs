//! The mergeable power-of-two histogram (numerics, section 8).
//!
//! 4096 counts; bin `i` in [-2048, 2047] covers `[i*2^k, (i+1)*2^k)`. The exponent `k` only grows, and growing by `d` moves
//! bin `i` to `i >> d`, which is where its values would have gone at once: `floor(floor(x/2^k)/2^d) = floor(x/2^(k+d))`.
//! Everything kept here is therefore a function of the *multiset* of observed values: order, batches, threads and shards
//! leave no trace.
//!
//! Observation makes two passes over cache-sized chunks, both free of branches on the data: the first finds extremes,
//! zeros and whether all values are finite, the second computes bin numbers.

use crate::bytes::{Reader, put_varint};
use crate::error::Result;
use crate::scan::{Extremes, extremes};

/// Number of bins.
pub const BINS: usize = 4096;
/// Bin numbers are shifted by this much to index the counts.
const ORIGIN: i32 = 2048;
/// The smallest exponent: every f32 is a multiple of 2^-149.
pub const MIN_EXPONENT: i32 = -149;
/// The exponent of the largest finite f32: 127 - 10.
pub const MAX_EXPONENT: i32 = 117;
/// Below this exponent `2^-k` is no f32 and bin numbers are computed in f64.
const MIN_FAST_EXPONENT: i32 = -126;
/// Elements per chunk: 8 KiB, so that the second pass reads from the first-level cache.
const CHUNK: usize = 2048;
/// Elements whose bin numbers are computed together before they are counted.
const BLOCK: usize = 64;
/// The bins and, behind them, one spare slot per position of a block for zeros; spare slots are 0 between calls.
const SLOTS: usize = BINS + BLOCK;

/// A histogram with exact extremes and exact counts of everything that is not binned.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    exponent: i32,
    counts: Box<[u64; SLOTS]>,
    min: f32,
    max: f32,
    finite: u64,
    zeros: u64,
    nan: u64,
    pos_inf: u64,
    neg_inf: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            exponent: MIN_EXPONENT,
            counts: Box::new([0; SLOTS]),
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
            finite: 0,
            zeros: 0,
            nan: 0,
            pos_inf: 0,
            neg_inf: 0,
        }
    }
}

/// The exponent that a histogram needs for `x`: `max(-149, e - 10)` with `|x|` in `[2^e, 2^(e+1))`.
pub fn exponent_for(x: f32) -> i32 {
    let bits = x.to_bits() & 0x7fff_ffff;
    let field = (bits >> 23) as i32;
    // A denormal's exponent follows from its highest set bit; for zero any value below the floor will do.
    let e = if field == 0 { -118 - bits.leading_zeros() as i32 } else { field - 127 };
    (e - 10).max(MIN_EXPONENT)
}

/// `2^e` as f64, for the exponents that occur here.
pub(crate) fn pow2(e: i32) -> f64 {
    f64::from_bits(((1023 + i64::from(e)) as u64) << 52)
}

/// Adding this rounds a float of magnitude below 2^22 to an integer, which the lowest bits of the sum then hold.
const TO_INTEGER: f32 = 1.5 * (1u32 << 23) as f32;

/// `floor(x * 2^-k)`, exact, for `|x * 2^-k| < 2048`. The product is exact unless it is denormal; its nearest integer is
/// then 0 either way. `nearest * 2^k` is exact (or infinite, beyond every `x`), so comparing it with `x` itself says
/// whether rounding went up.
#[inline(always)]
fn bin_fast(x: f32, inverse: f32, step: f32) -> i32 {
    let sum = x * inverse + TO_INTEGER;
    let nearest = sum - TO_INTEGER;
    let bin = (sum.to_bits() as i32).wrapping_sub(TO_INTEGER.to_bits() as i32);
    bin.wrapping_sub(i32::from(x < nearest * step))
}

/// The slots of a block: of its bin, or for a zero the spare slot of its position. A function and a loop of its own, over
/// indices that are known to be small: only so is it compiled for the vector unit, with overflow checks as without.
#[inline(never)]
fn slots_of(block: &[f32; BLOCK], inverse: f32, step: f32, slots: &mut [i32; BLOCK]) {
    for i in 0..BLOCK {
        let x = block[i];
        let is_zero = i32::from(x == 0.0).wrapping_neg();
        let bin = bin_fast(x, inverse, step).wrapping_add(ORIGIN);
        slots[i] = (bin & !is_zero) | ((BINS + i) as i32 & is_zero);
    }
}

/// `floor(x * 2^-k)`, exact for every exponent: f64 holds every such product.
fn bin_wide(x: f32, inverse: f64) -> i32 {
    (f64::from(x) * inverse).floor() as i32
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts `values`. NaN and infinities are counted apart and enter neither bins nor range.
    pub fn observe(&mut self, values: &[f32]) {
        for chunk in values.chunks(CHUNK) {
            let found = extremes(chunk);
            if found.all_finite {
                self.observe_finite(chunk, &found);
            } else {
                self.observe_mixed(chunk);
            }
        }
    }

    fn observe_mixed(&mut self, chunk: &[f32]) {
        let mut finite = Vec::with_capacity(chunk.len());
        for &x in chunk {
            match x {
                x if x.is_nan() => self.nan += 1,
                f32::INFINITY => self.pos_inf += 1,
                f32::NEG_INFINITY => self.neg_inf += 1,
                x => finite.push(x),
            }
        }
        if !finite.is_empty() {
            let found = extremes(&finite);
            self.observe_finite(&finite, &found);
        }
    }

    fn observe_finite(&mut self, chunk: &[f32], found: &Extremes) {
        self.min = self.min.min(found.min);
        self.max = self.max.max(found.max);
        self.coarsen(exponent_for(found.min).max(exponent_for(found.max)));
        self.finite += chunk.len() as u64;
        self.zeros += u64::from(found.zeros);
        self.count_bins(chunk);
    }

    fn count_bins(&mut self, chunk: &[f32]) {
        let inverse = pow2(-self.exponent);
        if self.exponent < MIN_FAST_EXPONENT {
            for &x in chunk.iter().filter(|x| **x != 0.0) {
                self.counts[(bin_wide(x, inverse) + ORIGIN) as usize] += 1;
            }
            return;
        }
        // Half of what follows a ReLU is zero. Zeros are not binned: each goes to the spare slot of its own position,
        // since incrementing one slot over and over would wait for the previous store every time.
        let (inverse, step) = (inverse as f32, pow2(self.exponent) as f32);
        let (blocks, rest) = chunk.as_chunks::<BLOCK>();
        let mut slots = [0; BLOCK];
        for block in blocks {
            slots_of(block, inverse, step, &mut slots);
            self.count_slots(&slots);
        }
        if !rest.is_empty() {
            let mut block = [0.0; BLOCK];
            block[..rest.len()].copy_from_slice(rest);
            slots_of(&block, inverse, step, &mut slots);
            self.count_slots(&slots[..rest.len()]);
        }
        self.counts[BINS..].fill(0);
    }

    #[inline(always)]
    fn count_slots(&mut self, slots: &[i32]) {
        for &slot in slots {
            let count = &mut self.counts[slot as usize];
            *count = count.wrapping_add(1);
        }
    }

    /// Widens the bins to `2^exponent`; a smaller exponent changes nothing.
    fn coarsen(&mut self, exponent: i32) {
        let by = exponent - self.exponent;
        if by <= 0 {
            return;
        }
        self.exponent = exponent;
        if self.finite == self.zeros {
            return;
        }
        let mut moved = Box::new([0; SLOTS]);
        for (idx, &count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let bin = (idx as i32 - ORIGIN) >> by.min(31);
            moved[(bin + ORIGIN) as usize] += count;
        }
        self.counts = moved;
    }

    /// Adds another histogram. The result is that of observing both multisets.
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(other.exponent);
        let by = (self.exponent - other.exponent).min(31);
        for (idx, &count) in other.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let target = &mut self.counts[(((idx as i32 - ORIGIN) >> by) + ORIGIN) as usize];
            *target = target.saturating_add(count);
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        for (mine, theirs) in [
            (&mut self.finite, other.finite),
            (&mut self.zeros, other.zeros),
            (&mut self.nan, other.nan),
            (&mut self.pos_inf, other.pos_inf),
            (&mut self.neg_inf, other.neg_inf),
        ] {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// The exact smallest and largest finite value; `None` before the first one.
    pub fn extremes(&self) -> Option<(f32, f32)> {
        (self.finite > 0).then_some((self.min, self.max))
    }

    /// Number of finite values, zeros included.
    pub fn finite(&self) -> u64 {
        self.finite
    }

    /// Number of exact zeros; they are in no bin.
    pub fn zeros(&self) -> u64 {
        self.zeros
    }

    /// Number of NaN values.
    pub fn nan(&self) -> u64 {
        self.nan
    }

    /// Number of infinite values of both signs.
    pub fn infinite(&self) -> u64 {
        self.pos_inf.saturating_add(self.neg_inf)
    }

    /// The exponent `k` of the bin width.
    pub fn exponent(&self) -> i32 {
        self.exponent
    }

    /// The width of a bin, `2^k`.
    pub fn bin_width(&self) -> f64 {
        pow2(self.exponent)
    }

    /// The count of bin `bin` in [-2048, 2047]; 0 outside.
    pub fn bin(&self, bin: i32) -> u64 {
        usize::try_from(bin + ORIGIN).ok().and_then(|idx| self.counts[..BINS].get(idx)).copied().unwrap_or(0)
    }

    /// The non-empty bins in ascending order, as (bin number, count).
    pub fn bins(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, c)| **c > 0).map(|(idx, &c)| (idx as i32 - ORIGIN, c))
    }

    /// The value below which the share `p` of all finite values lies, interpolated inside its bin and clamped to the
    /// extremes; off by at most one bin width. `None` without finite values.
    pub fn quantile(&self, p: f64) -> Option<f64> {
        let (min, max) = self.extremes()?;
        let rank = p * self.finite as f64;
        let clamp = |value: f64| value.clamp(f64::from(min), f64::from(max));
        let mut below = 0.0;
        let mut zeros_pending = self.zeros as f64;
        for (bin, count) in self.bins() {
            if bin >= 0 && zeros_pending > 0.0 {
                below += zeros_pending;
                zeros_pending = 0.0;
                if rank <= below {
                    return Some(clamp(0.0));
                }
            }
            let count = count as f64;
            if rank <= below + count {
                let inside = ((rank - below) / count).max(0.0);
                return Some(clamp((f64::from(bin) + inside) * self.bin_width()));
            }
            below += count;
        }
        Some(f64::from(max))
    }

    /// How many bins the central 99.9 % of the mass spans. Below 64 an outlier has spoiled the resolution.
    pub fn resolution(&self) -> Option<f64> {
        Some((self.quantile(0.9995)? - self.quantile(0.0005)?) / self.bin_width())
    }

    /// Appends the exact bytes of the state: equal states, equal bytes.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.exponent.to_le_bytes());
        let (min, max) = self.extremes().unwrap_or((0.0, 0.0));
        out.extend(min.to_le_bytes());
        out.extend(max.to_le_bytes());
        for count in [self.finite, self.zeros, self.nan, self.pos_inf, self.neg_inf] {
            put_varint(out, count);
        }
        let first = self.counts.iter().position(|&c| c > 0).unwrap_or(0);
        let end = self.counts.iter().rposition(|&c| c > 0).map_or(0, |last| last + 1);
        out.extend((first as u16).to_le_bytes());
        out.extend(((end - first) as u16).to_le_bytes());
        for &count in &self.counts[first..end] {
            put_varint(out, count);
        }
    }

    /// Reads what [`Histogram::write`] wrote; anything that no multiset could have produced is refused.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let exponent = reader.i32()?;
        let (min, max) = (reader.f32()?, reader.f32()?);
        let mut histogram = Self { exponent, ..Self::default() };
        for count in [
            &mut histogram.finite,
            &mut histogram.zeros,
            &mut histogram.nan,
            &mut histogram.pos_inf,
            &mut histogram.neg_inf,
        ] {
            *count = reader.varint()?;
        }
        let (first, len) = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        let Some(counts) = histogram.counts[..BINS].get_mut(first..first + len) else {
            return Err(reader.error(format!("bins {first} to {}", first + len), "bins 0 to 4096"));
        };
        let mut binned = 0u64;
        for count in counts {
            *count = reader.varint()?;
            binned = binned.saturating_add(*count);
        }
        if histogram.finite > 0 {
            (histogram.min, histogram.max) = (min, max);
        }
        let consistent = binned.checked_add(histogram.zeros) == Some(histogram.finite)
            && exponent == exponent_for(min).max(exponent_for(max))
            && min.is_finite()
            && max.is_finite()
            && min <= max;
        if consistent {
            Ok(histogram)
        } else {
            Err(reader.error("contradicting counts", "a histogram of its own values"))
        }
    }
}

#[cfg(test)]
#[path = "histogram_tests.rs"]
mod tests;
