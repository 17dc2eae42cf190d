//! The modelled latency of an assignment: nodes, transfers, bridges and submissions, one after the other.
//!
//! [`Model::total`] is the measure. [`Model::local`] is what changes when a few nodes move: their time, the values
//! they touch, and, in place of the number of runs, a submission for each node none of whose operands is computed on its
//! own device. On a chain both count the same submissions.

use super::choices::Choice;
use super::costs::Links;
use super::flips::Flips;
use super::order::{Order, Run};
use super::repr::{Repr, is_activation};
use super::twin::Form;
use ottava_graph::{Graph, Uses};
use ottava_hal::ValueId;
use std::collections::BTreeSet;

/// More than any plan costs; stands for a bridge that no device runs.
const IMPOSSIBLE: u64 = 1 << 50;

/// A place that has a value: target (`None` is the host), and the representation there.
type Place = (Option<usize>, Repr);

/// A value that flows between nodes.
struct Flow {
    id: ValueId,
    bytes: u64,
    producer: Option<usize>,
    readers: Vec<usize>,
    is_output: bool,
    /// How nodes of each form read and write it, by the form's number; `None` for values that have no other
    /// representation.
    reprs: Option<[(Repr, Repr); Form::ALL.len()]>,
}

/// An assignment: the index of the choice of each node.
pub(super) type Assignment = Vec<usize>;

/// Everything that modelled latency depends on.
pub(super) struct Model<'a> {
    /// Choices of each node.
    pub choices: &'a [Vec<Choice>],
    links: &'a Links,
    flips: &'a Flips,
    flows: Vec<Flow>,
    /// Flows that a node reads; constants are none.
    ins: Vec<Vec<usize>>,
    /// Flows that a node computes.
    outs: Vec<Vec<usize>>,
    order: Order,
}

impl<'a> Model<'a> {
    /// The model of a graph.
    pub fn new(graph: &Graph, choices: &'a [Vec<Choice>], links: &'a Links, flips: &'a Flips) -> Self {
        let uses = Uses::of(graph);
        let mut flow_of = vec![None; graph.values.len()];
        let mut flows: Vec<Flow> = Vec::new();
        let mut index = |id: ValueId| {
            *flow_of[id.0].get_or_insert_with(|| {
                flows.push(flow(graph, &uses, id));
                flows.len() - 1
            })
        };
        let (mut ins, mut outs) = (Vec::new(), Vec::new());
        for node in &graph.nodes {
            let read: BTreeSet<ValueId> =
                node.inputs.iter().flatten().copied().filter(|id| graph.constant(*id).is_none()).collect();
            ins.push(read.into_iter().map(&mut index).collect());
            outs.push(node.outputs.iter().copied().map(&mut index).collect());
        }
        Self { choices, links, flips, flows, ins, outs, order: Order::of(graph) }
    }

    /// The target of a node.
    pub fn target(&self, x: &[usize], i: usize) -> usize {
        self.choices[i][x[i]].target
    }

    /// The runs of an assignment.
    pub fn runs(&self, x: &[usize]) -> Vec<Run> {
        self.order.runs(|i| self.target(x, i))
    }

    /// Modelled latency in nanoseconds.
    pub fn total(&self, x: &[usize]) -> u64 {
        let nodes = x.iter().zip(self.choices).map(|(k, of)| of[*k].ns);
        let flows = (0..self.flows.len()).map(|v| self.flow_ns(x, v));
        let starts = self.runs(x).into_iter().map(|(target, _)| self.links.submit(target));
        nodes.chain(flows).chain(starts).fold(0, u64::saturating_add)
    }

    /// What of the modelled latency hangs on a few nodes.
    pub fn local(&self, x: &[usize], nodes: &[usize]) -> u64 {
        let mut flows: BTreeSet<usize> = BTreeSet::new();
        let mut starts: BTreeSet<usize> = nodes.iter().copied().collect();
        for i in nodes {
            flows.extend(self.ins[*i].iter().chain(&self.outs[*i]));
            starts.extend(self.outs[*i].iter().flat_map(|v| &self.flows[*v].readers));
        }
        let own = nodes.iter().map(|i| self.choices[*i][x[*i]].ns);
        let flows = flows.into_iter().map(|v| self.flow_ns(x, v));
        let starts = starts.into_iter().map(|i| self.start_ns(x, i));
        own.chain(flows).chain(starts).fold(0, u64::saturating_add)
    }

    /// What node `i` adds to the latency of the nodes before it, which `x` assigns; `x` may end with node `i`.
    pub fn added(&self, x: &[usize], i: usize) -> u64 {
        let mut ns = self.choices[i][x[i]].ns.saturating_add(self.start_ns(x, i));
        for v in &self.ins[i] {
            let flow = &self.flows[*v];
            let place = self.reads(flow, x, i);
            let known = flow.readers.iter().take_while(|r| **r < i).any(|r| self.reads(flow, x, *r) == place);
            if !known {
                ns = ns.saturating_add(self.edge_ns(flow, self.home(flow, x), place));
            }
        }
        for flow in self.outs[i].iter().map(|v| &self.flows[*v]).filter(|f| f.is_output) {
            ns = ns.saturating_add(self.edge_ns(flow, self.home(flow, x), (None, Repr::Home)));
        }
        ns
    }

    /// A submission, if none of the node's operands is computed on its device.
    fn start_ns(&self, x: &[usize], i: usize) -> u64 {
        let target = self.target(x, i);
        let joins = self.ins[i].iter().any(|v| self.flows[*v].producer.is_some_and(|p| self.target(x, p) == target));
        if joins { 0 } else { self.links.submit(target) }
    }

    /// Bringing a value to everyone who reads it.
    fn flow_ns(&self, x: &[usize], v: usize) -> u64 {
        let flow = &self.flows[v];
        let home = self.home(flow, x);
        let places = self.places(flow, x);
        places.into_iter().map(|p| self.edge_ns(flow, home, p)).fold(0, u64::saturating_add)
    }

    /// The places that read a value, each once.
    fn places(&self, flow: &Flow, x: &[usize]) -> BTreeSet<Place> {
        let host = flow.is_output.then_some((None, Repr::Home));
        flow.readers.iter().map(|r| self.reads(flow, x, *r)).chain(host).collect()
    }

    fn home(&self, flow: &Flow, x: &[usize]) -> Place {
        let written = |p: usize| {
            let choice = &self.choices[p][x[p]];
            (Some(choice.target), flow.reprs.map_or(Repr::Home, |r| r[choice.form as usize].1))
        };
        flow.producer.map_or((None, Repr::Home), written)
    }

    /// Where and in which representation a node reads a value.
    fn reads(&self, flow: &Flow, x: &[usize], node: usize) -> Place {
        let choice = &self.choices[node][x[node]];
        (Some(choice.target), flow.reprs.map_or(Repr::Home, |r| r[choice.form as usize].0))
    }

    fn edge_ns(&self, flow: &Flow, from: Place, to: Place) -> u64 {
        if from.1 == to.1 && matches!(to.1, Repr::Home | Repr::Shifted) {
            return self.links.hop(from.0, to.0, flow.bytes);
        }
        self.flips.cost(self.links, flow.id, (from.1, to.1), from.0, to.0).unwrap_or(IMPOSSIBLE)
    }
}

fn flow(graph: &Graph, uses: &Uses, id: ValueId) -> Flow {
    let ty = graph.ty(id);
    let readers: BTreeSet<usize> = uses.readers(id).iter().map(|(reader, _)| *reader).collect();
    Flow {
        id,
        bytes: ty.byte_len().unwrap_or(0) as u64,
        producer: uses.producer(id),
        readers: readers.into_iter().collect(),
        is_output: uses.is_output(id),
        reprs: is_activation(graph, id).then(|| Form::ALL.map(|form| (form.reads(ty), form.writes(ty)))),
    }
}
