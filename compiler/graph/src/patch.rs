//! How a rule changes a graph: it proposes a [`Patch`], it never edits in place.

use crate::{Graph, Result, Uses};
use ottava_hal::{Error, Node, TensorType, Value, ValueId};

/// A proposed change. New values are numbered from the graph's present number of values on ([`Patch::value`]).
#[derive(Debug, Clone, Default)]
pub struct Patch {
    first_new: usize,
    /// Values to add.
    pub values: Vec<Value>,
    /// Indices of nodes to take out.
    pub remove: Vec<usize>,
    /// Nodes to put in, at the place of the last node that is taken out (or at the end).
    pub insert: Vec<Node>,
    /// Readers of the first value (and the graph's outputs) read the second one instead.
    pub replace: Vec<(ValueId, ValueId)>,
    /// Values that get another type.
    pub retype: Vec<(ValueId, TensorType)>,
    /// Pairs of values that exchange names, so that what replaces an output of the graph takes its name over.
    pub swap_names: Vec<(ValueId, ValueId)>,
}

impl Patch {
    /// An empty patch of a graph.
    pub fn new(graph: &Graph) -> Self {
        Self { first_new: graph.values.len(), ..Self::default() }
    }

    /// Adds a value and returns the id that it will have.
    pub fn value(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.first_new + self.values.len() - 1)
    }

    /// Takes a node out and lets readers of its first output read `by` instead. Where that output is one of the graph,
    /// `by` takes its name over; the caller makes sure that `by` is free to ([`Patch::can_bypass`]).
    pub fn bypass(graph: &Graph, node: usize, by: ValueId) -> Self {
        let mut patch = Self::new(graph);
        let out = graph.nodes[node].outputs[0];
        patch.remove.push(node);
        patch.replace.push((out, by));
        if graph.outputs.contains(&out) {
            patch.swap_names.push((out, by));
        }
        patch
    }

    /// Whether a node can be bypassed: names of the graph's inputs and outputs are a contract.
    pub fn can_bypass(graph: &Graph, uses: &Uses, node: usize, by: ValueId) -> bool {
        !uses.is_output(graph.nodes[node].outputs[0]) || uses.producer(by).is_some() && !uses.is_output(by)
    }

    /// Applies the patch. Node indices change; order stays topological if the rule's insertions allow it, which
    /// [`Graph::sort`] restores otherwise.
    pub fn apply(self, graph: &mut Graph) {
        debug_assert_eq!(self.first_new, graph.values.len(), "a patch is made for one state of the graph");
        graph.values.extend(self.values);
        let at = self.remove.iter().max().map_or(graph.nodes.len(), |last| last + 1);
        let tail = graph.nodes.split_off(at);
        graph.nodes.extend(self.insert);
        graph.nodes.extend(tail);
        let mut index = 0;
        graph.nodes.retain(|_| {
            index += 1;
            !self.remove.contains(&(index - 1)) || index > at
        });
        for (from, to) in &self.replace {
            redirect(graph, *from, *to);
        }
        for (id, ty) in self.retype {
            graph.values[id.0].ty = ty;
        }
        for (a, b) in self.swap_names {
            let name = std::mem::take(&mut graph.values[a.0].name);
            graph.values[a.0].name = std::mem::replace(&mut graph.values[b.0].name, name);
        }
    }
}

fn redirect(graph: &mut Graph, from: ValueId, to: ValueId) {
    let inputs = graph.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut()).flatten();
    for id in inputs.chain(graph.outputs.iter_mut()).filter(|id| **id == from) {
        *id = to;
    }
}

/// Applies a rule to every node until it finds nothing more. The number of patches is bounded, so a rule that undoes
/// itself is an error and not a hang. Returns how many patches were applied.
pub fn rewrite(
    graph: &mut Graph,
    name: &str,
    mut rule: impl FnMut(&Graph, &Uses, usize) -> Result<Option<Patch>>,
) -> Result<usize> {
    let limit = 16 * graph.nodes.len() + 64;
    let mut applied = 0;
    let mut index = 0;
    let mut changed = false;
    let mut uses = Uses::of(graph);
    loop {
        if index >= graph.nodes.len() {
            if !changed {
                return Ok(applied);
            }
            (index, changed) = (0, false);
            continue;
        }
        match rule(graph, &uses, index)? {
            None => index += 1,
            Some(patch) => {
                patch.apply(graph);
                graph.sort()?;
                uses = Uses::of(graph);
                applied += 1;
                changed = true;
                if applied > limit {
                    return Err(Error::invalid(format!(
                        "pass {name} does not come to an end; please report the model"
                    )));
                }
            }
        }
    }
}
