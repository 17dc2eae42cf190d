//! Per-channel sums and extremes of activations: the mean for bias correction, the ranges for equalization.
//!
//! Floating-point sums depend on their order, so these are fixed-point: every value is rounded to a multiple of 2^-40
//! (far below anything that eight bits can see) and added as an integer, which is associative. Values beyond 2^60 are
//! clamped; non-finite ones are reported elsewhere and add nothing.

use crate::bytes::{Reader, put_varint};
use crate::error::{Error, Result};

/// Fractional bits of the sums.
const FRACTION_BITS: i32 = 40;
/// Values below this magnitude take the fast path: 1024 of them cannot overflow an i64 sum.
const FAST_LIMIT: f32 = 8192.0;
/// Values summed in i64 before they are added to the wide sum.
const BLOCK: usize = 1024;

/// Where the channels of a flattened tensor are: element `i` belongs to channel `(i / inner) % channels`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChannelLayout {
    /// Number of channels, at least 1.
    pub channels: usize,
    /// Elements between two channels: the product of the dimensions behind the channel axis, at least 1.
    pub inner: usize,
}

impl ChannelLayout {
    /// The layout of `axis` in a tensor of this shape; `None` where there is no such axis or no element.
    pub fn of(shape: &[usize], axis: usize) -> Option<Self> {
        let channels = *shape.get(axis)?;
        let inner = shape[axis + 1..].iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        (channels > 0 && inner > 0).then_some(Self { channels, inner })
    }
}

/// Exact, order-free sums and extremes per channel.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChannelSums {
    sums: Vec<i128>,
    /// Smallest and largest finite value of each channel; (+inf, -inf) before the first one.
    extremes: Vec<(f32, f32)>,
    per_channel: u64,
}

/// Extremes before the first value.
const NONE: (f32, f32) = (f32::INFINITY, f32::NEG_INFINITY);

/// The extremes with one more value; +0 stands for both zeros.
fn widened((lo, hi): (f32, f32), x: f32) -> (f32, f32) {
    if x.is_finite() { (lo.min(x + 0.0), hi.max(x + 0.0)) } else { (lo, hi) }
}

fn fixed(x: f32) -> i128 {
    const LIMIT: f64 = (1u64 << 60) as f64;
    // NaN converts to 0; infinities are clamped first, and skipped by the caller.
    ((f64::from(x).clamp(-LIMIT, LIMIT)) * (1i64 << FRACTION_BITS) as f64).round_ties_even() as i128
}

fn sum(values: &[f32]) -> i128 {
    let mut total = 0i128;
    for block in values.chunks(BLOCK) {
        if block.iter().all(|x| x.abs() < FAST_LIMIT) {
            total += i128::from(block.iter().map(|&x| fast_fixed(x)).sum::<i64>());
        } else {
            total = block.iter().filter(|x| x.is_finite()).fold(total, |t, &x| t.saturating_add(fixed(x)));
        }
    }
    total
}

/// The same number as [`fixed`], for |x| < 8192: adding and subtracting 1.5 * 2^52 rounds to an integer, ties to even.
fn fast_fixed(x: f32) -> i64 {
    const ROUND: f64 = 1.5 * (1u64 << 52) as f64;
    let scaled = f64::from(x) * (1i64 << FRACTION_BITS) as f64;
    // From 2^51 on, an f32 times 2^40 is an integer already and adding the constant would lose its last bit.
    if scaled.abs() < (1u64 << 51) as f64 { ((scaled + ROUND) - ROUND) as i64 } else { scaled as i64 }
}

impl ChannelSums {
    /// Adds a tensor, or several samples of it.
    pub(crate) fn observe(&mut self, tensor: &str, values: &[f32], layout: ChannelLayout) -> Result<()> {
        let period = layout.channels.checked_mul(layout.inner).filter(|p| *p > 0);
        let Some(period) = period.filter(|p| values.len().is_multiple_of(*p)) else {
            return Err(Error::BadObservation {
                tensor: tensor.to_owned(),
                found: format!("{} values", values.len()),
                expected: format!("a multiple of {} channels of {}", layout.channels, layout.inner),
            });
        };
        self.resize(tensor, layout.channels)?;
        if layout.inner == 1 {
            self.add_rows(values, layout.channels);
        } else {
            for sample in values.chunks_exact(period) {
                let channels = sample.chunks_exact(layout.inner);
                for ((total, extremes), channel) in self.sums.iter_mut().zip(&mut self.extremes).zip(channels) {
                    *total = total.saturating_add(sum(channel));
                    *extremes = channel.iter().fold(*extremes, |e, &x| widened(e, x));
                }
            }
        }
        self.per_channel = self.per_channel.saturating_add((values.len() / layout.channels) as u64);
        Ok(())
    }

    /// Channels that lie next to each other: one value of each per row.
    fn add_rows(&mut self, values: &[f32], channels: usize) {
        for row in values.chunks_exact(channels) {
            for ((total, extremes), &x) in self.sums.iter_mut().zip(&mut self.extremes).zip(row) {
                *extremes = widened(*extremes, x);
                if x.abs() < FAST_LIMIT {
                    *total = total.saturating_add(i128::from(fast_fixed(x)));
                } else if x.is_finite() {
                    *total = total.saturating_add(fixed(x));
                }
            }
        }
    }

    fn resize(&mut self, tensor: &str, channels: usize) -> Result<()> {
        if self.sums.is_empty() {
            self.sums = vec![0; channels];
            self.extremes = vec![NONE; channels];
        }
        if self.sums.len() == channels {
            return Ok(());
        }
        Err(Error::BadObservation {
            tensor: tensor.to_owned(),
            found: format!("{channels} channels"),
            expected: format!("{} channels as before", self.sums.len()),
        })
    }

    /// Adds the sums of another shard.
    pub(crate) fn merge(&mut self, tensor: &str, other: &Self) -> Result<()> {
        if other.sums.is_empty() {
            return Ok(());
        }
        self.resize(tensor, other.sums.len())?;
        for (mine, theirs) in self.sums.iter_mut().zip(&other.sums) {
            *mine = mine.saturating_add(*theirs);
        }
        for (mine, theirs) in self.extremes.iter_mut().zip(&other.extremes) {
            *mine = (mine.0.min(theirs.0), mine.1.max(theirs.1));
        }
        self.per_channel = self.per_channel.saturating_add(other.per_channel);
        Ok(())
    }

    /// The mean of each channel; empty when nothing was observed.
    pub fn means(&self) -> Vec<f64> {
        let scale = (1u64 << FRACTION_BITS) as f64 * self.per_channel.max(1) as f64;
        self.sums.iter().map(|&s| s as f64 / scale).collect()
    }

    /// Smallest and largest finite value of each channel, (0, 0) for a channel without one; empty when nothing was
    /// observed.
    pub fn extremes(&self) -> Vec<(f32, f32)> {
        self.extremes.iter().map(|&(lo, hi)| if lo <= hi { (lo, hi) } else { (0.0, 0.0) }).collect()
    }

    /// What would have been observed with each channel multiplied by its factor, up to rounding.
    pub(crate) fn scaled(&self, factors: &[f64]) -> Self {
        let factor = |c: usize| factors.get(c).copied().unwrap_or(1.0);
        let end = |x: f32, c: usize| (f64::from(x) * factor(c)) as f32;
        Self {
            sums: self
                .sums
                .iter()
                .enumerate()
                .map(|(c, &s)| (s as f64 * factor(c)).round_ties_even() as i128)
                .collect(),
            extremes: self.extremes.iter().enumerate().map(|(c, e)| (end(e.0, c), end(e.1, c))).collect(),
            per_channel: self.per_channel,
        }
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_varint(out, self.sums.len() as u64);
        put_varint(out, self.per_channel);
        out.extend(self.sums.iter().flat_map(|s| s.to_le_bytes()));
        out.extend(self.extremes.iter().flat_map(|(lo, hi)| [lo.to_le_bytes(), hi.to_le_bytes()]).flatten());
    }

    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let channels = reader.varint()?;
        let per_channel = reader.varint()?;
        // Each channel takes 24 bytes, so the bytes that are there bound the allocation.
        let fits = usize::try_from(channels).ok().filter(|c| *c <= reader.remaining() / 24);
        let Some(channels) = fits else {
            return Err(reader.error(format!("{channels} channels"), "as many sums as the file has room for"));
        };
        let sums = (0..channels).map(|_| reader.i128()).collect::<Result<_>>()?;
        let extremes: Vec<(f32, f32)> =
            (0..channels).map(|_| Ok((reader.f32()?, reader.f32()?))).collect::<Result<_>>()?;
        let possible = |&(lo, hi): &(f32, f32)| (lo, hi) == NONE || (lo.is_finite() && hi.is_finite() && lo <= hi);
        if !extremes.iter().all(possible) {
            return Err(reader.error("contradicting extremes", "a smallest and a largest value of each channel"));
        }
        Ok(Self { sums, extremes, per_channel })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn means_of_both_layouts() {
        let mut nchw = ChannelSums::default();
        nchw.observe("x", &[1.0, 3.0, -1.0, -2.0, 5.0, 7.0, 0.0, 0.0], ChannelLayout { channels: 2, inner: 2 })
            .unwrap();
        assert_eq!(nchw.means(), [4.0, -0.75]);
        assert_eq!(nchw.extremes(), [(1.0, 7.0), (-2.0, 0.0)]);
        let mut rows = ChannelSums::default();
        rows.observe("x", &[1.0, 10.0, 2.0, 20.0], ChannelLayout { channels: 2, inner: 1 }).unwrap();
        assert_eq!(rows.means(), [1.5, 15.0]);
    }

    #[test]
    fn layouts_come_from_shapes() {
        assert_eq!(ChannelLayout::of(&[1, 3, 4, 5], 1), Some(ChannelLayout { channels: 3, inner: 20 }));
        assert_eq!(ChannelLayout::of(&[7, 3], 1), Some(ChannelLayout { channels: 3, inner: 1 }));
        assert_eq!(ChannelLayout::of(&[7, 0], 1), None);
        assert_eq!(ChannelLayout::of(&[7], 1), None);
    }

    #[test]
    fn wrong_shapes_are_named() {
        let mut sums = ChannelSums::default();
        let two = ChannelLayout { channels: 2, inner: 1 };
        assert!(sums.observe("x", &[1.0, 2.0, 3.0], two).is_err());
        sums.observe("x", &[1.0, 2.0], two).unwrap();
        let error = sums.observe("x", &[1.0, 2.0, 3.0], ChannelLayout { channels: 3, inner: 1 }).unwrap_err();
        assert!(error.to_string().contains("`x`: 3 channels, expected 2 channels"), "{error}");
    }

    proptest! {
        #[test]
        fn the_fast_path_rounds_as_the_wide_one(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(x.abs() < FAST_LIMIT);
            prop_assert_eq!(i128::from(fast_fixed(x)), fixed(x));
        }

        #[test]
        fn order_leaves_no_trace(values in prop::collection::vec(any::<f32>(), 0..3000).prop_shuffle()) {
            let one = ChannelLayout { channels: 1, inner: 1 };
            let mut a = ChannelSums::default();
            a.observe("x", &values, one).unwrap();
            let mut sorted = values;
            sorted.sort_by(f32::total_cmp);
            let mut b = ChannelSums::default();
            for part in sorted.chunks(17) {
                b.observe("x", part, ChannelLayout { channels: 1, inner: part.len() }).unwrap();
            }
            prop_assert_eq!(a.extremes(), if b.sums.is_empty() { vec![(0.0, 0.0)] } else { b.extremes() });
            prop_assert_eq!(a.sums, if b.sums.is_empty() { vec![0] } else { b.sums });
        }
    }
}
