//! Automatic mixed precision: finds what to keep in float, from calibration data alone.
//!
//! [`search`] measures the network with everything quantized, with each tensor alone in float, and then the prefixes of
//! the best order until the shortest one that reaches the goal is known. Every figure comes from running the quantized
//! network; equal inputs give equal choices.

mod bench;

pub(crate) use bench::Bench;

use crate::batches::Progress;
use crate::error::{Error, Result, codes};
use ottava_graph::Diagnostic;
use ottava_quantize::Recipe;
use ottava_quantize::search::{Bisection, Candidate, Trial, Unit, db_of, node_macs, noise_of, ranking, units};
use std::collections::BTreeMap;

/// What a search is to reach.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Goal {
    /// Signal-to-noise ratio of the outputs, decibel.
    pub(crate) db: f64,
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
    let target = noise_of(goal.db);
    let base = bench.noise(&plain)?;
    let mut found = MixedPrecision {
        target_db: goal.db,
        before_db: db_of(base),
        after_db: db_of(base),
        reached: base <= target,
        exceptions: Vec::new(),
        trials: 1,
    };
    if found.reached {
        return Ok((recipe.clone(), found));
    }
    let all = units(bench.canonical, bench.calibration(), &plain, &bench.dims());
    let all = all.map_err(|e| Error::invalid(codes::QUANTIZE, e.to_string()))?;
    let noises = sensitivities(bench, &plain, &all, progress)?;
    let order = order(bench, &all, &noises, base, goal);
    let gains: Vec<f64> = order.iter().map(|&i| base - noises[i]).collect();
    let mut bisection = Bisection::new(target, base, &gains);
    found.trials += all.len();
    while let Some(len) = bisection.next() {
        let noise = bench.noise(&with_float(&plain, order[..len].iter().map(|&i| &all[i])))?;
        bisection.measured(Trial { len, noise });
        found.trials += 1;
    }
    let (best, reached) = bisection.best();
    (found.after_db, found.reached) = (db_of(best.noise), reached);
    let exception = |&i: &usize| Exception {
        value: all[i].value.clone(),
        nodes: all[i].nodes.clone(),
        macs: all[i].macs,
        gain_db: db_of(noises[i]) - found.before_db,
    };
    found.exceptions = order[..best.len].iter().map(exception).collect();
    if goal.required && !reached {
        return Err(missed(&found, goal));
    }
    Ok((with_float(recipe, order[..best.len].iter().map(|&i| &all[i])), found))
}

/// The noise with each unit alone in float.
fn sensitivities(bench: &Bench, recipe: &Recipe, all: &[Unit], progress: &mut Progress) -> Result<Vec<f64>> {
    let mut noises = Vec::with_capacity(all.len());
    for (i, unit) in all.iter().enumerate() {
        noises.push(bench.noise(&with_float(recipe, [unit]))?);
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
