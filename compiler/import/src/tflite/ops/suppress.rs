//! NON_MAX_SUPPRESSION_V4 and V5: ONNX's operator over one image and one class, its result padded with zeros to the length
//! that the file declares.

use super::super::cx::{Built, Cx, Layout};
use super::super::schema::Operator;
use super::quantize::INT32;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Tensor, TensorType, ValueId};

/// Most boxes that a file may ask for.
const MOST: i64 = 1 << 20;

/// Builds nodes one behind the other.
struct Chain<'c, 'm> {
    cx: &'c mut Cx<'m>,
    t: usize,
}

impl Chain<'_, '_> {
    fn then(&mut self, op: &str, version: u32, inputs: &[ValueId], attr: Option<(&str, i64)>, to: DataType) -> ValueId {
        let mut node = self.cx.node(op, version, self.t);
        node.inputs = inputs.iter().copied().map(Some).collect();
        if let Some((name, v)) = attr {
            node.attrs.set(name, Attr::Int(v));
        }
        self.cx.push_inner(node, self.t, &op.to_lowercase(), TensorType::unranked(to))
    }

    fn ints(&mut self, part: &str, values: &[i64]) -> Built<ValueId> {
        self.cx.add_ints(self.t, part, values)
    }

    /// Indices of the boxes that are kept.
    fn kept(&mut self, boxes: ValueId, scores: ValueId, limits: [ValueId; 3]) -> Built<ValueId> {
        let (one, two) = (self.ints("image", &[0])?, self.ints("class", &[0, 1])?);
        let boxes = self.then("Unsqueeze", 13, &[boxes, one], None, DataType::F32);
        let scores = self.then("Unsqueeze", 13, &[scores, two], None, DataType::F32);
        let [most, overlap, score] = limits;
        let inputs = [boxes, scores, most, overlap, score];
        let found = self.then("NonMaxSuppression", 11, &inputs, None, DataType::S64);
        let column = self.cx.add_constant("column", Tensor::scalar(2i64), None);
        Ok(self.then("Gather", 13, &[found, column], Some(("axis", 1)), DataType::S64))
    }

    /// The first `n` of a list with zeros behind it, as tensor `t` of the file.
    fn padded(&mut self, list: ValueId, zeros: Tensor, n: i64, t: usize) -> Built {
        let zeros = self.cx.add_constant(&format!("{}/zeros", self.cx.def(t).name), zeros, None);
        let dtype = self.cx.graph.ty(list).dtype;
        let long = self.then("Concat", 13, &[list, zeros], Some(("axis", 0)), dtype);
        let (start, end) = (self.ints("start", &[0])?, self.ints("end", &[n])?);
        let cut = self.then("Slice", 13, &[long, start, end], None, dtype);
        let mut node = self.cx.node(if dtype == DataType::S64 { "Cast" } else { "Identity" }, 13, t);
        if dtype == DataType::S64 {
            node.attrs.set("to", Attr::Int(INT32));
        }
        node.inputs = vec![Some(cut)];
        self.cx.push(node, &[t], Layout::File)
    }

    /// The length of a list as tensor `t` of the file.
    fn length(&mut self, list: ValueId, t: usize) -> Built {
        let shape = self.then("Shape", 15, &[list], None, DataType::S64);
        let axis = self.ints("axis", &[0])?;
        let n = self.then("Squeeze", 13, &[shape, axis], None, DataType::S64);
        let mut node = self.cx.node("Cast", 13, t);
        node.attrs.set("to", Attr::Int(INT32));
        node.inputs = vec![Some(n)];
        self.cx.push(node, &[t], Layout::File)
    }
}

/// NON_MAX_SUPPRESSION_V4.
pub(crate) fn v4(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (indices, valid) = (cx.output(op, 0)?, cx.output(op, 1)?);
    suppress(cx, op, indices, None, valid)
}

/// NON_MAX_SUPPRESSION_V5 without softening.
pub(crate) fn v5(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let sigma = cx.constant(cx.input(op, 5)?)?.to_f32s()?;
    if sigma.iter().any(|s| *s != 0.0) {
        return Refusal::unsupported(format!("soft_nms_sigma is {sigma:?}; 0 is supported"));
    }
    let (indices, scores, valid) = (cx.output(op, 0)?, cx.output(op, 1)?, cx.output(op, 2)?);
    suppress(cx, op, indices, Some(scores), valid)
}

fn suppress(cx: &mut Cx<'_>, op: &Operator<'_>, indices: usize, scores: Option<usize>, valid: usize) -> Built {
    let (boxes, given, most) = (cx.input(op, 0)?, cx.input(op, 1)?, cx.input(op, 2)?);
    let n = cx.ints(most)?.first().copied().unwrap_or(-1);
    let Some(length) = usize::try_from(n).ok().filter(|_| n <= MOST) else {
        return Refusal::unsupported(format!("max_output_size is {n}; a constant from 0 to {MOST} is supported"));
    };
    let (overlap, score) = (cx.input(op, 3)?, cx.input(op, 4)?);
    let values = [boxes, given, overlap, score].map(|t| cx.value(t, Layout::File));
    let [boxes, given, overlap, score] = values;
    let (boxes, given) = (boxes?, given?);
    let mut chain = Chain { cx, t: indices };
    let limits = [chain.ints("most", &[n])?, overlap?, score?];
    let kept = chain.kept(boxes, given, limits)?;
    if let Some(t) = scores {
        let best = chain.then("Gather", 13, &[given, kept], Some(("axis", 0)), DataType::F32);
        chain.padded(best, Tensor::from_slice(&[length], &vec![0f32; length])?, n, t)?;
    }
    chain.padded(kept, Tensor::from_slice(&[length], &vec![0i64; length])?, n, indices)?;
    chain.length(kept, valid)
}
