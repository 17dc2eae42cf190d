//! [`Chain`]: the public description of a chain and its checked form.

use alloc::format;
use alloc::vec::Vec;

use super::BLOCK;
use super::slots::{SLOTS, assign};
use crate::elementwise::BinaryOp;
use crate::epilogue::{OtherQ, OutQ, Source, Store, check_scale};
use crate::error::{KernelError, Result, check_len};

/// A function of one f32, a named sequence of the numeric contract.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unary {
    /// `x < 0 ? 0 : x`
    Relu,
    /// `x < 0 ? alpha * x : x`
    LeakyRelu(f32),
    /// `clip(alpha * x + beta, 0, 1)`
    HardSigmoid(f32, f32),
    /// `x * hard_sigmoid(x, 1/6, 1/2)`
    HardSwish,
    /// `1 / (1 + e^-x)`
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// `e^x`
    Exp,
    /// The error function.
    Erf,
    /// The square root.
    Sqrt,
    /// The natural logarithm.
    Log,
    /// The absolute value.
    Abs,
    /// `-x`
    Neg,
    /// `1 / x`
    Reciprocal,
    /// `x * sigmoid(alpha * x)`
    Swish(f32),
    /// The exact Gelu.
    Gelu,
    /// `x < lo ? lo : x`, then `x > hi ? hi : x`
    Clip(f32, f32),
}

impl Unary {
    /// Whether it is worth a table where its argument is a byte.
    fn is_costly(self) -> bool {
        use Unary::{Erf, Exp, Gelu, Log, Sigmoid, Swish, Tanh};
        matches!(self, Erf | Exp | Gelu | Log | Sigmoid | Swish(_) | Tanh)
    }
}

/// One value of a chain. Operands are indices of earlier values.
#[derive(Clone, Debug, PartialEq)]
pub enum ChainOp {
    /// Input of this index, bytes that are dequantized.
    Bytes(usize, OtherQ),
    /// Input of this index, f32.
    Floats(usize),
    /// A constant.
    Scalar(f32),
    /// Constants that repeat with the chain's period.
    Row(Vec<f32>),
    /// A function of one value.
    Unary(Unary, usize),
    /// An operation on two values.
    Binary(BinaryOp, usize, usize),
}

/// What becomes of the last value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ChainOut {
    /// It is stored.
    Floats,
    /// It is quantized by division by the scale.
    Bytes(f32, OutQ),
}

/// Where a step finds an operand.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    Slot(usize),
    Row(usize),
}

/// What a step computes into its slot.
#[derive(Clone, Copy, Debug)]
pub(super) enum Body {
    Bytes(usize, Source),
    Floats(usize),
    /// A row on its own, where both operands are rows or a row is the result.
    Row(usize),
    Unary(Unary, usize),
    Binary(BinaryOp, Arg, Arg),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) slot: usize,
    pub(super) body: Body,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Sink {
    Floats,
    Bytes(f32, Store),
}

/// A checked chain, ready to run.
pub struct Chain {
    pub(super) steps: Vec<Step>,
    /// Slots that hold the same value throughout.
    pub(super) scalars: Vec<(usize, f32)>,
    /// Rows, each followed by a block so that blocks may begin anywhere in the period.
    pub(super) rows: Vec<Vec<f32>>,
    pub(super) n_inputs: usize,
    pub(super) sink: Sink,
    pub(super) result: usize,
    /// Elements after which rows repeat, and of a block; blocks never cross a period.
    pub(super) period: usize,
    pub(super) block: usize,
    costly: bool,
}

impl Chain {
    /// Most values that may be alive at once, scalars included.
    pub const MAX_LIVE: usize = SLOTS - 1;

    /// Checks a chain whose last value is its result. `period` is the length of its rows, 0 if it has none.
    ///
    /// # Errors
    /// When an operand does not precede its use, a row has another length, or too many values are alive at once.
    pub fn new(ops: &[ChainOp], period: usize, out: ChainOut) -> Result<Self> {
        check_order(ops)?;
        let sink = match out {
            ChainOut::Floats => Sink::Floats,
            ChainOut::Bytes(scale, out) => {
                check_scale("output scale", scale)?;
                Sink::Bytes(scale, Store::new(out)?)
            }
        };
        let (repeat, block) = blocks(period);
        let mut rows = Vec::new();
        for op in ops {
            if let ChainOp::Row(row) = op {
                check_len("a row", row.len(), period)?;
                rows.push(row.iter().copied().cycle().take(repeat + BLOCK).collect());
            }
        }
        let assigned = assign(ops)?;
        let inputs = ops.iter().filter_map(|op| match op {
            ChainOp::Bytes(i, _) | ChainOp::Floats(i) => Some(i + 1),
            _ => None,
        });
        Ok(Self {
            steps: assigned.steps,
            scalars: assigned.scalars,
            rows,
            n_inputs: inputs.max().unwrap_or(0),
            sink,
            result: assigned.result,
            period: repeat,
            block,
            costly: ops.iter().any(|op| matches!(op, ChainOp::Unary(f, _) if f.is_costly())),
        })
    }

    /// Whether the result is bytes.
    pub fn is_quantized(&self) -> bool {
        matches!(self.sink, Sink::Bytes(..))
    }

    /// Whether a table is cheaper than the chain where everything depends on one byte.
    pub fn is_costly(&self) -> bool {
        self.costly
    }
}

fn check_order(ops: &[ChainOp]) -> Result<()> {
    let late = |at: usize, operand: usize| operand >= at;
    let wrong = ops.iter().enumerate().any(|(at, op)| match op {
        ChainOp::Unary(_, x) => late(at, *x),
        ChainOp::Binary(_, a, b) => late(at, *a) || late(at, *b),
        _ => false,
    });
    if wrong || ops.is_empty() {
        return Err(KernelError::Parameter { what: format!("a chain of {} values in another order", ops.len()) });
    }
    Ok(())
}

/// After how many elements rows repeat for the loops, and the elements of a block.
fn blocks(period: usize) -> (usize, usize) {
    match period {
        0 => (BLOCK, BLOCK),
        1..=BLOCK => (BLOCK / period * period, BLOCK / period * period),
        _ => {
            let n = period.div_ceil(BLOCK);
            (period, period.div_ceil(n).next_multiple_of(8).min(BLOCK))
        }
    }
}
