//! Random choices: extents, parameters, data. What the device's own table limits is tried at the edge of the limit.

use crate::kit::Rng;
use ottava_hal::capability::{Compare, Subject};
use ottava_hal::{DataType, Node, OpRow, QuantParams, Tensor, ValueId};

use super::build::{Build, Like};

/// Extents: 1, 2, 3, primes, and one less and more than the widths of lanes and tiles.
const EXTENTS: &[usize] = &[1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 23, 31, 32, 33];
/// Limits above this are out of reach for a short test.
const MOST_EXTENT: i64 = 129;

/// How data is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Every value of the type alike.
    Uniform,
    /// A bell around the zero point.
    Gauss,
    /// Both ends, at random.
    Ends,
    /// Nothing but the lower end.
    Low,
    /// Nothing but the upper end.
    High,
    /// Lower and upper end in turn.
    Turns,
}

/// Every kind, in the order in which programs take them.
pub(super) const KINDS: [Kind; 6] = [Kind::Uniform, Kind::Ends, Kind::Gauss, Kind::High, Kind::Turns, Kind::Low];

impl Kind {
    /// Name in messages.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Uniform => "uniform data",
            Self::Gauss => "Gaussian data",
            Self::Ends => "data at both ends of the type",
            Self::Low => "data at the lower end of the type",
            Self::High => "data at the upper end of the type",
            Self::Turns => "data at alternating ends of the type",
        }
    }
}

/// A source of choices for one program.
pub(super) struct Draw<'a> {
    rng: Rng,
    rows: &'a [OpRow],
    /// How data is drawn.
    pub kind: Kind,
    /// Scales are powers of two, which makes ties.
    pub ties: bool,
}

impl<'a> Draw<'a> {
    /// Choices for program number `step`; the rows are those of its operator.
    pub(super) fn new(seed: u64, step: usize, rows: &'a [OpRow]) -> Self {
        let kind = KINDS[step % KINDS.len()];
        Self {
            rng: Rng::new(seed.wrapping_add((step as u64).wrapping_mul(0x51_7cc1))),
            rows,
            kind,
            ties: step % 2 == 1,
        }
    }

    /// One of some.
    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.rng.below(from.len())]
    }

    /// A number from `lo` to `hi`.
    pub(super) fn range(&mut self, lo: i64, hi: i64) -> i64 {
        let span = hi.wrapping_sub(lo).unsigned_abs().saturating_add(1);
        lo.wrapping_add((self.rng.bits() % span.max(1)) as i64)
    }

    /// A size from `lo` to `hi`.
    pub(super) fn size(&mut self, lo: usize, hi: usize) -> usize {
        lo + self.rng.below(hi.saturating_sub(lo) + 1)
    }

    /// True once in `n` times.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.rng.below(n) == 0
    }

    /// A number in 0 to 1.
    fn unit(&mut self) -> f32 {
        (self.rng.bits() >> 40) as f32 / (1u64 << 24) as f32
    }

    /// What the limits of the operator's rows say about a subject, as numbers at their edges.
    fn edges(&self, wanted: &Subject) -> Vec<i64> {
        let limits = self.rows.iter().flat_map(|row| &row.limits).filter(|l| l.subject == *wanted);
        let edge = |compare: Compare| match compare {
            Compare::Eq(v) => vec![v],
            Compare::Le(v) => vec![v, v - 1],
            Compare::Ge(v) => vec![v, v + 1],
            Compare::InRange(lo, hi) => vec![lo, lo + 1, hi],
            Compare::MultipleOf(v) => vec![v, 2 * v, 3 * v],
        };
        limits.flat_map(|l| edge(l.compare)).filter(|v| (1..=MOST_EXTENT).contains(v)).collect()
    }

    /// The extent of an axis of an input, at most `most`.
    pub(super) fn extent(&mut self, operand: usize, axis: usize, most: usize) -> usize {
        let edges = self.edges(&Subject::Dim { operand, axis });
        let fits: Vec<usize> = edges.into_iter().map(|v| v as usize).filter(|v| *v <= most.max(1)).collect();
        if !fits.is_empty() && !self.once_in(3) {
            return self.pick(&fits);
        }
        let few = EXTENTS.iter().take_while(|e| **e <= most).count().max(1);
        EXTENTS[self.rng.below(few)]
    }

    /// A value of an integer attribute between two bounds.
    pub(super) fn attr(&mut self, name: &'static str, lo: i64, hi: i64) -> i64 {
        let edges = self.edges(&Subject::Attr(name.into()));
        let fits: Vec<i64> = edges.into_iter().filter(|v| (lo..=hi).contains(v)).collect();
        if !fits.is_empty() && !self.once_in(3) { self.pick(&fits) } else { self.range(lo, hi) }
    }

    /// Extents of a tensor that the rows accept, of at most `most` elements.
    pub(super) fn dims(&mut self, lo: usize, hi: usize, most: usize) -> Vec<usize> {
        let least = self.rows.iter().map(|r| r.ranks.0).min().unwrap_or(0).clamp(lo, hi);
        let top = self.rows.iter().map(|r| r.ranks.1).max().unwrap_or(hi).clamp(least, hi);
        let rank = self.size(least, top);
        let mut left = most;
        let mut dims = Vec::with_capacity(rank);
        for axis in 0..rank {
            let extent = self.extent(0, axis, left.min(33));
            left = (left / extent).max(1);
            dims.push(extent);
        }
        dims
    }

    /// A scale; a power of two where ties are wanted.
    pub(super) fn scale(&mut self) -> f32 {
        if self.ties { self.pick(&[0.5f32, 0.25, 0.125, 0.0625, 1.0]) } else { 0.002 + 0.1 * self.unit() }
    }

    /// A zero point: neutral, at an end of the type, or between.
    pub(super) fn zero_point(&mut self, dtype: DataType) -> i32 {
        let Some((lo, hi)) = dtype.storage_range() else { return 0 };
        let neutral = if lo < 0 { 0 } else { hi / 2 + 1 };
        match dtype {
            DataType::S16 if !self.once_in(6) => 0,
            DataType::S32 => 0,
            _ => match self.rng.below(6) {
                0 => lo,
                1 => hi,
                2 | 3 => neutral,
                _ => self.range(lo.into(), hi.into()) as i32,
            },
        }
    }

    /// Parameters of an activation; none for floats.
    pub(super) fn params(&mut self, dtype: DataType) -> Option<QuantParams> {
        let scale = self.scale() / if dtype.bits() == 16 { 64.0 } else { 1.0 };
        (!dtype.is_float()).then(|| QuantParams::per_tensor(scale, self.zero_point(dtype)))
    }

    /// Data of a type.
    pub(super) fn data(&mut self, dtype: DataType, dims: &[usize], quant: Option<&QuantParams>) -> Option<Tensor> {
        let n: usize = dims.iter().product();
        if dtype.is_float() {
            let values: Vec<f32> = (0..n).map(|i| self.real(i)).collect();
            return Tensor::from_f32s(dtype, dims, &values).ok();
        }
        let (lo, hi) = dtype.storage_range()?;
        let zp = quant.and_then(|q| q.zero_points.first()).copied().unwrap_or(0);
        let values: Vec<i64> = (0..n).map(|i| self.integer(i, (lo.into(), hi.into()), zp.into())).collect();
        Tensor::from_ints(dtype, dims, &values).ok()
    }

    fn integer(&mut self, i: usize, (lo, hi): (i64, i64), zp: i64) -> i64 {
        match self.kind {
            Kind::Uniform => self.range(lo, hi),
            Kind::Gauss => zp.saturating_add((self.bell() * (hi - lo) as f32 / 8.0) as i64).clamp(lo, hi),
            Kind::Ends => self.pick(&[lo, hi]),
            Kind::Low => lo,
            Kind::High => hi,
            Kind::Turns => [lo, hi][i % 2],
        }
    }

    /// A number around 0 with a deviation of about 1.
    fn bell(&mut self) -> f32 {
        (0..6).map(|_| self.unit()).sum::<f32>() * 1.4 - 4.2
    }

    fn real(&mut self, i: usize) -> f32 {
        match self.kind {
            Kind::Uniform => self.unit() * 8.0 - 4.0,
            Kind::Gauss => self.bell(),
            Kind::Ends => self.pick(&[-4.0f32, 4.0]),
            Kind::Low => -1.0 / 3.0 - (i % 3) as f32,
            Kind::High => 1.0 / 3.0 + (i % 5) as f32,
            Kind::Turns => [-2.5f32, 1.5][i % 2],
        }
    }

    /// Parameters with which the results of a node fill their storage, or a little more.
    pub(super) fn fit(&mut self, build: &Build, node: &Node, inputs: &[ValueId], dtype: DataType) -> Option<Like> {
        let Some((lo, hi)) = dtype.storage_range() else { return Some((dtype, None)) };
        let magnitude = build.magnitude(node, inputs)?;
        let zp = self.zero_point(dtype);
        let reach = (i64::from(hi) - i64::from(zp)).max(i64::from(zp) - i64::from(lo)) as f32;
        let stretch = self.pick(&[0.6f32, 1.0, 1.0, 1.9]);
        let scale = (magnitude * stretch / reach).clamp(1e-20, 1e20);
        let scale = if magnitude == 0.0 { 1.0 } else { scale };
        let scale = if self.ties { 2f32.powf(scale.log2().round()) } else { scale };
        Some((dtype, Some(QuantParams::per_tensor(scale, zp))))
    }
}
