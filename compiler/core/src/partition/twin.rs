//! Twins: a node with its activations in another representation, that computes the same bits.
//!
//! *The other sign* (numerics.md section 4, the XOR bridge). u8 and s8 with the zero point moved by 128 stand for the same
//! real numbers. A node all of whose 8-bit activations are re-typed so computes the same accumulators and the same real
//! results: weights stay as they are, clamps move by 128, tables are indexed anew. It holds for operators that read
//! integers only as `q - zp` and write them only as `sat(.. + zp)`, or move them; [`may_shift`] lists these. A zero
//! point that is added before rounding, and the Q31 averages that divide raw sums, do not qualify.
//!
//! *Real numbers.* The quantized `+ - * /` is the f32 sequence itself: dequantize, one f32 operation, quantize. These
//! four are exact in f32 on every device (numerics.md section 7), so a device that only has floats runs them between
//! conversions. Operators with a float tolerance do not qualify.

use super::repr::{Repr, is_activation, shift, shiftable, shifted};
use crate::passes::rules::{MOVERS, PRODUCTS};
use ottava_graph::Graph;
use ottava_hal::{DataType, Fused, Node, Program, RequantMode, Result, Tensor, TensorType, Value, ValueId};
use ottava_ops::{OTTAVA, QuantRule};
use std::collections::BTreeMap;

/// How a node holds its activations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    /// As the graph says.
    Native,
    /// 8-bit ones as s8.
    Signed,
    /// 8-bit ones as u8.
    Unsigned,
    /// As f32, between Dequantize and Quantize.
    Real,
}

impl Form {
    /// Every form.
    pub const ALL: [Self; 4] = [Self::Native, Self::Signed, Self::Unsigned, Self::Real];
    /// The forms that are not the graph's own.
    pub const TWINS: [Self; 3] = [Self::Signed, Self::Unsigned, Self::Real];

    /// The type that a twin is named after; `None` for the graph's own form.
    pub fn storage(self) -> Option<DataType> {
        match self {
            Self::Native => None,
            Self::Signed => Some(DataType::S8),
            Self::Unsigned => Some(DataType::U8),
            Self::Real => Some(DataType::F32),
        }
    }

    /// How a node of this form reads an activation of a type.
    pub fn reads(self, ty: &TensorType) -> Repr {
        match self.storage() {
            None => Repr::Home,
            Some(DataType::F32) => Repr::Real,
            Some(storage) if shiftable(ty) && ty.dtype != storage => Repr::Shifted,
            Some(_) => Repr::Home,
        }
    }

    /// How a node of this form leaves an activation of a type.
    pub fn writes(self, ty: &TensorType) -> Repr {
        match self.reads(ty) {
            Repr::Real => Repr::Raw,
            other => other,
        }
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

/// Operators whose f32 form is exact and is the meaning of the quantized one.
const ARITHMETIC: &[&str] = &["Add", "Sub", "Mul", "Div"];

/// Whether a quantized result is rescaled in f32, or not at all.
fn is_fp32(node: &Node) -> bool {
    node.requant.is_none_or(|m| m == RequantMode::Fp32Rne)
}

/// Whether shifted storage leaves the results of a node as they are.
fn may_shift(node: &Node) -> bool {
    let fp32 = is_fp32(node);
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

/// Whether a node has 8-bit values besides constants that stand for no real numbers with one scale: bytes that are moved
/// as they are have no other sign.
fn moves_raw_bytes(graph: &Graph, node: &Node) -> bool {
    let values = node.inputs.iter().flatten().chain(&node.outputs);
    let raw = |id: &ValueId| {
        let ty = graph.ty(*id);
        matches!(ty.dtype, DataType::U8 | DataType::S8) && !shiftable(ty) && graph.constant(*id).is_none()
    };
    values.into_iter().any(raw)
}

/// The twin of a node in a form; `None` if the form is the graph's own or the operator does not allow it.
pub(super) fn twin(graph: &Graph, index: usize, form: Form) -> Result<Option<Twin>> {
    match form.storage() {
        None => Ok(None),
        Some(DataType::F32) => real(graph, graph.nodes[index].clone()),
        Some(storage) => signed(graph, graph.nodes[index].clone(), storage),
    }
}

/// The twin whose 8-bit activations have this storage.
fn signed(graph: &Graph, mut node: Node, storage: DataType) -> Result<Option<Twin>> {
    if !may_shift(&node) || moves_raw_bytes(graph, &node) {
        return Ok(None);
    }
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
    if let Some(out) = node.outputs.first().filter(|id| values.contains_key(id)) {
        let by = shift(graph.ty(*out).dtype);
        node.fused.clamp = node.fused.clamp.map(|(lo, hi)| (lo.saturating_add(by), hi.saturating_add(by)));
    }
    if node.domain == OTTAVA && node.op == "Lut" {
        match table(graph, &node, &values)? {
            Some((id, value)) => values.insert(id, value),
            None => return Ok(None),
        };
    }
    Ok(Some(Twin { node, values }))
}

/// The twin on real numbers. The clamp of a quantized result is applied by the bridge that quantizes it.
fn real(graph: &Graph, mut node: Node) -> Result<Option<Twin>> {
    let float = node.domain.is_empty() && ARITHMETIC.contains(&node.op.as_str()) && is_fp32(&node);
    let plain = Fused { clamp: node.fused.clamp, ..Fused::default() } == node.fused;
    let quantized_out = node.outputs.iter().all(|id| is_activation(graph, *id));
    if !float || !plain || !quantized_out {
        return Ok(None);
    }
    let mut values = BTreeMap::new();
    for id in node.inputs.iter().flatten().chain(&node.outputs).copied() {
        let value = graph.value(id);
        let Some(params) = value.ty.quant.as_deref() else { continue };
        if value.constant.is_none() && !is_activation(graph, id) {
            return Ok(None);
        }
        let constant = value.constant.as_ref().map(|data| ottava_ops::dequantize(data, params)).transpose()?;
        values.insert(id, Value { name: value.name.clone(), ty: Repr::Real.ty(&value.ty), constant });
    }
    node.fused = Fused::default();
    node.requant = None;
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
