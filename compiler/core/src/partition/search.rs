//! Assignments of low modelled latency.
//!
//! Starts are the cheapest device for each node, each single device as far as it goes, and the best way along the
//! topological order (exact on a chain; on other graphs each state carries the assignment that led to it). Each start
//! descends by moves of single nodes, then by moves of whole runs. Everything is deterministic: of equal costs the
//! first in the order of choices stays.

use super::choices::Choice;
use super::islands;
use super::model::{Assignment, Model};

/// Most sweeps of single moves; each one lowers the cost, so this only bounds the time.
const MAX_SWEEPS: usize = 8;

/// Assignments worth a closer look, each once: what the starts come to, the best by modelled latency first, then every
/// single device as far as it goes, so that no plan is worse than leaving all to one device.
pub(super) fn candidates(model: &Model, wanted: &[usize]) -> Vec<Assignment> {
    let single: Vec<Assignment> = wanted.iter().map(|t| mostly_on(model, *t)).collect();
    let starts = [along_the_order(model, |_, _| true), cheapest(model)].into_iter().chain(single.iter().cloned());
    let mut found: Vec<(u64, Assignment)> = Vec::new();
    for mut x in starts {
        let all: Vec<usize> = (0..x.len()).collect();
        descend(model, &mut x, &all, false);
        islands::improve(model, &mut x, wanted);
        found.push((model.total(&x), x));
    }
    // The sort is stable, so equal costs keep the order of the starts.
    found.sort_by_key(|(ns, _)| *ns);
    let mut distinct: Vec<Assignment> = Vec::new();
    for x in found.into_iter().map(|(_, x)| x).chain(single) {
        if !distinct.contains(&x) {
            distinct.push(x);
        }
    }
    distinct
}

/// The index of the cheapest choice that passes; the first of equals.
pub(super) fn best_where(choices: &[Choice], pass: impl Fn(&Choice) -> bool) -> Option<usize> {
    (0..choices.len()).filter(|k| pass(&choices[*k])).min_by_key(|k| choices[*k].ns)
}

fn cheapest(model: &Model) -> Assignment {
    model.choices.iter().map(|of| best_where(of, |_| true).unwrap_or(0)).collect()
}

fn mostly_on(model: &Model, target: usize) -> Assignment {
    let pick = |of: &Vec<Choice>| best_where(of, |c| c.target == target).or_else(|| best_where(of, |_| true));
    model.choices.iter().map(|of| pick(of).unwrap_or(0)).collect()
}

/// Assignments by an order of devices: for each wanted device the order that begins with it, each node on the first
/// device that accepts it, in its best form there. What nodes cost alone does not decide here, so they show what whole
/// partitions cost where that is far less.
pub(super) fn by_priority(model: &Model, wanted: &[usize]) -> Vec<Assignment> {
    let all: Vec<usize> = (0..model.choices.len()).collect();
    let order = |first: &usize| {
        let order: Vec<usize> = std::iter::once(first).chain(wanted.iter().filter(|t| *t != first)).copied().collect();
        let seat = |of: &Vec<Choice>| {
            let accepted = order.iter().copied().find(|t| of.iter().any(|c| c.target == *t));
            accepted.or_else(|| of.first().map(|c| c.target))
        };
        let seats: Vec<Option<usize>> = model.choices.iter().map(seat).collect();
        let mut x = along_the_order(model, |i, c| Some(c.target) == seats[i]);
        descend(model, &mut x, &all, true);
        x
    };
    wanted.iter().map(order).collect()
}

/// The best way along the topological order, over the choices that pass; at least one of each node does.
fn along_the_order(model: &Model, pass: impl Fn(usize, &Choice) -> bool) -> Assignment {
    let mut states: Vec<(u64, Assignment)> = vec![(0, Vec::new())];
    for (i, of) in model.choices.iter().enumerate() {
        let mut next = Vec::with_capacity(of.len());
        for k in (0..of.len()).filter(|k| pass(i, &of[*k])) {
            let mut best: Option<(u64, usize)> = None;
            for (s, (ns, path)) in states.iter_mut().enumerate() {
                path.push(k);
                let ns = ns.saturating_add(model.added(path, i));
                path.pop();
                if best.is_none_or(|(least, _)| ns < least) {
                    best = Some((ns, s));
                }
            }
            if let Some((ns, s)) = best {
                let mut path = Vec::with_capacity(i + 1);
                path.extend_from_slice(&states[s].1);
                path.push(k);
                next.push((ns, path));
            }
        }
        states = next;
    }
    states.into_iter().min_by_key(|(ns, _)| *ns).map(|(_, path)| path).unwrap_or_default()
}

/// Moves single nodes as long as each move lowers the local cost; with `stay`, only between forms on the same device.
pub(super) fn descend(model: &Model, x: &mut Assignment, nodes: &[usize], stay: bool) {
    for _ in 0..MAX_SWEEPS {
        let mut moved = false;
        for &i in nodes.iter().filter(|i| model.choices[**i].len() > 1) {
            moved |= settle(model, x, i, stay);
        }
        if !moved {
            return;
        }
    }
}

/// Gives one node its best choice; whether it has changed.
fn settle(model: &Model, x: &mut Assignment, i: usize, stay: bool) -> bool {
    let (before, target) = (x[i], model.target(x, i));
    let mut best = (model.local(x, &[i]), before);
    for k in (0..model.choices[i].len()).filter(|k| *k != before) {
        if stay && model.choices[i][k].target != target {
            continue;
        }
        x[i] = k;
        let ns = model.local(x, &[i]);
        if ns < best.0 {
            best = (ns, k);
        }
    }
    x[i] = best.1;
    best.1 != before
}
