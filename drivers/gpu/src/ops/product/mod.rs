//! Everything that is a product of matrices: convolutions, transposed ones, `Gemm`, `MatMul`.
//!
//! 1. `window`, `conv`, `transpose`, `matrix`: what the operators' shapes mean;
//! 2. `factor`: weights, packed when the recipe is made or by a kernel;
//! 3. `end`: what becomes of a sum, one place for all operators;
//! 4. `plan`: the launch of the product kernel, `depthwise`: that of its sister for single channels.
//!
//! Whether a product is one of integers or of floats follows from the types of its operands; sums of integers are proved
//! to fit 32 bits before anything is launched (numerics.md section 5).

mod conv;
mod depthwise;
mod end;
mod factor;
mod matrix;
mod operand;
mod plan;
mod transpose;
mod window;

pub(super) use conv::lower as conv;
pub(super) use matrix::{gemm, matmul};
pub(super) use transpose::lower as conv_transpose;

use super::rows::{float, integer, row};
use crate::Target;
use ottava_hal::capability::{FusedSupport, Operand, QuantKind};
use ottava_hal::{DataType, OpRow};

/// Rows of convolutions.
pub(super) fn conv_rows(target: &Target) -> Vec<OpRow> {
    rows(target, weight(true), (3, 4))
}

/// Rows of Gemm.
pub(super) fn gemm_rows(target: &Target) -> Vec<OpRow> {
    rows(target, weight(false), (2, 2))
}

/// Rows of MatMul.
pub(super) fn matmul_rows(target: &Target) -> Vec<OpRow> {
    rows(target, weight(false), (1, 6))
}

fn rows(target: &Target, weight: Operand, ranks: (usize, usize)) -> Vec<OpRow> {
    let typed = |output: Operand, clamp: bool| {
        let fused = FusedSupport { clamp, residual: true, act: true, zp_before_round: false };
        OpRow { ranks, fused, ..row(target, vec![byte(), weight.clone(), other()], output) }
    };
    let fused = FusedSupport { residual: true, act: true, ..FusedSupport::default() };
    let factor = Operand { constant: weight.constant, ..float() };
    let real = OpRow { ranks, fused, ..row(target, vec![float(), factor, other()], float()) };
    vec![typed(integer(), true), typed(float(), false), real]
}

/// s8 or u8 with one scale.
fn byte() -> Operand {
    Operand { dtypes: vec![DataType::S8, DataType::U8], ..integer() }
}

/// 8 or 4 bits, one scale or one per channel.
fn weight(constant: bool) -> Operand {
    Operand {
        dtypes: vec![DataType::S8, DataType::U8, DataType::S4, DataType::U4],
        quant: vec![QuantKind::PerTensor, QuantKind::PerAxis],
        constant,
        optional: false,
    }
}

/// Bias and residual, which lowering looks at.
fn other() -> Operand {
    Operand { optional: true, ..Operand::default() }
}
