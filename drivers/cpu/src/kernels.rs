//! The operator table: one line per operator. What the device can run and how it runs it both follow from it.

use crate::builder::{Builder, input};
use crate::ops::{
    batch_norm, binary, bridge, concat, dynamic, extreme, gather, layer_norm, layer_norm_int, masked, matmul, movement,
    pieces, pointwise, pool, product, resize, select, slope, softmax, table, unary,
};
use ottava_hal::{Capability, Error, Node, OpRow, Reason, Result};
use ottava_kernels::BinaryOp;

type Rows = fn(&'static str) -> Vec<OpRow>;
type Build = fn(&mut Builder<'_>, &Node) -> Result<()>;

/// How one operator is described and built.
struct Entry {
    domain: &'static str,
    op: &'static str,
    form: (Rows, Build),
    /// A form of its own for nodes whose first input is quantized.
    quantized: Option<(Rows, Build)>,
}

/// An operator of ONNX.
const fn onnx(op: &'static str, rows: Rows, build: Build) -> Entry {
    Entry { domain: "", op, form: (rows, build), quantized: None }
}

/// An operator of ONNX whose integers take another way than its floats.
const fn split(op: &'static str, float: (Rows, Build), quantized: (Rows, Build)) -> Entry {
    Entry { domain: "", op, form: float, quantized: Some(quantized) }
}

/// An operator of Ottava's own domain.
const fn ottava(op: &'static str, rows: Rows, build: Build) -> Entry {
    Entry { domain: "ottava", op, form: (rows, build), quantized: None }
}

impl Entry {
    fn rows(&self) -> Vec<OpRow> {
        let forms = [Some(self.form), self.quantized];
        forms
            .into_iter()
            .flatten()
            .flat_map(|(rows, _)| rows(self.op))
            .map(|row| OpRow { domain: self.domain.into(), ..row })
            .collect()
    }
}

/// Every operator of the device.
static TABLE: &[Entry] = &[
    onnx("Conv", product::conv_rows, product::build),
    onnx("Gemm", product::gemm_rows, product::build),
    onnx("MatMul", matmul::rows, matmul::build),
    onnx("Add", binary::rows, |b, n| binary::build(b, n, BinaryOp::Add)),
    onnx("Sub", binary::rows, |b, n| binary::build(b, n, BinaryOp::Sub)),
    onnx("Mul", binary::rows, |b, n| binary::build(b, n, BinaryOp::Mul)),
    onnx("Div", binary::rows, |b, n| binary::build(b, n, BinaryOp::Div)),
    onnx("MaxPool", pool::max_rows, pool::build_max),
    onnx("GlobalMaxPool", pool::max_rows, pool::build_max),
    onnx("AveragePool", pool::average_rows, pool::build_average),
    onnx("GlobalAveragePool", pool::average_rows, pool::build_average),
    onnx("ReduceMean", pool::mean_rows, pool::build_average),
    onnx("ReduceMax", extreme::rows, extreme::build),
    onnx("ReduceMin", extreme::rows, extreme::build),
    onnx("Resize", resize::rows, resize::build),
    onnx("Concat", concat::rows, concat::build),
    onnx("Identity", movement::view_rows, movement::view),
    onnx("Reshape", movement::view_rows, movement::view),
    onnx("Flatten", movement::view_rows, movement::view),
    onnx("Squeeze", movement::view_rows, movement::view),
    onnx("Unsqueeze", movement::view_rows, movement::view),
    onnx("Transpose", movement::transpose_rows, movement::transpose),
    onnx("Slice", pieces::slice_rows, pieces::slice),
    onnx("Split", pieces::split_rows, pieces::split),
    onnx("Gather", gather::rows, gather::build),
    onnx("Expand", pieces::expand_rows, pieces::expand),
    onnx("Pad", pieces::pad_rows, pieces::pad),
    onnx("BatchNormalization", batch_norm::rows, batch_norm::build),
    split("LayerNormalization", (layer_norm::rows, layer_norm::build), (layer_norm_int::rows, layer_norm_int::build)),
    onnx("Softmax", softmax::rows, softmax::build),
    split("Relu", (unary::rows, pointwise::build), (table::rows, table::relu)),
    split("Clip", (unary::clip_rows, pointwise::build), (table::clip_rows, table::clip)),
    onnx("PRelu", slope::rows, slope::build),
    onnx("Where", select::rows, select::build),
    onnx("LeakyRelu", unary::rows, pointwise::build),
    onnx("HardSigmoid", unary::rows, pointwise::build),
    onnx("HardSwish", unary::rows, pointwise::build),
    onnx("Sigmoid", unary::rows, pointwise::build),
    onnx("Tanh", unary::rows, pointwise::build),
    onnx("Exp", unary::rows, pointwise::build),
    onnx("Erf", unary::rows, pointwise::build),
    onnx("Sqrt", unary::rows, pointwise::build),
    onnx("Log", unary::rows, pointwise::build),
    onnx("Abs", unary::rows, pointwise::build),
    onnx("Neg", unary::rows, pointwise::build),
    onnx("Reciprocal", unary::rows, pointwise::build),
    onnx("Swish", unary::rows, pointwise::build),
    onnx("Gelu", unary::gelu_rows, pointwise::build),
    ottava("Quantize", bridge::quantize_rows, bridge::quantized),
    ottava("Dequantize", bridge::dequantize_rows, bridge::dequantized),
    ottava("Requantize", table::rows, table::requantized),
    ottava("Lut", table::lut_rows, table::table),
    ottava("DynamicMatMul", dynamic::rows, dynamic::build),
    ottava("MaskedMean", masked::mean_rows, masked::mean),
    ottava("MaskedSoftmax", masked::softmax_rows, masked::softmax),
];

/// What the table can run.
pub(crate) fn capability() -> Capability {
    Capability { rows: TABLE.iter().flat_map(Entry::rows).collect(), dynamic_shapes: false }
}

/// Adds the steps of a node that the capability accepts.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let entry = TABLE.iter().find(|e| e.op == node.op && e.domain == node.domain);
    let unknown = || Error::unsupported(Reason::OpUnknown, format!("no kernel for {}", node.full_op()));
    let entry = entry.ok_or_else(unknown)?;
    let quantized = input(node, 0).is_ok_and(|id| builder.ty(id).quant.is_some());
    let (_, build) = entry.quantized.filter(|_| quantized).unwrap_or(entry.form);
    build(builder, node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operator_is_listed_once_and_every_row_is_its_own() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|b| (b.op, b.domain) != (a.op, a.domain)), "{} twice", a.op);
            assert!(a.rows().iter().all(|r| (&*r.op, &*r.domain) == (a.op, a.domain)));
        }
    }
}
