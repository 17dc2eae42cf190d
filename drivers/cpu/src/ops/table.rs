//! 8-bit functions of one value as 256-byte tables: `ottava::Lut`, `ottava::Requantize`, and Relu and Clip on integers.
//! The table is built at compile time over *held* bytes (s8 as u8), clamp included; a table that changes nothing is a view.

use crate::builder::{Builder, input, output};
use crate::form::{Form, flips};
use crate::relayout::failed;
use crate::rows::{byte, float_constant, input_ty, needs, other, per_tensor, row, when};
use ottava_hal::capability::{FusedSupport, Operand, QuantKind};
use ottava_hal::refmath::elementwise::requantize;
use ottava_hal::refmath::quantize::{Affine, Target, quantize_f32};
use ottava_hal::{DataType, Error, Node, OpRow, Reason, Result, TensorType};
use ottava_kernels::{Exec, lut};

/// Steps through all 256 entries of a table: stored input to stored output.
type Function<'f> = &'f dyn Fn(i32) -> Result<i32>;

fn clamped(mut row: OpRow) -> OpRow {
    row.fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    row
}

/// Rows of Requantize and of the typed Relu.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    vec![clamped(row(op, vec![byte()], byte()))]
}

/// Rows of the typed Clip: bounds are plain constants.
pub(crate) fn clip_rows(op: &'static str) -> Vec<OpRow> {
    let bound = Operand { optional: true, ..float_constant() };
    let scalar = needs(Reason::AttrValue, "scalar bounds", |p, n| {
        n.inputs.iter().skip(1).flatten().all(|id| p.ty(*id).shape.elements() == Some(1))
    });
    vec![clamped(when(row(op, vec![byte(), bound], byte()), [scalar]))]
}

/// Rows of Lut: a constant table of 256 bytes.
pub(crate) fn lut_rows(op: &'static str) -> Vec<OpRow> {
    let table = Operand {
        dtypes: vec![DataType::U8, DataType::S8],
        quant: vec![QuantKind::Plain, QuantKind::PerTensor],
        constant: true,
        optional: false,
    };
    let whole = needs(Reason::ShapeLimit, "a table of 256 bytes of the output's type", |p, n| {
        let y = n.outputs.first().map(|id| p.ty(*id).dtype);
        input_ty(p, n, 1).is_some_and(|t| t.shape.elements() == Some(256) && Some(t.dtype) == y)
    });
    vec![clamped(when(row(op, vec![byte(), table, other()], byte()), [whole]))]
}

/// Steps of Requantize.
pub(crate) fn requantized(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (from, to) = ends(builder, node)?;
    match super::fixed::requantized(node, from, to)? {
        Some(fixed) => build(builder, node, &|q| Ok(fixed.apply(q))),
        None => build(builder, node, &|q| Ok(requantize(q, from, to))),
    }
}

/// Steps of the typed Relu.
pub(crate) fn relu(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (from, to) = ends(builder, node)?;
    build(builder, node, &|q| Ok(requantize(q, from, to).max(to.zp)))
}

/// Steps of the typed Clip.
pub(crate) fn clip(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (from, to) = ends(builder, node)?;
    let quantized = |v: f32| quantize_f32(v, to.scale, to.zp, to.lo, to.hi);
    let lo = super::unary::bound(builder.program, node, 1)?.map_or(i32::MIN, quantized);
    let hi = super::unary::bound(builder.program, node, 2)?.map_or(i32::MAX, quantized);
    build(builder, node, &|q| Ok(requantize(q, from, to).max(lo).min(hi)))
}

/// Steps of Lut.
pub(crate) fn table(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let entries = super::product::constant(builder.program, input(node, 1)?)?.to_ints()?;
    let short = || Error::invalid(format!("node `{}`: a table needs 256 entries", node.name));
    build(builder, node, &|q| entries.get(usize::from(q as u8)).map(|v| *v as i32).ok_or_else(short))
}

/// Parameters of input and output.
fn ends(builder: &Builder<'_>, node: &Node) -> Result<(Affine, Target)> {
    let (x, y) = (builder.ty(input(node, 0)?), builder.ty(output(node)?));
    let untyped = || Error::invalid(format!("node `{}`: {x} and {y} must be 8-bit with one scale", node.name));
    let ((scale, zp), (y_scale, y_zp)) = per_tensor(x).zip(per_tensor(y)).ok_or_else(untyped)?;
    let (lo, hi) = y.dtype.storage_range().ok_or_else(untyped)?;
    Ok((Affine { scale, zp }, Target { scale: y_scale, zp: y_zp, lo, hi }))
}

/// The table of a function over held bytes.
fn held_table(x: &TensorType, y: &TensorType, node: &Node, signed: bool, f: Function<'_>) -> Result<[u8; 256]> {
    let mut table = [0; 256];
    for (byte, entry) in (0..=255u8).zip(&mut table) {
        let q = if flips(x) { i32::from(byte) - 128 } else { i32::from(byte) };
        let (lo, hi) = node.fused.clamp.unwrap_or((i32::MIN, i32::MAX));
        let out = f(q)?.max(lo).min(hi);
        *entry = if flips(y) && !signed { (out + 128) as u8 } else { out as u8 };
    }
    Ok(table)
}

fn build(builder: &mut Builder<'_>, node: &Node, f: Function<'_>) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let nhwc = builder.is_nhwc(x);
    let from = builder.operand(x, nhwc)?;
    let plain = held_table(builder.ty(x), builder.ty(y), node, false, f)?;
    if (0..=255u8).zip(plain).all(|(i, t)| i == t) {
        builder.alias(y, Form::inside(builder.ty(y), nhwc), from);
        return Ok(());
    }
    let (to, signed) = builder.result_signed(y, nhwc)?;
    let table = held_table(builder.ty(x), builder.ty(y), node, signed, f)?;
    let name = builder.kernel("lut_u8_u8");
    let run = move |exec: Exec<'_>, [x, _]: [&[u8]; 2], out: &mut [u8]| lut(exec, x, &table, out).map_err(failed);
    builder.push_elementwise(&name, vec![from], to, Box::new(run));
    Ok(())
}

/// Applies a table to bytes.
pub(crate) fn apply(table: &[u8; 256], from: &[u8], to: &mut [u8]) {
    to.iter_mut().zip(from).for_each(|(y, x)| *y = table[usize::from(*x)]);
}

/// The table that brings held bytes of one type to the parameters of another; `None` if it changes nothing.
pub(crate) fn between(x: &TensorType, y: &TensorType, node: &Node) -> Result<Option<[u8; 256]>> {
    let untyped = || Error::invalid(format!("node `{}`: {x} and {y} must be 8-bit with one scale", node.name));
    let ((scale, zp), (y_scale, y_zp)) = per_tensor(x).zip(per_tensor(y)).ok_or_else(untyped)?;
    let (lo, hi) = y.dtype.storage_range().ok_or_else(untyped)?;
    let to = Target { scale: y_scale, zp: y_zp, lo, hi };
    let table = held_table(x, y, node, false, &|q| Ok(requantize(q, Affine { scale, zp }, to)))?;
    Ok(if (0..=255u8).zip(table).all(|(i, t)| i == t) { None } else { Some(table) })
}
