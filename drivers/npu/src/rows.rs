//! Pieces from which capability rows are made.

use crate::lower::Chip;
use ottava_hal::capability::{Operand, Predicate, QuantKind};
use ottava_hal::{DataType, Node, OpRow, Program, Reason};

/// 8 bits with one scale, of the chip's types.
pub(crate) fn byte(chip: &Chip) -> Operand {
    Operand { dtypes: chip.bytes(), quant: vec![QuantKind::PerTensor], ..Operand::default() }
}

/// 8 or 16 bits with one scale, of the chip's types.
pub(crate) fn element(chip: &Chip) -> Operand {
    Operand { dtypes: chip.elements(), ..byte(chip) }
}

/// f32, which is what a sum times an f32 multiplier is.
pub(crate) fn real() -> Operand {
    Operand { dtypes: vec![DataType::F32], quant: vec![QuantKind::Plain], ..Operand::default() }
}

/// Weights: constant, one scale or one per channel.
pub(crate) fn weight(chip: &Chip) -> Operand {
    Operand { constant: true, ..factor(chip) }
}

/// A second factor, constant or computed; lowering knows what each must be.
pub(crate) fn factor(chip: &Chip) -> Operand {
    let quant = vec![QuantKind::PerTensor, QuantKind::PerAxis];
    Operand { dtypes: chip.weights(), quant, constant: false, optional: false }
}

/// A bias, and a residual behind it or in its place: lowering knows which is which.
pub(crate) fn bias() -> Operand {
    Operand { optional: true, ..Operand::default() }
}

/// A constant that may be absent.
pub(crate) fn constant(dtypes: &[DataType]) -> Operand {
    Operand { dtypes: dtypes.to_vec(), quant: Vec::new(), constant: true, optional: true }
}

/// A row with outputs of one kind, one or `many` of them.
pub(crate) fn row(chip: &Chip, op: &'static str, inputs: Vec<Operand>, output: Operand, many: bool) -> OpRow {
    let mut row = OpRow {
        inputs,
        outputs: vec![output],
        requant: chip.modes().to_vec(),
        predicates: if many { vec![NOT_EMPTY] } else { vec![ONE_OUTPUT, NOT_EMPTY] },
        ..OpRow::any(op)
    };
    row.fused.clamp = true;
    row
}

const ONE_OUTPUT: Predicate =
    Predicate { text: "one output", reason: Reason::Other, holds: |_, n| n.outputs.len() == 1 };

const NOT_EMPTY: Predicate = Predicate { text: "extents above 0", reason: Reason::ShapeLimit, holds: not_empty };

fn not_empty(program: &Program, node: &Node) -> bool {
    let ids = node.inputs.iter().flatten().take(1).chain(&node.outputs);
    ids.into_iter().all(|id| program.ty(*id).shape.elements().is_none_or(|e| e > 0))
}
