//! The graph's data, and how to build and read it.

use crate::Phase;
use ottava_hal::{Node, Tensor, TensorType, Value, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// A network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Graph {
    /// Name of the model.
    pub name: String,
    /// Phase reached.
    pub phase: Phase,
    /// Operator set versions by domain, as the file declared them.
    pub opsets: BTreeMap<String, u32>,
    /// Every value; [`ValueId`] indexes it. Values that nothing uses any more stay until [`Graph::compact`].
    pub values: Vec<Value>,
    /// Nodes in topological order.
    pub nodes: Vec<Node>,
    /// Values that the caller provides, in the model's order.
    pub inputs: Vec<ValueId>,
    /// Values that the caller receives, in the model's order. A value may be listed twice.
    pub outputs: Vec<ValueId>,
    /// Values that live from run to run.
    pub states: Vec<State>,
}

/// A value that lives from run to run: an input that takes what an output held after the run before.
///
/// Inputs and outputs are named by their place, because passes replace values and never move inputs and outputs. To a pass
/// a state is an input and an output like any other; the caller of the finished network sees neither.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// Name for the application.
    pub name: String,
    /// Place in [`Graph::inputs`].
    pub input: usize,
    /// Place in [`Graph::outputs`].
    pub output: usize,
    /// Value before the first run and after a reset.
    pub initial: Tensor,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Adds a value; the caller keeps names unique ([`Graph::fresh_name`]).
    pub fn add_value(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        self.values.push(Value { name: name.into(), ty, constant: None });
        ValueId(self.values.len() - 1)
    }

    /// Adds a constant of its data's plain type.
    pub fn add_const(&mut self, name: impl Into<String>, data: Tensor) -> ValueId {
        let id = self.add_value(name, data.ty());
        self.values[id.0].constant = Some(data);
        id
    }

    /// Adds an input.
    pub fn add_input(&mut self, name: impl Into<String>, ty: TensorType) -> ValueId {
        let id = self.add_value(name, ty);
        self.inputs.push(id);
        id
    }

    /// Makes a state of a new input and an output: the caller's value before the first run is `initial`.
    pub fn add_state(&mut self, name: impl Into<String>, input: ValueId, output: ValueId, initial: Tensor) {
        self.inputs.push(input);
        self.outputs.push(output);
        let (input, output) = (self.inputs.len() - 1, self.outputs.len() - 1);
        self.states.push(State { name: name.into(), input, output, initial });
    }

    /// The inputs that the caller provides: all but those of states.
    pub fn caller_inputs(&self) -> impl Iterator<Item = ValueId> {
        let own = |i: &usize| self.states.iter().all(|s| s.input != *i);
        (0..self.inputs.len()).filter(own).map(|i| self.inputs[i])
    }

    /// The outputs that the caller receives: all but those of states.
    pub fn caller_outputs(&self) -> impl Iterator<Item = ValueId> {
        let own = |i: &usize| self.states.iter().all(|s| s.output != *i);
        (0..self.outputs.len()).filter(own).map(|i| self.outputs[i])
    }

    /// Hands out `values` instead of the outputs of the caller; states stay.
    pub fn set_caller_outputs(&mut self, values: impl IntoIterator<Item = ValueId>) {
        let kept: Vec<ValueId> = self.states.iter().map(|s| self.outputs[s.output]).collect();
        self.outputs = values.into_iter().collect();
        for (state, id) in self.states.iter_mut().zip(kept) {
            state.output = self.outputs.len();
            self.outputs.push(id);
        }
    }

    /// The value of an id of this graph.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0]
    }

    /// The type of a value.
    pub fn ty(&self, id: ValueId) -> &TensorType {
        &self.values[id.0].ty
    }

    /// The data of a value, if it is constant.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        self.values[id.0].constant.as_ref()
    }

    /// The name of a value.
    pub fn name_of(&self, id: ValueId) -> &str {
        &self.values[id.0].name
    }

    /// The value of a name.
    pub fn find_value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().position(|v| v.name == name).map(ValueId)
    }

    /// `base`, or `base_1`, `base_2`, .. : a name that no value and no node has.
    pub fn fresh_name(&self, base: &str) -> String {
        let names = self.values.iter().map(|v| v.name.as_str()).chain(self.nodes.iter().map(|n| n.name.as_str()));
        // Only names that begin with `base` can be in the way, so the set stays small in a large graph.
        let taken: BTreeSet<&str> = names.filter(|n| n.starts_with(base)).collect();
        if !taken.contains(base) {
            return base.to_string();
        }
        (1u64..).map(|i| format!("{base}_{i}")).find(|n| !taken.contains(n.as_str())).expect("numbers do not run out")
    }

    /// Operator names with counts, for reports.
    pub fn op_counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for node in &self.nodes {
            *counts.entry(node.full_op()).or_insert(0) += 1;
        }
        counts
    }
}
