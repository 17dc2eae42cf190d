//! ONNX Runtime's own operators (`com.microsoft`, and a few that it writes into the standard domain) that are
//! short for standard ones. Where ONNX Runtime's definition is a sequence of operators, that sequence is written.
use super::super::raw::{RawNode, Refusal};
use super::{BASE_OPSET, Cx};
use ottava_hal::Attr;

/// The chain of nodes that replaces one node.
struct Chain<'a> {
    cx: &'a mut Cx,
    node: RawNode,
}

impl Chain<'_> {
    fn input(&self, i: usize) -> Option<String> {
        self.node.input(i).map(str::to_owned)
    }

    /// Adds a step that writes a new value.
    fn step(&mut self, part: &str, op: &str, inputs: Vec<Option<String>>) -> Result<Option<String>, Refusal> {
        let value = self.cx.value(&self.node, part);
        let mut step = self.cx.node(&self.node, part, op);
        (step.inputs, step.outputs) = (inputs, vec![value.clone()]);
        self.cx.emit(step, BASE_OPSET)?;
        Ok(value)
    }

    /// Adds `value + input i` where that input is there.
    fn add(&mut self, part: &str, value: Option<String>, i: usize) -> Result<Option<String>, Refusal> {
        match self.input(i) {
            Some(other) => self.step(part, "Add", vec![value, Some(other)]),
            None => Ok(value),
        }
    }

    /// The last node, which keeps name and outputs of the one that is replaced.
    fn last(self, op: &str, inputs: Vec<Option<String>>, attrs: &[(&str, Attr)]) -> Result<(), Refusal> {
        let mut last = RawNode::new(self.node.name, op);
        (last.inputs, last.outputs) = (inputs, self.node.outputs);
        for (name, value) in attrs {
            last.attrs.set(*name, value.clone());
        }
        self.cx.emit(last, BASE_OPSET)
    }
}

/// Gelu, and BiasGelu with its bias added first.
pub(super) fn gelu(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let mut chain = Chain { cx, node };
    let x = chain.input(0);
    let x = chain.add("bias", x, 1)?;
    chain.last("Gelu", vec![x], &[])
}

/// FastGelu: an optional bias, then Gelu by tanh.
pub(super) fn fast_gelu(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let mut chain = Chain { cx, node };
    let x = chain.input(0);
    let x = chain.add("bias", x, 1)?;
    chain.last("Gelu", vec![x], &[("approximate", Attr::Str("tanh".to_owned()))])
}

/// SimplifiedLayerNormalization: RMSNormalization under its older name.
pub(super) fn simplified_layer_normalization(cx: &mut Cx, mut node: RawNode) -> Result<(), Refusal> {
    if cx.is_used(&node, 1) {
        return Refusal::unsupported("the second output (inverse deviation) is read");
    }
    node.op = "RMSNormalization".to_owned();
    node.outputs.truncate(1);
    cx.emit(node, 23)
}

/// SkipLayerNormalization: input + skip (+ bias), which is also output 3, then LayerNormalization.
pub(super) fn skip_layer_normalization(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    if cx.is_used(&node, 1) || cx.is_used(&node, 2) {
        return Refusal::unsupported("outputs 1 and 2 (mean, inverse deviation) are read");
    }
    let sum_output = node.outputs.get(3).cloned().flatten();
    let epsilon = node.attrs.float("epsilon", 1e-12)?;
    let mut chain = Chain { cx, node };
    chain.node.outputs.truncate(1);
    let (x, skip) = (chain.input(0), chain.input(1));
    let sum = chain.step("skip", "Add", vec![x, skip])?;
    let sum = chain.add("bias", sum, 4)?;
    if let Some(name) = sum_output {
        let mut copy = chain.cx.node(&chain.node, "sum", "Identity");
        (copy.inputs, copy.outputs) = (vec![sum.clone()], vec![Some(name)]);
        chain.cx.emit(copy, BASE_OPSET)?;
    }
    let inputs = vec![sum, chain.input(2), chain.input(3)];
    chain.last("LayerNormalization", inputs, &[("axis", Attr::Int(-1)), ("epsilon", Attr::Float(epsilon))])
}

/// FusedMatMul: MatMul with a factor. Transposed operands need a known rank, which only constants have here; other
/// transposed nodes stay as they are.
pub(super) fn fused_matmul(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    if node.attrs.int("transBatchA", 0)? != 0 || node.attrs.int("transBatchB", 0)? != 0 {
        return Refusal::unsupported("transBatchA and transBatchB are not supported");
    }
    let alpha = node.attrs.float("alpha", 1.0)?;
    let transposed = [node.attrs.int("transA", 0)? != 0, node.attrs.int("transB", 0)? != 0];
    let is_matrix = |i| cx.input_constant(&node, i).is_some_and(|data| data.shape().len() == 2);
    if (0..2).any(|i| transposed[i] && !is_matrix(i)) {
        return cx.emit(node, BASE_OPSET);
    }
    let mut chain = Chain { cx, node };
    let mut operands = [chain.input(0), chain.input(1)];
    for (i, operand) in operands.iter_mut().enumerate().filter(|(i, _)| transposed[*i]) {
        *operand = chain.step(&format!("transpose{i}"), "Transpose", vec![operand.take()])?;
    }
    if alpha == 1.0 {
        return chain.last("MatMul", operands.into(), &[]);
    }
    let product = chain.step("product", "MatMul", operands.into())?;
    let alpha = chain.cx.float(&chain.node, "alpha", 0, alpha)?;
    chain.last("Mul", vec![product, alpha], &[])
}

/// MatMulIntegerToFloat(A, B, a_scale, b_scale, a_zero_point, b_zero_point, bias).
pub(super) fn matmul_integer_to_float(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let mut chain = Chain { cx, node };
    let (a, a_scale, a_zp) = (chain.input(0), chain.input(2), chain.input(4));
    let b_zp = chain.input(5);
    let product = integer_product(&mut chain, [a, a_zp, b_zp], a_scale, 3)?;
    finish(chain, product, 6)
}

/// DynamicQuantizeMatMul(A, B, b_scale, b_zero_point, bias): A is quantized at run time.
pub(super) fn dynamic_quantize_matmul(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let mut chain = Chain { cx, node };
    let outputs: Vec<_> = ["a", "a_scale", "a_zero_point"].map(|part| chain.cx.value(&chain.node, part)).into();
    let mut quantize = chain.cx.node(&chain.node, "quantize", "DynamicQuantizeLinear");
    (quantize.inputs, quantize.outputs) = (vec![chain.input(0)], outputs.clone());
    chain.cx.emit(quantize, BASE_OPSET)?;
    let [a, a_scale, a_zp] = [outputs[0].clone(), outputs[1].clone(), outputs[2].clone()];
    let b_zp = chain.input(3);
    let product = integer_product(&mut chain, [a, a_zp, b_zp], a_scale, 2)?;
    finish(chain, product, 4)
}

/// `(a - a_zp)(B - b_zp)` in integers, and the product of the scales; input `b_scale` holds B's.
fn integer_product(
    chain: &mut Chain,
    [a, a_zp, b_zp]: [Option<String>; 3],
    a_scale: Option<String>,
    b_scale: usize,
) -> Result<[Option<String>; 2], Refusal> {
    let (b, b_scale) = (chain.input(1), chain.input(b_scale));
    let integers = chain.step("integers", "MatMulInteger", vec![a, b, a_zp, b_zp])?;
    let product = chain.cx.value(&chain.node, "product");
    let mut cast = chain.cx.node(&chain.node, "product", "Cast");
    cast.attrs.set("to", Attr::Int(1));
    (cast.inputs, cast.outputs) = (vec![integers], vec![product.clone()]);
    chain.cx.emit(cast, BASE_OPSET)?;
    let scale = chain.step("scale", "Mul", vec![a_scale, b_scale])?;
    Ok([product, scale])
}

/// Product times scale, plus the bias where input `bias` is there.
fn finish(mut chain: Chain, [product, scale]: [Option<String>; 2], bias: usize) -> Result<(), Refusal> {
    let Some(bias) = chain.input(bias) else { return chain.last("Mul", vec![product, scale], &[]) };
    let scaled = chain.step("scaled", "Mul", vec![product, scale])?;
    chain.last("Add", vec![scaled, Some(bias)], &[])
}

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use ottava_hal::{Attr, Tensor};

    #[test]
    fn gelus_are_written_out() {
        Sample::new("com.microsoft::Gelu", 1).inputs("x").outputs("y").gives(&["Gelu@20 x -> y"]);
        Sample::new("com.microsoft::FastGelu", 1)
            .inputs("x b")
            .outputs("y")
            .gives(&["Add@13 x b -> n/bias", "Gelu@20 n/bias -> y approximate=tanh"]);
    }

    #[test]
    fn skip_layer_normalization_is_two_sums_and_a_norm() {
        let node = Sample::new("com.microsoft::SkipLayerNormalization", 1).inputs("x s g b c").outputs("y - - sum");
        node.attr("epsilon", Attr::Float(0.5)).gives(&[
            "Add@13 x s -> n/skip",
            "Add@13 n/skip c -> n/bias",
            "Identity@13 n/bias -> sum",
            "LayerNormalization@17 n/bias g b -> y axis=-1 epsilon=0.5",
        ]);
        let node = Sample::new("com.microsoft::SkipLayerNormalization", 1).inputs("x s g").outputs("y mean");
        node.refused_for("mean, inverse deviation");
    }

    #[test]
    fn fused_matmul_needs_constant_matrices_to_transpose() {
        let node = || Sample::new("com.microsoft::FusedMatMul", 1).inputs("a b").outputs("y");
        node().gives(&["MatMul@13 a b -> y"]);
        node().attr("transB", Attr::Int(1)).gives(&["com.microsoft::FusedMatMul@1 a b -> y transB=1"]);
        let b = Tensor::from_slice(&[1, 2], &[1.0f32, 2.0]).expect("a matrix");
        node().constant("b", b).attr("transB", Attr::Int(1)).attr("alpha", Attr::Float(0.5)).gives(&[
            "Transpose@13 b -> n/transpose1",
            "MatMul@13 a n/transpose1 -> n/product",
            "Mul@13 n/product n/alpha -> y",
            "n/alpha = f32[] [0.5]",
        ]);
    }

    #[test]
    fn integer_products_are_written_out() {
        let node = Sample::new("com.microsoft::DynamicQuantizeMatMul", 1).inputs("a b bs bz bias").outputs("y");
        node.gives(&[
            "DynamicQuantizeLinear@13 a -> n/a n/a_scale n/a_zero_point",
            "MatMulInteger@13 n/a b n/a_zero_point bz -> n/integers",
            "Cast@13 n/integers -> n/product to=1",
            "Mul@13 n/a_scale bs -> n/scale",
            "Mul@13 n/product n/scale -> n/scaled",
            "Add@13 n/scaled bias -> y",
        ]);
        let node = Sample::new("com.microsoft::MatMulIntegerToFloat", 1).inputs("a b as bs").outputs("y");
        node.gives(&[
            "MatMulInteger@13 a b -> n/integers",
            "Cast@13 n/integers -> n/product to=1",
            "Mul@13 as bs -> n/scale",
            "Mul@13 n/product n/scale -> y",
        ]);
    }
}
