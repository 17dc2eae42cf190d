//! A quantization on data: calibration, the search where the target or the floor asks for one, and the quantized graph.

use super::{Bench, Goal, MixedPrecision, Statistics, search};
use crate::batches::Progress;
use crate::data::{Affine, Data};
use crate::error::Result;
use crate::model::Model;
use crate::quantize::{QuantizeOptions, quantize_error};
use crate::registry::Registry;
use ottava_graph::Graph;
use ottava_quantize::search::noise_of;
use ottava_quantize::{Calibration, Quantized};

/// Below this ratio of the outputs, tensors are kept in float without being asked for, decibel.
const FLOOR_DB: f64 = 20.0;
/// New data are harder than calibration data: the floor is to hold there, so the search aims this much higher.
const FLOOR_MARGIN_DB: f64 = 4.0;
/// At most this share of the multiply-accumulates leaves 8 bits without being asked for.
const FLOOR_MACS: f64 = 0.1;
/// Ranges measured on their own samples flatter: the quick look must exceed the floor by this to settle the matter.
const QUICK_MARGIN_DB: f64 = 6.0;

/// What is quantized, and on what.
pub(crate) struct Task<'a> {
    pub(crate) model: &'a Model,
    pub(crate) canonical: &'a Graph,
    pub(crate) registry: &'a Registry,
    pub(crate) options: &'a QuantizeOptions,
    pub(crate) data: &'a Data,
    pub(crate) affine: Option<Affine>,
}

impl Task<'_> {
    /// The quantized graph, and what a search for mixed precision found.
    pub(crate) fn run(&self, progress: &mut Progress) -> Result<(Quantized, Option<MixedPrecision>)> {
        let recipe = &self.options.recipe;
        let (source, observer) = ((self.data, self.affine), recipe.activations.observer);
        let net = (self.model, self.registry);
        let statistics = Statistics::collect(net, &self.options.session, source, observer, progress)?;
        let quantize = |calibration: &Calibration, recipe| {
            ottava_quantize::quantize(self.canonical, calibration, recipe).map_err(|e| quantize_error(e, self.model))
        };
        let Some(goal) = self.goal(&statistics)? else {
            return Ok((quantize(statistics.all(), recipe)?, None));
        };
        let (recipe, mixed) = search(&self.bench(statistics.folds()?)?, recipe, goal, progress)?;
        Ok((quantize(statistics.all(), &recipe)?, Some(mixed)))
    }

    /// What the outputs are to reach: the target, or the floor if a quick look does not show the network far above it.
    fn goal(&self, statistics: &Statistics) -> Result<Option<Goal>> {
        let recipe = &self.options.recipe;
        if let Some(db) = recipe.target_sqnr_db {
            return Ok(Some(Goal { db, enough: db, max_macs: recipe.max_float_macs.unwrap_or(1.0), required: true }));
        }
        if self.options.strict || recipe.integer_only {
            return Ok(None);
        }
        let quick = self.bench(vec![statistics.all().clone()])?.noise(recipe)?;
        let max_macs = recipe.max_float_macs.unwrap_or(FLOOR_MACS).min(FLOOR_MACS);
        let goal = Goal { db: FLOOR_DB + FLOOR_MARGIN_DB, enough: FLOOR_DB, max_macs, required: false };
        Ok((quick > noise_of(FLOOR_DB + QUICK_MARGIN_DB)).then_some(goal))
    }

    fn bench(&self, calibrations: Vec<Calibration>) -> Result<Bench<'_>> {
        let net = (self.model, self.canonical);
        Bench::new(net, self.registry, &self.options.session, (self.data, self.affine), calibrations)
    }
}
