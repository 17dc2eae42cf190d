//! From a graph, or a part of it, to a [`Program`].

use crate::{Graph, Uses};
use ottava_hal::{Program, Value, ValueId};
use std::collections::BTreeMap;

/// The whole graph as a program.
pub fn to_program(graph: &Graph) -> Program {
    Program {
        name: graph.name.clone(),
        values: graph.values.clone(),
        nodes: graph.nodes.clone(),
        inputs: graph.inputs.clone(),
        outputs: graph.outputs.clone(),
    }
}

/// A program as a graph of the phase imported, to print or change it.
pub fn from_program(program: &Program) -> Graph {
    Graph {
        name: program.name.clone(),
        values: program.values.clone(),
        nodes: program.nodes.clone(),
        inputs: program.inputs.clone(),
        outputs: program.outputs.clone(),
        ..Graph::default()
    }
}

/// A part of a graph as a program of its own.
#[derive(Debug, Clone)]
pub struct Extracted {
    /// The program; its inputs and outputs are those below, in order.
    pub program: Program,
    /// Values of the graph that the part reads from outside.
    pub inputs: Vec<ValueId>,
    /// Values of the graph that others read from the part.
    pub outputs: Vec<ValueId>,
}

/// Cuts the nodes of the given indices (ascending) out as a program. Constants come along; values that are read by other
/// nodes or are outputs of the graph become outputs.
pub fn extract(graph: &Graph, name: &str, nodes: &[usize]) -> Extracted {
    let uses = Uses::of(graph);
    let inside = |i: usize| nodes.binary_search(&i).is_ok();
    let mut cut = Cut { graph, new_id: BTreeMap::new(), values: Vec::new() };
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut program_nodes = Vec::with_capacity(nodes.len());
    for &i in nodes {
        let mut node = graph.nodes[i].clone();
        for id in node.inputs.iter_mut().flatten() {
            let outside = graph.constant(*id).is_none() && !uses.producer(*id).is_some_and(inside);
            if outside && !inputs.contains(id) {
                inputs.push(*id);
            }
            *id = cut.take(*id);
        }
        for id in &mut node.outputs {
            let read_outside = uses.readers(*id).iter().any(|(reader, _)| !inside(*reader));
            if read_outside || uses.is_output(*id) {
                outputs.push(*id);
            }
            *id = cut.take(*id);
        }
        program_nodes.push(node);
    }
    let program = Program {
        name: name.to_string(),
        inputs: inputs.iter().map(|id| cut.new_id[id]).collect(),
        outputs: outputs.iter().map(|id| cut.new_id[id]).collect(),
        nodes: program_nodes,
        values: cut.values,
    };
    Extracted { program, inputs, outputs }
}

struct Cut<'a> {
    graph: &'a Graph,
    new_id: BTreeMap<ValueId, ValueId>,
    values: Vec<Value>,
}

impl Cut<'_> {
    fn take(&mut self, id: ValueId) -> ValueId {
        *self.new_id.entry(id).or_insert_with(|| {
            self.values.push(self.graph.value(id).clone());
            ValueId(self.values.len() - 1)
        })
    }
}
