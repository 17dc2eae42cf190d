//! Automatic mixed precision: finds what to keep in float or 16 bits, from calibration data alone.
//!
//! [`search`] measures the network with everything quantized, what each tensor does in float or in integers, and where a
//! chosen device runs it in 16 bits, and then the prefixes of the best order until the shortest one that reaches the goal
//! is known.
//! Every figure comes from running the quantized network; equal inputs give equal choices.

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
use ottava_quantize::search::{
    Bisection, Candidate, MIN_GAIN, Precision, Trial, Unit, db_of, node_macs, noise_of, ranking, units,
};
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
    /// Whether the share is of everything in float, not only of what the search adds.
    pub(crate) counts_all: bool,
    /// Whether missing it is an error.
    pub(crate) required: bool,
}

/// A tensor that left 8 bits, and what that gives.
#[derive(Debug, Clone, PartialEq)]
pub struct Exception {
    /// Name of the tensor.
    pub value: String,
    /// How it is held instead.
    pub precision: Precision,
    /// Nodes that read it: in float they stay so, in 16 bits they are integer operators.
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
        let mut floats = self.exceptions.iter().filter(|e| e.precision == Precision::Float);
        let exception = floats.find(|e| e.nodes.iter().any(|n| n == node))?;
        let (value, gain) = (&exception.value, exception.gain_db);
        Some(format!("its input `{value}` in float raises the output SQNR by {gain:.1} dB"))
    }

    /// The tensors that are held in 16 bits, with the reason.
    pub fn wide(&self) -> impl Iterator<Item = (&str, String)> {
        let wide = self.exceptions.iter().filter(|e| e.precision == Precision::S16);
        wide.map(|e| (e.value.as_str(), format!("s16 raises the output SQNR by {:.1} dB", e.gain_db)))
    }

    /// What there is to tell: nothing if the network needed no exception.
    pub(crate) fn diagnostic(&self) -> Option<Diagnostic> {
        let Self { target_db, before_db, after_db, .. } = self;
        let n = self.exceptions.len();
        if n == 0 {
            let text = format!("nothing in float helps: the output SQNR stays at {:.1} dB", before_db + 0.0);
            let help = "look at the calibration data and at the ranges: `ottava validate`";
            return (!self.reached).then(|| Diagnostic::warning(codes::MIXED, "", text).with_help(help));
        }
        let what = match self.wide().count() {
            0 => format!("{n} tensors stay in float"),
            wide => format!("{} tensors stay in float and {wide} in s16", n - wide),
        };
        let text = format!("{what}: the output SQNR rises from {before_db:.1} to {after_db:.1} dB");
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
    // Near a target every tensor counts as it is then. The floor is far from that, and there to be kept on new data.
    let alone = !goal.required && bench.has_halves();
    let base = if alone { before } else { bench.quick_noise(plain)? };
    let forms = forms(bench, plain, &all, (base, alone), found, progress)?;
    let order = order(bench, plain, &all, &forms, base, goal)?;
    let chosen = |len: usize| order[..len].iter().map(|&i| (&all[i], forms[i].0));
    // Gains may have been measured on a part of the rows; as shares of its noise they hold for the whole.
    let gains: Vec<f64> = order.iter().map(|&i| before * (1.0 - forms[i].1 / base)).collect();
    let mut bisection = Bisection::new(noise_of(goal.db), before, &gains);
    while let Some(len) = bisection.next() {
        let noise = bench.noise(&with_exceptions(plain, chosen(len)))?;
        bisection.measured(Trial { len, noise });
        found.trials += 1;
    }
    let best = bisection.best().0;
    let exception = |&i: &usize| Exception {
        value: all[i].value.clone(),
        precision: forms[i].0,
        nodes: all[i].nodes.clone(),
        macs: all[i].macs,
        gain_db: db_of(forms[i].1) - db_of(base),
    };
    found.after_db = db_of(best.noise);
    found.reached = best.noise <= noise_of(goal.enough);
    found.exceptions = order[..best.len].iter().map(exception).collect();
    Ok(with_exceptions(recipe, chosen(best.len)))
}

/// The least that is left of the noise when one unit leaves 8 bits, as a share: alone, a unit may make more noise than it
/// adds to that of the others.
const LEAST_LEFT: f64 = 0.01;

/// For each unit the form that it takes outside 8 bits, and the noise that is left then: measured with the unit exchanged
/// in the quantized network, or from what it makes `alone` in an otherwise float one.
fn forms(
    bench: &Bench,
    recipe: &Recipe,
    all: &[Unit],
    (base, alone): (f64, bool),
    found: &mut MixedPrecision,
    progress: &mut Progress,
) -> Result<Vec<(Precision, f64)>> {
    let on_floats = bench.runnable(recipe)?;
    let mut forms = Vec::with_capacity(all.len());
    for (i, unit) in all.iter().enumerate() {
        let wide = wide(bench, recipe, unit, on_floats)?;
        found.trials += 1 + usize::from(wide.is_some());
        let (float, s16) = if alone {
            let own = bench.noise_alone(recipe, unit)?;
            let left = |noise: f64| (base - own + noise).clamp(LEAST_LEFT * base, base);
            (left(0.0), wide.map(|wide| bench.noise_alone(&wide, unit).map(left)).transpose()?)
        } else {
            let float = bench.quick_noise(&with_exceptions(recipe, [(unit, Precision::Float)]))?;
            (float, wide.map(|wide| bench.quick_noise(&wide)).transpose()?)
        };
        forms.push(Precision::choose(base, float, s16));
        progress((i + 1) as u64, all.len() as u64);
    }
    Ok(forms)
}

/// The recipe with a unit in 16 bits, if a chosen device computes with it as integers: an operator that turns into one on
/// floats is no gain over float.
fn wide(bench: &Bench, recipe: &Recipe, unit: &Unit, on_floats: Option<usize>) -> Result<Option<Recipe>> {
    let (Some(writer), Some(on_floats)) = (&unit.writer, on_floats) else { return Ok(None) };
    if !bench.may_write_s16(writer) {
        return Ok(None);
    }
    let wide = with_exceptions(recipe, [(unit, Precision::S16)]);
    Ok(bench.runnable(&wide)?.is_some_and(|n| n <= on_floats).then_some(wide))
}

/// The order in which units leave 8 bits. Nodes that are in float for other reasons count
/// against a limit that was asked for; that of the floor is for what the search adds.
fn order(
    bench: &Bench,
    recipe: &Recipe,
    all: &[Unit],
    forms: &[(Precision, f64)],
    base: f64,
    goal: Goal,
) -> Result<Vec<usize>> {
    let macs: BTreeMap<String, u64> = node_macs(bench.canonical, &bench.dims());
    let of = |node: &str| macs.get(node).copied().unwrap_or(0);
    let total = macs.values().copied().fold(0, u64::saturating_add);
    let others = if goal.counts_all { bench.float_nodes(recipe)? } else { Vec::new() };
    let spent = others.iter().map(|node| of(node.as_str())).fold(0, u64::saturating_add);
    let limit = ((total as f64 * goal.max_macs) as u64).saturating_sub(spent);
    let candidate = |(unit, &(precision, noise))| Candidate { unit, precision, noise };
    let candidates: Vec<Candidate> = all.iter().zip(forms).map(candidate).collect();
    // Where a target must be reached, what helps little alone may still be what is missing in the end.
    let min_gain = if goal.required { f64::NEG_INFINITY } else { MIN_GAIN };
    Ok(ranking(&candidates, (base, min_gain), of, limit))
}

/// The recipe with some units outside 8 bits.
fn with_exceptions<'a>(recipe: &Recipe, units: impl IntoIterator<Item = (&'a Unit, Precision)>) -> Recipe {
    let (floats, wide): (Vec<_>, Vec<_>) = units.into_iter().partition(|(_, form)| *form == Precision::Float);
    let mut recipe = recipe.clone();
    for node in wide.iter().filter_map(|(unit, _)| unit.writer.as_ref()) {
        if recipe.for_node(node).activations.is_some_and(|a| a.dtype.bits() == 8) {
            recipe.keep_s16(node);
        }
    }
    // What stays in float stays so, also where it writes a tensor of 16 bits.
    for node in floats.iter().flat_map(|(unit, _)| &unit.nodes) {
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
