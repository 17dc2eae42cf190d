//! Who produces and who reads each value.

use crate::Graph;
use ottava_hal::ValueId;

/// An index over a graph's edges, valid until the graph changes.
#[derive(Debug, Clone)]
pub struct Uses {
    producer: Vec<Option<usize>>,
    readers: Vec<Vec<(usize, usize)>>,
    is_output: Vec<bool>,
}

impl Uses {
    /// Indexes a graph.
    pub fn of(graph: &Graph) -> Self {
        let n = graph.values.len();
        let mut uses = Self { producer: vec![None; n], readers: vec![vec![]; n], is_output: vec![false; n] };
        for (i, node) in graph.nodes.iter().enumerate() {
            for out in &node.outputs {
                uses.producer[out.0] = Some(i);
            }
            for (slot, input) in node.inputs.iter().enumerate() {
                if let Some(id) = input {
                    uses.readers[id.0].push((i, slot));
                }
            }
        }
        for id in &graph.outputs {
            uses.is_output[id.0] = true;
        }
        uses
    }

    /// Index of the node that computes a value.
    pub fn producer(&self, id: ValueId) -> Option<usize> {
        self.producer[id.0]
    }

    /// Nodes (with the input slot) that read a value.
    pub fn readers(&self, id: ValueId) -> &[(usize, usize)] {
        &self.readers[id.0]
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
