//! Functions of one f32: which node is which named sequence of numerics.md section 7.

use crate::rows::{float, float_constant, needs, row, when};
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result};
use ottava_kernels::Unary;

/// Rows of a function of one f32.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    vec![row(op, vec![float()], float())]
}

/// The function of a node.
pub(crate) fn function(program: &Program, node: &Node) -> Result<Unary> {
    let float = |name: &str, default: f32| node.attrs.float(name, default);
    Ok(match node.op.as_str() {
        "Relu" => Unary::Relu,
        "Clip" => {
            let (lo, hi) = (bound(program, node, 1)?, bound(program, node, 2)?);
            Unary::Clip(lo.unwrap_or(f32::NEG_INFINITY), hi.unwrap_or(f32::INFINITY))
        }
        "LeakyRelu" => Unary::LeakyRelu(float("alpha", 0.01)?),
        "HardSigmoid" => Unary::HardSigmoid(float("alpha", 0.2)?, float("beta", 0.5)?),
        "HardSwish" => Unary::HardSwish,
        "Sigmoid" => Unary::Sigmoid,
        "Tanh" => Unary::Tanh,
        "Exp" => Unary::Exp,
        "Erf" => Unary::Erf,
        "Sqrt" => Unary::Sqrt,
        "Log" => Unary::Log,
        "Abs" => Unary::Abs,
        "Neg" => Unary::Neg,
        "Reciprocal" => Unary::Reciprocal,
        "Swish" => Unary::Swish(float("alpha", 1.0)?),
        "Gelu" => Unary::Gelu,
        _ => {
            return Err(Error::unsupported(Reason::OpUnknown, format!("no elementwise kernel for {}", node.full_op())));
        }
    })
}

/// Rows of Gelu: the exact form.
pub(crate) fn gelu_rows(op: &'static str) -> Vec<OpRow> {
    let exact = needs(Reason::AttrValue, "approximate = none", |_, n| n.attrs.str("approximate", "none") == Ok("none"));
    vec![when(row(op, vec![float()], float()), [exact])]
}

/// Rows of the float Clip: bounds are constants.
pub(crate) fn clip_rows(op: &'static str) -> Vec<OpRow> {
    let bound = Operand { optional: true, ..float_constant() };
    let scalar = needs(Reason::AttrValue, "scalar bounds", |p, n| {
        n.inputs.iter().skip(1).flatten().all(|id| p.ty(*id).shape.elements() == Some(1))
    });
    vec![when(row(op, vec![float(), bound], float()), [scalar])]
}

/// A constant bound of Clip; a NaN bound is none.
pub(crate) fn bound(program: &Program, node: &Node, i: usize) -> Result<Option<f32>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    let values = super::product::constant(program, id)?.to_f32s()?;
    Ok(values.first().copied().filter(|v| !v.is_nan()))
}
