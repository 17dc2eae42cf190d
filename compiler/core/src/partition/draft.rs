//! The placed graph: each node in the form of its choice, with the bridges that forms ask for.
//!
//! A bridge is an ordinary `ottava` Quantize, Dequantize or Requantize node with a name and a device. There is at most
//! one per value and representation; it stands before its first reader. Values keep their names in the graph's own storage, so inputs and outputs of the
//! graph are what they were. Quantize, Dequantize and Requantize nodes of the model stay nodes of the model: the search
//! has put them on the side of a cut where they cost least.

use super::choices::Choice;
use super::costs::Links;
use super::flips::{Flips, Way};
use super::repr::{Repr, bridge, is_activation};
use super::survey::Survey;
use super::twin::{Form, twin};
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
        /// How it holds its activations.
        form: Form,
    },
    /// A bridge.
    Bridge {
        /// The value of the graph.
        id: ValueId,
        /// From and to which representation.
        way: Way,
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
    survey: &'a Survey<'a>,
    links: &'a Links,
    flips: &'a Flips,
    /// The choice of each node.
    chosen: Vec<Choice>,
    names: BTreeSet<String>,
    /// The draft's value of a graph's value in a representation.
    at: BTreeMap<(ValueId, Repr), ValueId>,
    draft: Draft,
}

/// Writes an assignment out.
pub(super) fn draft(graph: &Graph, chosen: Vec<Choice>, survey: &Survey, flips: &Flips) -> Result<Draft> {
    let empty = Graph { nodes: Vec::with_capacity(graph.nodes.len()), ..graph.clone() };
    let names = graph.values.iter().map(|v| v.name.clone()).chain(graph.nodes.iter().map(|n| n.name.clone()));
    let mut drafter = Drafter {
        graph,
        uses: Uses::of(graph),
        survey,
        links: &survey.links,
        flips,
        chosen,
        names: names.collect(),
        at: graph.inputs.iter().map(|id| ((*id, Repr::Home), *id)).collect(),
        draft: Draft { graph: empty, seats: Vec::with_capacity(graph.nodes.len()) },
    };
    for index in 0..graph.nodes.len() {
        drafter.node(index)?;
    }
    for id in graph.outputs.iter().filter(|id| is_activation(graph, **id)) {
        drafter.value(*id, Repr::Home)?;
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
                None if is_activation(graph, *id) => self.value(*id, form.reads(graph.ty(*id)))?,
                None => *id,
            };
        }
        for id in &mut node.outputs {
            let new = changed.get(id).map_or(*id, |value| self.add(value.clone()));
            let repr = if is_activation(graph, *id) { form.writes(graph.ty(*id)) } else { Repr::Home };
            self.at.insert((*id, repr), new);
            *id = new;
        }
        self.draft.graph.nodes.push(node);
        self.draft.seats.push(Seat { target, origin: Origin::Node { index, form } });
        Ok(())
    }

    /// A value in a representation; puts bridges in where it does not exist yet.
    fn value(&mut self, id: ValueId, repr: Repr) -> Result<ValueId> {
        if let Some(known) = self.at.get(&(id, repr)) {
            return Ok(*known);
        }
        let present = [Repr::Home, Repr::Shifted, Repr::Raw].into_iter().filter(|r| self.at.contains_key(&(id, *r)));
        let straight = present.into_iter().find(|r| self.flips.has(id, (*r, repr)));
        let from_repr = straight.unwrap_or(Repr::Home);
        let way = (from_repr, repr);
        if from_repr == repr {
            return Err(self.no_bridge(id));
        }
        let from = self.value(id, from_repr)?;
        let target = self.bridge_target(id, way)?;
        let home = self.graph.value(id);
        let ty = repr.ty(&home.ty);
        let (name, dtype) = (self.fresh(&format!("{}_to_{}", home.name, ty.dtype)), home.ty.dtype);
        let to = match repr {
            Repr::Home => id,
            _ => self.add(Value { name: home.name.clone(), ty, constant: None }),
        };
        self.draft.graph.nodes.push(bridge(name, (from, to), way, dtype, self.survey.clamp(id)));
        self.draft.seats.push(Seat { target, origin: Origin::Bridge { id, way } });
        self.at.insert((id, repr), to);
        Ok(to)
    }

    /// The device on which a bridge costs least, for all its readers together.
    fn bridge_target(&self, id: ValueId, way: Way) -> Result<usize> {
        let ty = self.graph.ty(id);
        let from = self.uses.producer(id).map(|p| self.chosen[p].target);
        let readers = self.uses.readers(id).iter().map(|(reader, _)| &self.chosen[*reader]);
        let mut to: BTreeSet<Option<usize>> =
            readers.filter(|c| c.form.reads(ty) == way.1).map(|c| Some(c.target)).collect();
        if self.uses.is_output(id) && way.1 == Repr::Home {
            to.insert(None);
        }
        let to: Vec<Option<usize>> = to.into_iter().collect();
        let best = self.flips.best(self.links, id, way, from, &to);
        best.map(|b| b.target).ok_or_else(|| self.no_bridge(id))
    }

    fn no_bridge(&self, id: ValueId) -> Error {
        let (name, dtype) = (self.graph.name_of(id), self.graph.ty(id).dtype);
        let what = format!("no device converts `{name}` ({dtype}) for the devices that read it; allow a fallback");
        Error::unsupported(Reason::Dtype, what)
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
