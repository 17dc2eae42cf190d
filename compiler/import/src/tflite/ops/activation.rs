//! Activations: those fused into other operators, and operators of one input that are functions of one number.
//!
//! Quantized functions of one 8-bit value are tables in TFLite's reference kernels, made in f32 with
//! `round(f(x) * (1 / so)) + zo`; the importer makes the same table (`ottava::Lut`). In mode `fp32_rne` the node is the
//! ONNX operator and the table that of numerics.md section 6. Of 16-bit values some are tables too (`table16`), others
//! carry the mode and have forms of their own.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::table16;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::tflite::{TfliteLeakyRelu, TfliteRequant};
use ottava_hal::{DataType, Node, Tensor, TensorType, ValueId};

/// An activation by its number in the schema.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Activation {
    None,
    /// Bounds of the real value.
    Bounds(f32, f32),
    Tanh,
}

impl Activation {
    /// The fused activation in field `index` of an operator's options.
    pub fn fused(op: &Operator<'_>, index: u16) -> Built<Self> {
        let number = match &op.options {
            Some(options) => options.i8(Field(index, "fused_activation_function"), 0)?,
            None => 0,
        };
        match number {
            0 => Ok(Self::None),
            1 => Ok(Self::Bounds(0.0, f32::INFINITY)),
            2 => Ok(Self::Bounds(-1.0, 1.0)),
            3 => Ok(Self::Bounds(0.0, 6.0)),
            4 => Ok(Self::Tanh),
            5 => Refusal::unsupported(
                "the fused activation SIGN_BIT; NONE, RELU, RELU_N1_TO_1, RELU6 and TANH are supported",
            ),
            n => Refusal::invalid(format!("the fused activation {n} does not exist")),
        }
    }
}

/// Adds a node with an activation behind it. On integers bounds are clamps, on floats nodes of their own.
pub(crate) fn push_activated(cx: &mut Cx<'_>, mut node: Node, act: Activation, t: usize, layout: Layout) -> Built {
    let quantized = cx.per_tensor(t)?;
    match (act, quantized) {
        (Activation::None, _) => cx.push(node, &[t], layout),
        (Activation::Bounds(lo, hi), Some(_)) => {
            node.fused.clamp = clamp(cx, t, lo, hi)?;
            cx.push(node, &[t], layout)
        }
        (Activation::Tanh, Some(_)) => Refusal::unsupported(
            "the fused activation TANH on integers; NONE, RELU, RELU_N1_TO_1 and RELU6 are supported",
        ),
        (act, None) => {
            let ty = cx.ty(t, layout)?;
            let id = cx.push_inner(node, t, "linear", ty);
            let act = real_activation(cx, act, t, id)?;
            cx.push(act, &[t], layout)
        }
    }
}

/// The node of a float activation.
fn real_activation(cx: &mut Cx<'_>, act: Activation, t: usize, x: ValueId) -> Built<Node> {
    let mut node = match act {
        Activation::Bounds(0.0, f32::INFINITY) => cx.node("Relu", 14, t),
        Activation::Bounds(..) => cx.node("Clip", 13, t),
        Activation::Tanh => cx.node("Tanh", 13, t),
        Activation::None => cx.node("Identity", 13, t),
    };
    node.inputs = vec![Some(x)];
    if let (Activation::Bounds(lo, hi), "Clip") = (act, node.op.as_str()) {
        let name = cx.def(t).name.clone();
        node.inputs.push(Some(cx.add_constant(&format!("{name}/low"), Tensor::scalar(lo), None)));
        node.inputs.push(Some(cx.add_constant(&format!("{name}/high"), Tensor::scalar(hi), None)));
    }
    Ok(node)
}

/// Real bounds as integers of tensor `t`, rounded as TFLite does; `None` where they are those of the storage.
pub(crate) fn clamp(cx: &Cx<'_>, t: usize, lo: f32, hi: f32) -> Built<Option<(i32, i32)>> {
    let ty = cx.ty(t, Layout::File)?;
    let (Some((scale, zp)), Some((least, most))) = (cx.per_tensor(t)?, ty.dtype.storage_range()) else {
        return Ok(None);
    };
    let quantized = |v: f32| zp.saturating_add((v / scale).round() as i32).clamp(least, most);
    let low = if lo.is_finite() { quantized(lo) } else { least };
    let high = if hi.is_finite() { quantized(hi) } else { most };
    Ok(((low, high) != (least, most)).then_some((low, high.max(low))))
}

/// RELU, RELU6, RELU_N1_TO_1 and RELU_0_TO_1 as operators: on integers a requantization with a clamp.
fn bounded(cx: &mut Cx<'_>, op: &Operator<'_>, lo: f32, hi: f32) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let layout = cx.layout_of(x);
    let id = cx.value(x, layout)?;
    if cx.per_tensor(t)?.is_none() {
        let node = real_activation(cx, Activation::Bounds(lo, hi), t, id)?;
        return cx.push(node, &[t], layout);
    }
    // Their kernels divide the scales in f32, that of a Requantize does in f64.
    let (from, to) = (cx.per_tensor(x)?, cx.per_tensor(t)?);
    if let (Some(mode), Some((scale, zp)), Some(target)) = (cx.q31(), from, target(cx, t)?)
        && from != to
    {
        let (least, most) = clamp(cx, t, lo, hi)?.unwrap_or((target.lo, target.hi));
        if are_bytes(cx, x, t) {
            let requant = TfliteRequant::of_function(mode, Affine { scale, zp }, target);
            let requant = requant.map_err(|e| Refusal::Unsupported(e.to_string()))?;
            return table(cx, (x, id), t, layout, &|q| requant.apply(q).clamp(least, most).into());
        }
        let mut node = leaky(cx, t, 1.0);
        node.inputs = vec![Some(id)];
        node.requant = Some(mode);
        node.fused.clamp = Some((least, most));
        return cx.push(node, &[t], layout);
    }
    let mut node = cx.own_node("Requantize", t);
    node.inputs = vec![Some(id)];
    node.requant = cx.q31();
    node.fused.clamp = clamp(cx, t, lo, hi)?;
    cx.push(node, &[t], layout)
}

/// The storage of a quantized tensor.
fn target(cx: &Cx<'_>, t: usize) -> Built<Option<Target>> {
    let (params, ty) = (cx.per_tensor(t)?, cx.ty(t, Layout::File)?);
    let target = |((scale, zp), (lo, hi))| Target { scale, zp, lo, hi };
    Ok(params.zip(ty.dtype.storage_range()).map(target))
}

/// A LeakyRelu without inputs.
fn leaky(cx: &mut Cx<'_>, t: usize, alpha: f32) -> Node {
    let mut node = cx.node("LeakyRelu", 16, t);
    node.attrs.set("alpha", Attr::Float(alpha));
    node
}

/// RELU.
pub(crate) fn relu(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    bounded(cx, op, 0.0, f32::INFINITY)
}

/// RELU6.
pub(crate) fn relu6(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    bounded(cx, op, 0.0, 6.0)
}

/// RELU_N1_TO_1.
pub(crate) fn relu_n1_to_1(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    bounded(cx, op, -1.0, 1.0)
}

/// RELU_0_TO_1.
pub(crate) fn relu_0_to_1(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    bounded(cx, op, 0.0, 1.0)
}

/// An operator of one number: the ONNX operator, and the same in f32 for tables.
pub(crate) struct Function {
    pub op: &'static str,
    pub version: u32,
    pub f32: fn(f32) -> f32,
}

/// An operator of one number.
pub(crate) fn function(cx: &mut Cx<'_>, op: &Operator<'_>, f: Function) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let layout = cx.layout_of(x);
    let id = cx.value(x, layout)?;
    let (from, to) = (cx.per_tensor(x)?, cx.per_tensor(t)?);
    let bytes = cx.ty(x, layout)?.dtype.bits() == 8 && cx.ty(t, layout)?.dtype.bits() == 8;
    if let (Some(from), Some(to), true, Some(_)) = (from, to, bytes, cx.q31()) {
        return table(cx, (x, id), t, layout, &|q| quantized(q, from, to, f.f32));
    }
    if table16::applies(cx, x, t) && TABLES16.contains(&f.op) {
        return table16::push(cx, (x, id), t, layout, &f);
    }
    let mut node = cx.node(f.op, f.version, t);
    node.inputs = vec![Some(id)];
    node.requant = cx.q31().filter(|_| table16::applies(cx, x, t) && FORMS16.contains(&f.op));
    cx.push(node, &[t], layout)
}

/// Functions of 16-bit values that are tables in TFLite's kernels.
const TABLES16: &[&str] = &["Exp", "Gelu", "Log"];
/// Functions of 16-bit values that are formulas of integers there.
const FORMS16: &[&str] = &["Abs", "Sigmoid", "Tanh"];

/// `round(f(s * (q - z)) * (1 / so)) + zo` in f32, as TFLite fills its tables. Infinities saturate; where the function has no
/// value, it is the least one of the storage (numerics.md section 2).
fn quantized(q: i32, (scale, zp): (f32, i32), (to, to_zp): (f32, i32), f: fn(f32) -> f32) -> i64 {
    let real = f(scale * q.wrapping_sub(zp) as f32);
    let steps = (real * (1.0 / to)).round();
    if steps.is_nan() { i64::MIN } else { (steps as i64).saturating_add(i64::from(to_zp)) }
}

/// Whether both tensors are of 8 bits, so that a table can say what becomes of each value.
fn are_bytes(cx: &Cx<'_>, x: usize, t: usize) -> bool {
    [x, t].iter().all(|&t| cx.ty(t, Layout::File).is_ok_and(|ty| ty.dtype.bits() == 8))
}

/// A table from the bytes of one tensor to those of another.
pub(crate) fn table(cx: &mut Cx<'_>, x: (usize, ValueId), t: usize, layout: Layout, f: &dyn Fn(i32) -> i64) -> Built {
    let (from, to) = (cx.ty(x.0, layout)?, cx.ty(t, layout)?);
    let entries = entries(&from, &to, f)?;
    let name = format!("{}/table", cx.def(t).name);
    let entries = cx.add_constant(&name, entries, None);
    let mut node = cx.own_node("Lut", t);
    node.inputs = vec![Some(x.1), Some(entries)];
    cx.push(node, &[t], layout)
}

/// 256 entries by the byte of the input.
fn entries(from: &TensorType, to: &TensorType, f: &dyn Fn(i32) -> i64) -> Built<Tensor> {
    let Some((lo, hi)) = to.dtype.storage_range() else {
        return Refusal::unsupported(format!("a table of {}; integers of 8 bits are supported", to.dtype));
    };
    let value = |byte: u8| if from.dtype == DataType::S8 { i32::from(byte as i8) } else { i32::from(byte) };
    let entries: Vec<i64> = (0..=255).map(|b| f(value(b)).clamp(lo.into(), hi.into())).collect();
    Ok(Tensor::from_ints(to.dtype, &[256], &entries)?)
}

/// LOGISTIC.
pub(crate) fn logistic(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Sigmoid", version: 13, f32: |x| 1.0 / (1.0 + (-x).exp()) })
}

/// TANH.
pub(crate) fn tanh(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Tanh", version: 13, f32: f32::tanh })
}

/// EXP.
pub(crate) fn exp(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Exp", version: 13, f32: f32::exp })
}

/// LOG.
pub(crate) fn log(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Log", version: 13, f32: f32::ln })
}

/// ELU.
pub(crate) fn elu(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Elu", version: 6, f32: |x| if x < 0.0 { x.exp_m1() } else { x } })
}

/// ABS.
pub(crate) fn abs(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let tabled = cx.q31().filter(|_| are_bytes(cx, x, t));
    if let (Some((scale, zp)), Some(to), Some(mode)) = (cx.per_tensor(x)?, target(cx, t)?, tabled) {
        let requant = TfliteRequant::of_function(mode, Affine { scale, zp }, to);
        let requant = requant.map_err(|e| Refusal::Unsupported(e.to_string()))?;
        let layout = cx.layout_of(x);
        let id = cx.value(x, layout)?;
        return table(cx, (x, id), t, layout, &|q| requant.size(q).into());
    }
    function(cx, op, Function { op: "Abs", version: 13, f32: f32::abs })
}

/// NEG.
pub(crate) fn neg(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Neg", version: 13, f32: |x| -x })
}

/// SQRT; its kernel cuts what is behind the point off.
pub(crate) fn sqrt(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let tabled = cx.q31().is_some() && are_bytes(cx, x, t);
    if let (Some((scale, zp)), Some(to), true) = (cx.per_tensor(x)?, target(cx, t)?, tabled) {
        let layout = cx.layout_of(x);
        let id = cx.value(x, layout)?;
        let root = move |q: i32| ((scale * q.wrapping_sub(zp).max(0) as f32).sqrt() / to.scale) as i64;
        return table(cx, (x, id), t, layout, &|q| root(q).saturating_add(to.zp.into()));
    }
    function(cx, op, Function { op: "Sqrt", version: 13, f32: f32::sqrt })
}

/// SIN.
pub(crate) fn sin(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Sin", version: 7, f32: f32::sin })
}

/// COS.
pub(crate) fn cos(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Cos", version: 7, f32: f32::cos })
}

/// FLOOR.
pub(crate) fn floor(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Floor", version: 13, f32: f32::floor })
}

/// CEIL.
pub(crate) fn ceil(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    function(cx, op, Function { op: "Ceil", version: 13, f32: f32::ceil })
}

/// LEAKY_RELU.
pub(crate) fn leaky_relu(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let alpha = op.options.map_or(Ok(0.0), |o| o.f32(Field(0, "alpha"), 0.0))?;
    let layout = cx.layout_of(x);
    let id = cx.value(x, layout)?;
    let tabled = cx.q31().filter(|_| are_bytes(cx, x, t));
    if let (Some((scale, zp)), Some(to), Some(mode)) = (cx.per_tensor(x)?, target(cx, t)?, tabled) {
        let relu = TfliteLeakyRelu::new(mode, Affine { scale, zp }, alpha, to);
        let relu = relu.map_err(|e| Refusal::Unsupported(e.to_string()))?;
        return table(cx, (x, id), t, layout, &|q| relu.apply(q).into());
    }
    let mut node = leaky(cx, t, alpha);
    node.inputs = vec![Some(id)];
    node.requant = cx.q31().filter(|_| table16::applies(cx, x, t));
    cx.push(node, &[t], layout)
}

/// HARD_SWISH.
pub(crate) fn hard_swish(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let f = |x: f32| x * (x + 3.0).clamp(0.0, 6.0) / 6.0;
    function(cx, op, Function { op: "HardSwish", version: 14, f32: f })
}

/// SOFTMAX, along the last axis.
pub(crate) fn softmax(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, t) = (cx.input(op, 0)?, cx.output(op, 0)?);
    let beta = match &op.options {
        Some(options) => options.f32(Field(0, "softmax.beta"), 0.0)?,
        None => 1.0,
    };
    let mut node = cx.node("Softmax", 13, t);
    node.attrs.set("axis", Attr::Int(-1));
    let quantized = cx.per_tensor(t)?.is_some();
    node.requant = if quantized { cx.q31() } else { None };
    let id = match (beta == 1.0, quantized) {
        (true, _) => cx.value(x, Layout::File)?,
        (false, false) => super::more::scaled(cx, x, t, beta)?,
        (false, true) => return Refusal::unsupported(format!("beta is {beta}; on integers 1 is supported")),
    };
    node.inputs = vec![Some(id)];
    cx.push(node, &[t], Layout::File)
}
