//! The last look at a solution: its smallest partitions, tried on the devices beside them.
//!
//! The search adds up what nodes cost alone. A device may ask for a fixed time per program, which a small partition does
//! not earn back; that shows only when both ways are priced as whole partitions. Each try costs as much as a candidate
//! of the search, so there are few.

use super::build::{Measured, Search, measure};
use super::choices::Choice;
use super::costs::human;
use super::draft::Origin;
use super::islands::{Dissolved, count};
use super::search::best_where;
use super::survey::Survey;
use ottava_graph::Result;
use std::collections::BTreeSet;

/// Most tries.
const MAX_TRIALS: usize = 4;

/// Nodes of the graph, and the choice of each on another device.
struct Move {
    from: usize,
    to: usize,
    seats: Vec<(usize, usize)>,
}

/// The solution after every move that makes it faster.
pub(super) fn refine(
    cx: &Search,
    survey: &mut Survey,
    choices: &[Vec<Choice>],
    mut best: Measured,
) -> Result<Measured> {
    for Move { from, to, seats } in moves(&best, choices).into_iter().take(MAX_TRIALS) {
        let mut x = best.x.clone();
        seats.iter().for_each(|(node, k)| x[*node] = *k);
        let mut trial = measure(cx, survey, choices, x, best.dissolved.clone())?;
        let Some(gain) = best.latency_ns.checked_sub(trial.latency_ns).filter(|gain| *gain > 0) else { continue };
        let (from, to, n) = (survey.targets[from].id, survey.targets[to].id, count(seats.len()));
        let text = format!("a partition of {n} on {from} was moved to {to}: the plan is {} faster so", human(gain));
        let nodes = seats.into_iter().map(|(node, _)| node).collect();
        trial.dissolved.push(Dissolved { nodes, text, least_ns: 0 });
        best = trial;
    }
    Ok(best)
}

/// Every partition on the devices of its neighbours, where these take all of it; the smallest first.
fn moves(best: &Measured, choices: &[Vec<Choice>]) -> Vec<Move> {
    let mut order: Vec<usize> = (0..best.runs.len()).collect();
    order.sort_by_key(|r| best.runs[*r].1.len());
    let mut found = Vec::new();
    for r in order {
        let (from, nodes) = &best.runs[r];
        let beside = [r.checked_sub(1), r.checked_add(1)].into_iter().flatten().filter_map(|r| best.runs.get(r));
        let targets: BTreeSet<usize> = beside.map(|(target, _)| *target).filter(|t| t != from).collect();
        for to in targets {
            let own = nodes.iter().filter_map(|i| match best.draft.seats[*i].origin {
                Origin::Node { index, .. } => Some(index),
                Origin::Bridge { .. } => None,
            });
            let seat = |i: usize| Some((i, best_where(&choices[i], |c| c.target == to)?));
            let seats: Option<Vec<(usize, usize)>> = own.map(seat).collect();
            let seats = seats.filter(|seats| !seats.is_empty());
            found.extend(seats.map(|seats| Move { from: *from, to, seats }));
        }
    }
    found
}
