//! A quantization on data: calibration, the search where the target or the floor asks for one, and the quantized graph.

use super::rounding::learn;
use super::{Bench, Goal, MixedPrecision, Statistics, search};
use crate::batches::Progress;
use crate::config::Fallback;
use crate::data::{Affine, Data};
use crate::error::Result;
use crate::model::Model;
use crate::quantize::{QuantizeOptions, quantize_error};
use crate::registry::Registry;
use crate::storage::Devices;
use ottava_graph::{Graph, Phase};
use ottava_quantize::recipe::Correction;
use ottava_quantize::search::noise_of;
use ottava_quantize::{Calibration, Learned, Quantized, Recipe};

/// Below this ratio of the outputs, tensors are kept in float without being asked for, decibel.
const FLOOR_DB: f64 = 20.0;
/// New data are harder than calibration data: the floor is to hold there, so the search aims this much higher.
const FLOOR_MARGIN_DB: f64 = 8.0;
/// At most this share of the multiply-accumulates leaves 8 bits without being asked for.
const FLOOR_MACS: f64 = 0.1;
/// Sweeps over the weights of a layer when their roundings are learned without being asked for.
const SWEEPS: u32 = 4;
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
        let mut statistics = self.collect(self.canonical, progress)?;
        let fail = |e| quantize_error(e, self.model);
        let prepared = ottava_quantize::prepare(self.canonical, statistics.all(), recipe).map_err(fail)?;
        let graph = &prepared.graph;
        if prepared.rewritten {
            statistics = self.collect(graph, progress)?;
        }
        // What the corrections of the network do is in the graph now.
        let mut found = recipe.without_network_corrections();
        let mut learned = self.learned(graph, &found, statistics.all(), progress)?;
        let (mut mixed, mut corrections) = (None, recipe.corrections.clone());
        self.expect_runnable(graph, &found, &statistics)?;
        if let Some(goal) = self.goal(graph, &found, &statistics, &learned)? {
            if let Some(better) = self.better_roundings(graph, (&found, &learned), &statistics, goal, progress)? {
                (found, learned) = better;
                corrections.push(Correction::LearnedRounding { steps: SWEEPS });
            }
            let (with_exceptions, outcome) =
                search(&self.bench(graph, statistics.folds()?, &learned)?, &found, goal, progress)?;
            (found, mixed) = (with_exceptions, Some(outcome));
        }
        let mut quantized =
            ottava_quantize::quantize_learned(graph, statistics.all(), &found, &learned).map_err(fail)?;
        quantized.report.recipe = Recipe { corrections, ..found }.to_ron();
        quantized.diagnostics.splice(0..0, prepared.diagnostics);
        quantized.rescaled.extend(prepared.rescaled);
        Ok((quantized, mixed))
    }

    /// Without a fallback, what no device runs is an error that names it, before anything is measured.
    fn expect_runnable(&self, graph: &Graph, recipe: &Recipe, statistics: &Statistics) -> Result<()> {
        if self.registry.config.fallback != Fallback::Error {
            return Ok(());
        }
        let plain = Recipe { target_sqnr_db: None, max_float_macs: None, ..recipe.clone() };
        let quantized = ottava_quantize::quantize(graph, statistics.all(), &plain);
        let mut graph = quantized.map_err(|e| quantize_error(e, self.model))?.graph;
        graph.phase = Phase::Imported;
        let model = Model { graph, ..self.model.clone() };
        let session = &self.options.session;
        Devices::chosen(self.registry, session)?.check(&model, self.registry, session).map(|_| ())
    }

    fn collect(&self, graph: &Graph, progress: &mut Progress) -> Result<Statistics> {
        let (source, recipe) = ((self.data, self.affine), &self.options.recipe);
        let net = (self.model, graph, self.registry);
        Statistics::collect(net, &self.options.session, source, recipe, progress)
    }

    /// The roundings of the weights, if the recipe asks for learned ones.
    fn learned(
        &self,
        graph: &Graph,
        recipe: &Recipe,
        calibration: &Calibration,
        progress: &mut Progress,
    ) -> Result<Learned> {
        let net = (self.model, graph, self.registry);
        learn(net, &self.options.session, (self.data, self.affine), calibration, recipe, progress)
    }

    /// The recipe with learned roundings and what was learned, if the floor is missed without them, nobody asked for
    /// them, and the outputs come nearer to those of the float network.
    fn better_roundings(
        &self,
        graph: &Graph,
        (recipe, learned): (&Recipe, &Learned),
        statistics: &Statistics,
        goal: Goal,
        progress: &mut Progress,
    ) -> Result<Option<(Recipe, Learned)>> {
        let asked = recipe.corrections.iter().any(|c| matches!(c, Correction::LearnedRounding { .. }));
        let folds = statistics.folds()?;
        // What was learned on the very rows that it is measured on would always seem to help.
        if asked || goal.required || folds.len() < 2 {
            return Ok(None);
        }
        let mut with = recipe.clone();
        with.corrections.push(Correction::LearnedRounding { steps: SWEEPS });
        let roundings = self.learned(graph, &with, statistics.all(), progress)?;
        if roundings.is_empty() {
            return Ok(None);
        }
        let before = self.bench(graph, folds.clone(), learned)?.noise(recipe)?;
        let after = self.bench(graph, folds, &roundings)?.noise(&with)?;
        Ok((after < before).then_some((with, roundings)))
    }

    /// What the outputs are to reach: the target, or the floor if a quick look does not show the network far above it.
    fn goal(&self, graph: &Graph, recipe: &Recipe, statistics: &Statistics, learned: &Learned) -> Result<Option<Goal>> {
        if let Some(db) = recipe.target_sqnr_db {
            return Ok(Some(Goal {
                db,
                enough: db,
                max_macs: recipe.max_float_macs.unwrap_or(1.0),
                counts_all: true,
                required: true,
            }));
        }
        if self.options.strict || recipe.integer_only {
            return Ok(None);
        }
        let quick = self.bench(graph, vec![statistics.all().clone()], learned)?.noise(recipe)?;
        let max_macs = recipe.max_float_macs.unwrap_or(FLOOR_MACS).min(FLOOR_MACS);
        let goal = Goal {
            db: FLOOR_DB + FLOOR_MARGIN_DB,
            enough: FLOOR_DB,
            max_macs,
            counts_all: recipe.max_float_macs.is_some(),
            required: false,
        };
        Ok((quick > noise_of(FLOOR_DB + QUICK_MARGIN_DB)).then_some(goal))
    }

    fn bench<'b>(
        &'b self,
        graph: &'b Graph,
        calibrations: Vec<Calibration>,
        learned: &'b Learned,
    ) -> Result<Bench<'b>> {
        let net = (self.model, graph);
        Bench::new(net, self.registry, &self.options.session, (self.data, self.affine), learned, calibrations)
    }
}
