//! CONV_2D, DEPTHWISE_CONV_2D, FULLY_CONNECTED.
//!
//! Weights come as `[o, h, w, i]` (depthwise `[1, h, w, o]`, fully connected `[o, i]`) and become those of Conv and Gemm.
//! The s32 bias is brought to the scale of the accumulator where the file has another one (numerics.md section 4).

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::{Field, Table};
use super::super::schema::Operator;
use super::super::tensor::transpose;
use super::activation::{Activation, push_activated};
use super::hybrid;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::refmath::bias::adopt_bias;
use ottava_hal::{DataType, Dim, Node, QuantParams, RequantMode, Scheme, Shape, Tensor, TensorType, ValueId};

/// The options of an operator, which must be there.
pub(crate) fn options<'m>(op: &Operator<'m>) -> Built<Table<'m>> {
    op.options.ok_or_else(|| Refusal::Invalid("the operator has no options".into()))
}

/// Stride, dilation or window of two fields, above 0.
pub(crate) fn pair(options: &Table<'_>, h: Field, w: Field, default: i32) -> Built<Vec<i64>> {
    let values = [(options.i32(h, default)?, h.1), (options.i32(w, default)?, w.1)];
    match values.iter().find(|(v, _)| *v < 1) {
        Some((v, name)) => Refusal::invalid(format!("{name} is {v}; it must be above 0")),
        None => Ok(values.iter().map(|(v, _)| i64::from(*v)).collect()),
    }
}

/// Sets the padding of field 0: SAME pads at the end first, VALID not at all.
pub(crate) fn set_padding(node: &mut Node, options: &Table<'_>) -> Built {
    match options.i8(Field(0, "padding"), 0)? {
        0 => node.attrs.set("auto_pad", Attr::Str("SAME_UPPER".into())),
        1 => {}
        n => return Refusal::invalid(format!("the padding {n} does not exist; 0 is SAME, 1 VALID")),
    }
    Ok(())
}

/// Weights in the order of the graph's operator.
pub(crate) struct Weights {
    pub data: Tensor,
    pub params: Option<QuantParams>,
}

impl Weights {
    /// The constant of tensor `w` with its axes permuted; scales along axis `channel` of the file go along axis 0.
    pub fn of(cx: &Cx<'_>, w: usize, perm: &[usize], channel: usize) -> Built<Self> {
        let def = cx.def(w);
        if def.shape.len() != perm.len() {
            let (name, n) = (&def.name, perm.len());
            return Refusal::invalid(format!(
                "the weights `{name}` have the shape {:?}; {n} axes are expected",
                def.shape
            ));
        }
        let mut params = cx.params(w)?;
        if let Some(p) = &mut params
            && let Scheme::PerAxis { axis } = p.scheme
        {
            if axis != channel {
                let what = format!("the scales of `{}` lie along axis {axis}; axis {channel} is supported", def.name);
                return Refusal::unsupported(what);
            }
            p.scheme = Scheme::PerAxis { axis: 0 };
        }
        Ok(Self { data: transpose(&cx.constant(w)?, perm)?, params })
    }

    /// Adds them to the graph.
    pub fn add(self, cx: &mut Cx<'_>, w: usize) -> ValueId {
        cx.add_constant(&cx.def(w).name.clone(), self.data, self.params)
    }
}

/// CONV_2D.
pub(crate) fn conv_2d(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, w, options) = (cx.input(op, 0)?, cx.input(op, 1)?, options(op)?);
    let weights = Weights::of(cx, w, &[0, 3, 1, 2], 0)?;
    let (channels, per_group) = (last_extent(cx, x)?, weights.data.shape()[1]);
    if per_group == 0 || !channels.is_multiple_of(per_group) {
        return Refusal::invalid(format!("{channels} channels do not fit weights for {per_group}"));
    }
    let strides = pair(&options, Field(2, "stride_h"), Field(1, "stride_w"), 0)?;
    let dilations = pair(&options, Field(5, "dilation_h_factor"), Field(4, "dilation_w_factor"), 1)?;
    let act = Activation::fused(op, 3)?;
    convolution(cx, op, weights, Geometry { groups: channels / per_group, strides, dilations, options }, act)
}

/// DEPTHWISE_CONV_2D: a group for each channel of the input.
pub(crate) fn depthwise_conv_2d(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, w, options) = (cx.input(op, 0)?, cx.input(op, 1)?, options(op)?);
    let weights = Weights::of(cx, w, &[3, 0, 1, 2], 3)?;
    let groups = last_extent(cx, x)?;
    let shape = weights.data.shape();
    if shape[1] != 1 || groups == 0 || !shape[0].is_multiple_of(groups) {
        let found = &cx.def(w).shape;
        return Refusal::invalid(format!("depthwise weights {found:?} do not fit {groups} channels"));
    }
    let strides = pair(&options, Field(2, "stride_h"), Field(1, "stride_w"), 0)?;
    let dilations = pair(&options, Field(6, "dilation_h_factor"), Field(5, "dilation_w_factor"), 1)?;
    let act = Activation::fused(op, 4)?;
    convolution(cx, op, weights, Geometry { groups, strides, dilations, options }, act)
}

fn last_extent(cx: &Cx<'_>, t: usize) -> Built<usize> {
    let dims = cx.extents(t)?;
    match dims[..] {
        [_, _, _, c] => Ok(c),
        _ => Refusal::invalid(format!("the input `{}` has the shape {dims:?}; 4 axes are expected", cx.def(t).name)),
    }
}

struct Geometry<'m> {
    groups: usize,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    options: Table<'m>,
}

fn convolution(cx: &mut Cx<'_>, op: &Operator<'_>, weights: Weights, g: Geometry<'_>, act: Activation) -> Built {
    let (x, w, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    let mut node = cx.node("Conv", 22, t);
    set_padding(&mut node, &g.options)?;
    node.attrs.set("group", Attr::Int(g.groups as i64));
    node.attrs.set("strides", Attr::Ints(g.strides));
    node.attrs.set("dilations", Attr::Ints(g.dilations));
    node.attrs.set("kernel_shape", Attr::Ints(weights.data.shape()[2..].iter().map(|d| *d as i64).collect()));
    let real = cx.params(x)?.is_none();
    if real && weights.params.is_some() {
        let operands = hybrid::Operands { x, w, bias: cx.optional(op, 2)?, t };
        return hybrid::convolution(cx, node, operands, weights, act);
    }
    let bias = bias(cx, (x, cx.optional(op, 2)?, t), &weights, real)?;
    let id = weights.add(cx, w);
    node.inputs = vec![Some(cx.value(x, Layout::Image)?), Some(id)];
    node.inputs.extend(bias.map(Some));
    node.requant = (!real).then_some(cx.mode);
    push_activated(cx, node, act, t, Layout::Image)
}

/// The bias `b` of the product `t` over `x` at the scale of its accumulator.
pub(crate) fn bias(
    cx: &mut Cx<'_>,
    (x, b, t): (usize, Option<usize>, usize),
    weights: &Weights,
    real: bool,
) -> Built<Option<ValueId>> {
    let Some(b) = b else { return Ok(None) };
    if real {
        return cx.value(b, Layout::File).map(Some);
    }
    let (data, name) = (cx.constant(b)?, cx.def(b).name.clone());
    let (Some((xs, _)), Some(w), DataType::S32 | DataType::S64) = (cx.per_tensor(x)?, &weights.params, data.dtype())
    else {
        return Refusal::unsupported(format!("a bias of {} under integer operands; int32 is supported", data.dtype()));
    };
    let Some(params) = cx.params(b)? else {
        return Ok(Some(cx.add_constant(&name, data, None)));
    };
    let at = |i: usize, n: usize| if n == 1 { 0 } else { i };
    let (n_w, n_b) = (w.scales.len(), params.scales.len());
    let ints = data.to_ints()?;
    if (n_w != 1 && n_w != ints.len()) || (n_b != 1 && n_b != ints.len()) {
        return Refusal::invalid(format!("{} biases `{name}` for {n_w} channels", ints.len()));
    }
    let adopt = |(i, b): (usize, &i64)| {
        let b =
            i32::try_from(*b).map_err(|_| Refusal::Unsupported(format!("a bias of {b}, which 32 bits do not hold")))?;
        Ok(adopt_bias(b, params.scales[at(i, n_b)], xs, w.scales[at(i, n_w)]))
    };
    let adopted: Vec<i32> = ints.iter().enumerate().map(adopt).collect::<Built<_>>()?;
    if adopted.iter().zip(&ints).any(|(a, b)| i64::from(*a) != *b) {
        let what = "its bias stood at another scale than that of its accumulator and was requantized";
        cx.note("Q0403", t, what.to_owned());
    }
    Ok(Some(cx.add_constant(&name, Tensor::from_slice(data.shape(), &adopted)?, None)))
}

/// FULLY_CONNECTED: all axes but the last of the weights' extent are rows.
pub(crate) fn fully_connected(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (x, w, t) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.output(op, 0)?);
    if let Some(options) = &op.options
        && options.i8(Field(1, "weights_format"), 0)? != 0
    {
        return Refusal::unsupported("shuffled weights; the default format is supported");
    }
    let act = Activation::fused(op, 0)?;
    let weights = Weights::of(cx, w, &[0, 1], 0)?;
    let (n, k) = (weights.data.shape()[0], weights.data.shape()[1]);
    let rows = rows(cx, x, k)?;
    let mut node = cx.node("Gemm", 13, t);
    node.attrs.set("transB", Attr::Int(1));
    let real = cx.params(x)?.is_none();
    let mut y = cx.ty(t, Layout::File)?;
    let flat = y.shape.rank() == 2;
    if real && weights.params.is_some() {
        let operands = hybrid::Operands { x, w, bias: cx.optional(op, 2)?, t };
        return hybrid::fully_connected(cx, node, operands, rows, weights, act);
    }
    let bias = bias(cx, (x, cx.optional(op, 2)?, t), &weights, real)?;
    let id = weights.add(cx, w);
    node.inputs = vec![Some(rows), Some(id)];
    node.inputs.extend(bias.map(Some));
    // LiteRT rounds here once, with every resolver, whatever it does elsewhere (numerics.md section 4).
    let mode = if cx.mode == RequantMode::Q31Double { RequantMode::Q31Single } else { cx.mode };
    node.requant = (!real).then_some(mode);
    if flat {
        return push_activated(cx, node, act, t, Layout::File);
    }
    if let (Activation::Bounds(lo, hi), Some(_)) = (act, cx.per_tensor(t)?) {
        node.fused.clamp = super::activation::clamp(cx, t, lo, hi)?;
    }
    y.shape = Shape(vec![Dim::Sym(format!("{}/rows:0", cx.def(t).name).into()), Dim::Known(n)]);
    let quantized = y.quant.is_some();
    let rows = cx.push_inner(node, t, "rows", y);
    let node = reshape_to_output(cx, t, rows)?;
    push_activated(cx, node, if quantized { Activation::None } else { act }, t, Layout::File)
}

/// A Reshape of rows to the declared shape of `t`; the first axis takes what the others leave.
pub(crate) fn reshape_to_output(cx: &mut Cx<'_>, t: usize, rows: ValueId) -> Built<Node> {
    let mut shape: Vec<i64> = cx.extents(t)?.iter().map(|d| *d as i64).collect();
    if let Some(first) = shape.first_mut() {
        *first = -1;
    }
    let shape = cx.add_ints(t, "shape", &shape)?;
    let mut node = cx.node("Reshape", 21, t);
    node.inputs = vec![Some(rows), Some(shape)];
    Ok(node)
}

/// Tensor `x` as rows of `k` elements.
fn rows(cx: &mut Cx<'_>, x: usize, k: usize) -> Built<ValueId> {
    let (id, mut ty) = (cx.value(x, Layout::File)?, cx.ty(x, Layout::File)?);
    let dims = cx.extents(x)?;
    if dims.len() == 2 && dims[1] == k {
        return Ok(id);
    }
    let k_attr = i64::try_from(k).unwrap_or(i64::MAX);
    let shape = cx.add_ints(x, "row_shape", &[-1, k_attr])?;
    let mut node = cx.node("Reshape", 21, x);
    node.inputs = vec![Some(id), Some(shape)];
    ty.shape = Shape(vec![Dim::Sym(format!("{}/row:0", cx.def(x).name).into()), Dim::Known(k)]);
    Ok(cx.push_inner(node, x, "row", TensorType { ..ty }))
}
