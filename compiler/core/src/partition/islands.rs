//! Moves of whole runs: to a device where modelled latency is lower, and to a neighbour's device where a run gains too
//! little to be worth its switch (`minimum gain`).

use super::choices::Choice;
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
}

/// Moves runs to other devices as long as modelled latency falls.
pub(super) fn improve(model: &Model, x: &mut Assignment, wanted: &[usize]) {
    let mut least = model.total(x);
    for _ in 0..MAX_PASSES {
        let mut changed = false;
        let mut at = 0;
        let mut runs = model.runs(x);
        let mut budget = MAX_PASSES * (runs.len() + 1);
        while let Some(run) = runs.get(at).filter(|_| budget > 0) {
            budget -= 1;
            let moves = wanted.iter().filter(|t| **t != run.0).filter_map(|t| moved(model, x, run, *t));
            let best = moves.map(|y| (model.total(&y), y)).min_by_key(|(ns, _)| *ns);
            match best.filter(|(ns, _)| *ns < least) {
                Some((ns, y)) => {
                    (least, *x, changed) = (ns, y, true);
                    runs = model.runs(x);
                }
                None => at += 1,
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
                Some((to, gain, y)) => {
                    let (from, nodes) = &runs[at];
                    let text = text(targets, *from, to, nodes.len(), gain);
                    gone.push(Dissolved { nodes: nodes.clone(), text });
                    *x = y;
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

fn text(targets: &[Target], from: usize, to: usize, n: usize, gain: u64) -> String {
    let (from, to, gain) = (targets[from].id, targets[to].id, human(gain));
    let nodes = if n == 1 { "1 node".to_string() } else { format!("{n} nodes") };
    format!("an island of {nodes} on {from} was dissolved into {to}: it gains {gain}, less than the minimum")
}

/// The device that takes a run in which gains too little, the gain, and the assignment without the run.
fn too_small(
    model: &Model,
    x: &Assignment,
    runs: &[Run],
    at: usize,
    placement: &Placement,
) -> Option<(usize, u64, Assignment)> {
    let run = &runs[at];
    let now = model.total(x);
    let beside = [at.checked_sub(1), at.checked_add(1)];
    let neighbours: BTreeSet<usize> = beside.iter().flatten().filter_map(|r| runs.get(*r)).map(|r| r.0).collect();
    let moves = neighbours.iter().filter(|t| **t != run.0).filter_map(|t| Some((*t, moved(model, x, run, *t)?)));
    let (to, then, y) = moves.map(|(t, y)| (t, model.total(&y), y)).min_by_key(|(_, ns, _)| *ns)?;
    let gain = then.saturating_sub(now);
    let there = run.1.iter().map(|i| model.choices[*i][y[*i]].ns).fold(0, u64::saturating_add);
    let least = placement.min_gain_ns.max((there as f64 * placement.min_gain) as u64);
    (gain < least && model.runs(&y).len() < runs.len()).then_some((to, gain, y))
}

/// The assignment with a run on another device, which must accept all of it.
fn moved(model: &Model, x: &Assignment, run: &Run, to: usize) -> Option<Assignment> {
    let mut y = x.clone();
    for i in &run.1 {
        y[*i] = best_where(&model.choices[*i], |c: &Choice| c.target == to)?;
    }
    descend(model, &mut y, &run.1, true);
    Some(y)
}
