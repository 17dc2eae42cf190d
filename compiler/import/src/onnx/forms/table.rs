//! The operators of the format: one line each.
//!
//! A line says how a node becomes its newest form; that the operator exists in `ottava-ops` is checked when the
//! node is handed on. An operator without a line is refused with a reason.
use super::super::raw::{RawNode, Refusal, full_op};
use super::{BASE_OPSET, Cx, attention, attributes, blocks, constant, control, fused, nn, quantize, resize};

/// How a node becomes its newest form.
pub(crate) type Map = fn(&mut Cx, RawNode) -> Result<(), Refusal>;

/// One operator.
pub(crate) struct Row {
    domain: &'static str,
    op: &'static str,
    pub map: Map,
}

const fn onnx(op: &'static str, map: Map) -> Row {
    Row { domain: "", op, map }
}

const fn ms(op: &'static str, map: Map) -> Row {
    Row { domain: ottava_ops::MICROSOFT, op, map }
}

/// Operators that are accepted under older operator sets than the one their schema names, with the same meaning:
/// forms without broadcasting or with attributes for inputs, and what ONNX Runtime writes before the standard had it.
pub(crate) const EARLIER: &[&str] = &["LayerNormalization", "Max", "Mean", "Min", "Sum", "Upsample"];

/// The form has not changed.
fn same(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    cx.emit(node, BASE_OPSET)
}

/// Every operator that can be imported, by domain and name.
pub(crate) const TABLE: &[Row] = &[
    onnx("Abs", same),
    onnx("Acos", same),
    onnx("Acosh", same),
    onnx("Add", same),
    onnx("AffineGrid", same),
    onnx("And", same),
    onnx("ArgMax", same),
    onnx("ArgMin", same),
    onnx("Asin", same),
    onnx("Asinh", same),
    onnx("Atan", same),
    onnx("Atanh", same),
    onnx("Attention", same),
    onnx("AveragePool", same),
    onnx("BatchNormalization", nn::batch_normalization),
    onnx("BitShift", same),
    onnx("BitwiseAnd", same),
    onnx("BitwiseNot", same),
    onnx("BitwiseOr", same),
    onnx("BitwiseXor", same),
    onnx("BlackmanWindow", same),
    onnx("Cast", attributes::cast),
    onnx("CastLike", attributes::cast),
    onnx("Ceil", same),
    onnx("Celu", same),
    onnx("CenterCropPad", same),
    onnx("Clip", attributes::clip),
    onnx("Col2Im", same),
    onnx("Compress", same),
    onnx("Concat", same),
    onnx("Constant", constant::constant),
    onnx("ConstantOfShape", same),
    onnx("Conv", same),
    onnx("ConvInteger", same),
    onnx("ConvTranspose", same),
    onnx("Cos", same),
    onnx("Cosh", same),
    onnx("CumProd", same),
    onnx("CumSum", same),
    onnx("DFT", attributes::dft),
    onnx("DeformConv", same),
    onnx("DepthToSpace", same),
    onnx("DequantizeLinear", quantize::quantize_linear),
    onnx("Det", same),
    onnx("Div", same),
    onnx("Dropout", nn::dropout),
    onnx("DynamicQuantizeLinear", same),
    onnx("Einsum", same),
    onnx("Elu", same),
    onnx("Equal", same),
    onnx("Erf", same),
    onnx("Exp", same),
    onnx("Expand", same),
    onnx("EyeLike", same),
    onnx("Flatten", same),
    onnx("Floor", same),
    onnx("GRU", same),
    onnx("Gather", same),
    onnx("GatherElements", same),
    onnx("GatherND", same),
    onnx("Gelu", same),
    onnx("Gemm", same),
    onnx("GlobalAveragePool", same),
    onnx("GlobalLpPool", same),
    onnx("GlobalMaxPool", same),
    onnx("Greater", same),
    onnx("GreaterOrEqual", same),
    onnx("GridSample", resize::grid_sample),
    onnx("GroupNormalization", nn::group_normalization),
    onnx("HammingWindow", same),
    onnx("HannWindow", same),
    onnx("HardSigmoid", same),
    onnx("HardSwish", same),
    onnx("Hardmax", nn::softmax),
    onnx("Identity", same),
    onnx("If", control::branch),
    onnx("InstanceNormalization", same),
    onnx("IsInf", same),
    onnx("IsNaN", same),
    onnx("LRN", same),
    onnx("LSTM", same),
    onnx("LayerNormalization", same),
    onnx("LeakyRelu", same),
    onnx("Less", same),
    onnx("LessOrEqual", same),
    onnx("Log", same),
    onnx("LogSoftmax", nn::softmax),
    onnx("Loop", control::repeat),
    onnx("LpNormalization", same),
    onnx("LpPool", same),
    onnx("MatMul", same),
    onnx("MatMulInteger", same),
    onnx("Max", same),
    onnx("MaxPool", same),
    onnx("MaxUnpool", same),
    onnx("Mean", same),
    onnx("MeanVarianceNormalization", same),
    onnx("MelWeightMatrix", same),
    onnx("Min", same),
    onnx("Mish", same),
    onnx("Mod", same),
    onnx("Mul", same),
    onnx("Neg", same),
    onnx("NonMaxSuppression", same),
    onnx("NonZero", same),
    onnx("Not", same),
    onnx("OneHot", same),
    onnx("Or", same),
    onnx("PRelu", same),
    onnx("Pad", attributes::pad),
    onnx("Pow", same),
    onnx("QLinearConv", same),
    onnx("QLinearMatMul", same),
    onnx("QuantizeLinear", quantize::quantize_linear),
    onnx("RMSNormalization", same),
    onnx("RNN", same),
    onnx("Range", same),
    onnx("Reciprocal", same),
    onnx("ReduceL1", attributes::reduce),
    onnx("ReduceL2", attributes::reduce),
    onnx("ReduceLogSum", attributes::reduce),
    onnx("ReduceLogSumExp", attributes::reduce),
    onnx("ReduceMax", attributes::reduce),
    onnx("ReduceMean", attributes::reduce),
    onnx("ReduceMin", attributes::reduce),
    onnx("ReduceProd", attributes::reduce),
    onnx("ReduceSum", attributes::reduce_sum),
    onnx("ReduceSumSquare", attributes::reduce),
    onnx("Relu", same),
    onnx("Reshape", same),
    onnx("Resize", resize::resize),
    onnx("ReverseSequence", same),
    onnx("RoiAlign", resize::roi_align),
    onnx("RotaryEmbedding", same),
    onnx("Round", same),
    onnx("STFT", same),
    onnx("Scan", control::scan),
    onnx("Scatter", attributes::scatter),
    onnx("ScatterElements", same),
    onnx("ScatterND", same),
    onnx("Selu", same),
    onnx("Shape", same),
    onnx("Shrink", same),
    onnx("Sigmoid", same),
    onnx("Sign", same),
    onnx("SimplifiedLayerNormalization", fused::simplified_layer_normalization),
    onnx("Sin", same),
    onnx("Sinh", same),
    onnx("Size", same),
    onnx("Slice", attributes::slice),
    onnx("Softmax", nn::softmax),
    onnx("Softplus", same),
    onnx("Softsign", same),
    onnx("SpaceToDepth", same),
    onnx("Split", attributes::split),
    onnx("Sqrt", same),
    onnx("Squeeze", attributes::axes),
    onnx("Sub", same),
    onnx("Sum", same),
    onnx("SwiGLU", same),
    onnx("Swish", same),
    onnx("Tan", same),
    onnx("Tanh", same),
    onnx("TensorScatter", same),
    onnx("ThresholdedRelu", same),
    onnx("Tile", same),
    onnx("TopK", attributes::top_k),
    onnx("Transpose", same),
    onnx("Trilu", same),
    onnx("Unique", same),
    onnx("Unsqueeze", attributes::axes),
    onnx("Upsample", resize::upsample),
    onnx("Where", same),
    onnx("Xor", same),
    ms("BiasGelu", fused::gelu),
    ms("DequantizeLinear", quantize::quantize_linear),
    ms("DynamicQuantizeMatMul", fused::dynamic_quantize_matmul),
    ms("FastGelu", fused::fast_gelu),
    ms("FusedMatMul", fused::fused_matmul),
    ms("Gelu", fused::gelu),
    ms("MatMulIntegerToFloat", fused::matmul_integer_to_float),
    ms("MatMulNBits", blocks::matmul_n_bits),
    ms("MultiHeadAttention", attention::multi_head),
    ms("QGemm", same),
    ms("QLinearAdd", same),
    ms("QLinearAveragePool", same),
    ms("QLinearConcat", same),
    ms("QLinearGlobalAveragePool", same),
    ms("QLinearLeakyRelu", same),
    ms("QLinearMul", same),
    ms("QLinearReduceMean", same),
    ms("QLinearSigmoid", same),
    ms("QLinearSoftmax", same),
    ms("QLinearWhere", same),
    ms("QuantizeLinear", quantize::quantize_linear),
    ms("QuickGelu", same),
    ms("RotaryEmbedding", same),
    ms("SkipLayerNormalization", fused::skip_layer_normalization),
    ms("SkipSimplifiedLayerNormalization", same),
    Row { domain: ottava_ops::OTTAVA, op: "DynamicMatMul", map: same },
];

/// Standard operators that are left out on purpose, with the reason.
const LEFT_OUT: &[(&str, &[&str])] = &[
    ("control flow over sequences is not supported; export the network with its loops unrolled", &["SequenceMap"]),
    (
        "sequences are not supported",
        &[
            "ConcatFromSequence",
            "SequenceAt",
            "SequenceConstruct",
            "SequenceEmpty",
            "SequenceErase",
            "SequenceInsert",
            "SequenceLength",
            "SplitToSequence",
        ],
    ),
    ("optional values are not supported", &["Optional", "OptionalGetElement", "OptionalHasElement"]),
    (
        "random results are not supported; a network must give the same answer twice",
        &["Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"],
    ),
    (
        "text is not supported",
        &["RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"],
    ),
    ("training is not supported", &["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]),
];

/// The line of an operator.
pub(crate) fn find(domain: &str, op: &str) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.domain == domain && row.op == op)
}

/// Why an operator without a line is refused.
pub(crate) fn why_not(domain: &str, op: &str) -> String {
    let left_out = LEFT_OUT.iter().find(|(_, ops)| domain.is_empty() && ops.contains(&op));
    match left_out {
        Some((reason, _)) => (*reason).to_owned(),
        None if TABLE.iter().any(|row| row.domain == domain) => {
            format!("operator {} is not known", full_op(domain, op))
        }
        None => format!("operators of domain `{domain}` are not known, and the model brings no function of that name"),
    }
}

/// Attributes that came later than [`BASE_OPSET`], and the operator set they came with.
pub(crate) const LATER: &[(&str, &str, u32)] = &[
    ("AveragePool", "dilations", 19),
    ("DequantizeLinear", "block_size", 21),
    ("DequantizeLinear", "output_dtype", 23),
    ("GRU", "layout", 14),
    ("LSTM", "layout", 14),
    ("QuantizeLinear", "block_size", 21),
    ("QuantizeLinear", "output_dtype", 21),
    ("QuantizeLinear", "precision", 23),
    ("RNN", "layout", 14),
    ("Reshape", "allowzero", 14),
    ("Resize", "antialias", 18),
    ("Resize", "axes", 18),
    ("Resize", "keep_aspect_ratio_policy", 18),
    ("RoiAlign", "coordinate_transformation_mode", 16),
    ("ScatterElements", "reduction", 18),
    ("ScatterND", "reduction", 18),
    ("Shape", "end", 15),
    ("Shape", "start", 15),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_has_no_doubles() {
        for pair in TABLE.windows(2) {
            assert!((pair[0].domain, pair[0].op) < (pair[1].domain, pair[1].op), "{}", pair[1].op);
        }
    }

    #[test]
    fn left_out_operators_have_a_reason() {
        assert!(why_not("", "SequenceMap").contains("control flow"));
        assert!(why_not("", "SequenceAt").contains("sequences"));
        assert!(why_not("", "Foo").contains("operator Foo is not known"));
        assert!(why_not("ai.onnx.ml", "Scaler").contains("domain `ai.onnx.ml`"));
        for (_, ops) in LEFT_OUT {
            ops.iter().for_each(|op| assert!(find("", op).is_none(), "{op}"));
        }
    }
}
