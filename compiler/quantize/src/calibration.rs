//! Calibration: what was observed, by tensor name; mergeable and serialisable.
//!
//! The state is a function of the multiset of (tensor, value) pairs and of the indices of the samples that held NaN or
//! infinities. Order, batch size, threads and shards leave no trace, and equal states have equal bytes. The one exception
//! is opt-in: [`Calibration::with_moving_average`] collects an average that depends on the order, and then refuses to
//! merge.
//!
//! File: magic, version, fingerprint, samples, optional constant of the moving average, in version 3 the number of the shard
//! and of all shards, tensors sorted by name, checksum
//! (FNV-1a of all bytes before it); little-endian, counts as LEB128. The reader allocates no more than a fixed multiple of
//! the file's size.

use std::collections::BTreeMap;

use crate::bytes::{Reader, fnv1a, put_varint};
use crate::channels::{ChannelLayout, ChannelSums};
use crate::error::{Error, Result};
use crate::histogram::Histogram;
use crate::observers::Ema;
use crate::scan::Extremes;

const MAGIC: &[u8; 8] = b"OTVCALIB";
const VERSION: u32 = 2;
/// The same with the number of the shard behind the constant of the moving average.
const SHARD_VERSION: u32 = 3;
/// Each tensor's histogram takes 32 KiB in memory but may take few bytes in a file; this bounds what a small hostile file
/// can claim, and no network comes near it.
const MAX_TENSORS: u64 = 1 << 14;
const MAX_NAME: u64 = 1 << 12;

/// The statistics of one tensor.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TensorStats {
    /// All values.
    pub histogram: Histogram,
    /// Sums and extremes per channel, where they were asked for.
    pub channels: ChannelSums,
    /// The smallest index of a sample with NaN or infinite values.
    pub first_bad_sample: Option<u64>,
    pub(crate) ema: Option<Ema>,
    /// Factors on the chosen range's lower and upper end, for values whose channels were rescaled since they were observed.
    pub(crate) stretch: Option<(f64, f64)>,
}

impl TensorStats {
    /// The statistics of the tensor with each channel multiplied by its factor. Channel statistics follow. The
    /// histogram knows no channels: its range is stretched as the extremes are.
    pub(crate) fn rescaled(&self, factors: &[f64]) -> Self {
        let reach = |channels: &ChannelSums| {
            let start = (0.0f64, 0.0f64);
            let widest = |r: (f64, f64), e: (f32, f32)| (r.0.min(e.0.into()), r.1.max(e.1.into()));
            channels.extremes().into_iter().fold(start, widest)
        };
        let channels = self.channels.scaled(factors);
        let (old, new) = (reach(&self.channels), reach(&channels));
        let ratio = |new: f64, old: f64| if old == 0.0 { 1.0 } else { new / old };
        let before = self.stretch.unwrap_or((1.0, 1.0));
        let stretch = Some((before.0 * ratio(new.0, old.0), before.1 * ratio(new.1, old.1)));
        Self { channels, stretch, ..self.clone() }
    }
}

/// Everything observed on one model.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibration {
    fingerprint: u64,
    samples: u64,
    moving_average: Option<f64>,
    shard: Option<ShardId>,
    tensors: BTreeMap<String, TensorStats>,
}

/// Which part of the samples a calibration is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShardId {
    /// Number of the part, from 0.
    pub index: u64,
    /// How many parts there are.
    pub count: u64,
}

/// A tensor in which NaN or infinite values appeared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NonFinite {
    /// Name of the tensor.
    pub tensor: String,
    /// Number of NaN values.
    pub nan: u64,
    /// Number of infinite values.
    pub infinite: u64,
    /// Index of the first sample that held one.
    pub first_sample: u64,
}

impl Calibration {
    /// An empty calibration of the model with this fingerprint (see [`fnv1a`]).
    pub fn new(fingerprint: u64) -> Self {
        Self { fingerprint, samples: 0, moving_average: None, shard: None, tensors: BTreeMap::new() }
    }

    /// An empty calibration that also collects the moving average of each sample's extremes, with this constant. One call
    /// of [`Calibration::observe`] per sample and tensor is then part of the contract.
    pub fn with_moving_average(fingerprint: u64, constant: f64) -> Self {
        Self { moving_average: Some(constant), ..Self::new(fingerprint) }
    }

    /// Adds the values of a tensor. `sample` is the index of the sample in the whole data set (of a batch: its first); it
    /// only serves to name a sample that holds NaN or infinities.
    pub fn observe(&mut self, tensor: &str, values: &[f32], sample: u64) {
        let constant = self.moving_average;
        self.stats_mut(tensor).survey(values, sample, constant);
    }

    /// As [`Calibration::observe`], and sums each channel as well.
    pub fn observe_channels(&mut self, tensor: &str, values: &[f32], layout: ChannelLayout, sample: u64) -> Result<()> {
        layout.expect_fits(tensor, values)?;
        let constant = self.moving_average;
        let stats = self.stats_mut(tensor);
        let found = stats.survey(values, sample, constant);
        stats.channels.observe(tensor, values, layout, found)
    }

    /// Sums each channel, and leaves the rest to [`Calibration::copy_values`].
    pub fn observe_only_channels(&mut self, tensor: &str, values: &[f32], layout: ChannelLayout) -> Result<()> {
        self.stats_mut(tensor).channels.observe(tensor, values, layout, crate::scan::extremes(values))
    }

    /// Gives a tensor the statistics of another one that has the same values in another order, but for its channels.
    pub fn copy_values(&mut self, from: &str, to: &str) {
        let Some(source) = self.tensors.get(from) else { return };
        let copy = TensorStats { channels: ChannelSums::default(), ..source.clone() };
        let own = self.stats_mut(to);
        *own = TensorStats { channels: std::mem::take(&mut own.channels), ..copy };
    }

    /// Counts samples; call it once per batch.
    pub fn add_samples(&mut self, count: u64) {
        self.samples = self.samples.saturating_add(count);
    }

    fn stats_mut(&mut self, tensor: &str) -> &mut TensorStats {
        // `entry` would allocate the name on every call.
        if !self.tensors.contains_key(tensor) {
            self.tensors.insert(tensor.to_owned(), TensorStats::default());
        }
        self.tensors.get_mut(tensor).expect("the tensor was inserted above")
    }

    /// Says that this is a part of the samples. Merging takes the mark away: all parts together are no part.
    pub fn mark_shard(&mut self, shard: ShardId) {
        self.shard = Some(shard);
    }

    /// The part of the samples, if it is one and says so.
    pub fn shard(&self) -> Option<ShardId> {
        self.shard
    }

    /// A number that tells apart what was observed, whatever part of the samples it is said to be.
    pub fn digest(&self) -> u64 {
        fnv1a(&Self { shard: None, ..self.clone() }.to_bytes())
    }

    /// The model's fingerprint.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Number of samples seen.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The statistics of a tensor.
    pub fn get(&self, tensor: &str) -> Option<&TensorStats> {
        self.tensors.get(tensor)
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> impl ExactSizeIterator<Item = (&str, &TensorStats)> {
        self.tensors.iter().map(|(name, stats)| (name.as_str(), stats))
    }

    /// Tensors with NaN or infinite values, sorted by name.
    pub fn non_finite(&self) -> Vec<NonFinite> {
        let bad = self.tensors.iter().filter_map(|(name, stats)| {
            let first_sample = stats.first_bad_sample?;
            let (nan, infinite) = (stats.histogram.nan(), stats.histogram.infinite());
            Some(NonFinite { tensor: name.clone(), nan, infinite, first_sample })
        });
        bad.collect()
    }

    /// The calibration of a rewritten model: another fingerprint, and other statistics of some tensors.
    pub(crate) fn rewritten(&self, fingerprint: u64, changed: BTreeMap<String, TensorStats>) -> Self {
        let mut rewritten = Self { fingerprint, ..self.clone() };
        rewritten.tensors.extend(changed);
        rewritten
    }

    /// Fails unless this calibration was collected on the model with this fingerprint.
    pub fn expect_model(&self, fingerprint: u64) -> Result<()> {
        if self.fingerprint == fingerprint {
            return Ok(());
        }
        Err(Error::OtherModel { found: self.fingerprint, expected: fingerprint })
    }

    /// Adds another shard.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.expect_mergeable(other)?;
        self.shard = None;
        for (name, theirs) in &other.tensors {
            let mine = self.stats_mut(name);
            mine.channels.merge(name, &theirs.channels)?;
            mine.histogram.merge(&theirs.histogram);
            mine.first_bad_sample = match (mine.first_bad_sample, theirs.first_bad_sample) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        self.add_samples(other.samples);
        Ok(())
    }

    fn expect_mergeable(&self, other: &Self) -> Result<()> {
        if self.fingerprint != other.fingerprint {
            return Err(Error::Merge {
                reason: format!("they belong to models {:016x} and {:016x}", self.fingerprint, other.fingerprint),
                help: "merge shards of one model only",
            });
        }
        if self.moving_average.is_some() || other.moving_average.is_some() {
            return Err(Error::Merge {
                reason: "a moving average depends on the order of the samples".to_owned(),
                help: "collect it in one run, or take another observer",
            });
        }
        Ok(())
    }

    /// The file's bytes; equal states give equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(MAGIC);
        out.extend(if self.shard.is_some() { SHARD_VERSION } else { VERSION }.to_le_bytes());
        out.extend(self.fingerprint.to_le_bytes());
        out.extend(self.samples.to_le_bytes());
        put_optional(&mut out, self.moving_average.map(f64::to_le_bytes));
        for number in self.shard.iter().flat_map(|shard| [shard.index, shard.count]) {
            put_varint(&mut out, number);
        }
        put_varint(&mut out, self.tensors.len() as u64);
        for (name, stats) in &self.tensors {
            put_varint(&mut out, name.len() as u64);
            out.extend(name.as_bytes());
            stats.write(&mut out);
        }
        let checksum = fnv1a(&out);
        out.extend(checksum.to_le_bytes());
        out
    }

    /// Reads a calibration file.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(checked_body(bytes)?);
        reader.take(MAGIC.len())?;
        let version = reader.u32()?;
        let mut calibration = Self::new(reader.u64()?);
        calibration.samples = reader.u64()?;
        calibration.moving_average = read_optional(&mut reader, |r| r.f64())?;
        if version == SHARD_VERSION {
            calibration.shard = Some(read_shard(&mut reader)?);
        }
        let count = reader.varint()?;
        if count > MAX_TENSORS {
            return Err(reader.error(format!("{count} tensors"), format!("at most {MAX_TENSORS}")));
        }
        for _ in 0..count {
            let name = read_name(&mut reader)?;
            if calibration.tensors.last_key_value().is_some_and(|(last, _)| *last >= name) {
                return Err(reader.error(format!("tensor `{name}`"), "names in ascending order"));
            }
            calibration.tensors.insert(name, TensorStats::read(&mut reader)?);
        }
        if reader.remaining() > 0 {
            return Err(reader.error(format!("{} more bytes", reader.remaining()), "the end of the file"));
        }
        Ok(calibration)
    }
}

/// Checks magic, version and checksum; returns all but the checksum.
fn checked_body(bytes: &[u8]) -> Result<&[u8]> {
    let mut reader = Reader::new(bytes);
    if reader.take(MAGIC.len()).ok() != Some(MAGIC) {
        return Err(Reader::new(bytes).error("another kind of file", "a calibration file (`OTVCALIB`)"));
    }
    let version = reader.u32()?;
    if version != VERSION && version != SHARD_VERSION {
        return Err(reader.error(format!("version {version}"), format!("version {VERSION} or {SHARD_VERSION}")));
    }
    let body_len = reader.remaining().checked_sub(size_of::<u64>());
    let Some(body_len) = body_len.map(|len| len + MAGIC.len() + size_of::<u32>()) else {
        return Err(reader.error("a truncated file", "a checksum at the end"));
    };
    let (body, tail) = bytes.split_at(body_len);
    let stored = Reader::new(tail).u64()?;
    if stored != fnv1a(body) {
        let found = format!("checksum {stored:016x}");
        return Err(Error::BadCalibration { offset: body_len, found, expected: format!("{:016x}", fnv1a(body)) });
    }
    Ok(body)
}

fn put_optional(out: &mut Vec<u8>, value: Option<[u8; 8]>) {
    out.push(u8::from(value.is_some()));
    out.extend(value.into_iter().flatten());
}

fn read_optional<T>(reader: &mut Reader<'_>, read: impl Fn(&mut Reader<'_>) -> Result<T>) -> Result<Option<T>> {
    match reader.u8()? {
        0 => Ok(None),
        1 => read(reader).map(Some),
        other => Err(reader.error(format!("presence byte {other}"), "0 or 1")),
    }
}

fn read_shard(reader: &mut Reader<'_>) -> Result<ShardId> {
    let (index, count) = (reader.varint()?, reader.varint()?);
    if index < count {
        return Ok(ShardId { index, count });
    }
    Err(reader.error(format!("part {index} of {count}"), "a part that there is"))
}

fn read_name(reader: &mut Reader<'_>) -> Result<String> {
    let len = reader.varint()?;
    let Some(len) = usize::try_from(len).ok().filter(|_| len <= MAX_NAME) else {
        return Err(reader.error(format!("a name of {len} bytes"), format!("at most {MAX_NAME} bytes")));
    };
    let bytes = reader.take(len)?;
    match std::str::from_utf8(bytes) {
        Ok(name) => Ok(name.to_owned()),
        Err(_) => Err(reader.error("a name that is not UTF-8", "a tensor name")),
    }
}

impl TensorStats {
    /// Adds values. `constant` is that of the moving average, if there is one.
    fn survey(&mut self, values: &[f32], sample: u64, constant: Option<f64>) -> Extremes {
        let found = self.histogram.survey(values);
        if !found.all_finite {
            self.first_bad_sample = Some(self.first_bad_sample.map_or(sample, |first| first.min(sample)));
        }
        if let Some(constant) = constant.filter(|_| found.min <= found.max) {
            self.ema = Some(Ema::update(self.ema, constant, found.min, found.max));
        }
        found
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.histogram.write(out);
        self.channels.write(out);
        put_optional(out, self.first_bad_sample.map(u64::to_le_bytes));
        put_optional(out, self.ema.map(|e| e.lo.to_le_bytes()));
        put_optional(out, self.ema.map(|e| e.hi.to_le_bytes()));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self> {
        let histogram = Histogram::read(reader)?;
        let channels = ChannelSums::read(reader)?;
        let first_bad_sample = read_optional(reader, |r| r.u64())?;
        let lo = read_optional(reader, |r| r.f64())?;
        let hi = read_optional(reader, |r| r.f64())?;
        let ema = lo.zip(hi).map(|(lo, hi)| Ema { lo, hi });
        Ok(Self { histogram, channels, first_bad_sample, ema, stretch: None })
    }
}

#[cfg(test)]
#[path = "calibration_tests.rs"]
mod tests;
