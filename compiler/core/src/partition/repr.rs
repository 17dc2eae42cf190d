//! How an activation can be represented, and the bridges between representations.
//!
//! ```text
//! Shifted <--Requantize--> Home <--Quantize-- Raw       (Raw: a real result that is not rounded yet)
//!    |                      |
//!    +------Dequantize------+--> Real                   (Real: the real numbers that the integers stand for)
//! ```
//!
//! `Raw` and `Real` are different things: a reader of `Real` must see rounded numbers, so the way from the one to the
//! other leads through integers. Every arrow is exact by numerics.md sections 2 and 4.

use ottava_graph::Graph;
use ottava_hal::{DataType, Node, Program, QuantParams, TensorType, Value, ValueId};
use ottava_ops::OTTAVA;

/// How a device holds an activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Repr {
    /// As the graph says.
    Home,
    /// 8-bit integers of the other sign.
    Shifted,
    /// The real numbers that the integers stand for, f32.
    Real,
    /// A real result that its Quantize has not rounded yet, f32.
    Raw,
}

impl Repr {
    /// The arrows of the module's picture.
    pub const BRIDGES: [(Self, Self); 6] = [
        (Self::Home, Self::Shifted),
        (Self::Shifted, Self::Home),
        (Self::Home, Self::Real),
        (Self::Shifted, Self::Real),
        (Self::Raw, Self::Home),
        (Self::Raw, Self::Shifted),
    ];

    /// The type of a value of the graph in this representation.
    pub fn ty(self, home: &TensorType) -> TensorType {
        match self {
            Self::Home => home.clone(),
            Self::Shifted => shifted(home),
            Self::Real | Self::Raw => TensorType { dtype: DataType::F32, quant: None, ..home.clone() },
        }
    }
}

/// The scale and zero point of a type that stands for real numbers with one scale, in at most 16 bits.
fn params(ty: &TensorType) -> Option<(f32, i32)> {
    ty.quant.as_deref().and_then(QuantParams::as_per_tensor).filter(|_| ty.dtype.bits() <= 16)
}

/// Whether a value is an activation that has other representations.
pub(super) fn is_activation(graph: &Graph, id: ValueId) -> bool {
    graph.constant(id).is_none() && params(graph.ty(id)).is_some()
}

/// Whether a type may have the other sign: 8-bit, one scale.
pub(super) fn shiftable(ty: &TensorType) -> bool {
    matches!(ty.dtype, DataType::U8 | DataType::S8) && params(ty).is_some()
}

/// The type with the other sign.
pub(super) fn shifted(ty: &TensorType) -> TensorType {
    let (dtype, by) = match ty.dtype {
        DataType::U8 => (DataType::S8, -128),
        _ => (DataType::U8, 128),
    };
    let plain = TensorType { dtype, quant: None, ..ty.clone() };
    match params(ty) {
        Some((scale, zp)) => plain.quantized(QuantParams::per_tensor(scale, zp + by)),
        None => plain,
    }
}

/// By how much integers move when a value of this storage gets the other sign.
pub(super) fn shift(storage: DataType) -> i32 {
    if storage == DataType::U8 { -128 } else { 128 }
}

/// The node that brings a value from one representation to another. `clamp` holds the bounds of the value's producer,
/// which the Quantize of a raw result applies.
pub(super) fn bridge(name: String, ids: (ValueId, ValueId), way: (Repr, Repr), home: DataType, clamp: Clamp) -> Node {
    let op = match way {
        (Repr::Raw, _) => "Quantize",
        (_, Repr::Real | Repr::Raw) => "Dequantize",
        _ => "Requantize",
    };
    let mut node = Node::new(name, op, 1);
    node.domain = OTTAVA.into();
    node.inputs = vec![Some(ids.0)];
    node.outputs = vec![ids.1];
    node.fused.clamp = match way {
        (Repr::Raw, Repr::Shifted) => {
            clamp.map(|(lo, hi)| (lo.saturating_add(shift(home)), hi.saturating_add(shift(home))))
        }
        (Repr::Raw, _) => clamp,
        _ => None,
    };
    node
}

/// Bounds of a quantized result.
pub(super) type Clamp = Option<(i32, i32)>;

/// A bridge alone as a program.
pub(super) fn bridge_program(graph: &Graph, id: ValueId, way: (Repr, Repr), clamp: Clamp) -> Program {
    let home = graph.value(id);
    let value = |name: &str, repr: Repr| Value { name: name.into(), ty: repr.ty(&home.ty), constant: None };
    let values = vec![value("from", way.0), value("to", way.1)];
    let node = bridge(format!("{}_bridge", home.name), (ValueId(0), ValueId(1)), way, home.ty.dtype, clamp);
    let (inputs, outputs) = (vec![ValueId(0)], vec![ValueId(1)]);
    Program { name: node.name.clone(), values, nodes: vec![node], inputs, outputs }
}
