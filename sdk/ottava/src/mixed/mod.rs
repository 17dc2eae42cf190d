//! Automatic mixed precision: finds what to keep in float, from calibration data alone.
//!
//! [`search`] measures the network with everything quantized, with each tensor alone in float, and then the prefixes of
//! the best order until the shortest one that reaches the goal is known. Every figure comes from running the quantized
//! network; equal inputs give equal choices.

mod bench;
mod rounding;
mod statistics;
mod task;

pub(crate) use bench::Bench;
pub(crate) use statistics::Statistics;
pub(crate) use task::Task;

use crate::batches::Progress;
use crate::error::{Error, Result, codes};
use ottava_graph::Diagnostic;
use ottava_quantize::Recipe;
use ottava_quantize::search::{Bisection, Candidate, Trial, Unit, db_of, node_macs, noise_of, ranking, units};
use std::collections::BTreeMap;

/// What a search is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// Signal-to-noise ratio of the outputs to aim at, decibel.
    pub(crate) db: f64,
    /// The ratio that counts as reached, at most the one to aim at.
    pub(crate) enough: f64,
    /// The largest share of multiply-accumulates that may leave 8 bits.
    pub(crate) max_macs: f64,
    /// Whether missing it is an error.
    pub(crate) required: bool,
}

/// A tensor that left 8 bits, and what that gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    /// Name of the tensor.
    pub value: String,
    /// Nodes that read it and therefore stay in float.
    pub nodes: Vec<String>,
    /// Their multiply-accumulates.
    pub macs: u64,
    /// How much the output's signal-to-noise ratio rises by this exception alone, decibel.
    pub gain_db: f64,
}

/// What a search for mixed precision did.
#[derive(Debug, Clone, PartialEq)]
pub struct MixedPrecision {
    /// The ratio that was to be reached, decibel.
    pub target_db: f64,
    /// The ratio with everything quantized, measured on calibration data that the ranges had not seen.
    pub before_db: f64,
    /// The ratio with the exceptions, measured alike.
    pub after_db: f64,
    /// Whether it is the wanted one.
    pub reached: bool,
    /// What left 8 bits, the most useful first.
    pub exceptions: Vec<Exception>,
    /// Networks that were run.
    pub trials: usize,
}

impl MixedPrecision {
    /// Why a node stays in float, if it is one of the exceptions.
    pub fn reason(&self, node: &str) -> Option<String> {
        let exception = self.exceptions.iter().find(|e| e.nodes.iter().any(|n| n == node))?;
        let (value, gain) = (&exception.value, exception.gain_db);
        Some(format!("its input `{value}` in float raises the output SQNR by {gain:.1} dB"))
    }

    /// What there is to tell: nothing if the network needed no exception.
    pub(crate) fn diagnostic(&self) -> Option<Diagnostic> {
        let Self { target_db, before_db, after_db, .. } = self;
        let n = self.exceptions.len();
        if self.reached && n == 0 {
            return None;
        }
        let text = format!("{n} tensors stay in float: the output SQNR rises from {before_db:.1} to {after_db:.1} dB");
        Some(match self.reached {
            true => Diagnostic::note(codes::MIXED, "", text),
            false => Diagnostic::warning(codes::MIXED, "", format!("{text}, short of {target_db:.1} dB"))
                .with_help("name a target with `target_sqnr_db`, or calibrate with more samples"),
        })
    }
}

/// Finds the exceptions that reach the goal and adds them to the recipe.
pub(crate) fn search(
    bench: &Bench,
    recipe: &Recipe,
    goal: Goal,
    progress: &mut Progress,
) -> Result<(Recipe, MixedPrecision)> {
    let plain = Recipe { target_sqnr_db: None, max_float_macs: None, ..recipe.clone() };
    let before = bench.noise(&plain)?;
    let mut found = MixedPrecision {
        target_db: goal.enough,
        before_db: db_of(before),
        after_db: db_of(before),
        reached: before <= noise_of(goal.enough),
        exceptions: Vec::new(),
        trials: 1,
    };
    let mut chosen = recipe.clone();
    if before > noise_of(goal.db) {
        chosen = exceptions(bench, (recipe, &plain), before, goal, &mut found, progress)?;
    }
    if goal.required && !found.reached {
        return Err(missed(&found, goal));
    }
    Ok((chosen, found))
}

/// Measures each tensor, and the prefixes of their order; returns `recipe` with the best prefix in float.
fn exceptions(
    bench: &Bench,
    (recipe, plain): (&Recipe, &Recipe),
    before: f64,
    goal: Goal,
    found: &mut MixedPrecision,
    progress: &mut Progress,
) -> Result<Recipe> {
    let all = units(bench.canonical, bench.calibration(), plain, &bench.dims());
    let all = all.map_err(|e| Error::invalid(codes::QUANTIZE, e.to_string()))?;
    let base = bench.quick_noise(plain)?;
    let noises = sensitivities(bench, plain, &all, progress)?;
    found.trials += all.len() + 1;
    let order = order(bench, &all, &noises, base, goal);
    let chosen = |len: usize| order[..len].iter().map(|&i| &all[i]);
    // Single gains were measured on a part of the rows; as shares of its noise they hold for the whole.
    let gains: Vec<f64> = order.iter().map(|&i| before * (1.0 - noises[i] / base)).collect();
    let mut bisection = Bisection::new(noise_of(goal.db), before, &gains);
    while let Some(len) = bisection.next() {
        let noise = bench.noise(&with_float(plain, chosen(len)))?;
        bisection.measured(Trial { len, noise });
        found.trials += 1;
    }
    let best = bisection.best().0;
    let exception = |&i: &usize| Exception {
        value: all[i].value.clone(),
        nodes: all[i].nodes.clone(),
        macs: all[i].macs,
        gain_db: db_of(noises[i]) - db_of(base),
    };
    found.after_db = db_of(best.noise);
    found.reached = best.noise <= noise_of(goal.enough);
    found.exceptions = order[..best.len].iter().map(exception).collect();
    Ok(with_float(recipe, chosen(best.len)))
}

/// The noise with each unit alone in float.
fn sensitivities(bench: &Bench, recipe: &Recipe, all: &[Unit], progress: &mut Progress) -> Result<Vec<f64>> {
    let mut noises = Vec::with_capacity(all.len());
    for (i, unit) in all.iter().enumerate() {
        noises.push(bench.quick_noise(&with_float(recipe, [unit]))?);
        progress((i + 1) as u64, all.len() as u64);
    }
    Ok(noises)
}

fn order(bench: &Bench, all: &[Unit], noises: &[f64], base: f64, goal: Goal) -> Vec<usize> {
    let macs: BTreeMap<String, u64> = node_macs(bench.canonical, &bench.dims());
    let total = macs.values().copied().fold(0, u64::saturating_add);
    let limit = (total as f64 * goal.max_macs) as u64;
    let candidates: Vec<Candidate> = all.iter().zip(noises).map(|(unit, &noise)| Candidate { unit, noise }).collect();
    ranking(&candidates, base, |node| macs.get(node).copied().unwrap_or(0), limit)
}

/// The recipe with the nodes of some units in float.
fn with_float<'a>(recipe: &Recipe, units: impl IntoIterator<Item = &'a Unit>) -> Recipe {
    let mut recipe = recipe.clone();
    for node in units.into_iter().flat_map(|unit| &unit.nodes) {
        if recipe.for_node(node).activations.is_some() {
            recipe.keep_float(node);
        }
    }
    recipe
}

fn missed(found: &MixedPrecision, goal: Goal) -> Error {
    let e = Error::unsupported(codes::QUANTIZE, format!("an output SQNR of {:.1} dB is not reached", goal.db));
    let e = e.found(format!("{:.1} dB with {} tensors in float", found.after_db, found.exceptions.len()));
    if goal.max_macs < 1.0 {
        return e.help(format!("raise `max_float_macs` above {}, or lower the target", goal.max_macs));
    }
    e.help("lower the target; weights of finer granularity or another observer may help too")
}
