//! Measures what a recipe does to the outputs of a network, on calibration data, by running the quantized network.
//!
//! The rows are cut into folds. Each is measured with ranges that were collected on the others, so a range that fits its
//! own samples only counts as the error that it will make on new ones. A single fold is measured on itself.

use crate::batches::{asked_batch, batch_size, first_rows, with_data_dims};
use crate::calibrate::Shard;
use crate::data::{Affine, Data, Feed, batches_of};
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::probe;
use crate::quantize::quantize_error;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use crate::storage::Devices;
use ottava_graph::{Graph, Phase};
use ottava_hal::{DataType, Tensor};
use ottava_quantize::search::{Unit, alone};
use ottava_quantize::{Calibration, Learned, Quantized, Recipe};
use ottava_validate::real_values;
use std::collections::BTreeMap;

/// Rows that are measured of each fold: enough to rank tensors, few enough to try hundreds of recipes.
const ROWS_PER_FOLD: usize = 16;

/// A network with its calibration data, ready to try recipes.
pub(crate) struct Bench<'a> {
    /// The float network in its canonical form.
    pub(crate) canonical: &'a Graph,
    model: &'a Model,
    registry: &'a Registry,
    session: SessionOptions,
    feed: Feed,
    folds: Vec<Fold>,
    learned: &'a Learned,
    devices: Devices,
}

/// Rows with the ranges that they are measured with.
struct Fold {
    calibration: Calibration,
    batches: Vec<Batch>,
}

/// Rows that run at once, and the outputs of the float network.
struct Batch {
    start: usize,
    count: usize,
    float: Vec<Vec<f32>>,
}

/// Squared signal and squared error of one output.
#[derive(Default, Clone, Copy)]
struct Energy {
    signal: f64,
    error: f64,
}

impl<'a> Bench<'a> {
    /// A bench whose fold `i` is the shard `i` of the rows, measured with `calibrations[i]`.
    pub(crate) fn new(
        (model, canonical): (&'a Model, &'a Graph),
        registry: &'a Registry,
        session: &SessionOptions,
        (data, affine): (&Data, Option<Affine>),
        learned: &'a Learned,
        calibrations: Vec<Calibration>,
    ) -> Result<Self> {
        let feed = Feed::new(data, &model.inputs(), affine)?;
        let batch = batch_size(model, &feed, asked_batch(model, session)?)?;
        let mut session = with_data_dims(session, &feed);
        let batch_symbols = model.batch_symbols();
        session.dims.retain(|name, _| !batch_symbols.contains(name));
        let count = calibrations.len();
        let fold = |(index, calibration)| {
            let rows = Shard { index, count }.rows(feed.n_rows);
            let rows = rows.start..rows.end.min(rows.start.saturating_add(ROWS_PER_FOLD.max(batch)));
            let of = |(start, count)| Batch { start, count, float: Vec::new() };
            Fold { calibration, batches: batches_of(rows, batch).map(of).collect() }
        };
        let folds = calibrations.into_iter().enumerate().map(fold).collect();
        let devices = Devices::chosen(registry, &session)?;
        let mut bench = Self { canonical, model, registry, session, feed, folds, learned, devices };
        bench.run_float()?;
        Ok(bench)
    }

    /// Values of the symbolic dimensions at batch 1, for counting.
    pub(crate) fn dims(&self) -> BTreeMap<String, usize> {
        self.model.dims(1, &self.session.dims).unwrap_or_default()
    }

    /// The ranges that recipes are planned with.
    pub(crate) fn calibration(&self) -> &Calibration {
        &self.folds[0].calibration
    }

    /// The relative noise of the outputs under a recipe: squared error over squared signal, averaged over the outputs.
    pub(crate) fn noise(&self, recipe: &Recipe) -> Result<f64> {
        self.measure(&self.folds, |fold| Ok(self.quantized(fold, recipe)?.graph))
    }

    /// As [`Self::noise`], on the first fold alone: enough to tell tensors apart, at half the time.
    pub(crate) fn quick_noise(&self, recipe: &Recipe) -> Result<f64> {
        self.measure(&self.folds[..1], |fold| Ok(self.quantized(fold, recipe)?.graph))
    }

    /// Whether rows are measured with ranges that were collected on others.
    pub(crate) fn has_halves(&self) -> bool {
        self.folds.len() > 1
    }

    /// The relative noise with one unit alone in the recipe's integers.
    pub(crate) fn noise_alone(&self, recipe: &Recipe, unit: &Unit) -> Result<f64> {
        self.measure(&self.folds, |fold| {
            let graph = alone(self.canonical, &fold.calibration, recipe, self.learned, unit);
            graph.map_err(|e| quantize_error(e, self.model))
        })
    }

    fn measure(&self, folds: &[Fold], graph_of: impl Fn(&Fold) -> Result<Graph>) -> Result<f64> {
        let mut sums: Vec<Energy> = Vec::new();
        for fold in folds {
            self.run(&graph_of(fold)?, &fold.batches, |batch, outputs| {
                sums.resize(outputs.len(), Energy::default());
                for (sum, (float, tested)) in sums.iter_mut().zip(fold.batches[batch].float.iter().zip(&outputs)) {
                    sum.add(float, tested);
                }
            })?;
        }
        let ratios: Vec<f64> = sums.iter().filter(|s| s.signal > 0.0).map(|s| s.error / s.signal).collect();
        Ok(ratios.iter().sum::<f64>() / ratios.len().max(1) as f64)
    }

    /// Names of the nodes that a recipe leaves in float.
    pub(crate) fn float_nodes(&self, recipe: &Recipe) -> Result<Vec<String>> {
        let report = self.quantized(&self.folds[0], recipe)?.report;
        Ok(report.float.into_iter().map(|node| node.name).collect())
    }

    /// What a chosen device must at least have: the operator of a node with 16-bit results.
    pub(crate) fn may_write_s16(&self, node: &str) -> bool {
        let node = self.canonical.nodes.iter().find(|n| n.name == node);
        node.is_some_and(|node| self.devices.may_write(node, DataType::S16))
    }

    /// The number of operators on floats, if the chosen devices run everything that the recipe stores in 16 bits.
    pub(crate) fn runnable(&self, recipe: &Recipe) -> Result<Option<usize>> {
        let graph = self.quantized(&self.folds[0], recipe)?.graph;
        let size = self.folds[0].batches.first().map_or(1, |batch| batch.count);
        let bound = self.bound(&graph, self.feed.fixed_batch.unwrap_or(size))?;
        let lowered = probe::lowered_graph(self.model, &bound, self.registry)?;
        let is_float = |id: &ottava_hal::ValueId| lowered.ty(*id).dtype == DataType::F32;
        let on_floats = lowered.nodes.iter().filter(|n| n.outputs.iter().any(is_float)).count();
        Ok(self.devices.unrunnable(&lowered)?.is_empty().then_some(on_floats))
    }

    fn quantized(&self, fold: &Fold, recipe: &Recipe) -> Result<Quantized> {
        let quantized = ottava_quantize::quantize_learned(self.canonical, &fold.calibration, recipe, self.learned);
        quantized.map_err(|e| quantize_error(e, self.model))
    }

    fn run_float(&mut self) -> Result<()> {
        for f in 0..self.folds.len() {
            let mut all = Vec::new();
            self.run(self.canonical, &self.folds[f].batches, |_, outputs| all.push(outputs))?;
            self.folds[f].batches.iter_mut().zip(all).for_each(|(batch, float)| batch.float = float);
        }
        Ok(())
    }

    /// Runs a graph over batches; `each` takes the number of the batch and its outputs as real numbers.
    fn run(&self, graph: &Graph, batches: &[Batch], mut each: impl FnMut(usize, Vec<Vec<f32>>)) -> Result<()> {
        let mut sessions: BTreeMap<usize, Session> = BTreeMap::new();
        for (i, batch) in batches.iter().enumerate() {
            let size = self.feed.fixed_batch.unwrap_or(batch.count);
            if let std::collections::btree_map::Entry::Vacant(entry) = sessions.entry(size) {
                entry.insert(self.session_of(graph, size)?);
            }
            let session = &sessions[&size];
            let outputs = session.run_ordered(&self.feed.batch(batch.start, batch.count, size)?, false)?.0;
            let real = |(tensor, (_, ty)): (&Tensor, &(String, ottava_hal::TensorType))| {
                let rows = first_rows(tensor, size, batch.count)?;
                let quant = ty.quant.as_deref();
                real_values(&rows, quant).map_err(|e| Error::invalid(codes::DATA_SHAPE, e.to_string()))
            };
            let outputs = outputs.iter().zip(session.outputs()).map(real).collect::<Result<_>>();
            each(i, outputs.map_err(|e| e.in_file(&self.model.origin))?);
        }
        Ok(())
    }

    fn session_of(&self, graph: &Graph, size: usize) -> Result<Session> {
        Session::of_graph(self.model, &self.bound(graph, size)?, self.registry, &self.session)
    }

    fn bound(&self, graph: &Graph, size: usize) -> Result<Graph> {
        let dims = self.model.dims(size, &self.session.dims)?;
        let mut bound = ottava_graph::bind(graph, &dims, 1).map_err(|e| self.model.invalid(e))?;
        // The Q/DQ nodes, and what bound shapes let fold, are the canonical phase's work.
        bound.phase = Phase::Imported;
        Ok(bound)
    }
}

impl Energy {
    fn add(&mut self, float: &[f32], tested: &[f32]) {
        for (a, b) in float.iter().zip(tested) {
            let (a, b) = (f64::from(*a), f64::from(*b));
            // What is not finite in the float network says nothing about the quantized one.
            if a.is_finite() {
                self.signal += a * a;
                self.error += (a - b) * (a - b);
            }
        }
    }
}
