//! Where a value can be brought from one representation to another, and what that costs between two places.

use super::choices::Choice;
use super::costs::Links;
use super::repr::{Repr, is_activation, shiftable};
use super::rules::Rules;
use super::survey::Survey;
use super::twin::Form;
use ottava_graph::Graph;
use ottava_hal::ValueId;
use std::collections::{BTreeMap, BTreeSet};

/// From one representation to another.
pub(super) type Way = (Repr, Repr);

/// For each value and way that a twin may need, the targets that run the bridge and their time.
#[derive(Default)]
pub(super) struct Flips {
    by_way: BTreeMap<(ValueId, Way), Vec<(usize, u64)>>,
    /// Bytes of each of these values at home; as real numbers they have four bytes each.
    bytes: BTreeMap<ValueId, (u64, u64)>,
}

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
            let activations = node.inputs.iter().flatten().chain(&node.outputs).copied();
            let touched: BTreeSet<ValueId> = activations.filter(|id| is_activation(graph, *id)).collect();
            touched.iter().for_each(|id| flips.ask(graph, rules, survey, *id));
            let inputs: BTreeSet<ValueId> = node.inputs.iter().flatten().copied().collect();
            let possible = |c: &Choice| {
                touched.iter().all(|id| {
                    let (reads, writes) = (c.form.reads(graph.ty(*id)), c.form.writes(graph.ty(*id)));
                    let way = if inputs.contains(id) { (Repr::Home, reads) } else { (writes, Repr::Home) };
                    way.0 == way.1 || flips.has(*id, way)
                })
            };
            if options.iter().any(possible) {
                options.retain(possible);
            }
        }
        flips
    }

    fn ask(&mut self, graph: &Graph, rules: &Rules, survey: &mut Survey, id: ValueId) {
        let ty = graph.ty(id);
        let elements = ty.shape.elements().unwrap_or(0) as u64;
        self.bytes.insert(id, (ty.byte_len().unwrap_or(0) as u64, elements.saturating_mul(4)));
        for way in Repr::BRIDGES {
            let shifts = way.0 == Repr::Shifted || way.1 == Repr::Shifted;
            if self.by_way.contains_key(&(id, way)) || shifts && !shiftable(ty) {
                continue;
            }
            let on = |t: &usize, survey: &mut Survey| Some((*t, survey.bridge(id, way, *t)?));
            let mut found: Vec<(usize, u64)> = rules.wanted.iter().filter_map(|t| on(t, survey)).collect();
            if found.is_empty() {
                found.extend(rules.fallback.and_then(|t| on(&t, survey)));
            }
            self.by_way.insert((id, way), found);
        }
    }

    /// Whether a device runs this bridge.
    pub fn has(&self, id: ValueId, way: Way) -> bool {
        self.by_way.get(&(id, way)).is_some_and(|found| !found.is_empty())
    }

    /// Bytes of a value in a representation.
    fn bytes(&self, id: ValueId, repr: Repr) -> u64 {
        let (home, real) = self.bytes.get(&id).copied().unwrap_or_default();
        if matches!(repr, Repr::Real | Repr::Raw) { real } else { home }
    }

    /// The cheapest bridge of a value from one place to others; `None` if no device runs it.
    pub fn best(
        &self,
        links: &Links,
        id: ValueId,
        way: Way,
        from: Option<usize>,
        to: &[Option<usize>],
    ) -> Option<BridgeCost> {
        let (before, after) = (self.bytes(id, way.0), self.bytes(id, way.1));
        let cost = |(target, ns): &(usize, u64)| {
            let at = Some(*target);
            let own = from != at && !to.contains(&at);
            let start = if own { links.submit(*target) } else { 0 };
            let there = links.hop(from, at, before);
            let hops = to.iter().map(|t| links.hop(at, *t, after)).fold(there, u64::saturating_add);
            BridgeCost { target: *target, ns: ns.saturating_add(hops).saturating_add(start) }
        };
        self.by_way.get(&(id, way))?.iter().map(cost).min_by_key(|c| c.ns)
    }

    /// Cost of a value on its way from one place and representation to another, over `Home` where no bridge leads
    /// straight there.
    pub fn cost(&self, links: &Links, id: ValueId, way: Way, from: Option<usize>, to: Option<usize>) -> Option<u64> {
        if way.0 == way.1 {
            return Some(links.hop(from, to, self.bytes(id, way.0)));
        }
        if let Some(straight) = self.best(links, id, way, from, &[to]) {
            return Some(straight.ns);
        }
        let first = self.best(links, id, (way.0, Repr::Home), from, &[])?;
        let second = self.best(links, id, (Repr::Home, way.1), Some(first.target), &[to])?;
        Some(first.ns.saturating_add(second.ns))
    }
}
