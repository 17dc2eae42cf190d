//! Moves of whole runs: to a device where modelled latency is lower, and to a neighbour's device where a run gains too
//! little to be worth its switch (`minimum gain`).

use super::costs::human;
use super::model::{Assignment, Model};
use super::order::Run;
use super::search::{best_where, descend};
use super::{Placement, Target};
use std::collections::BTreeSet;

/// Most passes over all runs; each pass lowers cost or number of runs, so this only bounds the time.
const MAX_PASSES: usize = 4;

/// An island that was given up.
#[derive(Debug, Clone)]
pub(super) struct Dissolved {
    /// Its nodes.
    pub nodes: Vec<usize>,
    /// What was given up, in words.
    pub text: String,
    /// The gain that would have kept it, nanoseconds.
    pub least_ns: u64,
}

/// A run on another device.
struct Trial {
    /// Local cost of the run there.
    ns: u64,
    /// The choice of each node of the run.
    options: Vec<usize>,
}

/// Moves runs to other devices as long as each move lowers the local cost.
pub(super) fn improve(model: &Model, x: &mut Assignment, wanted: &[usize]) {
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        for run in model.runs(x) {
            let now = model.local(x, &run.1);
            let mut best: Option<Trial> = None;
            for to in wanted.iter().filter(|t| **t != run.0) {
                let least = best.as_ref().map_or(now, |t| t.ns);
                best = trial(model, x, &run, *to).filter(|t| t.ns < least).or(best);
            }
            if let Some(trial) = best {
                swap(x, &run, &trial.options);
                changed = true;
            }
        }
        if !changed {
            return;
        }
    }
}

/// Dissolves runs whose gain over a neighbour's device is below the minimum. Each one dissolved leaves fewer runs.
pub(super) fn dissolve(model: &Model, x: &mut Assignment, targets: &[Target], placement: &Placement) -> Vec<Dissolved> {
    let mut gone = Vec::new();
    for _ in 0..MAX_PASSES {
        let before = gone.len();
        let mut at = 0;
        let mut runs = model.runs(x);
        while at < runs.len() {
            match too_small(model, x, &runs, at, placement) {
                Some(Small { to, gain, least_ns }) => {
                    let (from, nodes) = &runs[at];
                    let text = text(targets, *from, to, nodes.len(), gain);
                    gone.push(Dissolved { nodes: nodes.clone(), text, least_ns });
                    runs = model.runs(x);
                    at = at.saturating_sub(1);
                }
                None => at += 1,
            }
        }
        if gone.len() == before {
            break;
        }
    }
    gone
}

/// A number of nodes in words.
pub(super) fn count(n: usize) -> String {
    if n == 1 { "1 node".to_string() } else { format!("{n} nodes") }
}

fn text(targets: &[Target], from: usize, to: usize, n: usize, gain: u64) -> String {
    let (from, to, gain) = (targets[from].id, targets[to].id, human(gain));
    let nodes = count(n);
    format!("an island of {nodes} on {from} was dissolved into {to}: it gains {gain}, less than the minimum")
}

/// A run that gains too little: where it was moved, what it gained, and what it should have.
struct Small {
    to: usize,
    gain: u64,
    least_ns: u64,
}

/// Moves a run that gains too little to a neighbour's device.
fn too_small(model: &Model, x: &mut Assignment, runs: &[Run], at: usize, placement: &Placement) -> Option<Small> {
    let run = &runs[at];
    let now = model.local(x, &run.1);
    let beside = [at.checked_sub(1), at.checked_add(1)];
    let neighbours: BTreeSet<usize> = beside.iter().flatten().filter_map(|r| runs.get(*r)).map(|r| r.0).collect();
    let mut best: Option<(usize, Trial)> = None;
    for to in neighbours.into_iter().filter(|t| *t != run.0) {
        let least = best.as_ref().map_or(u64::MAX, |(_, t)| t.ns);
        best = trial(model, x, run, to).filter(|t| t.ns < least).map(|t| (to, t)).or(best);
    }
    let (to, trial) = best?;
    let gain = trial.ns.saturating_sub(now);
    let there = run.1.iter().zip(&trial.options).map(|(i, k)| model.choices[*i][*k].ns).fold(0, u64::saturating_add);
    let least_ns = placement.min_gain_ns.max((there as f64 * placement.min_gain) as u64);
    if gain >= least_ns {
        return None;
    }
    let old = swap(x, run, &trial.options);
    if model.runs(x).len() < runs.len() {
        return Some(Small { to, gain, least_ns });
    }
    swap(x, run, &old);
    None
}

/// A run on another device, which must accept all of it; `x` is as before afterwards.
fn trial(model: &Model, x: &mut Assignment, run: &Run, to: usize) -> Option<Trial> {
    let there = |i: &usize| best_where(&model.choices[*i], |c| c.target == to);
    let options = run.1.iter().map(there).collect::<Option<Vec<usize>>>()?;
    let old = swap(x, run, &options);
    descend(model, x, &run.1, true);
    let ns = model.local(x, &run.1);
    Some(Trial { ns, options: swap(x, run, &old) })
}

/// Gives the nodes of a run other choices; the ones that they had.
fn swap(x: &mut Assignment, run: &Run, options: &[usize]) -> Vec<usize> {
    run.1.iter().zip(options).map(|(i, k)| std::mem::replace(&mut x[*i], *k)).collect()
}
