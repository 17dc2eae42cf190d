//! Looking backwards from a value: what the pattern-matching passes share.

use super::rules::{const_scalar, is, is_any};
use ottava_graph::{Graph, Uses};
use ottava_hal::{DataType, Node, Shape, ValueId};
use std::collections::BTreeSet;

/// The two operands of a binary node, in both orders.
pub type Orders = [(ValueId, ValueId); 2];

/// A graph with its uses, for questions about what computes a value.
#[derive(Clone, Copy)]
pub struct View<'g> {
    /// The graph.
    pub graph: &'g Graph,
    /// Its edges.
    pub uses: &'g Uses,
}

impl<'g> View<'g> {
    /// The node that computes a value, with its index.
    pub fn producer(self, id: ValueId) -> Option<(usize, &'g Node)> {
        let index = self.uses.producer(id)?;
        Some((index, &self.graph.nodes[index]))
    }

    /// The node that computes a value, if it is the plain operator `op` with that value as its first output.
    pub fn op(self, id: ValueId, op: &str) -> Option<(usize, &'g Node)> {
        self.producer(id).filter(|(_, node)| is(node, op) && is_plain(node) && node.outputs.first() == Some(&id))
    }

    /// Index and operands of the commutative `op` that computes a value.
    pub fn both_orders(self, id: ValueId, op: &str) -> Option<(usize, Orders)> {
        let (index, node) = self.op(id, op)?;
        let (a, b) = (node.input(0)?, node.input(1)?);
        (node.inputs.len() == 2).then_some((index, [(a, b), (b, a)]))
    }

    /// A constant scalar as f64.
    pub fn scalar(self, id: ValueId) -> Option<f64> {
        const_scalar(self.graph, id).map(f64::from)
    }

    /// Whether a value is an f32 tensor without quantization.
    pub fn is_f32(self, id: ValueId) -> bool {
        let ty = self.graph.ty(id);
        ty.dtype == DataType::F32 && ty.quant.is_none()
    }

    /// The shape of a value.
    pub fn shape(self, id: ValueId) -> &'g Shape {
        &self.graph.ty(id).shape
    }

    /// Whether everything that the nodes `inside` compute is read by them and by `root` only: the pattern can go.
    pub fn is_closed(self, inside: &BTreeSet<usize>, root: usize) -> bool {
        let own = |reader: &(usize, usize)| reader.0 == root || inside.contains(&reader.0);
        let outputs = inside.iter().filter(|i| **i != root).flat_map(|i| &self.graph.nodes[*i].outputs);
        outputs.into_iter().all(|id| !self.uses.is_output(*id) && self.uses.readers(*id).iter().all(own))
    }
}

/// Whether nothing is fused into a node.
pub fn is_plain(node: &Node) -> bool {
    node.fused == Default::default()
}

/// Whether a node is scalar arithmetic that a polynomial can follow.
pub fn is_arithmetic(node: &Node) -> bool {
    is_any(node, &["Add", "Sub", "Mul", "Div", "Neg", "Pow"]) && is_plain(node)
}
