//! Network layers whose older forms carry training leftovers or another meaning of `axis`.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::{Attr, Tensor};

/// BatchNormalization: `spatial` went with 9, training outputs became explicit with 14.
pub(super) fn batch_normalization(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.attrs.int("spatial", 1)? != 1 {
        return Refusal::unsupported("spatial = 0 (statistics per element) is not supported");
    }
    if node.attrs.int("training_mode", 0)? != 0 {
        return Refusal::unsupported("training mode is not supported; export the network for inference");
    }
    if (1..node.outputs.len()).any(|i| cx.is_used(&node, i)) {
        return Refusal::unsupported("outputs of training are read; export the network for inference");
    }
    node.outputs.truncate(1);
    for training in ["spatial", "training_mode", "momentum"] {
        node.attrs.0.remove(training);
    }
    cx.emit(node, BASE_OPSET)
}

/// Dropout passes its input on at inference; a mask that is read is all true.
pub(super) fn dropout(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let never = |cx: &Cx, i| node.input(i).is_none() || cx.input_constant(&node, i).is_some_and(is_zero);
    if !never(cx, 2) && cx.input_constant(&node, 1).is_none_or(|ratio| !is_zero(ratio)) {
        return Refusal::unsupported("training mode is not supported; export the network for inference");
    }
    if cx.is_used(&node, 1) {
        if node.version < 10 {
            return Refusal::unsupported("the mask is read, whose type was not fixed before operator set 10");
        }
        let shape = cx.value(&node, "shape");
        let mut of = cx.node(&node, "shape", "Shape");
        of.inputs = vec![node.inputs.first().cloned().flatten()];
        of.outputs = vec![shape.clone()];
        let mut ones = cx.node(&node, "mask", "ConstantOfShape");
        ones.attrs.set("value", Attr::Tensor(Tensor::from_bools(&[1], &[true])?));
        ones.inputs = vec![shape];
        ones.outputs = vec![node.outputs[1].clone()];
        cx.emit(of, BASE_OPSET)?;
        cx.emit(ones, BASE_OPSET)?;
    }
    let mut copy = RawNode::new(node.name, "Identity");
    copy.inputs = node.inputs.into_iter().take(1).collect();
    copy.outputs = node.outputs.into_iter().take(1).collect();
    if copy.outputs.iter().flatten().next().is_none() {
        return Ok(());
    }
    cx.emit(copy, BASE_OPSET)
}

fn is_zero(data: &Tensor) -> bool {
    data.bytes().iter().all(|&b| b == 0)
}

/// Softmax, LogSoftmax, Hardmax: before 13 the input is seen as a matrix, split at `axis` (1 by default). The
/// node keeps that meaning by its version.
pub(super) fn softmax(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if node.version >= 13 {
        return cx.emit(node, BASE_OPSET);
    }
    if node.attrs.get("axis").is_none() {
        node.attrs.set("axis", Attr::Int(1));
    }
    cx.emit(node, 11)
}

/// GroupNormalization: scale and bias are per channel since 21, and were per group.
pub(super) fn group_normalization(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    if node.version < 21 {
        return Refusal::unsupported("scale and bias per group are not supported; export with operator set 21");
    }
    cx.emit(node, 21)
}
