//! Twins: a node whose 8-bit activations are stored with the other sign (numerics.md section 4, the XOR bridge).
//!
//! u8 and s8 with the zero point moved by 128 stand for the same real numbers, and XOR 0x80 turns one into the other.
//! A node all of whose 8-bit activations are re-typed so computes the same accumulators and the same real results:
//! weights stay as they are, clamps move by 128, tables are indexed anew. It holds for operators that read integers
//! only as `q - zp` and write them only as `sat(.. + zp)`, or move them; [`may_shift`] lists these. A zero point that
//! is added before rounding, and the Q31 averages that divide raw sums, do not qualify.

use crate::passes::rules::{MOVERS, PRODUCTS};
use ottava_graph::Graph;
use ottava_hal::{DataType, Node, Program, QuantParams, RequantMode, Result, Tensor, TensorType, Value, ValueId};
use ottava_ops::{OTTAVA, QuantRule};
use std::collections::BTreeMap;

/// How a node's 8-bit activations are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// As the graph says.
    Native,
    /// All as s8.
    Signed,
    /// All as u8.
    Unsigned,
}

impl Form {
    /// The forms that are not the graph's own.
    pub const TWINS: [Self; 2] = [Self::Signed, Self::Unsigned];

    /// The storage of 8-bit activations; `None` for the graph's own.
    pub fn storage(self) -> Option<DataType> {
        match self {
            Self::Native => None,
            Self::Signed => Some(DataType::S8),
            Self::Unsigned => Some(DataType::U8),
        }
    }

    /// Whether a value of this native storage has the other sign under the form.
    pub fn flips(self, native: DataType) -> bool {
        self.storage().is_some_and(|s| s != native)
    }
}

/// A node with the values that differ from the graph's, under the graph's ids.
pub(super) struct Twin {
    /// The node; its operands have the ids of the graph.
    pub node: Node,
    /// Values with another type, and constants with other data.
    pub values: BTreeMap<ValueId, Value>,
}

/// Operators besides products and movers whose integers may be shifted.
const SHIFTABLE: &[&str] = &[
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Relu",
    "Clip",
    "Concat",
    "MaxPool",
    "GlobalMaxPool",
    "AveragePool",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "Resize",
    "Softmax",
];

/// Whether shifted storage leaves the results of a node as they are.
fn may_shift(node: &Node) -> bool {
    let fp32 = node.requant.is_none_or(|m| m == RequantMode::Fp32Rne);
    let op = node.op.as_str();
    if node.fused.zp_before_round {
        return false;
    }
    if node.domain == OTTAVA {
        return matches!(op, "Quantize" | "Dequantize" | "Requantize" | "Lut");
    }
    let unary = || ottava_ops::lookup(&node.domain, op).is_ok_and(|o| matches!(o.quant_rule(node), QuantRule::Unary));
    let listed = MOVERS.contains(&op) || SHIFTABLE.contains(&op);
    node.domain.is_empty() && (PRODUCTS.contains(&op) || fp32 && (listed || unary()))
}

/// Whether a type may have the other sign: 8-bit, one scale.
pub(super) fn shiftable(ty: &TensorType) -> bool {
    let byte = matches!(ty.dtype, DataType::U8 | DataType::S8);
    byte && ty.quant.as_deref().and_then(QuantParams::as_per_tensor).is_some()
}

/// The type with the other sign.
pub(super) fn shifted(ty: &TensorType) -> TensorType {
    let (dtype, by) = match ty.dtype {
        DataType::U8 => (DataType::S8, -128),
        _ => (DataType::U8, 128),
    };
    let quant = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
    let plain = TensorType { dtype, quant: None, ..ty.clone() };
    match quant {
        Some((scale, zp)) => plain.quantized(QuantParams::per_tensor(scale, zp + by)),
        None => plain,
    }
}

/// The twin of a node in a form; `None` if the form is the graph's own or the operator does not allow it.
pub(super) fn twin(graph: &Graph, index: usize, form: Form) -> Result<Option<Twin>> {
    let mut node = graph.nodes[index].clone();
    let Some(storage) = form.storage().filter(|_| may_shift(&node)) else { return Ok(None) };
    let product = node.domain.is_empty() && PRODUCTS.contains(&node.op.as_str());
    let flips = |id: ValueId| {
        let ty = graph.ty(id);
        let weight = product && graph.constant(id).is_some();
        shiftable(ty) && ty.dtype != storage && !weight
    };
    let mut values = BTreeMap::new();
    for id in node.inputs.iter().flatten().chain(&node.outputs).copied().filter(|id| flips(*id)) {
        let value = graph.value(id);
        let ty = shifted(&value.ty);
        let constant = value.constant.as_ref().map(|data| xor(data, ty.dtype)).transpose()?;
        values.insert(id, Value { name: value.name.clone(), ty, constant });
    }
    if values.is_empty() {
        return Ok(None);
    }
    let flipped_out = node.outputs.first().is_some_and(|id| values.contains_key(id));
    if let Some((lo, hi)) = node.fused.clamp.filter(|_| flipped_out) {
        let by = if storage == DataType::S8 { -128 } else { 128 };
        node.fused.clamp = Some((lo.saturating_add(by), hi.saturating_add(by)));
    }
    if node.domain == OTTAVA && node.op == "Lut" {
        match table(graph, &node, &values)? {
            Some((id, value)) => values.insert(id, value),
            None => return Ok(None),
        };
    }
    Ok(Some(Twin { node, values }))
}

/// The table of a Lut for the other sign of its input, its output, or both.
fn table(graph: &Graph, node: &Node, flipped: &BTreeMap<ValueId, Value>) -> Result<Option<(ValueId, Value)>> {
    let (Some(x), Some(id), Some(out)) = (node.input(0), node.input(1), node.outputs.first()) else { return Ok(None) };
    let value = graph.value(id);
    let Some(data) = value.constant.as_ref().filter(|t| t.elements() == 256) else { return Ok(None) };
    let width = data.bytes().len() / 256;
    let entry = |i: usize| data.bytes().get(i * width..(i + 1) * width).unwrap_or_default();
    let mask = if flipped.contains_key(&x) { 0x80 } else { 0 };
    let bytes: Vec<u8> = (0..256).flat_map(|i| entry(i ^ mask).iter().copied()).collect();
    let moved = Tensor::from_bytes(data.dtype(), data.shape(), &bytes)?;
    let data = match flipped.get(out) {
        Some(y) => xor(&moved, y.ty.dtype)?,
        None => moved,
    };
    Ok(Some((id, Value { name: value.name.clone(), ty: data.ty(), constant: Some(data) })))
}

/// The bytes with the other sign.
fn xor(data: &Tensor, dtype: DataType) -> Result<Tensor> {
    let bytes = Tensor::collect(data.bytes().iter().map(|b| b ^ 0x80))?;
    Tensor::from_bytes(dtype, data.shape(), &bytes)
}

/// A node alone as a program; `changed` holds values that differ from the graph's.
pub(super) fn solo(graph: &Graph, node: &Node, changed: &BTreeMap<ValueId, Value>) -> Program {
    let mut program = Program { name: node.name.clone(), ..Program::default() };
    let mut node = node.clone();
    let mut ids: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for id in node.inputs.iter_mut().flatten() {
        let value = changed.get(id).unwrap_or_else(|| graph.value(*id));
        let next = ValueId(program.values.len());
        let new = *ids.entry(*id).or_insert(next);
        if new == next {
            program.values.push(value.clone());
            if value.constant.is_none() {
                program.inputs.push(new);
            }
        }
        *id = new;
    }
    for id in &mut node.outputs {
        let value = changed.get(id).unwrap_or_else(|| graph.value(*id));
        program.values.push(value.clone());
        *id = ValueId(program.values.len() - 1);
    }
    program.outputs = node.outputs.clone();
    program.nodes = vec![node];
    program
}
