//! Calibration: the float network runs over data while its values are observed.
//!
//! What is kept is a function of the multiset of samples: order, batch size and shards leave no trace in the bytes.

use crate::batches::{Progress, asked_batch, batch_size, with_data_dims};
use crate::data::{Affine, Data, Feed, batches_of};
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::observed::{Observed, Seen};
use crate::probe;
use crate::registry::Registry;
use crate::session::SessionOptions;
use crate::shared_values::shared_values;
use ottava_graph::Graph;
use ottava_hal::{DataType, Tensor, ValueId};
use ottava_quantize::apply::Observation;
use ottava_quantize::{Calibration, ChannelLayout, Observer, Recipe, ShardId, fingerprint, observations};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// A part of the samples: number `index` of `count` equal parts, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Which part.
    pub index: usize,
    /// How many parts.
    pub count: usize,
}

impl Shard {
    /// Its rows of `n`.
    pub(crate) fn rows(self, n: usize) -> Range<usize> {
        let at = |i: usize| (n as u128 * i as u128 / self.count.max(1) as u128) as usize;
        at(self.index)..at(self.index + 1)
    }
}

/// How to calibrate.
#[derive(Debug, Clone, Default)]
pub struct CalibrateOptions {
    /// How rows are fed.
    pub affine: Option<Affine>,
    /// Only a part of the rows.
    pub shard: Option<Shard>,
    /// Says what is to be collected: not what fuses away under this recipe, and beyond the histograms what its observer
    /// needs (the moving average does).
    pub recipe: Recipe,
    /// Compilation.
    pub session: SessionOptions,
}

/// The float network and what is observed of it.
struct Watch {
    model: Model,
    values: Vec<ValueId>,
    canonical: Graph,
    /// Images may be seen channels last.
    any_order: bool,
}

impl Watch {
    /// The network, ready to run, for a batch.
    fn observed(&self, registry: &Registry, options: &SessionOptions, batch: usize) -> Result<Observed> {
        let dims = self.model.dims(batch, &options.dims)?;
        let bound = ottava_graph::bind(&self.canonical, &dims, 1).map_err(|e| self.model.invalid(e))?;
        Observed::new((&self.model, registry, options), bound, self.values.iter().copied(), self.any_order)
    }
}

/// Runs a float model over data and collects the statistics of its values.
pub fn calibrate(
    model: &Model,
    data: &Data,
    registry: &Registry,
    options: &CalibrateOptions,
    progress: &mut Progress,
) -> Result<Calibration> {
    let canonical = probe::canonical_unbound(model, registry)?;
    let mut parts = calibrate_parts((model, canonical), data, registry, options, 1, progress)?;
    let mut calibration = parts.swap_remove(0);
    if let Some(shard) = options.shard.filter(|shard| shard.count > 1) {
        calibration.mark_shard(ShardId { index: shard.index as u64, count: shard.count as u64 });
    }
    Ok(calibration)
}

/// As [`calibrate`], on a canonical graph that stands for the model (the model itself, or a rewrite of it), in `n_parts`
/// equal parts of the rows: merged they give the same bytes.
pub(crate) fn calibrate_parts(
    (model, canonical): (&Model, Graph),
    data: &Data,
    registry: &Registry,
    options: &CalibrateOptions,
    n_parts: usize,
    progress: &mut Progress,
) -> Result<Vec<Calibration>> {
    model.expect_graph()?;
    let feed = Feed::new(data, &model.inputs(), options.affine)?;
    let rows = rows(model, options, feed.n_rows)?;
    let observations = observations(&canonical, &options.recipe);
    let watched: Vec<usize> = (0..observations.len())
        .filter(|i| observations[*i].same_as.is_none() || observations[*i].channel_axis.is_some())
        .collect();
    let values = watched.iter().map(|i| observations[*i].value).collect();
    let watch = Watch { model: model.clone(), values, canonical, any_order: true };
    let mut run = Run::new(watch, feed, registry, options)?;
    let shared = run.shared()?;
    let part = |index: usize| {
        let part = Shard { index, count: n_parts }.rows(rows.len());
        run.part(
            rows.start + part.start..rows.start + part.end,
            rows.clone(),
            (&observations, &watched, &shared),
            progress,
        )
    };
    (0..n_parts).map(part).collect()
}

/// Runs a canonical graph that stands for the model over all rows; `each` takes the values and the number of rows of each
/// batch.
pub(crate) fn watch_values(
    (model, canonical, registry): (&Model, &Graph, &Registry),
    values: Vec<ValueId>,
    data: &Data,
    options: &CalibrateOptions,
    progress: &mut Progress,
    mut each: impl FnMut(&[Tensor], usize),
) -> Result<()> {
    let feed = Feed::new(data, &model.inputs(), options.affine)?;
    let rows = 0..feed.n_rows;
    let watch = Watch { model: model.clone(), values, canonical: canonical.clone(), any_order: false };
    let mut run = Run::new(watch, feed, registry, options)?;
    run.each(rows.clone(), rows, progress, &mut Batches { values: BTreeMap::new(), each: &mut each })
}

/// Takes observed values as they are made.
trait Sink {
    /// The value of number `i` in a batch of `size` rows that begins at row `start`; the first `count` rows are data.
    fn value(&mut self, i: usize, value: &Seen<'_>, rows: Rows) -> Result<()>;

    /// The batch is complete; it had so many rows.
    fn batch(&mut self, count: usize);
}

/// The rows of a batch.
#[derive(Clone, Copy)]
struct Rows {
    start: usize,
    size: usize,
    count: usize,
}

/// Keeps statistics.
struct Collector<'a> {
    calibration: &'a mut Calibration,
    observations: &'a [Observation],
    /// The observations that are values of the run.
    watched: &'a [usize],
    /// Which of these all rows of a batch share.
    shared: &'a [bool],
}

impl Sink for Collector<'_> {
    fn value(&mut self, i: usize, value: &Seen<'_>, rows: Rows) -> Result<()> {
        let Some(observation) = self.watched.get(i).and_then(|i| self.observations.get(*i)) else { return Ok(()) };
        // A value that the rows share belongs to every one of them.
        let times = if self.shared.get(i) == Some(&true) { rows.count } else { 1 };
        (0..times).try_for_each(|_| observe(self.calibration, observation, value, rows))
    }

    fn batch(&mut self, count: usize) {
        self.calibration.add_samples(count as u64);
    }
}

/// Keeps the values of a batch and hands them on together.
struct Batches<'a> {
    values: BTreeMap<usize, Tensor>,
    each: &'a mut dyn FnMut(&[Tensor], usize),
}

impl Sink for Batches<'_> {
    fn value(&mut self, i: usize, value: &Seen<'_>, rows: Rows) -> Result<()> {
        let all = crate::observed::tensor(&value.value)?;
        self.values.insert(i, crate::batches::first_rows(&all, rows.size, rows.count)?);
        Ok(())
    }

    fn batch(&mut self, count: usize) {
        let values: Vec<Tensor> = std::mem::take(&mut self.values).into_values().collect();
        (self.each)(&values, count);
    }
}

/// A calibration at work.
struct Run<'a> {
    watch: Watch,
    feed: Feed,
    registry: &'a Registry,
    session: SessionOptions,
    observer: Observer,
    batch: usize,
    /// By batch: the last batch may be shorter.
    networks: BTreeMap<usize, Observed>,
}

impl<'a> Run<'a> {
    fn new(watch: Watch, feed: Feed, registry: &'a Registry, options: &CalibrateOptions) -> Result<Self> {
        let model = &watch.model;
        let mut session = with_data_dims(&options.session, &feed);
        let batch_symbols = model.batch_symbols();
        // The last batch may be shorter, so each session gets its batch from its size.
        session.dims.retain(|name, _| !batch_symbols.contains(name));
        let observer = options.recipe.activations.observer;
        let one_by_one = matches!(observer, Observer::MovingAverage(_));
        let batch = if one_by_one { 1 } else { batch_size(model, &feed, asked_batch(model, &options.session)?)? };
        Ok(Self { watch, feed, registry, session, observer, batch, networks: BTreeMap::new() })
    }

    /// Which of the watched values all rows of a batch share.
    fn shared(&self) -> Result<Vec<bool>> {
        let Watch { model, canonical, values, .. } = &self.watch;
        shared_values((model, canonical, values), self.registry, &self.session)
    }

    /// The statistics of some of the rows; progress is told in terms of `all`.
    fn part(
        &mut self,
        rows: Range<usize>,
        all: Range<usize>,
        (observations, watched, shared): (&[Observation], &[usize], &[bool]),
        progress: &mut Progress,
    ) -> Result<Calibration> {
        let id = fingerprint(&self.watch.canonical);
        let mut calibration = match self.observer {
            Observer::MovingAverage(constant) => Calibration::with_moving_average(id, constant),
            _ => Calibration::new(id),
        };
        let mut collector = Collector { calibration: &mut calibration, observations, watched, shared };
        self.each(rows, all, progress, &mut collector)?;
        for moved in observations {
            if let Some(source) = moved.same_as.and_then(|i| observations.get(i)) {
                calibration.copy_values(&source.name, &moved.name);
            }
        }
        Ok(calibration)
    }

    /// Runs the rows and hands on what is observed.
    fn each(
        &mut self,
        rows: Range<usize>,
        all: Range<usize>,
        progress: &mut Progress,
        sink: &mut dyn Sink,
    ) -> Result<()> {
        for (start, count) in batches_of(rows, self.batch) {
            let size = self.feed.fixed_batch.unwrap_or(count);
            let inputs = self.feed.batch(start, count, size)?;
            let network = match self.networks.entry(size) {
                Entry::Occupied(entry) => entry.into_mut(),
                Entry::Vacant(entry) => entry.insert(self.watch.observed(self.registry, &self.session, size)?),
            };
            let origin = &self.watch.model.origin;
            let rows = Rows { start, size, count };
            network.run(&inputs, &mut |i, value| sink.value(i, value, rows).map_err(|e| e.in_file(origin)))?;
            sink.batch(count);
            progress((start + count - all.start) as u64, all.len() as u64);
        }
        Ok(())
    }
}

/// The rows to run. A network with state is fed whole sequences, so that a shard begins where the state does.
fn rows(model: &Model, options: &CalibrateOptions, n: usize) -> Result<Range<usize>> {
    let Some(shard) = options.shard.filter(|s| s.count > 1) else { return Ok(0..n) };
    if model.states().is_empty() {
        return Ok(shard.rows(n));
    }
    let length = model.fixed_batch().unwrap_or(1).saturating_mul(options.session.reset_every);
    if length == 0 {
        let what = "the rows are one sequence that the state of this network goes through";
        return Err(Error::invalid(codes::CALIBRATION, what)
            .in_file(&model.origin)
            .help("calibrate without shards, or say how long a sequence is: `--reset-every N`"));
    }
    let parts = shard.rows(n.div_ceil(length));
    Ok((parts.start * length).min(n)..(parts.end * length).min(n))
}

fn observe(calibration: &mut Calibration, what: &Observation, seen: &Seen<'_>, rows: Rows) -> Result<()> {
    let fail = |e: String| Error::invalid(codes::CALIBRATION, e);
    let bytes = seen.first_rows(rows.size, rows.count);
    let values = match seen.value.dtype {
        DataType::F32 => bytemuck::try_cast_slice(bytes).map(Cow::Borrowed).map_err(|e| fail(e.to_string()))?,
        _ => Cow::Owned(crate::observed::tensor(&seen.value)?.to_f32s().map_err(|e| fail(e.to_string()))?),
    };
    match what.channel_axis.and_then(|axis| ChannelLayout::of(seen.value.shape, seen.axis(axis))) {
        Some(layout) => {
            let observed = match what.same_as {
                Some(_) => calibration.observe_only_channels(&what.name, &values, layout),
                None => calibration.observe_channels(&what.name, &values, layout, rows.start as u64),
            };
            observed.map_err(|e| fail(e.to_string()))
        }
        None => {
            calibration.observe(&what.name, &values, rows.start as u64);
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cut_the_rows_into_neighbouring_parts() {
        let parts: Vec<_> = (0..3).map(|index| Shard { index, count: 3 }.rows(8)).collect();
        assert_eq!(parts, [0..2, 2..5, 5..8]);
        assert_eq!(Shard { index: 0, count: 1 }.rows(8), 0..8);
    }
}
