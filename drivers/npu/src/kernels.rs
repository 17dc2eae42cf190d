//! The operator table: one line per operator. What the device can run and how it runs it both follow from it, and both
//! follow from the chip's configuration.

use crate::lower::{Builder, Chip};
use crate::ops::{
    average_pool, binary, concat, conv, cut, lut, matrix, max_pool, mean, rescale, softmax, transpose, views,
};
use crate::rows;
use ottava_hal::capability::Operand;
use ottava_hal::{Capability, Error, Node, OpRow, Program, Reason, RequantMode, Result, Verdict};
use ottava_npu::isa::Opcode;

/// How one operator is described and lowered.
struct Entry {
    domain: &'static str,
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
    /// Has a form with the zero point added before rounding.
    before_round: bool,
    /// Is a product, which may have a residual and an activation behind it.
    product: bool,
    /// Has any number of outputs.
    many_outputs: bool,
}

const fn onnx(
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { domain: "", op, inputs, lower, before_round: false, product: false, many_outputs: false }
}

/// Every operator of the device.
static TABLE: &[Entry] = &[
    Entry { product: true, ..onnx("Conv", conv::inputs, conv::lower) },
    Entry { product: true, ..onnx("Gemm", matrix::inputs, matrix::gemm) },
    Entry { product: true, ..onnx("MatMul", matrix::inputs, matrix::matmul) },
    Entry { before_round: true, ..onnx("Add", binary::inputs, |b, n| binary::lower(b, n, Opcode::Add)) },
    onnx("Sub", binary::inputs, |b, n| binary::lower(b, n, Opcode::Sub)),
    Entry { before_round: true, ..onnx("Mul", binary::inputs, |b, n| binary::lower(b, n, Opcode::Mul)) },
    onnx("MaxPool", max_pool::inputs, max_pool::lower),
    onnx("GlobalMaxPool", max_pool::inputs, max_pool::global),
    onnx("AveragePool", average_pool::inputs, average_pool::lower),
    onnx("GlobalAveragePool", mean::inputs, mean::global),
    onnx("ReduceMean", mean::inputs, |b, n| mean::reduce(b, n, true)),
    onnx("ReduceSum", mean::inputs, |b, n| mean::reduce(b, n, false)),
    onnx("Concat", concat::inputs, concat::lower),
    onnx("Slice", cut::inputs, cut::slice),
    Entry { many_outputs: true, ..onnx("Split", cut::inputs, cut::split) },
    onnx("Relu", rescale::inputs, rescale::relu),
    onnx("Clip", rescale::inputs, rescale::clip),
    onnx("Softmax", softmax::inputs, softmax::lower),
    onnx("Identity", views::inputs, views::identity),
    onnx("Reshape", views::inputs, views::lower),
    onnx("Flatten", views::inputs, views::lower),
    onnx("Squeeze", views::inputs, views::lower),
    onnx("Unsqueeze", views::inputs, views::lower),
    onnx("Transpose", transpose::inputs, transpose::lower),
    Entry { domain: "ottava", ..onnx("Requantize", rescale::inputs, rescale::requantize) },
    Entry { domain: "ottava", ..onnx("Lut", lut::inputs, lut::lower) },
];

impl Entry {
    fn rows(&self, chip: &Chip) -> Vec<OpRow> {
        let mut rows = rows::row(chip, self.op, (self.inputs)(chip), self.many_outputs);
        for row in &mut rows {
            row.domain = self.domain.into();
            if !self.product {
                // The Q31 modes of the other operators have forms of their own, which are not lowered.
                row.requant.retain(|mode| *mode == RequantMode::Fp32Rne);
            }
            row.fused.zp_before_round = self.before_round;
            // The sum with a residual is in f32.
            row.fused.residual = self.product && chip.modes().contains(&RequantMode::Fp32Rne);
            row.fused.act = row.fused.residual;
        }
        rows
    }
}

/// What a chip can run, as far as rows can say it; [`assess`] adds what only lowering knows.
pub(crate) fn capability(chip: &Chip) -> Capability {
    Capability { rows: TABLE.iter().flat_map(|e| e.rows(chip)).collect(), dynamic_shapes: false }
}

/// Adds the steps of a node that the rows accept.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let entry = TABLE.iter().find(|e| e.op == node.op && e.domain == node.domain);
    let unknown = || Error::unsupported(Reason::OpUnknown, format!("no kernel for {}", node.full_op()));
    (entry.ok_or_else(unknown)?.lower)(builder, node)
}

/// The verdict on one node: the rows', then that of lowering it by itself.
pub(crate) fn assess(capability: &Capability, chip: &Chip, program: &Program, index: usize) -> Verdict {
    let node = &program.nodes[index];
    let verdict = capability.assess_node(program, node);
    if !verdict.is_supported() {
        return verdict;
    }
    let tried = Builder::trial(program, chip, index).and_then(|mut builder| lower(&mut builder, node));
    match tried {
        Ok(()) => verdict,
        Err(Error::Unsupported { reason, what }) => Verdict::rejected(reason, what),
        Err(other) => Verdict::rejected(Reason::Other, other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_npu::NpuConfig;

    #[test]
    fn an_operator_is_listed_once_and_rows_follow_the_chip() {
        for (i, a) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|b| (b.op, b.domain) != (a.op, a.domain)), "{} twice", a.op);
        }
        let rows = |text: &str| capability(&Chip::new(&NpuConfig::parse(text).unwrap())).rows;
        assert_eq!(rows("Npu()").len(), TABLE.len());
        let gemmini = rows("Npu(dtypes: [S8], requant: [Fp32Rne])");
        assert!(gemmini.iter().all(|r| r.outputs[0].dtypes == [ottava_hal::DataType::S8]));
        assert!(rows("Npu(dtypes: [Bf16])").is_empty());
    }
}
