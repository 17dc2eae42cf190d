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
use crate::counts::{Counts, MAX_FAST_EXPONENT, ORIGIN, bin_fast, coarser, count_chunk, rounder};
use crate::error::Result;
use crate::scan::{Extremes, extremes};

pub(crate) use crate::counts::BINS;

/// The smallest exponent: every f32 is a multiple of 2^-149.
pub const MIN_EXPONENT: i32 = -149;
/// The exponent of the largest finite f32: 127 - 10.
pub const MAX_EXPONENT: i32 = 117;
/// Elements per chunk: 16 KiB, so that the second pass reads from the first-level cache.
const CHUNK: usize = 4096;

/// A histogram with exact extremes and exact counts of everything that is not binned.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    exponent: i32,
    counts: Counts,
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
            counts: Counts::for_values(0),
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
        self.survey(values);
    }

    /// As [`Self::observe`]; what it has found: the extremes of the finite values, and whether all are.
    pub(crate) fn survey(&mut self, values: &[f32]) -> Extremes {
        let mut all = Extremes::NONE;
        for chunk in values.chunks(CHUNK) {
            let found = extremes(chunk);
            if found.all_finite {
                self.observe_finite(chunk, &found);
                all = all.with(found);
            } else {
                all = all.with(self.observe_mixed(chunk));
            }
        }
        all
    }

    fn observe_mixed(&mut self, chunk: &[f32]) -> Extremes {
        let mut finite = Vec::with_capacity(chunk.len());
        for &x in chunk {
            match x {
                x if x.is_nan() => self.nan += 1,
                f32::INFINITY => self.pos_inf += 1,
                f32::NEG_INFINITY => self.neg_inf += 1,
                x => finite.push(x),
            }
        }
        let found = extremes(&finite);
        if !finite.is_empty() {
            self.observe_finite(&finite, &found);
        }
        Extremes { all_finite: false, ..found }
    }

    fn observe_finite(&mut self, chunk: &[f32], found: &Extremes) {
        self.min = self.min.min(found.min);
        self.max = self.max.max(found.max);
        self.coarsen(exponent_for(found.min).max(exponent_for(found.max)));
        self.finite = self.finite.saturating_add(chunk.len() as u64);
        self.counts.make_room(self.finite);
        self.zeros = self.zeros.saturating_add(self.count_bins(chunk, found));
    }

    /// Counts a chunk; the number of its zeros, which are in no bin.
    fn count_bins(&mut self, chunk: &[f32], found: &Extremes) -> u64 {
        if self.exponent > MAX_FAST_EXPONENT {
            let inverse = pow2(-self.exponent);
            let mut binned = 0;
            for &x in chunk.iter().filter(|x| **x != 0.0) {
                binned += 1;
                self.counts.add((bin_wide(x, inverse) + ORIGIN) as usize, 1);
            }
            return chunk.len() as u64 - binned;
        }
        let rounder = rounder(self.exponent);
        let slots = (bin_fast(found.min, rounder) + ORIGIN, bin_fast(found.max, rounder) + ORIGIN);
        match &mut self.counts {
            Counts::Narrow(counts) => count_chunk(counts, chunk, rounder, slots),
            Counts::Wide(counts) => count_chunk(counts, chunk, rounder, slots),
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
        let mut moved = Counts::for_values(self.finite);
        self.counts.each(|idx, count| moved.add(coarser(idx, by), count));
        self.counts = moved;
    }

    /// Adds another histogram. The result is that of observing both multisets.
    pub fn merge(&mut self, other: &Self) {
        self.coarsen(other.exponent);
        let by = self.exponent - other.exponent;
        self.counts.make_room(self.finite.saturating_add(other.finite));
        other.counts.each(|idx, count| self.counts.add(coarser(idx, by), count));
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
        bin.checked_add(ORIGIN).and_then(|idx| usize::try_from(idx).ok()).map_or(0, |idx| self.counts.get(idx))
    }

    /// The non-empty bins in ascending order, as (bin number, count).
    pub fn bins(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        (0..BINS).map(|idx| (idx as i32 - ORIGIN, self.counts.get(idx))).filter(|(_, count)| *count > 0)
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
        let is_used = |idx: &usize| self.counts.get(*idx) > 0;
        let first = (0..BINS).find(is_used).unwrap_or(0);
        let end = (0..BINS).rev().find(is_used).map_or(0, |last| last + 1);
        out.extend((first as u16).to_le_bytes());
        out.extend(((end - first) as u16).to_le_bytes());
        (first..end).for_each(|idx| put_varint(out, self.counts.get(idx)));
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
        if first + len > BINS {
            return Err(reader.error(format!("bins {first} to {}", first + len), "bins 0 to 4096"));
        }
        histogram.counts = Counts::for_values(histogram.finite);
        let mut binned = 0u64;
        for idx in first..first + len {
            let count = reader.varint()?;
            binned = binned.saturating_add(count);
            if binned > histogram.finite {
                break;
            }
            histogram.counts.add(idx, count);
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
