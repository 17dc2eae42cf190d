//! Add, Sub, Mul and Div of two broadcast operands: f32, and the QDQ form on 8 bits (numerics.md section 4).
//!
//! The kernels want operands of the result's shape. One that is smaller is repeated first: a constant at compile time,
//! anything else by a copy along strides.

use crate::arena::{Place, elements, elements_mut};
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips, stored_dims};
use crate::relayout::failed;
use crate::rows::{byte, float, needs, only_fp32, ordered_act, output_ty, row, when, word};
use crate::storage::{byte_in, byte_out};
use crate::strided::{Walk, strides};
use ottava_hal::capability::{FusedSupport, Predicate};
use ottava_hal::{DataType, Error, Node, OpRow, Reason, Result, Tensor, TensorType, ValueId};
use ottava_kernels::{BinaryOp, BinaryQ, Exec, binary_f32, binary_q, clip_f32};

/// Rows of an arithmetic operator.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let clamp = FusedSupport { clamp: true, ..FusedSupport::default() };
    let act = FusedSupport { act: true, ..FusedSupport::default() };
    let typed = OpRow { fused: clamp, ..row(op, vec![byte(), byte()], byte()) };
    let plain = OpRow { fused: act, ..row(op, vec![float(), float()], float()) };
    let words = row(op, vec![byte(), byte()], word());
    let fits = needs(Reason::AttrValue, "scales with a fixed-point form", super::fixed::binary_fits);
    let fixed = when(super::fixed::only_fixed(typed.clone()), [broadcasts(), fits]);
    let mut rows = vec![when(only_fp32(typed), [broadcasts()]), when(plain, [broadcasts(), ordered_act()])];
    rows.push(when(only_fp32(words), [broadcasts()]));
    rows.extend((op != "Div").then_some(fixed));
    rows
}

fn broadcasts() -> Predicate {
    needs(Reason::ShapeLimit, "two operands that broadcast to the output", |p, n| {
        let Some(y) = output_ty(p, n).and_then(|t| t.shape.known()) else { return false };
        let fits = |id: &Option<ValueId>| {
            id.and_then(|id| p.ty(id).shape.known()).is_some_and(|x| repeat_strides(&x, &y).is_some())
        };
        n.inputs.len() == 2 && n.inputs.iter().all(fits)
    })
}

/// Strides in elements that walk a row-major tensor of extents `from` as if it had extents `to`; 0 where it repeats.
pub(crate) fn repeat_strides(from: &[usize], to: &[usize]) -> Option<Vec<usize>> {
    let missing = to.len().checked_sub(from.len())?;
    let own = strides(from);
    let one = |(i, n): (usize, &usize)| match i.checked_sub(missing) {
        None => Some(0),
        Some(j) if from[j] == *n => Some(own[j]),
        Some(j) => (from[j] == 1).then_some(0),
    };
    to.iter().enumerate().map(one).collect()
}

/// Steps of an arithmetic operator.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node, op: BinaryOp) -> Result<()> {
    let (a, b, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    if builder.is_taken(y) {
        return Ok(()); // the product before it has taken the sum ([`super::tail_f32`], [`super::sum`])
    }
    let ty = builder.ty(y);
    if ty.quant.is_none() {
        return super::pointwise::build(builder, node);
    }
    let nhwc = [a, b].iter().any(|id| builder.is_nhwc(*id) && builder.ty(*id).shape == ty.shape);
    let reads = vec![repeated(builder, a, ty, nhwc)?, repeated(builder, b, ty, nhwc)?];
    if super::fixed::mode(node).is_some() {
        let run = super::fixed::binary(builder, node, op, [a, b])?;
        let write = builder.result(y, nhwc)?;
        let name = format!("{}_q31_u8", node.op.to_lowercase());
        builder.push_elementwise(&name, reads, write, run);
        return Ok(());
    }
    if ty.dtype == DataType::S16 {
        return super::words::binary(builder, node, op, [(a, reads[0]), (b, reads[1])], nhwc);
    }
    let (a, b) = (byte_in(builder.ty(a))?, byte_in(builder.ty(b))?);
    let (write, signed) = builder.result_signed(y, nhwc)?;
    let (y_scale, out) = byte_out(ty, node, signed)?;
    let q = BinaryQ { a, b, lo: f32::NEG_INFINITY, hi: f32::INFINITY, y_scale, out };
    let name = builder.kernel(&format!("{}_u8_u8_u8", node.op.to_lowercase()));
    let run =
        move |exec: Exec<'_>, [a, b]: [&[u8]; 2], out: &mut [u8]| binary_q(exec, op, &q, a, b, out).map_err(failed);
    builder.push_elementwise(&name, reads, write, Box::new(run));
    Ok(())
}

/// One operation of f32.
pub(crate) fn push_f32(builder: &mut Builder<'_>, name: &str, reads: Vec<Place>, write: Place, op: BinaryOp) {
    let run = move |exec: Exec<'_>, [a, b]: [&[u8]; 2], out: &mut [u8]| {
        binary_f32(exec, op, elements(a)?, elements(b)?, elements_mut(out)?).map_err(failed)
    };
    builder.push_elementwise(name, reads, write, Box::new(run));
}

/// f32 between two bounds.
pub(crate) fn push_clip(builder: &mut Builder<'_>, name: &str, from: Place, to: Place, (lo, hi): (f32, f32)) {
    let run = move |exec: Exec<'_>, [x, _]: [&[u8]; 2], out: &mut [u8]| {
        clip_f32(exec, elements(x)?, lo, hi, elements_mut(out)?).map_err(failed)
    };
    builder.push_elementwise(name, vec![from], to, Box::new(run));
}

/// The value in the given layout with the extents of `to`.
pub(crate) fn repeated(builder: &mut Builder<'_>, id: ValueId, to: &TensorType, nhwc: bool) -> Result<Place> {
    let ty = builder.ty(id);
    if ty.shape == to.shape {
        return builder.operand(id, nhwc);
    }
    let form = Form::inside(to, nhwc);
    let refused = || Error::unsupported(Reason::ShapeLimit, format!("{ty} does not broadcast to {to}"));
    let mut steps = repeat_strides(&dims(ty)?, &dims(to)?).ok_or_else(refused)?;
    if form.nhwc {
        steps[1..].rotate_left(1);
    }
    let width = ty.dtype.bits() / 8;
    let shape = stored_dims(to, form)?;
    let walk = Walk::new(&shape, &steps, width);
    let flat = Form { nhwc: false, flipped: flips(ty) };
    let from = builder.in_form(id, flat)?;
    if let (true, Place::Const(i)) = (builder.is_constant(id), from) {
        let mut data = Tensor::zeros(ty.dtype, &shape)?;
        walk.copy(builder.constants[i].bytes(), data.bytes_mut())?;
        return Ok(builder.constant(data));
    }
    let bytes = dims(to)?.iter().product::<usize>() * width;
    let place = builder.buffer(bytes);
    builder.push("repeat", vec![from], place, None, Box::new(move |_, io| walk.copy(io.bytes(0)?, io.out)));
    Ok(place)
}
