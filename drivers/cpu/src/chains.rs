//! Which elementwise f32 nodes are computed together, in one pass over memory.
//!
//! A chain has a root, whose value is stored. A value is *inside* the chain of a root if every path from it leads through
//! elementwise nodes of the same extents to that root and nothing else needs it; then no memory holds it. Dequantize is so
//! cheap that it may be inside several chains at once. Nothing is reordered, so results are those of the single nodes.

use ottava_hal::{DataType, Node, Program, TensorType, ValueId};
use ottava_kernels::Chain;

/// The chains of a program.
pub(crate) struct Chains {
    /// Per value: it is inside a chain.
    inside: Vec<bool>,
    /// Per value: the node that makes it.
    maker: Vec<Option<usize>>,
}

/// Operators of one f32.
const UNARY: [&str; 16] = [
    "Relu",
    "Clip",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Erf",
    "Sqrt",
    "Log",
    "Abs",
    "Neg",
    "Reciprocal",
    "Swish",
    "Gelu",
];
const BINARY: [&str; 4] = ["Add", "Sub", "Mul", "Div"];

/// Whether a type is plain f32.
fn is_float(ty: &TensorType) -> bool {
    ty.dtype == DataType::F32 && ty.quant.is_none()
}

/// Whether a node is Dequantize.
pub(crate) fn is_dequantize(node: &Node) -> bool {
    node.op == "Dequantize" && node.domain == "ottava"
}

/// Whether a node is Quantize.
pub(crate) fn is_quantize(node: &Node) -> bool {
    node.op == "Quantize" && node.domain == "ottava"
}

/// Operands that a chain combines, if the node can be part of one.
pub(crate) fn operands<'n>(program: &Program, node: &'n Node) -> Option<&'n [Option<ValueId>]> {
    let plain = |id: &Option<ValueId>| id.is_some_and(|id| is_float(program.ty(id)));
    let n = match node.op.as_str() {
        "Quantize" | "Dequantize" if node.domain == "ottava" => 1,
        op if node.domain.is_empty() && UNARY.contains(&op) => 1,
        op if node.domain.is_empty() && BINARY.contains(&op) => 2,
        _ => return None,
    };
    let own = node.inputs.get(..n)?;
    let to_float = is_quantize(node) || node.outputs.iter().all(|id| is_float(program.ty(*id)));
    (to_float && (is_dequantize(node) || own.iter().all(plain))).then_some(own)
}

impl Chains {
    /// Finds the chains of a program whose nodes are in order.
    pub(crate) fn of(program: &Program) -> Self {
        let n = program.values.len();
        let mut maker = vec![None; n];
        let mut readers: Vec<Vec<usize>> = vec![vec![]; n];
        for (i, node) in program.nodes.iter().enumerate() {
            node.outputs.iter().for_each(|id| maker[id.0] = Some(i));
            node.inputs.iter().flatten().for_each(|id| readers[id.0].push(i));
        }
        let mut search =
            Search { program, readers, roots: vec![vec![]; program.nodes.len()], size: vec![0; program.nodes.len()] };
        let mut inside = vec![false; n];
        for i in (0..program.nodes.len()).rev() {
            if search.joins(i) {
                inside[program.nodes[i].outputs[0].0] = true;
            }
        }
        Self { inside, maker }
    }

    /// Whether no memory holds the value.
    pub(crate) fn is_inside(&self, id: ValueId) -> bool {
        self.inside[id.0]
    }

    /// The node that makes a value inside a chain.
    pub(crate) fn maker<'p>(&self, program: &'p Program, id: ValueId) -> Option<&'p Node> {
        self.maker[id.0].filter(|_| self.inside[id.0]).map(|i| &program.nodes[i])
    }
}

/// The search, from the last node to the first.
struct Search<'p> {
    program: &'p Program,
    /// Per value.
    readers: Vec<Vec<usize>>,
    /// Per node: the roots of the chains that it is part of; itself if it is one.
    roots: Vec<Vec<usize>>,
    /// Per root: values in its chain, at most.
    size: Vec<usize>,
}

impl Search<'_> {
    /// Whether the node is inside the chains of later nodes. Otherwise it becomes a root.
    fn joins(&mut self, i: usize) -> bool {
        let node = &self.program.nodes[i];
        let Some(own) = operands(self.program, node) else { return false };
        // The node itself, and its operands if they turn out to be loads or constants.
        let values = 1 + own.len();
        if let Some(roots) = self.later_roots(node)
            && roots.iter().all(|r| self.size[*r] + values <= Chain::MAX_LIVE)
        {
            roots.iter().for_each(|r| self.size[*r] += values);
            self.roots[i] = roots;
            return true;
        }
        self.roots[i] = vec![i];
        self.size[i] = values;
        false
    }

    /// The roots of all readers, if the node's value can be inside their chains.
    fn later_roots(&self, node: &Node) -> Option<Vec<usize>> {
        let [id] = node.outputs[..] else { return None };
        if is_quantize(node) || self.program.outputs.contains(&id) || self.readers[id.0].is_empty() {
            return None;
        }
        let mut roots = vec![];
        for &reader in &self.readers[id.0] {
            let node = &self.program.nodes[reader];
            let own = operands(self.program, node).filter(|_| !is_dequantize(node))?;
            let places = node.inputs.iter().filter(|x| **x == Some(id)).count();
            let as_operand = own.iter().filter(|x| **x == Some(id)).count() == places;
            let same = self.program.ty(node.outputs[0]).shape == self.program.ty(id).shape;
            if !as_operand || !same {
                return None;
            }
            roots.extend(&self.roots[reader]);
        }
        roots.sort_unstable();
        roots.dedup();
        (roots.len() == 1 || is_dequantize(node)).then_some(roots)
    }
}
