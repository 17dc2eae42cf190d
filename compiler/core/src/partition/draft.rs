//! The placed graph: each node in the form of its choice, with the sign bridges that forms ask for.
//!
//! A bridge is an ordinary `ottava.Requantize` node with a name and a device. There is at most one per value and sign;
//! it stands before its first reader. Values keep their names in the graph's own storage, so inputs and outputs of the
//! graph are what they were. Quantize, Dequantize and Requantize nodes of the model stay nodes of the model: the search
//! has put them on the side of a cut where they cost least.

use super::choices::Choice;
use super::costs::Links;
use super::flips::{Flips, is_activation};
use super::survey::sign_node;
use super::twin::{Form, shifted, twin};
use ottava_graph::{Graph, Result, Uses};
use ottava_hal::{Error, Reason, Value, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Where a node of the draft comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A node of the graph, in a form.
    Node {
        /// Its index in the graph.
        index: usize,
        /// How its 8-bit activations are stored.
        form: Form,
    },
    /// A sign bridge.
    Bridge {
        /// The value of the graph.
        id: ValueId,
        /// Away from the graph's own storage, or back to it.
        away: bool,
    },
}

/// A node's device and origin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seat {
    /// Index of the target.
    pub target: usize,
    /// Where the node comes from.
    pub origin: Origin,
}

/// The placed graph.
pub(super) struct Draft {
    /// Nodes and bridges in topological order.
    pub graph: Graph,
    /// One seat per node of `graph`.
    pub seats: Vec<Seat>,
}

struct Drafter<'a> {
    graph: &'a Graph,
    uses: Uses,
    links: &'a Links,
    flips: &'a Flips,
    /// The choice of each node.
    chosen: Vec<Choice>,
    names: BTreeSet<String>,
    /// The draft's value of a graph's value in its own (false) or the other sign.
    at: BTreeMap<(ValueId, bool), ValueId>,
    draft: Draft,
}

/// Writes an assignment out.
pub(super) fn draft(graph: &Graph, chosen: Vec<Choice>, links: &Links, flips: &Flips) -> Result<Draft> {
    let empty = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let names = graph.values.iter().map(|v| v.name.clone()).chain(graph.nodes.iter().map(|n| n.name.clone()));
    let mut drafter = Drafter {
        graph,
        uses: Uses::of(graph),
        links,
        flips,
        chosen,
        names: names.collect(),
        at: graph.inputs.iter().map(|id| ((*id, false), *id)).collect(),
        draft: Draft { graph: empty, seats: Vec::with_capacity(graph.nodes.len()) },
    };
    for index in 0..graph.nodes.len() {
        drafter.node(index)?;
    }
    for id in graph.outputs.iter().filter(|id| is_activation(graph, **id)) {
        drafter.value(*id, false)?;
    }
    Ok(drafter.draft)
}

impl Drafter<'_> {
    fn node(&mut self, index: usize) -> Result<()> {
        let graph = self.graph;
        let Choice { target, form, .. } = self.chosen[index];
        let (mut node, changed) = match twin(graph, index, form)? {
            Some(twin) => (twin.node, twin.values),
            None => (graph.nodes[index].clone(), BTreeMap::new()),
        };
        let mut constants: BTreeMap<ValueId, ValueId> = BTreeMap::new();
        for id in node.inputs.iter_mut().flatten() {
            *id = match changed.get(id).filter(|v| v.constant.is_some()) {
                Some(value) => *constants.entry(*id).or_insert_with(|| self.add(value.clone())),
                None if is_activation(graph, *id) => self.value(*id, self.flipped(*id, form))?,
                None => *id,
            };
        }
        for id in &mut node.outputs {
            let new = changed.get(id).map_or(*id, |value| self.add(value.clone()));
            self.at.insert((*id, self.flipped(*id, form)), new);
            *id = new;
        }
        self.draft.graph.nodes.push(node);
        self.draft.seats.push(Seat { target, origin: Origin::Node { index, form } });
        Ok(())
    }

    fn flipped(&self, id: ValueId, form: Form) -> bool {
        is_activation(self.graph, id) && form.flips(self.graph.ty(id).dtype)
    }

    /// A value in a sign; puts a bridge in where only the other sign exists.
    fn value(&mut self, id: ValueId, away: bool) -> Result<ValueId> {
        if let Some(known) = self.at.get(&(id, away)) {
            return Ok(*known);
        }
        let Some(from) = self.at.get(&(id, !away)).copied() else { return Ok(id) };
        let home = self.graph.value(id);
        let ty = if away { shifted(&home.ty) } else { home.ty.clone() };
        let storage = ty.dtype;
        let to = if away { self.add(Value { name: home.name.clone(), ty, constant: None }) } else { id };
        let name = self.fresh(&format!("{}_to_{storage}", home.name));
        let target = self.bridge_target(id, away)?;
        self.draft.graph.nodes.push(sign_node(name, from, to));
        self.draft.seats.push(Seat { target, origin: Origin::Bridge { id, away } });
        self.at.insert((id, away), to);
        Ok(to)
    }

    /// The device on which a bridge costs least, for all its readers together.
    fn bridge_target(&self, id: ValueId, away: bool) -> Result<usize> {
        let storage = self.graph.ty(id).dtype;
        let from = self.uses.producer(id).map(|p| self.chosen[p].target);
        let readers = self.uses.readers(id).iter().map(|(reader, _)| &self.chosen[*reader]);
        let mut to: BTreeSet<Option<usize>> =
            readers.filter(|c| c.form.flips(storage) == away).map(|c| Some(c.target)).collect();
        if self.uses.is_output(id) && !away {
            to.insert(None);
        }
        let to: Vec<Option<usize>> = to.into_iter().collect();
        let bytes = self.graph.ty(id).byte_len().unwrap_or(0) as u64;
        let best = self.flips.best(self.links, id, away, from, &to, bytes);
        let name = self.graph.name_of(id);
        let none = || {
            let what = format!("no device turns `{name}` between {storage} and the other 8-bit type; allow a fallback");
            Error::unsupported(Reason::Dtype, what)
        };
        best.map(|b| b.target).ok_or_else(none)
    }

    /// A value with a name of its own.
    fn add(&mut self, value: Value) -> ValueId {
        let name = self.fresh(&format!("{}_{}", value.name, value.ty.dtype));
        self.draft.graph.values.push(Value { name, ..value });
        ValueId(self.draft.graph.values.len() - 1)
    }

    fn fresh(&mut self, base: &str) -> String {
        let mut name = base.to_string();
        let mut i = 0u64;
        while !self.names.insert(name.clone()) {
            i += 1;
            name = format!("{base}_{i}");
        }
        name
    }
}
