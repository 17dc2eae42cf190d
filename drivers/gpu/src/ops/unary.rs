//! Functions of one float: the named f32 sequences of numerics.md section 7 and what they are made of. Quantized functions
//! reach a device as tables ([`super::lut`]); Relu and Clip keep their integers ([`super::bridge`]).

use super::rows::{float, float_constant, integer, row};
use super::types::{fixed_mode, refuse};
use super::{bridge, fixed, input, output};
use crate::Target;
use crate::builder::{Builder, Launch};
use ottava_hal::capability::{FusedSupport, Operand};
use ottava_hal::{Node, OpRow, Reason, Result};

/// Number of the function in the kernel and its two parameters.
type Function = (u32, f32, f32);

/// Rows of functions of floats.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float()], float())]
}

/// Rows of functions that have a fixed-point form too.
pub(super) fn fixed_rows(target: &Target) -> Vec<OpRow> {
    let clamp = FusedSupport { clamp: true, ..FusedSupport::default() };
    let mut rows = rows(target);
    rows.push(super::rows::only_q31(OpRow { fused: clamp, ..row(target, vec![integer()], integer()) }));
    rows
}

/// Rows of Relu and Clip: bounds are constants.
pub(super) fn clip_rows(target: &Target) -> Vec<OpRow> {
    let clamp = FusedSupport { clamp: true, ..FusedSupport::default() };
    let bound = || Operand { optional: true, ..float_constant() };
    vec![
        row(target, vec![float(), bound()], float()),
        OpRow { fused: clamp, ..row(target, vec![integer(), bound()], integer()) },
    ]
}

/// Rows of Pow: the exponent is one constant.
pub(super) fn pow_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float(), float_constant()], float())]
}

/// The function of a node.
fn function(builder: &Builder<'_>, node: &Node) -> Result<Function> {
    let float = |name: &str, default: f32| node.attrs.float(name, default);
    Ok(match node.op.as_str() {
        "Exp" => (0, 0.0, 0.0),
        "Log" => (1, 0.0, 0.0),
        "Sqrt" => (2, 0.0, 0.0),
        "Reciprocal" => (3, 0.0, 0.0),
        "Erf" => (4, 0.0, 0.0),
        "Sigmoid" => (5, 0.0, 0.0),
        "Tanh" => (6, 0.0, 0.0),
        "Abs" => (7, 0.0, 0.0),
        "Neg" => (8, 0.0, 0.0),
        "Floor" => (9, 0.0, 0.0),
        "Ceil" => (10, 0.0, 0.0),
        "Round" => (11, 0.0, 0.0),
        "Sign" => (12, 0.0, 0.0),
        "Relu" => (13, 0.0, f32::INFINITY),
        "Clip" => {
            let bound = |i, default| bridge::bound(builder, node, i).map(|b| b.unwrap_or(default));
            (13, bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?)
        }
        "LeakyRelu" => (14, float("alpha", 0.01)?, 0.0),
        "HardSigmoid" => (15, float("alpha", 0.2)?, float("beta", 0.5)?),
        "HardSwish" => (16, 0.0, 0.0),
        "Swish" => (17, float("alpha", 1.0)?, 0.0),
        "QuickGelu" => (17, float("alpha", 1.702)?, 0.0),
        "Gelu" | "FastGelu" => gelu(node)?,
        "Softsign" => (20, 0.0, 0.0),
        "ThresholdedRelu" => (21, float("alpha", 1.0)?, 0.0),
        "Pow" => power(builder, node)?,
        other => return refuse(Reason::OpUnknown, format!("no function {other}")),
    })
}

fn gelu(node: &Node) -> Result<Function> {
    let default = if node.op == "FastGelu" { "tanh" } else { "none" };
    match node.attrs.str("approximate", default)? {
        "none" => Ok((18, 0.0, 0.0)),
        "tanh" => Ok((19, 0.0, 0.0)),
        other => refuse(Reason::AttrValue, format!("approximate `{other}`")),
    }
}

/// Powers that a few operations make; a real power in f32 would lose digits.
fn power(builder: &Builder<'_>, node: &Node) -> Result<Function> {
    let exponents = super::types::constant_floats(builder, input(node, 1)?, "the exponent")?;
    let Some(first) = exponents.first().filter(|e| exponents.iter().all(|v| v == *e)) else {
        return refuse(Reason::AttrValue, "several exponents");
    };
    let functions = [(2.0, 22), (3.0, 23), (0.5, 24), (1.0, 25), (-1.0, 3)];
    match functions.iter().find(|(e, _)| e == first) {
        Some((_, op)) => Ok((*op, 0.0, 0.0)),
        None => refuse(Reason::AttrValue, format!("exponent {first}; 2, 3, 1/2, 1 and -1 are supported")),
    }
}

/// The launch of a function.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    if builder.ty(y).quant.is_some() {
        return match (node.op.as_str(), fixed_mode(node)) {
            ("Relu" | "Clip", _) => bridge::lower(builder, node),
            (_, Some(_)) => fixed::lower(builder, node),
            _ => refuse(Reason::QuantScheme, "a function of quantized values without its table"),
        };
    }
    let (op, alpha, beta) = function(builder, node)?;
    if node.op != "Pow" && node.op != "Clip" && node.inputs.iter().flatten().count() > 1 {
        return refuse(Reason::Other, "a function with a bias");
    }
    if builder.ty(x).dtype != builder.ty(y).dtype || builder.dims(x)? != builder.dims(y)? {
        return refuse(Reason::Dtype, "a function that changes its type or extents");
    }
    let form = builder.form_of(x);
    let (source, result) = (builder.read(x, form)?, builder.write(y, form)?);
    let words = builder.bytes(result) / 4;
    builder.launch(&Launch {
        kernel: "unary",
        defines: &[],
        spec: &[],
        params: &[words as u32, op, super::types::code(builder.ty(y)), alpha.to_bits(), beta.to_bits()],
        inputs: &[source],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
