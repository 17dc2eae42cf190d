//! Additive masks before Softmax and masked means become a boolean operand (numerics.md section 4): between Dequantize and
//! Quantize the nodes are `ottava::MaskedSoftmax` and `ottava::MaskedMean`.
//!
//! A mask is computed of integers or booleans; read as flags it leaves no float behind. A note says so for every node,
//! because a mask that holds other numbers than 0 and 1 would mean something else in float.

use super::rules::{dequantized, fresh, only_quantize, patch_const};
use crate::Cx;
use ottava_graph::masks::{self, Flag};
use ottava_graph::{Attr, Diagnostic, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Node, QuantParams, Tensor, TensorType, Value, ValueId};
use ottava_ops::OTTAVA;

/// Runs the pass.
pub fn run(graph: &mut Graph, cx: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "mask_rows", |graph, uses, index| {
        let patch = match graph.nodes[index].op.as_str() {
            "Softmax" => softmax(graph, uses, index)?,
            "Div" => mean(graph, uses, index)?,
            _ => None,
        };
        if patch.is_some() {
            let message = "its mask is read as flags: an element counts where the mask is not 0";
            cx.diagnostics.push(Diagnostic::note("Q0405", &graph.nodes[index].name, message));
        }
        Ok(patch)
    })?;
    Ok(n + graph.remove_dead())
}

fn softmax(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let Some(found) = masks::masked_softmax(graph, uses, index) else { return Ok(None) };
    let node = &graph.nodes[index];
    let rank = graph.ty(node.outputs[0]).shape.rank() as i64;
    let axis = node.attrs.int("axis", if node.version < 13 { 1 } else { -1 })?;
    let (x, last) = (graph.nodes[found.add].input(found.slot), axis == -1 || axis == rank - 1);
    let (Some(ends), true) = (Ends::of(graph, uses, x, node.outputs[0], &[8]), last) else { return Ok(None) };
    let mut patch = Patch::new(graph);
    patch.remove = vec![found.add, index, ends.quantize];
    let masked = Node::new(node.name.clone(), "MaskedSoftmax", 1);
    ends.finish(graph, patch, masked, found.keep).map(Some)
}

fn mean(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let Some(found) = masks::masked_mean(graph, uses, index) else { return Ok(None) };
    let node = &graph.nodes[index];
    let x = graph.nodes[found.mul].input(found.slot);
    let Some(ends) = Ends::of(graph, uses, x, node.outputs[0], &[8, 16]) else { return Ok(None) };
    let mut patch = Patch::new(graph);
    patch.remove = vec![found.mul, found.sum, index, ends.quantize];
    let mut masked = Node::new(node.name.clone(), "MaskedMean", 1);
    masked.attrs.set("axis", Attr::Int(found.axis as i64));
    masked.attrs.set("keepdims", Attr::Int(found.keepdims.into()));
    masked.requant = Some(ottava_hal::RequantMode::Fp32Rne);
    ends.finish(graph, patch, masked, found.keep).map(Some)
}

/// The typed values on both sides of what becomes one node.
struct Ends {
    x: ValueId,
    quantize: usize,
}

impl Ends {
    /// `x` comes out of Dequantize and `y` only goes into Quantize, both per tensor in so many bits.
    fn of(graph: &Graph, uses: &Uses, x: Option<ValueId>, y: ValueId, bits: &[usize]) -> Option<Self> {
        let x = dequantized(graph, uses, x?)?;
        let quantize = only_quantize(graph, uses, y)?;
        let fits = |ty: &TensorType| {
            let per_tensor = ty.quant.as_deref().and_then(QuantParams::as_per_tensor).is_some();
            per_tensor && bits.contains(&ty.dtype.bits())
        };
        (fits(graph.ty(x)) && fits(graph.ty(graph.nodes[quantize].outputs[0]))).then_some(Self { x, quantize })
    }

    fn finish(&self, graph: &Graph, mut patch: Patch, mut node: Node, keep: Flag) -> Result<Patch> {
        let quantize = &graph.nodes[self.quantize];
        node.domain = OTTAVA.into();
        node.inputs = vec![Some(self.x), Some(keep_value(graph, &mut patch, &node.name, keep)?)];
        node.outputs = quantize.outputs.clone();
        node.fused.clamp = quantize.fused.clamp;
        patch.insert.push(node);
        Ok(patch)
    }
}

/// The value that is not 0 where an element counts.
fn keep_value(graph: &Graph, patch: &mut Patch, base: &str, keep: Flag) -> Result<ValueId> {
    if !keep.inverted {
        return Ok(keep.value);
    }
    let source = graph.ty(keep.value);
    let name = fresh(graph, patch, &format!("{base}_keep"));
    let ty = TensorType { dtype: DataType::Bool, ..source.clone() };
    let out = patch.value(Value { name: name.clone(), ty, constant: None });
    let mut node = Node::new(name, "Not", 13);
    node.inputs = vec![Some(keep.value)];
    if source.dtype != DataType::Bool {
        let zero_name = fresh(graph, patch, &format!("{base}_zero"));
        let zero = patch_const(patch, zero_name, Tensor::from_ints(source.dtype, &[], &[0])?);
        node.op = "Equal".into();
        node.inputs.push(Some(zero));
    }
    node.outputs = vec![out];
    patch.insert.push(node);
    Ok(out)
}
