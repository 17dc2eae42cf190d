//! The operator table: one line per operator. What a device can run and how it runs it both follow from it.

mod binary;
mod bridge;
mod cast;
mod concat;
mod fixed;
mod lines;
mod lut;
mod means;
mod movement;
mod norm;
mod pick;
mod pool;
mod product;
mod reduce;
mod resample;
mod resize;
mod rows;
mod softmax;
mod strided;
mod take;
mod types;
mod unary;
mod views;
mod window;

use crate::builder::Builder;
use crate::{Recipe, Target};
use ottava_hal::{Capability, Error, Node, OpRow, Program, Reason, Result, ValueId, Verdict};

/// How one operator is described and lowered.
struct Entry {
    domain: &'static str,
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
}

/// An ONNX operator.
const fn onnx(
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "", op, rows, lower }
}

/// One of ONNX Runtime's own.
const fn microsoft(
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "com.microsoft", ..onnx(op, rows, lower) }
}

/// One of Ottava's own.
const fn ottava(
    op: &'static str,
    rows: fn(&Target) -> Vec<OpRow>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "ottava", ..onnx(op, rows, lower) }
}

/// Every operator.
static TABLE: &[Entry] = &[
    onnx("Abs", unary::fixed_rows, unary::lower),
    onnx("Add", binary::rows, binary::lower),
    onnx("And", binary::logical_rows, binary::logical),
    onnx("AveragePool", pool::average_rows, pool::lower),
    onnx("Cast", cast::rows, cast::lower),
    onnx("Ceil", unary::rows, unary::lower),
    onnx("Clip", unary::clip_rows, unary::lower),
    onnx("Concat", concat::rows, concat::lower),
    onnx("Conv", product::conv_rows, product::conv),
    onnx("ConvTranspose", product::conv_rows, product::conv_transpose),
    onnx("Div", binary::rows, binary::lower),
    onnx("Equal", binary::comparison_rows, binary::compare),
    onnx("Erf", unary::rows, unary::lower),
    onnx("Exp", unary::rows, unary::lower),
    onnx("Expand", movement::rows, movement::expand),
    onnx("Flatten", views::rows, views::lower),
    onnx("Floor", unary::rows, unary::lower),
    onnx("Gather", take::rows, take::gather),
    onnx("Gelu", unary::rows, unary::lower),
    onnx("Gemm", product::gemm_rows, product::gemm),
    onnx("GlobalAveragePool", reduce::global_rows, reduce::lower),
    onnx("GlobalMaxPool", reduce::global_max_rows, reduce::lower),
    onnx("Greater", binary::comparison_rows, binary::compare),
    onnx("GreaterOrEqual", binary::comparison_rows, binary::compare),
    onnx("HardSigmoid", unary::rows, unary::lower),
    onnx("HardSwish", unary::rows, unary::lower),
    onnx("Identity", views::rows, views::lower),
    onnx("LayerNormalization", norm::rows, norm::lower),
    onnx("LeakyRelu", unary::fixed_rows, unary::lower),
    onnx("Less", binary::comparison_rows, binary::compare),
    onnx("LessOrEqual", binary::comparison_rows, binary::compare),
    onnx("Log", unary::rows, unary::lower),
    onnx("LogSoftmax", softmax::log_rows, softmax::lower),
    onnx("MatMul", product::matmul_rows, product::matmul),
    onnx("Max", binary::rows, binary::variadic),
    onnx("MaxPool", pool::max_rows, pool::lower),
    onnx("Min", binary::rows, binary::variadic),
    onnx("Mul", binary::rows, binary::lower),
    onnx("Neg", unary::rows, unary::lower),
    onnx("Or", binary::logical_rows, binary::logical),
    onnx("PRelu", binary::rows, binary::lower),
    onnx("Pad", movement::rows, movement::pad),
    onnx("Pow", unary::pow_rows, unary::lower),
    onnx("RMSNormalization", norm::rows, norm::lower),
    onnx("Reciprocal", unary::rows, unary::lower),
    onnx("ReduceL1", reduce::norm_rows, reduce::lower),
    onnx("ReduceL2", reduce::norm_rows, reduce::lower),
    onnx("ReduceLogSum", reduce::norm_rows, reduce::lower),
    onnx("ReduceMax", reduce::extreme_rows, reduce::lower),
    onnx("ReduceMean", reduce::mean_rows, reduce::lower),
    onnx("ReduceMin", reduce::extreme_rows, reduce::lower),
    onnx("ReduceProd", reduce::norm_rows, reduce::lower),
    onnx("ReduceSum", reduce::mean_rows, reduce::lower),
    onnx("ReduceSumSquare", reduce::norm_rows, reduce::lower),
    onnx("Relu", unary::clip_rows, unary::lower),
    onnx("Reshape", views::rows, views::lower),
    onnx("Resize", resize::rows, resize::lower),
    onnx("Round", unary::rows, unary::lower),
    onnx("Sigmoid", unary::rows, unary::lower),
    onnx("Sign", unary::rows, unary::lower),
    onnx("SimplifiedLayerNormalization", norm::rows, norm::lower),
    onnx("Slice", movement::rows, movement::slice),
    onnx("Softmax", softmax::rows, softmax::lower),
    onnx("Softsign", unary::rows, unary::lower),
    onnx("Split", movement::split_rows, movement::split),
    onnx("Sqrt", unary::rows, unary::lower),
    onnx("Squeeze", views::rows, views::lower),
    onnx("Sub", binary::rows, binary::lower),
    onnx("Sum", binary::rows, binary::variadic),
    onnx("Swish", unary::rows, unary::lower),
    onnx("Tanh", unary::rows, unary::lower),
    onnx("ThresholdedRelu", unary::rows, unary::lower),
    onnx("Tile", movement::rows, movement::tile),
    onnx("Transpose", movement::rows, movement::transpose),
    onnx("Unsqueeze", views::rows, views::lower),
    onnx("Where", binary::where_rows, binary::select),
    onnx("Xor", binary::logical_rows, binary::logical),
    microsoft("Gelu", unary::rows, unary::lower),
    microsoft("QuickGelu", unary::rows, unary::lower),
    ottava("Dequantize", bridge::dequantize_rows, bridge::lower),
    ottava("Lut", lut::rows, lut::lower),
    ottava("MaskedMean", reduce::masked_rows, reduce::lower),
    ottava("MaskedSoftmax", softmax::masked_rows, softmax::lower),
    ottava("Quantize", bridge::quantize_rows, bridge::lower),
    ottava("Requantize", bridge::requantize_rows, bridge::lower),
];

/// What a device can run, as far as rows can say it.
pub(crate) fn capability(target: &Target) -> Capability {
    let rows = TABLE.iter().flat_map(|e| {
        (e.rows)(target).into_iter().map(|row| OpRow { op: e.op.into(), domain: e.domain.into(), ..row })
    });
    Capability { rows: rows.collect(), dynamic_shapes: false }
}

fn lower_node(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let entry = TABLE.iter().find(|e| e.op == node.op && e.domain == node.domain);
    let unknown = || Error::unsupported(Reason::OpUnknown, format!("no kernel for {}", node.full_op()));
    (entry.ok_or_else(unknown)?.lower)(builder, node)
}

/// The verdict on one node: the rows', then that of lowering it by itself.
pub(crate) fn assess(capability: &Capability, target: &Target, program: &Program, index: usize) -> Verdict {
    let node = &program.nodes[index];
    let verdict = capability.assess_node(program, node);
    if !verdict.is_supported() {
        return verdict;
    }
    let tried = Builder::trial(program, target, index).and_then(|mut builder| lower_node(&mut builder, node));
    match tried {
        Ok(()) => verdict,
        Err(Error::Unsupported { reason, what }) => Verdict::rejected(reason, what),
        Err(other) => Verdict::rejected(Reason::Other, other.to_string()),
    }
}

/// The recipe of a program.
pub(crate) fn lower(program: &Program, target: &Target) -> Result<Recipe> {
    let capability = capability(target);
    // First the rows of all nodes: a reason is then the one that an assessment gives.
    for node in &program.nodes {
        if let Verdict::Rejected { reason, detail } = capability.assess_node(program, node) {
            return Err(at_node(node, target, Error::Unsupported { reason, what: detail }));
        }
    }
    let mut builder = Builder::new(program, target)?;
    for (i, node) in program.nodes.iter().enumerate() {
        builder.begin(i);
        lower_node(&mut builder, node).map_err(|e| at_node(node, target, e))?;
    }
    builder.finish()
}

/// A refusal with the node and the device in it.
fn at_node(node: &Node, target: &Target, error: Error) -> Error {
    match error {
        Error::Unsupported { reason, what } => {
            let what = format!("node `{}` ({}) on device `{}`: {what}", node.name, node.full_op(), target.device);
            Error::Unsupported { reason, what }
        }
        other => other,
    }
}

/// An input that the rows have seen to be there.
fn input(node: &Node, i: usize) -> Result<ValueId> {
    node.input(i).ok_or_else(|| Error::invalid(format!("node `{}` has no input {i}", node.name)))
}

/// The first output.
fn output(node: &Node) -> Result<ValueId> {
    node.outputs.first().copied().ok_or_else(|| Error::invalid(format!("node `{}` has no output", node.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_listed_once() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|b| (b.op, b.domain) != (a.op, a.domain)), "{} twice", a.op);
        }
    }
}
