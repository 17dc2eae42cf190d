//! Element by element: two operands with broadcasting, and functions of one.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::{DataType, Node, QuantParams, RequantMode, ValueId};

/// Functions of one number. Of 8 bits each is a table.
pub(super) const FUNCTIONS: &[&str] = &[
    "Sigmoid",
    "Tanh",
    "Gelu",
    "Erf",
    "HardSwish",
    "HardSigmoid",
    "Elu",
    "Exp",
    "Log",
    "Sqrt",
    "Reciprocal",
    "Abs",
    "Neg",
    "LeakyRelu",
    "Softplus",
    "Selu",
    "Mish",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
    "Sin",
    "Cos",
];

/// An operation of two operands.
pub(super) fn binary(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = draw.dims(1, 5, 2000);
    let mut build = Build::new(form.op);
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let a = build.input(data, params.clone());
    let other = other_dims(draw, &dims);
    let moves = matches!(form.op, "Max" | "Min");
    let real = form.op == "PRelu" && draw.once_in(2);
    let dtype = if real { DataType::F32 } else { form.dtype };
    let quant = if moves { params.clone() } else { draw.params(dtype) };
    let data = draw.data(dtype, &other, quant.as_ref())?;
    let b = if draw.once_in(3) { build.constant(data, quant) } else { build.input(data, quant) };
    let mut node = form.node();
    let mut about = format!("{dims:?} and {other:?}");
    let rne = form.mode == Some(RequantMode::Fp32Rne);
    let wider = rne && form.dtype.bits() == 8 && draw.once_in(5);
    let dtype = if wider { DataType::S16 } else { form.dtype };
    let like = if moves { (form.dtype, params) } else { draw.fit(&build, &node, &[a, b], dtype)? };
    if rne && !wider && form.dtype.bits() == 8 && matches!(form.op, "Add" | "Mul") && draw.once_in(4) {
        node.fused.zp_before_round = true;
        about.push_str(", zero point before rounding");
    }
    if rne && draw.once_in(4) {
        clamp(draw, &mut node, like.0)?;
        about.push_str(", clamp");
    }
    let y = build.one(node, &[a, b], like)?;
    build.finish(&[y], about)
}

/// A shape that broadcasts to another.
fn other_dims(draw: &mut Draw, dims: &[usize]) -> Vec<usize> {
    match draw.size(0, 3) {
        0 => vec![1; dims.len()],
        1 => dims[draw.size(0, dims.len() - 1)..].to_vec(),
        2 => dims.iter().map(|d| if draw.once_in(2) { 1 } else { *d }).collect(),
        _ => dims.to_vec(),
    }
}

fn clamp(draw: &mut Draw, node: &mut Node, dtype: DataType) -> Option<()> {
    let (lo, hi) = dtype.storage_range()?;
    let (a, b) = (draw.range(lo.into(), hi.into()) as i32, draw.range(lo.into(), hi.into()) as i32);
    node.fused.clamp = Some((a.min(b), a.max(b)));
    Some(())
}

/// A function of one operand.
pub(super) fn unary(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = draw.dims(1, 5, 2000);
    let mut build = Build::new(form.op);
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let node = form.node();
    let mut inputs = vec![x];
    if form.op == "Clip" {
        let (lo, hi) = draw.pick(&[(0.0, 6.0), (-0.5, 0.5), (-1.0, 100.0)]);
        inputs.extend([build.number(lo), build.number(hi)]);
    }
    let like = result(form, draw, &build, &node, &inputs, params)?;
    let y = build.one(node, &inputs, like)?;
    build.finish(&[y], format!("input {dims:?}"))
}

/// Movers keep their parameters, most of the time.
fn result(
    form: &Form,
    draw: &mut Draw,
    build: &Build,
    node: &Node,
    inputs: &[ValueId],
    params: Option<QuantParams>,
) -> Option<(DataType, Option<QuantParams>)> {
    let moves = matches!(form.op, "Relu" | "Clip" | "Identity") && !draw.once_in(3);
    if moves { Some((form.dtype, params)) } else { draw.fit(build, node, inputs, form.dtype) }
}
