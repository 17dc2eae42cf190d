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

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    #[test]
    fn batch_norm_loses_what_only_training_needs() {
        let node = |version| Sample::new("BatchNormalization", version).inputs("x s b m v").outputs("y");
        let node7 =
            node(7).attr("momentum", Attr::Float(0.9)).attr("spatial", Attr::Int(1)).attr("epsilon", Attr::Float(0.5));
        node7.gives(&["BatchNormalization@13 x s b m v -> y epsilon=0.5"]);
        node(7).attr("spatial", Attr::Int(0)).refused_for("spatial = 0");
        node(14).attr("training_mode", Attr::Int(1)).refused_for("training mode");
        node(9).outputs("y m2 v2").refused_for("outputs of training");
    }

    #[test]
    fn dropout_is_a_copy_and_its_mask_is_true() {
        let node = Sample::new("Dropout", 7).inputs("x").outputs("y").attr("ratio", Attr::Float(0.5));
        node.gives(&["Identity@13 x -> y"]);
        let mask = Sample::new("Dropout", 12).inputs("x r").outputs("y m");
        mask.gives(&[
            "Shape@13 x -> n/shape",
            "ConstantOfShape@13 n/shape -> m value=bool[1] [1]",
            "Identity@13 x -> y",
        ]);
        Sample::new("Dropout", 12).inputs("x - t").outputs("y").refused_for("training mode");
        let off = Tensor::from_bools(&[], &[false]).expect("a scalar");
        Sample::new("Dropout", 13).constant("t", off).inputs("x - t").outputs("y").gives(&["Identity@13 x -> y"]);
    }

    #[test]
    fn softmax_keeps_its_old_meaning_by_version() {
        Sample::new("Softmax", 11).inputs("x").outputs("y").gives(&["Softmax@11 x -> y axis=1"]);
        Sample::new("LogSoftmax", 7)
            .inputs("x")
            .outputs("y")
            .attr("axis", Attr::Int(2))
            .gives(&["LogSoftmax@11 x -> y axis=2"]);
        Sample::new("Softmax", 13).inputs("x").outputs("y").gives(&["Softmax@13 x -> y"]);
        Sample::new("GroupNormalization", 18).inputs("x s b").outputs("y").refused_for("operator set 21");
    }
}
