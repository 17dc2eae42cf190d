//! Products of real activations with s8 weights (dynamic-range models): activations are quantized at run time.
//!
//! Each row (of an image: each image) is quantized to symmetric s8 with `scale = max|x| / 127`, a zero row with 1; the
//! result is `fl32(fl32(f32(acc) * fl32(sx * ws[c])) + bias)` (numerics.md section 4). Written with standard operators:
//!
//! ```text
//! s = Where(max|x|/127 == 0, 1, max|x|/127)     q = Cast(Clip(Round(x / s), -127, 127))
//! y = Cast(ConvInteger(q, w)) * (s * ws) + bias
//! ```

use super::super::cx::{Built, Cx, Layout};
use super::super::tensor::transpose;
use super::activation::{Activation, push_activated};
use super::product::{Weights, reshape_to_output};
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Node, QuantParams, Tensor, TensorType, ValueId};

/// The tensors of a product.
pub(crate) struct Operands {
    pub x: usize,
    pub w: usize,
    pub bias: Option<usize>,
    pub t: usize,
}

/// Builds nodes one behind the other.
struct Chain<'c, 'm> {
    cx: &'c mut Cx<'m>,
    t: usize,
}

impl Chain<'_, '_> {
    fn scalar(&mut self, part: &str, data: Tensor) -> ValueId {
        let name = format!("{}/{part}", self.cx.def(self.t).name);
        self.cx.add_constant(&name, data, None)
    }

    /// A node of given inputs; its result is an inner value.
    fn then(&mut self, op: &str, version: u32, inputs: &[ValueId], attrs: &[(&str, i64)], dtype: DataType) -> ValueId {
        let mut node = self.cx.node(op, version, self.t);
        node.inputs = inputs.iter().copied().map(Some).collect();
        attrs.iter().for_each(|(name, v)| node.attrs.set(*name, Attr::Int(*v)));
        self.cx.push_inner(node, self.t, &op.to_lowercase(), TensorType::unranked(dtype))
    }

    /// The integers of `x` and their scales, which the given axes share.
    fn quantize(&mut self, x: ValueId, axes: &[i64]) -> Built<(ValueId, ValueId)> {
        use DataType::{Bool, F32, S8};
        let axes = self.cx.add_ints(self.t, "row", axes)?;
        let (one, zero) = (self.scalar("one", Tensor::scalar(1.0f32)), self.scalar("zero", Tensor::scalar(0.0f32)));
        let (low, high) =
            (self.scalar("low", Tensor::scalar(-127.0f32)), self.scalar("high", Tensor::scalar(127.0f32)));
        let size = self.then("Abs", 13, &[x], &[], F32);
        let largest = self.then("ReduceMax", 18, &[size, axes], &[("keepdims", 1)], F32);
        let step = self.then("Div", 14, &[largest, high], &[], F32);
        let is_zero = self.then("Equal", 19, &[step, zero], &[], Bool);
        let scale = self.then("Where", 16, &[is_zero, one, step], &[], F32);
        let real = self.then("Div", 14, &[x, scale], &[], F32);
        let rounded = self.then("Round", 11, &[real], &[], F32);
        let clipped = self.then("Clip", 13, &[rounded, low, high], &[], F32);
        Ok((self.then("Cast", 13, &[clipped], &[("to", ONNX_INT8)], S8), scale))
    }

    /// Accumulators as reals, the bias still missing.
    fn rescale(&mut self, sums: ValueId, scale: ValueId, weights: ValueId) -> ValueId {
        let real = self.then("Cast", 13, &[sums], &[("to", ONNX_FLOAT)], DataType::F32);
        let both = self.then("Mul", 14, &[scale, weights], &[], DataType::F32);
        self.then("Mul", 14, &[real, both], &[], DataType::F32)
    }

    /// The last node: the bias is added, or nothing happens.
    fn last(&mut self, y: ValueId, bias: Option<ValueId>) -> Node {
        let mut node = self.cx.node(if bias.is_some() { "Add" } else { "Identity" }, 14, self.t);
        node.inputs = std::iter::once(y).chain(bias).map(Some).collect();
        node
    }
}

/// ONNX's numbers of f32 and s8.
const ONNX_FLOAT: i64 = 1;
const ONNX_INT8: i64 = 3;

/// Symmetric s8 weights as plain integers, and their scales in `shape` (-1 is the channel).
fn integers(cx: &mut Cx<'_>, w: usize, weights: &Weights, per_channel: &[usize]) -> Built<ValueId> {
    let Some(params) = &weights.params else { return Refusal::invalid("the weights are not quantized") };
    if weights.data.dtype() != DataType::S8 || params.zero_points.iter().any(|z| *z != 0) {
        let what = "weights of a dynamic-range product other than symmetric int8; int8 with zero point 0 is supported";
        return Refusal::unsupported(what);
    }
    let scales = scales(params, per_channel)?;
    Ok(cx.add_constant(&format!("{}/scale", cx.def(w).name), scales, None))
}

fn scales(params: &QuantParams, per_channel: &[usize]) -> Built<Tensor> {
    let shape: &[usize] = if params.scales.len() == 1 { &[] } else { per_channel };
    Ok(Tensor::from_slice(shape, &params.scales)?)
}

/// A convolution; `node` is the Conv that it would be with real weights.
pub(crate) fn convolution(cx: &mut Cx<'_>, node: Node, o: Operands, weights: Weights, act: Activation) -> Built {
    let channels = weights.data.shape()[0];
    let w_scale = integers(cx, o.w, &weights, &[1, channels, 1, 1])?;
    let w = cx.add_constant(&cx.def(o.w).name.clone(), weights.data, None);
    let x = cx.value(o.x, Layout::Image)?;
    let bias = match o.bias {
        Some(b) => {
            let (data, name) = (cx.constant(b)?, cx.def(b).name.clone());
            Some(cx.add_constant(&name, data.reshaped(&[1, channels, 1, 1])?, None))
        }
        None => None,
    };
    let mut chain = Chain { cx, t: o.t };
    let (q, scale) = chain.quantize(x, &[1, 2, 3])?;
    let mut conv = node;
    (conv.op, conv.version, conv.inputs) = ("ConvInteger".into(), 10, vec![Some(q), Some(w)]);
    let sums = chain.cx.push_inner(conv, o.t, "sums", TensorType::unranked(DataType::S32));
    let y = chain.rescale(sums, scale, w_scale);
    let last = chain.last(y, bias);
    push_activated(cx, last, act, o.t, Layout::Image)
}

/// A fully connected layer over `rows`; `node` is the Gemm that it would be with real weights.
pub(crate) fn fully_connected(
    cx: &mut Cx<'_>,
    node: Node,
    o: Operands,
    rows: ValueId,
    weights: Weights,
    act: Activation,
) -> Built {
    let n = weights.data.shape()[0];
    let w_scale = integers(cx, o.w, &weights, &[n])?;
    let w = cx.add_constant(&cx.def(o.w).name.clone(), transpose(&weights.data, &[1, 0])?, None);
    let bias = o.bias.map(|b| cx.value(b, Layout::File)).transpose()?;
    let flat = cx.def(o.t).shape.len() == 2;
    let mut chain = Chain { cx, t: o.t };
    let (q, scale) = chain.quantize(rows, &[1])?;
    let product = Node { op: "MatMulInteger".into(), version: 10, inputs: vec![Some(q), Some(w)], ..node };
    let product = Node { attrs: Default::default(), ..product };
    let sums = chain.cx.push_inner(product, o.t, "sums", TensorType::unranked(DataType::S32));
    let y = chain.rescale(sums, scale, w_scale);
    let last = chain.last(y, bias);
    if flat {
        return push_activated(cx, last, act, o.t, Layout::File);
    }
    let y = cx.push_inner(last, o.t, "rows", TensorType::unranked(DataType::F32));
    let node = reshape_to_output(cx, o.t, y)?;
    push_activated(cx, node, act, o.t, Layout::File)
}
