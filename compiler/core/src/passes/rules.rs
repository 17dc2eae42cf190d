//! Small questions that many passes ask.

use ottava_graph::{Graph, Patch, Uses};
use ottava_hal::{DataType, Node, QuantParams, Scheme, Tensor, TensorType, Value, ValueId};
use ottava_ops::OTTAVA;
use std::sync::Arc;

/// Operators that only move elements: quantization passes through them unchanged (numerics.md section 4).
pub const MOVERS: &[&str] = &[
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Slice",
    "Split",
    "Gather",
    "Expand",
    "Tile",
    "DepthToSpace",
    "SpaceToDepth",
    "Identity",
];

/// Products of an activation with weights: the operators that accumulate.
pub const PRODUCTS: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// Whether a node is the ONNX operator `op`.
pub fn is(node: &Node, op: &str) -> bool {
    node.domain.is_empty() && node.op == op
}

/// Whether a node is one of several ONNX operators.
pub fn is_any(node: &Node, ops: &[&str]) -> bool {
    node.domain.is_empty() && ops.contains(&node.op.as_str())
}

/// Whether a node is Ottava's own operator `op`.
pub fn is_ottava(node: &Node, op: &str) -> bool {
    node.domain == OTTAVA && node.op == op
}

/// Whether a node has bodies: `inline_control` takes it apart where constants decide it, and nothing else folds it.
pub fn is_control(node: &Node) -> bool {
    node.domain == OTTAVA && matches!(node.op.as_str(), "If" | "Loop" | "Scan")
}

/// Whether quantization commutes with a node: it moves elements, or picks the largest.
pub fn commutes(node: &Node) -> bool {
    let largest = is(node, "MaxPool") && node.outputs.len() == 1 || is(node, "GlobalMaxPool");
    is_any(node, MOVERS) || largest || is_nearest_resize(node)
}

/// Whether a node carries integers from its data inputs (all of a Concat, the first of any other) to its outputs.
pub fn moves_integers(node: &Node) -> bool {
    commutes(node) || is(node, "Concat")
}

fn is_nearest_resize(node: &Node) -> bool {
    let extrapolates = node.attrs.str("coordinate_transformation_mode", "").is_ok_and(|m| m == "tf_crop_and_resize");
    is(node, "Resize") && node.attrs.str("mode", "nearest").is_ok_and(|m| m == "nearest") && !extrapolates
}

/// The node that computes a value, if it is Ottava's `op`.
pub fn made_by<'g>(graph: &'g Graph, uses: &Uses, id: ValueId, op: &str) -> Option<(usize, &'g Node)> {
    let index = uses.producer(id)?;
    let node = &graph.nodes[index];
    is_ottava(node, op).then_some((index, node))
}

/// The typed value behind a `Dequantize`.
pub fn dequantized(graph: &Graph, uses: &Uses, id: ValueId) -> Option<ValueId> {
    made_by(graph, uses, id, "Dequantize").and_then(|(_, node)| node.input(0))
}

/// The one `Quantize` that reads a value; nothing else does.
pub fn only_quantize(graph: &Graph, uses: &Uses, id: ValueId) -> Option<usize> {
    let index = uses.only_reader(id)?;
    is_ottava(&graph.nodes[index], "Quantize").then_some(index)
}

/// A constant `f32` scalar (or tensor of one element).
pub fn const_scalar(graph: &Graph, id: ValueId) -> Option<f32> {
    let data = graph.constant(id)?;
    match data.to_f32s().ok()?.as_slice() {
        [v] if data.dtype().is_float() => Some(*v),
        _ => None,
    }
}

/// Parameters of a Q/DQ node whose scale and zero point are constant. `storage` is the integer type, `shape` that of
/// the tensor. `None` where they are not constant or not usable as a type.
pub fn constant_params(graph: &Graph, node: &Node, storage: DataType, shape: &[Option<usize>]) -> Option<QuantParams> {
    let scale = graph.constant(node.input(1)?)?;
    let scales = scale.to_f32s().ok()?;
    let zero_points: Vec<i32> = match node.input(2) {
        Some(id) => graph.constant(id)?.to_ints().ok()?.into_iter().map(|z| z as i32).collect(),
        None => vec![0],
    };
    let zero_points = if let [z] = zero_points[..] { vec![z; scales.len()] } else { zero_points };
    let block = node.attrs.int("block_size", 0).ok()?;
    let axis = || ottava_ops::util::axis(node.attrs.int("axis", 1).ok()?, shape.len()).ok();
    let scheme = match (scale.shape().len(), scales.len()) {
        _ if block > 0 => Scheme::Blocked { axis: axis()?, block: block as usize },
        (0, _) | (1, 1) => Scheme::PerTensor,
        (1, _) => Scheme::PerAxis { axis: axis()? },
        _ => return None,
    };
    let params = QuantParams { scheme, scales, zero_points };
    let known: Option<Vec<usize>> = shape.iter().copied().collect();
    params.check(storage, known.as_deref()).ok()?;
    Some(params)
}

/// The extents of a value, `None` where symbolic.
pub fn extents(ty: &TensorType) -> Vec<Option<usize>> {
    ty.shape.0.iter().map(ottava_hal::Dim::known).collect()
}

/// A typed value.
pub fn typed(name: String, ty: &TensorType, dtype: DataType, params: Arc<QuantParams>) -> Value {
    Value { name, ty: TensorType { dtype, quant: Some(params), ..ty.clone() }, constant: None }
}

/// Adds a plain constant to a patch.
pub fn patch_const(patch: &mut Patch, name: String, data: Tensor) -> ValueId {
    patch.value(Value { name, ty: data.ty(), constant: Some(data) })
}

/// A name that neither the graph nor the patch has.
pub fn fresh(graph: &Graph, patch: &Patch, base: &str) -> String {
    let mut name = graph.fresh_name(base);
    let mut i = 0;
    while patch.values.iter().any(|v| v.name == name) || patch.insert.iter().any(|n| n.name == name) {
        i += 1;
        name = graph.fresh_name(&format!("{base}_{i}"));
    }
    name
}
