//! TRANSPOSE_CONV and BATCH_MATMUL.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::activation::{Activation, push_activated};
use super::product::{Weights, bias, options, pair};
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{Scheme, ValueId};

/// Elements before and behind an axis that the gradient of a convolution drops, and those that it adds behind.
fn borders(input: usize, output: usize, kernel: usize, stride: i64) -> Built<[i64; 3]> {
    let int = |n: usize| i64::try_from(n).ok().filter(|n| *n <= 1 << 31);
    let (Some(input), Some(output), Some(kernel)) = (int(input), int(output), int(kernel)) else {
        return Refusal::invalid(format!("an axis of {input} pixels becomes {output}"));
    };
    let full = (input.max(1) - 1).saturating_mul(stride).saturating_add(kernel);
    let total = full.saturating_sub(output).max(0);
    Ok([total / 2, total - total / 2, output.saturating_sub(full).max(0)])
}

/// TRANSPOSE_CONV: the shape of the result, weights `[o, h, w, i]`, the image, perhaps a bias.
pub(crate) fn transpose_conv(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (w, x, t) = (cx.input(op, 1)?, cx.input(op, 2)?, cx.output(op, 0)?);
    let options = options(op)?;
    let strides = pair(&options, Field(2, "stride_h"), Field(1, "stride_w"), 0)?;
    let act = Activation::fused(op, 3)?;
    let mut weights = Weights::of(cx, w, &[3, 0, 1, 2], 0)?;
    let real = cx.params(x)?.is_none();
    if real && weights.params.is_some() {
        return Refusal::unsupported("integer weights under a float image; convert the model to float or to int8");
    }
    let kernel = weights.data.shape()[2..].to_vec();
    let (&[_, h, w_in, _], &[_, oh, ow, _]) = (&cx.extents(x)?[..], &cx.extents(t)?[..]) else {
        return Refusal::invalid("the image and the result need 4 axes");
    };
    let (rows, columns) = (borders(h, oh, kernel[0], strides[0])?, borders(w_in, ow, kernel[1], strides[1])?);
    let bias = bias(cx, (x, cx.optional(op, 3)?, t), &weights, real)?;
    if let Some(p) = &mut weights.params
        && let Scheme::PerAxis { axis } = &mut p.scheme
    {
        // Channels of the result are axis 1 of the weights here.
        *axis = 1;
    }
    let mut node = cx.node("ConvTranspose", 22, t);
    node.attrs.set("strides", Attr::Ints(strides));
    node.attrs.set("kernel_shape", Attr::Ints(kernel.iter().map(|d| *d as i64).collect()));
    node.attrs.set("pads", Attr::Ints(vec![rows[0], columns[0], rows[1], columns[1]]));
    node.attrs.set("output_padding", Attr::Ints(vec![rows[2], columns[2]]));
    let id = weights.add(cx, w);
    node.inputs = vec![Some(cx.value(x, Layout::Image)?), Some(id)];
    node.inputs.extend(bias.map(Some));
    node.requant = (!real).then_some(cx.mode);
    push_activated(cx, node, act, t, Layout::Image)
}

/// BATCH_MATMUL; either operand may stand transposed.
pub(crate) fn batch_matmul(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, y, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let flag = |i: u16, name: &'static str| op.options.map_or(Ok(false), |o| o.bool(Field(i, name)));
    let (adj_x, adj_y) = (flag(0, "adj_x")?, flag(1, "adj_y")?);
    let quantized = [x, y, t].map(|v| cx.per_tensor(v).map(|p| p.is_some()));
    let [qx, qy, qt] = quantized;
    let (qx, qy, qt) = (qx?, qy?, qt?);
    if (qx, qy) != (qt, qt) {
        return Refusal::unsupported("integers beside floats; both operands float or both quantized are supported");
    }
    let mut node = cx.node("MatMul", 13, t);
    node.inputs = vec![Some(matrix(cx, x, adj_x)?), Some(matrix(cx, y, adj_y)?)];
    node.requant = qt.then_some(cx.mode);
    cx.push(node, &[t], Layout::File)
}

/// An operand, its last two axes swapped if asked for.
fn matrix(cx: &mut Cx<'_>, x: usize, swapped: bool) -> Built<ValueId> {
    let (id, mut ty) = (cx.value(x, Layout::File)?, cx.ty(x, Layout::File)?);
    let rank = ty.shape.rank();
    if rank < 2 {
        return Refusal::invalid(format!("`{}` has {rank} axes; a matrix has 2", cx.def(x).name));
    }
    if !swapped {
        return Ok(id);
    }
    let mut perm: Vec<i64> = (0..rank as i64).collect();
    perm.swap(rank - 1, rank - 2);
    ty.shape.0.swap(rank - 1, rank - 2);
    let mut node = cx.node("Transpose", 13, x);
    node.attrs.set("perm", Attr::Ints(perm));
    node.inputs = vec![Some(id)];
    Ok(cx.push_inner(node, x, "transposed", ty))
}
