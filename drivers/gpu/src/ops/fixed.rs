//! Element-wise operators on quantized values in a Q31 mode: the fixed-point forms of TFLite (numerics.md section 4).

use super::strided::{Operand, broadcast, form_for, lane_words, present};
use super::types::{bound, code, fixed_mode, one_scale, q31, refuse, storage_target, target};
use super::{input, output};
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use ottava_hal::refmath::requant::Q31;
use ottava_hal::refmath::tflite::{TfliteAdd, TfliteLeakyRelu, TfliteRequant, tflite_mul_multiplier};
use ottava_hal::refmath::tflite_activation::TflitePRelu;
use ottava_hal::{DataType, Node, Reason, RequantMode, Result};

/// The operation's number in the kernel, the left shift, and the multipliers.
struct Form {
    op: u32,
    left: u32,
    multipliers: Vec<Q31>,
}

/// The constants of a node; the second operand of unary operators is the first.
fn form(builder: &Builder<'_>, node: &Node, mode: RequantMode) -> Result<Form> {
    let y = builder.ty(output(node)?);
    let (to, x) = (storage_target(y)?, one_scale(builder.ty(input(node, 0)?))?);
    let other = || one_scale(builder.ty(input(node, 1)?));
    let of = |op, multipliers| Ok(Form { op, left: 0, multipliers });
    match node.op.as_str() {
        "Add" | "Sub" => {
            let left = if y.dtype == DataType::S16 { TfliteAdd::SHIFT_16 } else { TfliteAdd::SHIFT_8 };
            let add = TfliteAdd::new(mode, left, x, other()?, to).map_err(bound)?;
            let multipliers = vec![add.input[0], add.input[1], add.output];
            Ok(Form { op: u32::from(node.op == "Sub"), left, multipliers })
        }
        "Mul" => of(2, vec![tflite_mul_multiplier(x.scale, other()?.scale, to.scale, mode).map_err(bound)?]),
        "PRelu" => {
            let prelu = TflitePRelu::new(mode, x, other()?, to).map_err(bound)?;
            of(3, vec![prelu.identity, prelu.negative])
        }
        "Requantize" => of(4, vec![TfliteRequant::new(mode, x, to).map_err(bound)?.multiplier]),
        "Abs" => of(5, vec![TfliteRequant::of_function(mode, x, to).map_err(bound)?.multiplier]),
        "LeakyRelu" => {
            let relu = TfliteLeakyRelu::new(mode, x, node.attrs.float("alpha", 0.01)?, to).map_err(bound)?;
            of(6, vec![relu.identity, relu.negative])
        }
        other => refuse(Reason::RequantMode, format!("{other} in a Q31 mode")),
    }
}

/// The launch of a node.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Some(mode) = fixed_mode(node) else { return refuse(Reason::RequantMode, "a Q31 mode is needed") };
    let (inputs, y) = (present(node), output(node)?);
    let constants = form(builder, node, mode)?;
    let (ty, to) = (builder.ty(y), target(node, builder.ty(y))?);
    let placed = form_for(builder, &inputs, y)?;
    let stored = Stored::new(ty, placed)?;
    let a = Operand::of(builder, input(node, 0)?)?;
    let b = Operand::of(builder, inputs.get(1).copied().unwrap_or(input(node, 0)?))?;
    let lanes = broadcast(&stored, &[&a, &b])?;
    let result = builder.write(y, placed)?;
    let words = builder.bytes(result) / 4;
    let mut params = vec![words as u32, constants.op, mode.as_u32(), code(ty)];
    params.extend([to.zp as u32, to.lo as u32, to.hi as u32, constants.left]);
    for i in 0..3 {
        params.extend(q31(constants.multipliers.get(i).copied().unwrap_or(Q31 { multiplier: 0, shift: 0 })));
    }
    params.push(lanes.len() as u32);
    for operand in [&a, &b] {
        params.extend([code(operand.ty), one_scale(operand.ty)?.zp as u32]);
    }
    params.extend(lane_words(&lanes, 2)?);
    builder.launch(&Launch {
        kernel: "fixed_point",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[a.buf, b.buf],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
