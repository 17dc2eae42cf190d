//! `QLinearConv`, `QLinearMatMul` and com.microsoft `QGemm`: products whose scales are inputs.
//!
//! * (C1) `acc = sum of (x - zx)(w - zw[c]) + b[c]`, `y = sat(rne(fl32(f32(acc) * m)) + zy)`.
//! * (C2) `w_scale` and `w_zero_point` are per tensor or per output channel, for any number of spatial axes.
//! * (C3) Padding holds the zero point.
//! * (C4) QGemm without `y_scale` has the float output `fl32(f32(acc) * fl32(fl32(xs*ws) * alpha))`.

use super::params::from_tensors;
use super::typed_form::{Operand, eval, infer_as, renamed, result, triple};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, MICROSOFT, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Reason, RequantMode, Result, Scheme, Tensor, TensorType};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Conv,
    MatMul,
    Gemm,
}

/// A quantized product.
pub struct QLinearProduct {
    spec: OpSpec,
    kind: Kind,
}

/// Quantized convolution.
pub static CONV: QLinearProduct = QLinearProduct {
    spec: OpSpec {
        name: "QLinearConv",
        domain: "",
        since: 10,
        inputs: (8, 9),
        outputs: (1, 1),
        attrs: &[
            AttrSpec::optional("auto_pad", AttrKind::Str),
            AttrSpec::optional("dilations", AttrKind::Ints),
            AttrSpec::optional("group", AttrKind::Int),
            AttrSpec::optional("kernel_shape", AttrKind::Ints),
            AttrSpec::optional("pads", AttrKind::Ints),
            AttrSpec::optional("strides", AttrKind::Ints),
        ],
    },
    kind: Kind::Conv,
};

/// Quantized matrix product.
pub static MATMUL: QLinearProduct = QLinearProduct {
    spec: OpSpec { name: "QLinearMatMul", domain: "", since: 10, inputs: (8, 8), outputs: (1, 1), attrs: &[] },
    kind: Kind::MatMul,
};

/// Quantized general matrix product.
pub static GEMM: QLinearProduct = QLinearProduct {
    spec: OpSpec {
        name: "QGemm",
        domain: MICROSOFT,
        since: 1,
        inputs: (6, 9),
        outputs: (1, 1),
        attrs: &[
            AttrSpec::optional("alpha", AttrKind::Float),
            AttrSpec::optional("transA", AttrKind::Int),
            AttrSpec::optional("transB", AttrKind::Int),
        ],
    },
    kind: Kind::Gemm,
};

impl QLinearProduct {
    /// The ONNX operator that does the work.
    fn inner(&self, node: &Node) -> Node {
        match self.kind {
            Kind::Conv => renamed(node, "Conv", 22),
            Kind::MatMul => renamed(node, "MatMul", 13),
            Kind::Gemm => renamed(node, "Gemm", 13),
        }
    }

    fn weight_axis(&self, attrs: &Attrs, rank: usize) -> Result<usize> {
        Ok(match self.kind {
            Kind::Conv => 0,
            Kind::MatMul => rank.saturating_sub(1),
            Kind::Gemm => usize::from(attrs.int("transB", 0)? == 0),
        })
    }

    /// Inputs of the output's scale and of the bias.
    fn positions(&self) -> (usize, usize) {
        match self.kind {
            Kind::Conv => (6, 8),
            Kind::MatMul => (6, usize::MAX),
            Kind::Gemm => (7, 6),
        }
    }

    /// The weight with its per-tensor or per-channel parameters (C2).
    fn weight<'a>(&self, cx: &EvalCx<'a>) -> Result<Operand<'a>> {
        let (w, scale) = (cx.input(3)?, cx.input(4)?);
        let axis = self.weight_axis(cx.attrs(), w.shape().len())?;
        let channels = w.shape().get(axis).copied().unwrap_or(1);
        let n = scale.elements().max(cx.opt(5).map_or(1, Tensor::elements));
        if n != 1 && n != channels {
            let what = format!("{}: {n} weight scales for {channels} channels", cx.node.full_op());
            return Err(Error::unsupported(Reason::QuantScheme, what));
        }
        // One scale beside many zero points counts for every channel.
        let repeated = match (scale.elements(), n) {
            (1, n) if n > 1 => Some(Tensor::from_slice(&[n], &vec![scale.to_f32s()?[0]; n])?),
            _ => None,
        };
        let flat = repeated.as_ref().unwrap_or(scale).reshaped(&[n])?;
        Ok(Operand::quantized(w, from_tensors(&flat, cx.opt(5), w.dtype(), Scheme::PerAxis { axis })?))
    }
}

impl Op for QLinearProduct {
    fn spec(&self) -> &'static OpSpec {
        match self.kind {
            Kind::Conv => &CONV.spec,
            Kind::MatMul => &MATMUL.spec,
            Kind::Gemm => &GEMM.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (scale, _) = self.positions();
        let dtype = match (cx.opt(scale + 1), cx.opt(scale)) {
            (Some(zp), _) => zp.ty.dtype,
            (None, Some(_)) => cx.dtype(0)?,
            (None, None) => DataType::F32,
        };
        Ok(vec![infer_as(cx, &self.inner(cx.node), &[Some(0), Some(3)], dtype)?])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (scale, bias) = self.positions();
        let operands = [triple(cx, 0)?, self.weight(cx)?, Operand::plain(cx.opt(bias))];
        let output = match cx.opt(scale) {
            Some(_) => Some(result(cx, scale, cx.input(0)?.dtype())?),
            None if self.kind == Kind::Gemm => None,
            None => return Err(Error::invalid(format!("{}: y_scale is missing", cx.node.full_op()))),
        };
        Ok(vec![eval(&self.inner(cx.node), &operands, output)?])
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        let picked = [inputs.first().copied().flatten(), inputs.get(3).copied().flatten()];
        let inner = self.inner(node);
        crate::lookup("", &inner.op).map_or(0, |op| op.macs(&inner, &picked, outputs))
    }

    fn cases(&self) -> Vec<Case> {
        match self.kind {
            Kind::Conv => conv_cases(),
            Kind::MatMul => matmul_cases(),
            Kind::Gemm => gemm_cases(),
        }
    }
}

fn real(v: f32) -> Tensor {
    f32s(&[], &[v])
}

fn conv_cases() -> Vec<Case> {
    let mut node = Node::new("qconv", "QLinearConv", 10);
    node.attrs.set("pads", Attr::Ints(vec![1, 0]));
    let bytes = |shape: &[usize], v: &[i64]| ints(DataType::U8, shape, v);
    let inputs = [
        bytes(&[1, 1, 3], &[11, 12, 13]),
        real(0.5),
        bytes(&[], &[10]),
        ints(DataType::S8, &[2, 1, 2], &[10, 1, 10, 1]),
        f32s(&[2], &[1.0, 0.5]),
        ints(DataType::S8, &[2], &[0, 0]),
        real(1.0),
        bytes(&[], &[3]),
        ints(DataType::S32, &[2], &[0, 100]),
    ];
    // Sums 1, 12, 23 (+100), the padded tap contributes 0; multipliers 0.5 and 0.25.
    let y = bytes(&[1, 2, 3], &[3, 9, 15, 28, 31, 34]);
    vec![case_const("c3_padding_is_zero_point", node, 1, &inputs, &[y])]
}

/// The ties of numerics.md section 3, example 1, in every mode.
fn matmul_cases() -> Vec<Case> {
    let sums: Vec<i64> = (-8..=8).collect();
    let inputs = [
        ints(DataType::S8, &[17, 1], &sums),
        real(1.0),
        ints(DataType::S8, &[], &[0]),
        ints(DataType::S8, &[1, 1], &[1]),
        real(0.5),
        ints(DataType::S8, &[], &[0]),
        real(1.0),
        ints(DataType::S8, &[], &[1]),
    ];
    let half_even = [-3, -3, -2, -1, -1, -1, 0, 1, 1, 1, 2, 3, 3, 3, 4, 5, 5];
    let single = [-3, -2, -2, -1, -1, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5];
    let case = |name, mode, expect: &[i64]| {
        let mut node = Node::new("qmm", "QLinearMatMul", 10);
        node.requant = Some(mode);
        case_const(name, node, 1, &inputs, &[ints(DataType::S8, &[17, 1], expect)])
    };
    vec![
        case("c1_ties_fp32_rne", RequantMode::Fp32Rne, &half_even),
        case("c1_ties_q31_single", RequantMode::Q31Single, &single),
        case("c1_ties_q31_double", RequantMode::Q31Double, &single),
    ]
}

fn gemm_cases() -> Vec<Case> {
    let mut node = Node::new("qgemm", "QGemm", 1);
    node.domain = MICROSOFT.into();
    node.attrs = Attrs::default().with("alpha", Attr::Float(0.5)).with("transB", Attr::Int(1));
    let inputs = [
        ints(DataType::U8, &[1, 2], &[3, 4]),
        real(0.5),
        ints(DataType::U8, &[], &[1]),
        ints(DataType::S8, &[1, 2], &[5, 7]),
        real(2.0),
        ints(DataType::S8, &[], &[0]),
        ints(DataType::S32, &[1], &[9]),
    ];
    // 2*5 + 3*7 + 9 = 40, times fl32(fl32(0.5 * 2) * 0.5).
    vec![case_const("c4_float_output", node, 1, &inputs, &[f32s(&[1, 1], &[20.0])])]
}
