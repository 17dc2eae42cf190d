//! Per-channel sums and extremes of activations: the mean for bias correction, the ranges for equalization.
//!
//! Floating-point sums depend on their order, so these are fixed-point: every value is rounded to a multiple of 2^-40
//! (far below anything that eight bits can see) and added as an integer, which is associative. Values beyond 2^60 are
//! clamped; non-finite ones are reported elsewhere and add nothing.

use crate::bytes::{Reader, put_varint};
use crate::error::{Error, Result};
use crate::scan::{Extremes, extremes, greater, lesser};

/// Fractional bits of the sums.
const FRACTION_BITS: i32 = 40;
/// Values below this magnitude take the fast path: times 2^40 they stay below 2^51, and 1024 of them below 2^61.
const FAST_LIMIT: f32 = 2048.0;
/// Below this magnitude the number fits an i64.
const EXACT_LIMIT: f32 = (1u32 << 22) as f32;
/// Values summed in i64 before they are added to the wide sum.
const BLOCK: usize = 1024;
/// Columns of a row at least: narrower rows are taken together.
const WIDTH: usize = 64;
/// Adding this to an f64 of magnitude below 2^11 rounds it to a multiple of 2^-40, ties to even: that is the last place of
/// the sum, whose lowest bits then hold the number.
const TO_INTEGER: f64 = 1.5 * (1u64 << (52 - FRACTION_BITS)) as f64;

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

    /// Fails unless the values are whole samples of this layout.
    pub(crate) fn expect_fits(self, tensor: &str, values: &[f32]) -> Result<()> {
        let period = self.channels.checked_mul(self.inner).filter(|p| *p > 0);
        if period.is_some_and(|p| values.len().is_multiple_of(p)) {
            return Ok(());
        }
        Err(Error::BadObservation {
            tensor: tensor.to_owned(),
            found: format!("{} values", values.len()),
            expected: format!("a multiple of {} channels of {}", self.channels, self.inner),
        })
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

fn fixed(x: f32) -> i128 {
    const LIMIT: f64 = (1u64 << 60) as f64;
    // From 2048 on, an f32 is a multiple of 2^-12: nothing is to be rounded.
    if (FAST_LIMIT..EXACT_LIMIT).contains(&x.abs()) {
        return i128::from((f64::from(x) * (1i64 << FRACTION_BITS) as f64) as i64);
    }
    // NaN converts to 0; infinities are clamped first, and skipped by the caller.
    ((f64::from(x).clamp(-LIMIT, LIMIT)) * (1i64 << FRACTION_BITS) as f64).round_ties_even() as i128
}

/// The same number as [`fixed`] but for a constant, [`TO_INTEGER`]'s bits, for `|x|` below [`FAST_LIMIT`].
#[inline(always)]
fn fast_fixed(x: f32) -> i64 {
    (f64::from(x) + TO_INTEGER).to_bits() as i64
}

/// The sum of `n` numbers from the wrapped sum of their [`fast_fixed`].
fn of_fast(sum: i64, n: usize) -> i128 {
    i128::from(sum.wrapping_sub((TO_INTEGER.to_bits() as i64).wrapping_mul(n as i64)))
}

fn is_fast(min: f32, max: f32) -> bool {
    min > -FAST_LIMIT && max < FAST_LIMIT
}

/// Sum and extremes of one channel.
#[derive(Debug, Clone, Copy)]
struct Channel {
    sum: i128,
    extremes: (f32, f32),
}

impl Channel {
    /// A single value, of any size.
    fn add(&mut self, x: f32) {
        if x.is_finite() {
            let sum = if is_fast(x, x) { of_fast(fast_fixed(x), 1) } else { fixed(x) };
            self.sum = self.sum.saturating_add(sum);
            self.widen(x + 0.0, x + 0.0);
        }
    }

    fn widen(&mut self, min: f32, max: f32) {
        self.extremes = (self.extremes.0.min(min), self.extremes.1.max(max));
    }

    /// Values that lie next to each other; `fast` if all are finite and [`is_fast`].
    fn add_run(&mut self, values: &[f32], fast: bool) {
        for block in values.chunks(BLOCK) {
            if fast {
                let found = extremes(block);
                let sum = block.iter().fold(0i64, |sum, &x| sum.wrapping_add(fast_fixed(x)));
                self.sum = self.sum.saturating_add(of_fast(sum, block.len()));
                self.widen(found.min, found.max);
            } else {
                block.iter().for_each(|&x| self.add(x));
            }
        }
    }
}

/// Sums and extremes of some rows of fast values, column by column. Rows that are narrow are taken together as one row, in
/// which a channel has several columns.
struct Columns {
    sums: Vec<i64>,
    min: Vec<f32>,
    max: Vec<f32>,
}

impl Columns {
    fn new(width: usize) -> Self {
        Self { sums: vec![0; width], min: vec![f32::INFINITY; width], max: vec![f32::NEG_INFINITY; width] }
    }

    /// Rows of the width, at most [`BLOCK`].
    fn add(&mut self, rows: &[f32]) {
        let width = self.sums.len();
        let fours = rows.chunks_exact(4 * width);
        let rest = fours.remainder();
        fours.for_each(|rows| add_four(rows, &mut self.sums, &mut self.min, &mut self.max));
        for (i, &x) in rest.chunks_exact(width).flat_map(|row| row.iter().enumerate()) {
            self.sums[i] = self.sums[i].wrapping_add(fast_fixed(x));
            self.min[i] = lesser(x, self.min[i]);
            self.max[i] = greater(x, self.max[i]);
        }
    }
}

/// Four rows. A function and loops of their own over slices of one length: only so are they compiled for the vector unit.
#[inline(never)]
fn add_four(rows: &[f32], sums: &mut [i64], min: &mut [f32], max: &mut [f32]) {
    let n = rows.len() / 4;
    let ((ab, cd), sums) = (rows.split_at(2 * n), &mut sums[..n]);
    let ((a, b), (c, d)) = (ab.split_at(n), cd.split_at(n));
    let (d, min, max) = (&d[..n], &mut min[..n], &mut max[..n]);
    for i in 0..n {
        min[i] = lesser(lesser(a[i], b[i]), lesser(lesser(c[i], d[i]), min[i]));
        max[i] = greater(greater(a[i], b[i]), greater(greater(c[i], d[i]), max[i]));
    }
    for i in 0..n {
        let (first, second) =
            (fast_fixed(a[i]).wrapping_add(fast_fixed(b[i])), fast_fixed(c[i]).wrapping_add(fast_fixed(d[i])));
        sums[i] = sums[i].wrapping_add(first).wrapping_add(second);
    }
}

impl ChannelSums {
    /// Adds a tensor, or several samples of it, in which this was found.
    pub(crate) fn observe(
        &mut self,
        tensor: &str,
        values: &[f32],
        layout: ChannelLayout,
        found: Extremes,
    ) -> Result<()> {
        layout.expect_fits(tensor, values)?;
        self.resize(tensor, layout.channels)?;
        let fast = found.all_finite && is_fast(found.min, found.max);
        if layout.inner == 1 && fast {
            self.add_rows(values, layout.channels);
        } else {
            for sample in values.chunks_exact(layout.channels * layout.inner) {
                for (c, run) in sample.chunks_exact(layout.inner).enumerate() {
                    self.update(c, |channel| channel.add_run(run, fast));
                }
            }
        }
        self.per_channel = self.per_channel.saturating_add((values.len() / layout.channels) as u64);
        Ok(())
    }

    /// Channels that lie next to each other: one fast value of each per row.
    fn add_rows(&mut self, values: &[f32], channels: usize) {
        let width = channels * WIDTH.div_ceil(channels);
        for block in values.chunks(BLOCK * width) {
            let (rows, rest) = block.split_at(block.len() / width * width);
            if !rows.is_empty() {
                let mut columns = Columns::new(width);
                columns.add(rows);
                self.add_columns(&columns, rows.len() / width, channels);
            }
            for (i, &x) in rest.iter().enumerate() {
                self.update(i % channels, |channel| channel.add(x));
            }
        }
    }

    fn add_columns(&mut self, columns: &Columns, n_rows: usize, channels: usize) {
        for (i, &sum) in columns.sums.iter().enumerate() {
            self.update(i % channels, |channel| {
                channel.sum = channel.sum.saturating_add(of_fast(sum, n_rows));
                channel.widen(columns.min[i] + 0.0, columns.max[i] + 0.0);
            });
        }
    }

    fn update(&mut self, c: usize, change: impl FnOnce(&mut Channel)) {
        let mut channel = Channel { sum: self.sums[c], extremes: self.extremes[c] };
        change(&mut channel);
        (self.sums[c], self.extremes[c]) = (channel.sum, channel.extremes);
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

    fn observe(sums: &mut ChannelSums, values: &[f32], channels: usize, inner: usize) -> Result<()> {
        sums.observe("x", values, ChannelLayout { channels, inner }, extremes(values))
    }

    #[test]
    fn means_of_both_layouts() {
        let mut nchw = ChannelSums::default();
        observe(&mut nchw, &[1.0, 3.0, -1.0, -2.0, 5.0, 7.0, 0.0, 0.0], 2, 2).unwrap();
        assert_eq!(nchw.means(), [4.0, -0.75]);
        assert_eq!(nchw.extremes(), [(1.0, 7.0), (-2.0, 0.0)]);
        let mut rows = ChannelSums::default();
        observe(&mut rows, &[1.0, 10.0, 2.0, 20.0], 2, 1).unwrap();
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
        assert!(observe(&mut sums, &[1.0, 2.0, 3.0], 2, 1).is_err());
        observe(&mut sums, &[1.0, 2.0], 2, 1).unwrap();
        let error = observe(&mut sums, &[1.0, 2.0, 3.0], 3, 1).unwrap_err();
        assert!(error.to_string().contains("`x`: 3 channels, expected 2 channels"), "{error}");
    }

    proptest! {
        #[test]
        fn the_fast_path_rounds_as_the_wide_one(bits: u32) {
            let x = f32::from_bits(bits);
            prop_assume!(x.abs() < FAST_LIMIT);
            prop_assert_eq!(of_fast(fast_fixed(x), 1), fixed(x));
        }

        #[test]
        fn exact_numbers_are_those_of_the_wide_product(x in -EXACT_LIMIT..EXACT_LIMIT) {
            let product = f64::from(x) * (1i64 << FRACTION_BITS) as f64;
            prop_assert_eq!(fixed(x), product.round_ties_even() as i128);
        }

        #[test]
        fn rows_and_runs_agree(
            values in prop::collection::vec(prop_oneof![8 => -9.0f32..9.0, 1 => any::<f32>()], 40 * 21),
            few: bool,
        ) {
            let values: Vec<f32> = values.into_iter().map(|x| if few && !x.is_finite() { 0.5 } else { x }).collect();
            let mut rows = ChannelSums::default();
            observe(&mut rows, &values, 40, 1).unwrap();
            let columns: Vec<f32> = (0..40).flat_map(|c| values.iter().skip(c).step_by(40).copied()).collect();
            let mut runs = ChannelSums::default();
            observe(&mut runs, &columns, 40, 21).unwrap();
            prop_assert_eq!(rows, runs);
        }

        #[test]
        fn order_leaves_no_trace(values in prop::collection::vec(any::<f32>(), 0..3000).prop_shuffle()) {
            let mut a = ChannelSums::default();
            observe(&mut a, &values, 1, 1).unwrap();
            let mut sorted = values;
            sorted.sort_by(f32::total_cmp);
            let mut b = ChannelSums::default();
            for part in sorted.chunks(17) {
                observe(&mut b, part, 1, part.len()).unwrap();
            }
            prop_assert_eq!(a.extremes(), if b.sums.is_empty() { vec![(0.0, 0.0)] } else { b.extremes() });
            prop_assert_eq!(a.sums, if b.sums.is_empty() { vec![0] } else { b.sums });
        }
    }
}
