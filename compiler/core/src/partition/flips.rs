//! Where the sign of a value can be turned, and what that costs between two places.

use super::costs::Links;
use super::rules::Rules;
use super::survey::Survey;
use super::twin::{Form, shiftable};
use super::choices::Choice;
use ottava_graph::Graph;
use ottava_hal::ValueId;
use std::collections::{BTreeMap, BTreeSet};

/// For each value and direction (true: away from the graph's own storage), the targets that turn it and their time.
#[derive(Default)]
pub(super) struct Flips(BTreeMap<(ValueId, bool), Vec<(usize, u64)>>);

/// A bridge: the target that runs it and the cost, transfers included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BridgeCost {
    /// Where it runs.
    pub target: usize,
    /// Bridge, transfers and a submission of its own, if it needs one.
    pub ns: u64,
}

impl Flips {
    /// The bridges that the twins among the choices may need. A twin whose bridges no device runs is taken out, unless
    /// it is all that is left; a draft that then needs such a bridge is an error.
    pub fn of(graph: &Graph, rules: &Rules, survey: &mut Survey, choices: &mut [Vec<Choice>]) -> Self {
        let mut flips = Self::default();
        for (i, options) in choices.iter_mut().enumerate() {
            if options.iter().all(|c| c.form == Form::Native) {
                continue;
            }
            let node = &graph.nodes[i];
            let inputs = node.inputs.iter().flatten().map(|id| (*id, true));
            let both = inputs.chain(node.outputs.iter().map(|id| (*id, false)));
            let needed: BTreeSet<(ValueId, bool)> = both.filter(|(id, _)| is_activation(graph, *id)).collect();
            for (id, _) in &needed {
                for away in [true, false] {
                    flips.ask(rules, survey, *id, away);
                }
            }
            let possible = |c: &Choice| {
                let ok = |(id, away): &(ValueId, bool)| {
                    !c.form.flips(graph.ty(*id).dtype) || !flips.0[&(*id, *away)].is_empty()
                };
                needed.iter().all(ok)
            };
            if options.iter().any(possible) {
                options.retain(possible);
            }
        }
        flips
    }

    fn ask(&mut self, rules: &Rules, survey: &mut Survey, id: ValueId, away: bool) {
        if self.0.contains_key(&(id, away)) {
            return;
        }
        let mut found: Vec<(usize, u64)> =
            rules.wanted.iter().filter_map(|t| Some((*t, survey.bridge(id, away, *t)?))).collect();
        if found.is_empty() {
            found.extend(rules.fallback.and_then(|t| Some((t, survey.bridge(id, away, t)?))));
        }
        self.0.insert((id, away), found);
    }

    /// The cheapest bridge of a value between two places; `None` if no device runs it.
    pub fn best(
        &self,
        links: &Links,
        id: ValueId,
        away: bool,
        from: Option<usize>,
        to: &[Option<usize>],
        bytes: u64,
    ) -> Option<BridgeCost> {
        let cost = |(target, ns): &(usize, u64)| {
            let at = Some(*target);
            let own = from != at && !to.contains(&at);
            let start = if own { links.submit(*target) } else { 0 };
            let hops = to.iter().map(|t| links.hop(at, *t, bytes)).fold(links.hop(from, at, bytes), u64::saturating_add);
            BridgeCost { target: *target, ns: ns.saturating_add(hops).saturating_add(start) }
        };
        self.0.get(&(id, away))?.iter().map(cost).min_by_key(|c| c.ns)
    }
}

/// Whether a value is an 8-bit activation whose sign may be turned.
pub(super) fn is_activation(graph: &Graph, id: ValueId) -> bool {
    graph.constant(id).is_none() && shiftable(graph.ty(id))
}
