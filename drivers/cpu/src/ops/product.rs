//! Conv, Gemm and MatMul with constant weights: their geometry, and the conditions under which the kernels apply.
//!
//! All three are a convolution of the kernels crate over NHWC; a matrix product is its 1 x 1 case. Whether the integer or
//! the float kernel runs follows from the types.

use super::matmul_f32;
use super::product_f32;
use super::product_typed;
use super::window::{Window, height_width};
use crate::builder::{Builder, input};
use crate::form::dims;
use crate::rows::{
    act_bounds, byte, float, float_constant, input_ty, needs, ordered_act, other, output_ty, per_tensor, row, weight,
    when, word,
};
use ottava_hal::capability::{FusedSupport, Operand, Predicate};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result, Scheme, Tensor, ValueId};
use ottava_kernels::{ConvShape, WeightLayout};

/// Bytes of a padded image that are allowed whatever the image.
const FRAME_BYTES: usize = 64 << 20;
/// Beyond them, the size of the padded image over that of the image.
const FRAME_RATIO: usize = 16;
/// Pixels that a kernel may address behind the last one, in steps of the stride.
const PIXELS_BEHIND: usize = 16;

/// Geometry of a product.
pub(crate) struct Product {
    /// Shape for the kernel.
    pub(crate) shape: ConvShape,
    /// Order of the weights.
    pub(crate) layout: WeightLayout,
    /// Axis of the weights along which output channels lie.
    pub(crate) channel_axis: usize,
    /// Whether operands are images, channels last.
    pub(crate) nhwc: bool,
    /// Factor of the sum (Gemm).
    pub(crate) alpha: f32,
}

impl Product {
    /// The geometry of a node.
    pub(crate) fn of(program: &Program, node: &Node) -> Result<Self> {
        let x = dims(program.ty(input(node, 0)?))?;
        let w = dims(program.ty(input(node, 1)?))?;
        match node.op.as_str() {
            "Conv" => Self::conv(node, &x, &w),
            "Gemm" => Self::gemm(node, &x, &w),
            _ => Self::matmul(&x, &w),
        }
    }

    fn conv(node: &Node, x: &[usize], w: &[usize]) -> Result<Self> {
        let [in_h, in_w] = height_width(x)?;
        let groups = usize::try_from(node.attrs.int("group", 1)?).ok().filter(|g| *g > 0);
        let groups = groups.ok_or_else(|| Error::invalid("`group` must be above 0"))?;
        if w.len() != x.len() || w[1].checked_mul(groups) != Some(x[1]) || !w[0].is_multiple_of(groups) {
            return Err(Error::invalid(format!("weights {w:?} do not fit an input {x:?} in {groups} groups")));
        }
        let window = Window::parse(&node.attrs, x, Some(&w[2..]))?;
        let Window { kernel, stride, dilation, pads } = window;
        let shape = ConvShape { in_h, in_w, in_c: x[1], out_c: w[0], kernel, stride, dilation, pads, groups };
        Ok(Self { shape, layout: WeightLayout::Oihw, channel_axis: 0, nhwc: true, alpha: 1.0 })
    }

    fn gemm(node: &Node, x: &[usize], w: &[usize]) -> Result<Self> {
        let transposed = node.attrs.int("transB", 0)? != 0;
        let (layout, channel_axis) = if transposed { (WeightLayout::NK, 0) } else { (WeightLayout::KN, 1) };
        let alpha = node.attrs.float("alpha", 1.0)?;
        Ok(Self { layout, alpha, ..Self::matrix(x, w, channel_axis)? })
    }

    fn matmul(x: &[usize], w: &[usize]) -> Result<Self> {
        Self::matrix(x, w, 1)
    }

    fn matrix(x: &[usize], w: &[usize], channel_axis: usize) -> Result<Self> {
        let (Some(k), [_, _]) = (x.last(), w) else {
            return Err(Error::invalid(format!("weights {w:?} are no matrix, or {x:?} has no last axis")));
        };
        if w[1 - channel_axis] != *k {
            return Err(Error::invalid(format!("weights {w:?} do not fit an input {x:?}")));
        }
        let shape = ConvShape::gemm(*k, w[channel_axis]);
        Ok(Self { shape, layout: WeightLayout::KN, channel_axis, nhwc: false, alpha: 1.0 })
    }
}

/// The residual operand, if the node has one: the last input.
pub(crate) fn residual(node: &Node) -> Option<ValueId> {
    if node.fused.residual { node.inputs.last().copied().flatten() } else { None }
}

/// The bias operand: input 2, unless that is the residual.
pub(crate) fn bias(node: &Node) -> Option<ValueId> {
    let own = node.inputs.len().saturating_sub(usize::from(node.fused.residual));
    if own > 2 { node.input(2) } else { None }
}

/// Whether input `i` of a node is a weight that is packed and not looked at again.
pub(crate) fn is_packed(program: &Program, node: &Node, i: usize) -> bool {
    if node.op == "DynamicMatMul" {
        return i == 1;
    }
    let product = match node.op.as_str() {
        "Conv" | "Gemm" => true,
        "MatMul" => node.input(1).is_some_and(|id| program.ty(id).shape.0.len() == 2),
        _ => false,
    };
    product && node.domain.is_empty() && i == 1 && residual(node) != node.input(1)
}

/// The constant of a value, which the capability has asked for.
pub(crate) fn constant(program: &Program, id: ValueId) -> Result<&Tensor> {
    let value = program.value(id);
    let missing = || Error::unsupported(Reason::ConstRequired, format!("`{}` must be constant", value.name));
    value.constant.as_ref().ok_or_else(missing)
}

/// Rows of Conv.
pub(crate) fn conv_rows(op: &'static str) -> Vec<OpRow> {
    rows(op, (3, 4), &[])
}

/// Rows of Gemm.
pub(crate) fn gemm_rows(op: &'static str) -> Vec<OpRow> {
    let attrs = [
        needs(Reason::AttrValue, "transA = 0", |_, n| n.attrs.int("transA", 0) == Ok(0)),
        needs(Reason::AttrValue, "beta = 1 with a C operand", |_, n| {
            bias(n).is_none() || n.attrs.float("beta", 1.0) == Ok(1.0)
        }),
        needs(Reason::AttrValue, "alpha = 1 in float, above 0 in integers", |p, n| {
            let typed = input_ty(p, n, 0).is_some_and(|t| t.quant.is_some());
            n.attrs.float("alpha", 1.0).is_ok_and(|a| a == 1.0 || (typed && a > 0.0 && a.is_finite()))
        }),
    ];
    rows(op, (2, 2), &attrs)
}

/// Rows of MatMul; leading axes of the first operand are rows of one matrix.
pub(crate) fn matmul_rows(op: &'static str) -> Vec<OpRow> {
    rows(op, (1, usize::MAX), &[]).into_iter().chain(matmul_f32::rows(op)).collect()
}

fn rows(op: &'static str, ranks: (usize, usize), attrs: &[Predicate]) -> Vec<OpRow> {
    let shapes = needs(Reason::ShapeLimit, "weights and window that fit the input", |p, n| {
        Product::of(p, n).is_ok_and(|g| g.shape.out_hw().is_ok())
    });
    let framed = needs(Reason::ShapeLimit, "a padded image of at most 64 MiB, or 16 times the image", |p, n| {
        Product::of(p, n).is_ok_and(|g| frame_fits(&g.shape))
    });
    let fused = FusedSupport { clamp: true, residual: true, act: true, zp_before_round: false };
    let typed = |output: Operand, fused: FusedSupport| {
        let base = OpRow { ranks, fused, ..row(op, vec![byte(), weight(), other()], output) };
        let integer =
            [shapes, framed, channel_scales(), typed_bias(), typed_residual(), ordered_act(), act_place(), fits_i32()];
        when(base, integer.into_iter().chain(attrs.iter().copied()))
    };
    let float_fused = FusedSupport { clamp: false, ..fused };
    let plain = OpRow { ranks, fused: float_fused, ..row(op, vec![float(), float_constant(), other()], float()) };
    let plain = when(
        plain,
        [shapes, framed, ordered_act(), float_bias(), float_residual()].into_iter().chain(attrs.iter().copied()),
    );
    let summed = needs(Reason::FusionRequired, "a residual before 16 bits", |_, n| residual(n).is_some());
    let words = when(typed(word(), float_fused), [summed]);
    vec![typed(byte(), fused), typed(float(), float_fused), words, plain]
}

/// Whether a padded copy of the image is worth its memory. Absurd pads, strides or dilations ask for gigabytes of zero
/// points around a few pixels; the reference, which copies nothing, runs such a node.
fn frame_fits(shape: &ConvShape) -> bool {
    let [top, left, bottom, right] = shape.pads;
    let extent = |input: usize, before: usize, after: usize, stride: usize| {
        let padded = input.saturating_add(before).saturating_add(after);
        padded.saturating_add(stride.saturating_sub(1).saturating_mul(PIXELS_BEHIND))
    };
    let bytes = |h: usize, w: usize| h.saturating_mul(w).saturating_mul(shape.in_c);
    let (h, w) = (extent(shape.in_h, top, bottom, shape.stride[0]), extent(shape.in_w, left, right, shape.stride[1]));
    bytes(h, w) <= FRAME_BYTES.max(bytes(shape.in_h, shape.in_w).saturating_mul(FRAME_RATIO))
}

fn channel_scales() -> Predicate {
    needs(Reason::QuantAxis, "weight scales along the output channels", |p, n| {
        let scheme = input_ty(p, n, 1).and_then(|t| t.quant.as_ref()).map(|q| q.scheme);
        match scheme {
            Some(Scheme::PerTensor) => true,
            Some(Scheme::PerAxis { axis }) => Product::of(p, n).is_ok_and(|g| g.channel_axis == axis),
            _ => false,
        }
    })
}

/// Whether a bias has one entry per channel, or one for all.
fn per_channel(program: &Program, node: &Node, id: ValueId) -> bool {
    let (Ok(product), shape) = (Product::of(program, node), &program.ty(id).shape) else { return false };
    let Some(n) = shape.elements() else { return false };
    let last = shape.0.last().map_or(1, |d| d.known().unwrap_or(0));
    n == last && (n == product.shape.out_c || (n == 1 && node.op == "Gemm"))
}

fn typed_bias() -> Predicate {
    needs(Reason::ConstRequired, "a constant s32 (or, before a quantized output, f32) bias per channel", |p, n| {
        let Some(id) = bias(n) else { return true };
        let (ty, quantized) = (p.ty(id), output_ty(p, n).is_some_and(|t| t.quant.is_some()));
        let float = ty.dtype == DataType::F32 && quantized;
        let dtype = ty.dtype == DataType::S32 || float;
        dtype && p.value(id).constant.is_some() && per_channel(p, n, id)
    })
}

fn float_bias() -> Predicate {
    needs(Reason::ConstRequired, "a constant f32 bias per channel", |p, n| {
        let Some(id) = bias(n) else { return true };
        let plain = p.ty(id).dtype == DataType::F32 && p.ty(id).quant.is_none();
        plain && p.value(id).constant.is_some() && per_channel(p, n, id)
    })
}

/// Whether the residual has the output's shape and is f32 or, where `bytes` may be, 8-bit with one scale.
fn residual_fits(program: &Program, node: &Node, bytes: bool) -> bool {
    let Some(ty) = residual(node).map(|id| program.ty(id)) else { return !node.fused.residual };
    let byte = bytes && matches!(ty.dtype, DataType::U8 | DataType::S8) && per_tensor(ty).is_some();
    let float = ty.dtype == DataType::F32 && ty.quant.is_none();
    (byte || float) && output_ty(program, node).is_some_and(|y| y.shape == ty.shape)
}

fn typed_residual() -> Predicate {
    let text = "an 8-bit per-tensor or f32 residual of the output's shape";
    needs(Reason::FusionRequired, text, |p, n| residual_fits(p, n, true))
}

fn float_residual() -> Predicate {
    needs(Reason::FusionRequired, "an f32 residual of the output's shape", |p, n| residual_fits(p, n, false))
}

/// A float activation of a quantized result exists only between a residual and Quantize.
fn act_place() -> Predicate {
    needs(Reason::FusionRequired, "a float activation only on a float result or after a residual", |p, n| {
        let quantized = output_ty(p, n).is_some_and(|t| t.quant.is_some());
        act_bounds(n) == (f32::NEG_INFINITY, f32::INFINITY) || !quantized || n.fused.residual
    })
}

fn fits_i32() -> Predicate {
    needs(Reason::AccOverflow, "weights whose sums provably fit i32", product_typed::fits_i32)
}

/// Steps of a product.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    if node.op == "MatMul" && matmul_f32::applies(builder, node) {
        return matmul_f32::build(builder, node);
    }
    let product = Product::of(builder.program, node)?;
    if builder.ty(input(node, 0)?).quant.is_some() {
        product_typed::build(builder, node, product)
    } else {
        product_f32::build(builder, node, product)
    }
}
