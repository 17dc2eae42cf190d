//! The operator table: one line per operator. What the device can run and how it runs it both follow from it, and both
//! follow from the chip's configuration.

use crate::lower::{Builder, Chip};
use crate::ops::{
    average_pool, binary, concat, conv, cut, lut, matrix, max_pool, mean, pad, pick, rescale, softmax, transpose, views,
};
use crate::rows;
use ottava_hal::capability::Operand;
use ottava_hal::{Capability, DataType, Error, Node, OpRow, Program, Reason, RequantMode, Result, Verdict};
use ottava_npu::isa::Opcode;

/// How one operator is described and lowered.
struct Entry {
    domain: &'static str,
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
    kind: Kind,
    /// Has a form with the zero point added before rounding.
    before_round: bool,
    /// Has forms in the Q31 modes.
    fixed: bool,
    /// Has any number of outputs.
    many_outputs: bool,
}

/// What comes out of an operator.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Bytes.
    Byte,
    /// Integers of 8 or 16 bits.
    Element,
    /// Sums through the requantizer: 8 or 16 bits, or f32. A residual and an activation may lie behind them.
    Product,
}

const fn onnx(
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    let kind = Kind::Byte;
    Entry { domain: "", op, inputs, lower, kind, before_round: false, fixed: false, many_outputs: false }
}

const fn product(
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { kind: Kind::Product, fixed: true, ..onnx(op, inputs, lower) }
}

const fn element(
    op: &'static str,
    inputs: fn(&Chip) -> Vec<Operand>,
    lower: fn(&mut Builder<'_>, &Node) -> Result<()>,
) -> Entry {
    Entry { kind: Kind::Element, ..onnx(op, inputs, lower) }
}

/// Every operator of the device.
static TABLE: &[Entry] = &[
    product("Conv", conv::inputs, conv::lower),
    product("Gemm", matrix::inputs, matrix::gemm),
    product("MatMul", matrix::inputs, matrix::matmul),
    Entry {
        before_round: true,
        fixed: true,
        ..element("Add", binary::inputs, |b, n| binary::lower(b, n, Opcode::Add))
    },
    Entry { fixed: true, ..element("Sub", binary::inputs, |b, n| binary::lower(b, n, Opcode::Sub)) },
    Entry {
        before_round: true,
        fixed: true,
        ..element("Mul", binary::inputs, |b, n| binary::lower(b, n, Opcode::Mul))
    },
    onnx("MaxPool", max_pool::inputs, max_pool::lower),
    onnx("GlobalMaxPool", max_pool::inputs, max_pool::global),
    Entry { fixed: true, ..onnx("AveragePool", average_pool::inputs, average_pool::lower) },
    Entry { fixed: true, ..onnx("GlobalAveragePool", mean::inputs, mean::global) },
    Entry { fixed: true, ..onnx("ReduceMean", mean::inputs, |b, n| mean::reduce(b, n, true)) },
    Entry { fixed: true, ..onnx("ReduceSum", mean::inputs, |b, n| mean::reduce(b, n, false)) },
    element("Max", binary::inputs, |b, n| binary::lower(b, n, Opcode::Max)),
    element("Min", binary::inputs, |b, n| binary::lower(b, n, Opcode::Min)),
    element("Gather", pick::gather_inputs, pick::gather),
    element("Resize", pick::resize_inputs, pick::resize),
    element("Pad", pad::inputs, pad::lower),
    element("Concat", concat::inputs, concat::lower),
    element("Slice", cut::inputs, cut::slice),
    Entry { many_outputs: true, ..element("Split", cut::inputs, cut::split) },
    element("Relu", rescale::inputs, rescale::relu),
    element("Clip", rescale::inputs, rescale::clip),
    Entry { fixed: true, ..onnx("Softmax", softmax::inputs, softmax::lower) },
    element("Identity", views::inputs, views::identity),
    element("Reshape", views::inputs, views::lower),
    element("Flatten", views::inputs, views::lower),
    element("Squeeze", views::inputs, views::lower),
    element("Unsqueeze", views::inputs, views::lower),
    element("Transpose", transpose::inputs, transpose::lower),
    Entry { domain: "ottava", fixed: true, ..element("Requantize", rescale::inputs, rescale::requantize) },
    Entry { domain: "ottava", ..onnx("Lut", lut::inputs, lut::lower) },
];

impl Entry {
    /// A row of integers, and one of f32 for products. A chip without 8-bit types has no row at all.
    fn rows(&self, chip: &Chip) -> Vec<OpRow> {
        if chip.bytes().is_empty() {
            return Vec::new();
        }
        let integers = if self.kind == Kind::Byte { rows::byte(chip) } else { rows::element(chip) };
        let real = chip.modes().contains(&RequantMode::Fp32Rne);
        let outputs = [Some(integers), (self.kind == Kind::Product && real).then(rows::real)];
        outputs.into_iter().flatten().map(|output| self.row(chip, output, real)).collect()
    }

    fn row(&self, chip: &Chip, output: Operand, real: bool) -> OpRow {
        let integers = !output.dtypes.contains(&DataType::F32);
        let mut row = rows::row(chip, self.op, (self.inputs)(chip), output, self.many_outputs);
        row.domain = self.domain.into();
        if !self.fixed {
            row.requant.retain(|mode| *mode == RequantMode::Fp32Rne);
        }
        if !integers {
            // A real output is not requantized: every mode means the same.
            row.requant = RequantMode::ALL.to_vec();
            row.fused.clamp = false;
        }
        row.fused.zp_before_round = self.before_round;
        // The sum with a residual is in f32.
        row.fused.residual = self.kind == Kind::Product && real && integers;
        row.fused.act = row.fused.residual;
        row
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
        let products = TABLE.iter().filter(|e| e.kind == Kind::Product).count();
        assert_eq!(rows("Npu()").len(), TABLE.len() + products, "a second row for f32 outputs");
        assert_eq!(rows("Npu(requant: [Q31Single])").len(), TABLE.len());
        let gemmini = rows("Npu(dtypes: [S8], requant: [Fp32Rne])");
        let narrow = |r: &OpRow| r.outputs[0].dtypes == [DataType::S8] || r.outputs[0].dtypes == [DataType::F32];
        assert!(gemmini.iter().all(narrow));
        assert!(rows("Npu(dtypes: [Bf16])").is_empty());
    }
}
