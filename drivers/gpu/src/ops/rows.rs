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

const ONE_OUTPUT: Predicate =
    Predicate { text: "one output", reason: Reason::Other, holds: |_, n| n.outputs.len() == 1 };

const NOT_EMPTY: Predicate = Predicate { text: "extents above 0", reason: Reason::ShapeLimit, holds: not_empty };

fn not_empty(program: &Program, node: &Node) -> bool {
    let ids = node.inputs.iter().flatten().take(1).chain(&node.outputs);
    ids.into_iter().all(|id| program.ty(*id).shape.elements().is_none_or(|e| e > 0))
}
