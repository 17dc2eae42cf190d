//! A node in front of a Transpose instead of behind it: operands, axes and pads renamed.
//!
//! `T(x)` has axis `p[j]` of `x` as its axis `j`. A node behind it that names axis `j` names `p[j]` in front of it; a
//! constant that broadcasts to the transposed shape is transposed by the inverse.

use super::rules::{fresh, is, is_any, patch_const};
use ottava_graph::{Attr, Graph, Patch, Result};
use ottava_hal::{Node, Shape, Tensor, TensorType, Value, ValueId};

/// What an input of the node is.
pub enum Operand {
    /// A Transpose of this value.
    Transposed {
        /// The value in front of the Transpose.
        source: ValueId,
    },
    /// A constant that broadcasts.
    Constant(ValueId),
    /// A parameter of the operator, as it is.
    Parameter,
}

/// The node in front of the Transpose.
pub struct Permuted {
    node: Node,
    /// New constants by input slot.
    constants: Vec<(usize, Tensor)>,
    /// The Transpose behind it; empty where none is left to do.
    after: Vec<usize>,
}

impl Permuted {
    /// Renames the axes of a node, if it can be understood.
    pub fn of(graph: &Graph, node: &Node, order: &[usize], operands: Vec<Option<Operand>>) -> Result<Option<Self>> {
        let mut permuted = Self { node: node.clone(), constants: Vec::new(), after: order.to_vec() };
        for (slot, operand) in operands.into_iter().enumerate() {
            match operand {
                Some(Operand::Transposed { source }) => permuted.node.inputs[slot] = Some(source),
                Some(Operand::Constant(id)) => {
                    let Some(data) = graph.constant(id) else { return Ok(None) };
                    match moved_constant(data, order, is(node, "Concat"))? {
                        Some(moved) => permuted.constants.push((slot, moved)),
                        None if data.elements() == 1 && data.shape().len() <= order.len() => {}
                        None => return Ok(None),
                    }
                }
                Some(Operand::Parameter) | None => {}
            }
        }
        let renamed = permuted.rename_axis(graph, order)? && permuted.rename_parameters(graph, order)?;
        Ok(renamed.then_some(permuted))
    }

    /// Whether no Transpose is left to do behind the node.
    pub fn ends_here(&self) -> bool {
        self.after.iter().copied().eq(0..self.after.len())
    }

    /// The `axis` attribute, where the operator has one.
    fn rename_axis(&mut self, graph: &Graph, order: &[usize]) -> Result<bool> {
        let default = match self.node.op.as_str() {
            "Softmax" | "LogSoftmax" if self.node.version >= 13 => -1,
            "Softmax" | "LogSoftmax" => return Ok(false),
            "Concat" => 0,
            "QuantizeLinear" | "DequantizeLinear" => {
                let rank = self.node.input(1).map_or(0, |id| graph.ty(id).shape.rank());
                match rank {
                    0 => return Ok(true),
                    1 if self.node.attrs.int("block_size", 0)? == 0 => 1,
                    _ => return Ok(false),
                }
            }
            _ => return Ok(true),
        };
        let named = self.node.attrs.int("axis", default)?;
        let Ok(axis) = ottava_ops::util::axis(named, order.len()) else { return Ok(false) };
        self.node.attrs.set("axis", Attr::Int(order[axis] as i64));
        Ok(true)
    }

    /// Inputs that name axes.
    fn rename_parameters(&mut self, graph: &Graph, order: &[usize]) -> Result<bool> {
        if is(&self.node, "Pad") {
            return self.rename_pads(graph, order);
        }
        if !is_any(&self.node, &["ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"]) {
            return Ok(true);
        }
        let Some(axes) = self.node.input(1).and_then(|id| graph.constant(id)) else { return Ok(false) };
        let axes: Result<Vec<usize>> =
            axes.to_ints()?.into_iter().map(|a| ottava_ops::util::axis(a, order.len())).collect();
        let Ok(axes) = axes else { return Ok(false) };
        let mut moved: Vec<i64> = axes.iter().map(|a| order[*a] as i64).collect();
        // A sum over several axes takes its terms in the order of the axes.
        let ordered = axes.windows(2).all(|w| w[0] < w[1]) && moved.windows(2).all(|w| w[0] < w[1]);
        if axes.is_empty() || !ordered && !is_any(&self.node, &["ReduceMax", "ReduceMin"]) {
            return Ok(false);
        }
        moved.sort_unstable();
        self.constants.push((1, Tensor::from_slice(&[moved.len()], &moved)?));
        if self.node.attrs.int("keepdims", 1)? == 0 {
            let kept = |a: &usize| !moved.contains(&(*a as i64));
            let rest: Vec<usize> = order.iter().copied().filter(kept).collect();
            let rank_of = |a: usize| rest.iter().filter(|b| **b < a).count();
            self.after = rest.iter().map(|a| rank_of(*a)).collect();
        }
        Ok(true)
    }

    fn rename_pads(&mut self, graph: &Graph, order: &[usize]) -> Result<bool> {
        let pads = self.node.input(1).and_then(|id| graph.constant(id)).map(Tensor::to_ints).transpose()?;
        let n = order.len();
        let Some(pads) = pads.filter(|p| p.len() == 2 * n && self.node.input(3).is_none()) else { return Ok(false) };
        let mut moved = vec![0i64; 2 * n];
        for (j, axis) in order.iter().enumerate() {
            (moved[*axis], moved[n + axis]) = (pads[j], pads[n + j]);
        }
        self.constants.push((1, Tensor::from_slice(&[2 * n], &moved)?));
        Ok(true)
    }

    /// Puts the node in front of its Transpose.
    pub fn patch(mut self, graph: &Graph, index: usize) -> Result<Patch> {
        let mut patch = Patch::new(graph);
        patch.remove.push(index);
        for (slot, data) in std::mem::take(&mut self.constants) {
            let name = fresh(graph, &patch, &format!("{}_permuted", self.node.name));
            self.node.inputs[slot] = Some(patch_const(&mut patch, name, data));
        }
        if self.ends_here() {
            patch.insert.push(self.node);
            return Ok(patch);
        }
        let y = self.node.outputs[0];
        let name = fresh(graph, &patch, &format!("{}_permuted", graph.name_of(y)));
        let ty = unpermuted(graph.ty(y), &self.after);
        let inner = patch.value(Value { name, ty, constant: None });
        let mut after = Node::new(fresh(graph, &patch, &format!("{}_transpose", self.node.name)), "Transpose", 13);
        after.attrs.set("perm", Attr::Ints(self.after.iter().map(|a| *a as i64).collect()));
        after.inputs = vec![Some(inner)];
        after.outputs = vec![y];
        self.node.outputs = vec![inner];
        patch.insert.extend([self.node, after]);
        Ok(patch)
    }
}

/// The type in front of a Transpose whose result has type `ty`.
fn unpermuted(ty: &TensorType, order: &[usize]) -> TensorType {
    let mut dims = ty.shape.0.clone();
    for (dim, axis) in ty.shape.0.iter().zip(order) {
        if let Some(slot) = dims.get_mut(*axis) {
            *slot = dim.clone();
        }
    }
    TensorType { shape: Shape(dims), ..ty.clone() }
}

/// A constant that broadcasts behind the Transpose, as it broadcasts in front of it. Only one axis may be longer than 1
/// (then its data stays as it is), and a Concat needs the whole shape.
fn moved_constant(data: &Tensor, order: &[usize], whole: bool) -> Result<Option<Tensor>> {
    let (rank, shape) = (order.len(), data.shape());
    let Some(missing) = rank.checked_sub(shape.len()).filter(|m| !whole || *m == 0) else { return Ok(None) };
    if shape.iter().filter(|d| **d != 1).count() != 1 {
        return Ok(None);
    }
    let mut moved = vec![1; rank];
    shape.iter().enumerate().for_each(|(j, d)| moved[order[missing + j]] = *d);
    data.reshaped(&moved).map(Some)
}
