//! Pieces from which capability rows are made.

use crate::Target;
use ottava_hal::capability::{Operand, Predicate, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Program, Reason, RequantMode};

/// 8 or 16 bits with one scale.
pub(super) fn integer() -> Operand {
    let dtypes = vec![DataType::S8, DataType::U8, DataType::S16, DataType::U16];
    Operand { dtypes, quant: vec![QuantKind::PerTensor], ..Operand::default() }
}

/// f32, f16 or bf16.
pub(super) fn float() -> Operand {
    let dtypes = vec![DataType::F32, DataType::F16, DataType::BF16];
    Operand { dtypes, quant: vec![QuantKind::Plain], ..Operand::default() }
}

/// Integers of at most 32 bits that stand for themselves.
pub(super) fn plain_integer() -> Operand {
    let dtypes = vec![DataType::S8, DataType::U8, DataType::S16, DataType::U16, DataType::S32];
    Operand { dtypes, quant: vec![QuantKind::Plain], ..Operand::default() }
}

/// Booleans.
pub(super) fn boolean() -> Operand {
    Operand { dtypes: vec![DataType::Bool], ..Operand::default() }
}

/// A constant of floats.
pub(super) fn float_constant() -> Operand {
    Operand { constant: true, ..float() }
}

/// Shapes, axes, sizes: constants of any integer type, possibly absent.
pub(super) fn numbers() -> Operand {
    Operand { constant: true, optional: true, ..Operand::default() }
}

/// What says which elements count: booleans or integers.
pub(super) fn mask() -> Operand {
    let dtypes = vec![DataType::Bool, DataType::U8, DataType::S8, DataType::S32, DataType::S64];
    Operand { dtypes, quant: vec![QuantKind::Plain], ..Operand::default() }
}

/// Any element that a kernel moves, plain or with one scale.
pub(super) fn movable() -> Operand {
    let plain = [float().dtypes, plain_integer().dtypes, vec![DataType::Bool, DataType::S64]].concat();
    Operand { dtypes: plain, quant: vec![QuantKind::Plain, QuantKind::PerTensor], ..Operand::default() }
}

/// A row of one output; the table adds the operator's name. A device that failed the self-test of its arithmetic runs
/// it, and says that it is not exact.
pub(super) fn row(target: &Target, inputs: Vec<Operand>, output: Operand) -> OpRow {
    OpRow {
        inputs,
        outputs: vec![output],
        ranks: (0, 6),
        predicates: vec![ONE_OUTPUT, NOT_EMPTY],
        exact: target.exact,
        ..OpRow::any("")
    }
}

/// The row without the Q31 modes.
pub(super) fn only_fp32(row: OpRow) -> OpRow {
    OpRow { requant: vec![RequantMode::Fp32Rne], ..row }
}

/// The row with the Q31 modes alone.
pub(super) fn only_q31(row: OpRow) -> OpRow {
    OpRow { requant: vec![RequantMode::Q31Double, RequantMode::Q31Single], ..row }
}

/// The row with a further condition.
pub(super) fn when(mut row: OpRow, condition: Predicate) -> OpRow {
    row.predicates.push(condition);
    row
}

/// The same element type and parameters on both sides.
pub(super) const SAME_TYPE: Predicate =
    Predicate { text: "the same type on both sides", reason: Reason::QuantScheme, holds: same_type };

fn same_type(program: &Program, node: &Node) -> bool {
    let Some(x) = node.input(0).map(|id| program.ty(id)) else { return false };
    node.outputs.iter().map(|id| program.ty(*id)).all(|y| (y.dtype, &y.quant) == (x.dtype, &x.quant))
}

/// The first result alone.
pub(super) const ONE_OUTPUT: Predicate =
    Predicate { text: "one output", reason: Reason::Other, holds: |_, n| n.outputs.len() == 1 };

const NOT_EMPTY: Predicate = Predicate { text: "extents above 0", reason: Reason::ShapeLimit, holds: not_empty };

fn not_empty(program: &Program, node: &Node) -> bool {
    let ids = node.inputs.iter().flatten().take(1).chain(&node.outputs);
    ids.into_iter().all(|id| program.ty(*id).shape.elements().is_none_or(|e| e > 0))
}
