//! Calibration: the float network runs over data while its values are observed.
//!
//! What is kept is a function of the multiset of samples: order, batch size and shards leave no trace in the bytes.

use crate::batches::{Progress, asked_batch, batch_size, with_data_dims};
use crate::data::{Affine, Data, Feed, batches_of};
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::probe;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use ottava_graph::{Graph, Phase};
use ottava_hal::Tensor;
use ottava_quantize::apply::Observation;
use ottava_quantize::{Calibration, ChannelLayout, Observer, fingerprint, observations};
use std::collections::BTreeMap;
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
    /// Also collect what this observer needs beyond the histograms (the moving average does).
    pub observer: Option<Observer>,
    /// Compilation.
    pub session: SessionOptions,
}

/// The float network with its observed values as outputs.
struct Watch {
    model: Model,
    observations: Vec<Observation>,
    canonical: Graph,
}

impl Watch {
    fn new(model: &Model, registry: &Registry) -> Result<Self> {
        let canonical = probe::canonical_unbound(model, registry)?;
        Ok(Self { observations: observations(&canonical), model: model.clone(), canonical })
    }

    /// A session whose outputs are the observed values.
    fn session(&self, registry: &Registry, options: &SessionOptions, batch: usize) -> Result<Session> {
        let dims = self.model.dims(batch, &options.dims)?;
        let mut bound = ottava_graph::bind(&self.canonical, &dims, 1).map_err(|e| self.model.invalid(e))?;
        // Bound shapes let more constants fold, so the canonical phase runs once more.
        bound.phase = Phase::Imported;
        bound.set_caller_outputs(self.observations.iter().map(|o| o.value));
        Session::of_graph(&self.model, &bound, registry, options)
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
    model.expect_graph()?;
    let watch = Watch::new(model, registry)?;
    let feed = Feed::new(data, &model.inputs(), options.affine)?;
    let mut session_options = with_data_dims(&options.session, &feed);
    let batch_symbols = model.batch_symbols();
    // The last batch may be shorter, so each session gets its batch from its size.
    session_options.dims.retain(|name, _| !batch_symbols.contains(name));
    let (mut calibration, one_by_one) = empty(&watch.canonical, options.observer);
    let batch = if one_by_one { 1 } else { batch_size(model, &feed, asked_batch(model, &options.session)?)? };
    let rows = rows(model, options, feed.n_rows)?;
    let (first, total) = (rows.start, rows.len() as u64);
    let mut sessions: BTreeMap<usize, Session> = BTreeMap::new();
    for (start, count) in batches_of(rows, batch) {
        let size = feed.fixed_batch.unwrap_or(count);
        if let std::collections::btree_map::Entry::Vacant(entry) = sessions.entry(size) {
            entry.insert(watch.session(registry, &session_options, size)?);
        }
        let values = sessions[&size].run_ordered(&feed.batch(start, count, size)?, false)?.0;
        for (observation, value) in watch.observations.iter().zip(&values) {
            let value = crate::batches::first_rows(value, size, count)?;
            observe(&mut calibration, observation, &value, start as u64).map_err(|e| e.in_file(&model.origin))?;
        }
        calibration.add_samples(count as u64);
        progress((start + count - first) as u64, total);
    }
    Ok(calibration)
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

/// An empty calibration of the model, and whether samples must be observed one by one.
fn empty(canonical: &Graph, observer: Option<Observer>) -> (Calibration, bool) {
    let id = fingerprint(canonical);
    match observer {
        Some(Observer::MovingAverage(constant)) => (Calibration::with_moving_average(id, constant), true),
        _ => (Calibration::new(id), false),
    }
}

fn observe(calibration: &mut Calibration, what: &Observation, value: &Tensor, sample: u64) -> Result<()> {
    let fail = |e: String| Error::invalid(codes::CALIBRATION, e);
    let values = value.to_f32s().map_err(|e| fail(e.to_string()))?;
    match what.channel_axis.and_then(|axis| ChannelLayout::of(value.shape(), axis)) {
        Some(layout) => {
            let observed = calibration.observe_channels(&what.name, &values, layout, sample);
            observed.map_err(|e| fail(e.to_string()))
        }
        None => {
            calibration.observe(&what.name, &values, sample);
            Ok(())
        }
    }
}

/// Reads a calibration file.
pub fn load_calibration(path: &std::path::Path) -> Result<Calibration> {
    let bytes = std::fs::read(path).map_err(|e| Error::reading(codes::CALIBRATION, path, &e))?;
    Calibration::from_bytes(&bytes).map_err(|e| Error::invalid(codes::CALIBRATION, e.to_string()).in_file(path))
}

/// One calibration from the files of several shards.
pub fn merge_calibrations(paths: &[std::path::PathBuf]) -> Result<Calibration> {
    let mut merged: Option<Calibration> = None;
    for path in paths {
        let next = load_calibration(path)?;
        match &mut merged {
            None => merged = Some(next),
            Some(all) => {
                all.merge(&next).map_err(|e| Error::invalid(codes::CALIBRATION, e.to_string()).in_file(path))?
            }
        }
    }
    merged.ok_or_else(|| Error::invalid(codes::CALIBRATION, "there is nothing to merge").help("name two files or more"))
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
