//! Who produces and who reads each value.

use crate::Graph;
use ottava_hal::ValueId;

/// An index over a graph's edges, valid until the graph changes.
#[derive(Debug, Clone)]
pub struct Uses {
    producer: Vec<Option<usize>>,
    /// Readers of value `v` are `readers[first[v]..first[v + 1]]`: one list, because a pass indexes a graph anew after
    /// every patch.
    readers: Vec<(usize, usize)>,
    first: Vec<usize>,
    is_output: Vec<bool>,
}

impl Uses {
    /// Indexes a graph.
    pub fn of(graph: &Graph) -> Self {
        let n = graph.values.len();
        let mut uses =
            Self { producer: vec![None; n], readers: vec![], first: vec![0; n + 1], is_output: vec![false; n] };
        for (i, node) in graph.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|out| uses.producer[out.0] = Some(i));
            node.inputs.iter().flatten().for_each(|id| uses.first[id.0 + 1] += 1);
        }
        for v in 0..n {
            uses.first[v + 1] += uses.first[v];
        }
        let mut next = uses.first.clone();
        uses.readers = vec![(0, 0); uses.first[n]];
        for (i, node) in graph.nodes.iter().enumerate() {
            for (slot, id) in node.inputs.iter().enumerate().filter_map(|(slot, id)| Some((slot, (*id)?))) {
                uses.readers[next[id.0]] = (i, slot);
                next[id.0] += 1;
            }
        }
        graph.outputs.iter().for_each(|id| uses.is_output[id.0] = true);
        uses
    }

    /// Index of the node that computes a value.
    pub fn producer(&self, id: ValueId) -> Option<usize> {
        self.producer[id.0]
    }

    /// Nodes (with the input slot) that read a value.
    pub fn readers(&self, id: ValueId) -> &[(usize, usize)] {
        &self.readers[self.first[id.0]..self.first[id.0 + 1]]
    }

    /// Whether a value is an output of the graph.
    pub fn is_output(&self, id: ValueId) -> bool {
        self.is_output[id.0]
    }

    /// The only reader of a value that is no output of the graph.
    pub fn only_reader(&self, id: ValueId) -> Option<usize> {
        match self.readers(id) {
            [(node, _)] if !self.is_output(id) => Some(*node),
            _ => None,
        }
    }

    /// Whether nothing reads a value and it is no output.
    pub fn is_dead(&self, id: ValueId) -> bool {
        self.readers(id).is_empty() && !self.is_output(id)
    }
}
