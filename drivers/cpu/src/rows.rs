//! Pieces from which capability rows are made: operands, and conditions that several operators share.

use crate::builder::input;
use ottava_hal::capability::{Operand, Predicate, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Program, QuantParams, Reason, RequantMode, TensorType};

/// u8 or s8 with one scale.
pub(crate) fn byte() -> Operand {
    Operand {
        dtypes: vec![DataType::U8, DataType::S8],
        quant: vec![QuantKind::PerTensor],
        constant: false,
        optional: false,
    }
}

/// s16 with one scale.
pub(crate) fn word() -> Operand {
    Operand { dtypes: vec![DataType::S16], ..byte() }
}

/// u8, s8 or s4 weights, one scale or one per channel.
pub(crate) fn weight() -> Operand {
    Operand {
        dtypes: vec![DataType::U8, DataType::S8, DataType::S4],
        quant: vec![QuantKind::PerTensor, QuantKind::PerAxis],
        constant: true,
        optional: false,
    }
}

/// Plain f32.
pub(crate) fn float() -> Operand {
    Operand { dtypes: vec![DataType::F32], quant: vec![QuantKind::Plain], constant: false, optional: false }
}

/// Plain f32, known at compile time.
pub(crate) fn float_constant() -> Operand {
    Operand { constant: true, ..float() }
}

/// An operand that further conditions check, or that the output's type already says (shapes, axes).
pub(crate) fn other() -> Operand {
    Operand { optional: true, ..Operand::default() }
}

/// A row of an operator with one output; every extent must be above 0.
pub(crate) fn row(op: &'static str, inputs: Vec<Operand>, output: Operand) -> OpRow {
    when(split_row(op, inputs, output), [needs(Reason::Other, "one output", |_, n| n.outputs.len() == 1)])
}

/// As [`row`], for any number of outputs.
pub(crate) fn split_row(op: &'static str, inputs: Vec<Operand>, output: Operand) -> OpRow {
    let not_empty = needs(Reason::ShapeLimit, "extents above 0", |p, n| {
        let ids = n.inputs.iter().flatten().take(1).chain(&n.outputs);
        ids.into_iter().all(|id| p.ty(*id).shape.elements().is_some_and(|e| e > 0))
    });
    OpRow { inputs, outputs: vec![output], predicates: vec![not_empty], ..OpRow::any(op) }
}

/// `row` with more conditions.
pub(crate) fn when(mut row: OpRow, conditions: impl IntoIterator<Item = Predicate>) -> OpRow {
    row.predicates.extend(conditions);
    row
}

/// Only `fp32_rne`.
pub(crate) fn only_fp32(row: OpRow) -> OpRow {
    OpRow { requant: vec![RequantMode::Fp32Rne], ..row }
}

/// A condition.
pub(crate) fn needs(reason: Reason, text: &'static str, holds: fn(&Program, &Node) -> bool) -> Predicate {
    Predicate { text, reason, holds }
}

/// The first input and all outputs have the same element type and quantization.
pub(crate) fn same_params() -> Predicate {
    needs(Reason::QuantScheme, "input and output with the same type and parameters", |p, n| {
        let same = |x: &TensorType, y: &TensorType| x.dtype == y.dtype && x.quant == y.quant;
        input_ty(p, n, 0).is_some_and(|x| n.outputs.iter().all(|y| same(x, p.ty(*y))))
    })
}

/// Bounds of the fused activation are numbers in order.
pub(crate) fn ordered_act() -> Predicate {
    needs(Reason::AttrValue, "activation bounds in order", |_, n| {
        let (lo, hi) = act_bounds(n);
        lo <= hi
    })
}

/// The bounds of a fused float activation; infinite without one.
pub(crate) fn act_bounds(node: &Node) -> (f32, f32) {
    use ottava_hal::program::Activation;
    match node.fused.act {
        None => (f32::NEG_INFINITY, f32::INFINITY),
        Some(Activation::Relu) => (0.0, f32::INFINITY),
        Some(Activation::Clip { lo, hi }) => (lo, hi),
    }
}

/// Type of input `i`, if it is present.
pub(crate) fn input_ty<'p>(program: &'p Program, node: &Node, i: usize) -> Option<&'p TensorType> {
    input(node, i).ok().map(|id| program.ty(id))
}

/// Type of the output.
pub(crate) fn output_ty<'p>(program: &'p Program, node: &Node) -> Option<&'p TensorType> {
    node.outputs.first().map(|id| program.ty(*id))
}

/// Scale and zero point of a per-tensor type.
pub(crate) fn per_tensor(ty: &TensorType) -> Option<(f32, i32)> {
    ty.quant.as_deref().and_then(QuantParams::as_per_tensor)
}
