//! Arithmetic, comparison and selection of operands that broadcast: Add, Sub, Mul, Div, PRelu, Max, Min, Sum, Mean, Equal
//! and its kin, Where, and the logical operators. Quantized values are dequantized, computed with in f32 and quantized
//! (numerics.md section 4); com.microsoft's forms add the zero point before rounding; the Q31 modes have forms of their
//! own ([`super::fixed`]).

use super::rows::{boolean, float, integer, plain_integer, row};
use super::strided::{Operand, broadcast, form_for, lane_words, present};
use super::types::{affine, code, fixed_mode, range, refuse, scale_words};
use super::{fixed, output};
use crate::Target;
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use ottava_hal::capability::FusedSupport;
use ottava_hal::program::Activation;
use ottava_hal::refmath::elementwise::qlinear_mul_multiplier;
use ottava_hal::{DataType, Error, Node, OpRow, Reason, Result, TensorType, ValueId};

/// Operation numbers of the kernel.
const ADD: u32 = 0;
const MUL: u32 = 2;
const DIV: u32 = 3;
const MAX: u32 = 4;
const MIN: u32 = 5;
const PRELU: u32 = 6;
const ADD_BEFORE_ROUND: u32 = 16;
const MUL_BEFORE_ROUND: u32 = 17;
const QUANTIZED_MAX: u32 = 18;
const QUANTIZED_MIN: u32 = 19;
const QUANTIZED_WHERE: u32 = 20;
const INTEGER: u32 = 32;
const WHERE: u32 = 48;

/// Rows of arithmetic.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, act: true, zp_before_round: true, ..FusedSupport::default() };
    let mixed = || ottava_hal::capability::Operand {
        dtypes: [integer().dtypes, float().dtypes].concat(),
        ..ottava_hal::capability::Operand::default()
    };
    vec![
        OpRow { fused, ..row(target, vec![mixed(), mixed()], integer()) },
        OpRow { fused: FusedSupport { act: true, ..FusedSupport::default() }, ..row(target, vec![mixed()], float()) },
        row(target, vec![plain_integer()], plain_integer()),
    ]
}

/// Rows of comparisons.
pub(super) fn comparison_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![float()], boolean()), row(target, vec![plain_integer()], boolean())]
}

/// Rows of logical operators.
pub(super) fn logical_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![boolean()], boolean())]
}

/// Rows of Where.
pub(super) fn where_rows(target: &Target) -> Vec<OpRow> {
    let of = |x: fn() -> ottava_hal::capability::Operand| row(target, vec![boolean(), x(), x()], x());
    vec![
        OpRow { fused: FusedSupport { clamp: true, ..FusedSupport::default() }, ..of(integer) },
        of(float),
        of(plain_integer),
        of(boolean),
    ]
}

/// The launch of Add, Sub, Mul, Div and PRelu.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (inputs, y) = (present(node), output(node)?);
    let quantized = inputs.iter().chain([&y]).any(|id| builder.ty(*id).quant.is_some());
    if quantized && fixed_mode(node).is_some() && !node.fused.zp_before_round && node.op != "Div" {
        return fixed::lower(builder, node);
    }
    let op = ["Add", "Sub", "Mul", "Div"].iter().position(|n| *n == node.op).map_or(PRELU, |n| n as u32);
    let op = match (quantized, node.fused.zp_before_round, builder.ty(y).dtype.is_float()) {
        (true, true, _) if op == ADD => ADD_BEFORE_ROUND,
        (true, true, _) if op == MUL => MUL_BEFORE_ROUND,
        (_, true, _) => return refuse(Reason::FusionRequired, "a zero point before rounding"),
        (false, false, false) if op >= DIV => return refuse(Reason::Dtype, "integers are divided"),
        (false, false, false) => INTEGER + op,
        _ => op,
    };
    if op == MUL_BEFORE_ROUND && inputs.iter().any(|id| builder.ty(*id).dtype.bits() != 8) {
        return refuse(Reason::Dtype, "a product of more than 8 bits with the zero point before rounding");
    }
    let join = Join { op, inputs: &inputs, act: node.fused.act, factor: 0.0 };
    join.launch(builder, node, y)
}

/// The launches of Max, Min, Sum and Mean: operands join one after the other.
pub(super) fn variadic(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (inputs, y) = (present(node), output(node)?);
    let ty = builder.ty(y);
    let quantized = ty.quant.is_some();
    let extreme = matches!(node.op.as_str(), "Max" | "Min");
    let op = match (node.op.as_str(), quantized, ty.dtype.is_float()) {
        ("Max", true, _) => QUANTIZED_MAX,
        ("Min", true, _) => QUANTIZED_MIN,
        ("Max", false, true) => MAX,
        ("Min", false, true) => MIN,
        ("Max", ..) => INTEGER + 3,
        ("Min", ..) => INTEGER + 4,
        (_, false, false) => INTEGER + ADD,
        _ => ADD,
    };
    if quantized && extreme && inputs.iter().any(|id| builder.ty(*id).quant.is_none()) {
        return refuse(Reason::QuantScheme, "extremes of quantized and plain values");
    }
    let wide = inputs.len() > 2 && !extreme && (quantized || ty.dtype != DataType::F32);
    if wide || inputs.len() < 2 || node.op == "Mean" {
        return refuse(Reason::ShapeLimit, format!("{} of {} operands of {}", node.op, inputs.len(), ty.dtype));
    }
    let Some((last, front)) = inputs.split_last() else { return refuse(Reason::Other, "no operands") };
    let mut first = Operand::of(builder, front[0])?;
    for (i, id) in front.iter().skip(1).chain([last]).enumerate() {
        let other = Operand::of(builder, *id)?;
        let form = form_for(builder, &inputs, y)?;
        let stored = Stored::new(ty, form)?;
        let to = if i + 2 == inputs.len() { builder.write(y, form)? } else { builder.scratch(stored.bytes()?)? };
        let params = Params { op, act: None, factor: 0.0, ty, node };
        params.launch(builder, &stored, [&first, &other, &other], to)?;
        first = Operand { ty, dims: builder.dims(y)?, stored, buf: to };
    }
    Ok(())
}

/// The launch of a comparison.
pub(super) fn compare(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (inputs, y) = (present(node), output(node)?);
    let names = ["Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"];
    let number = names.iter().position(|n| *n == node.op).unwrap_or(0) as u32;
    let float = inputs.first().is_some_and(|id| builder.ty(*id).dtype.is_float());
    let op = number + if float { 8 } else { 40 };
    Join { op, inputs: &inputs, act: None, factor: 0.0 }.launch(builder, node, y)
}

/// The launch of And, Or and Xor.
pub(super) fn logical(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let number = ["And", "Or", "Xor"].iter().position(|n| *n == node.op).unwrap_or(0) as u32;
    Join { op: 45 + number, inputs: &present(node), act: None, factor: 0.0 }.launch(builder, node, output(node)?)
}

/// The launch of Where.
pub(super) fn select(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (inputs, y) = (present(node), output(node)?);
    let quants = inputs.iter().skip(1).filter(|id| builder.ty(**id).quant.is_some()).count();
    let op = match (builder.ty(y).quant.is_some(), quants) {
        (true, 2) => QUANTIZED_WHERE,
        (false, 0) => WHERE,
        _ => return refuse(Reason::QuantScheme, "a selection between quantized and plain values"),
    };
    Join { op, inputs: &inputs, act: None, factor: 0.0 }.launch(builder, node, y)
}

/// One launch of the kernel for a node.
struct Join<'a> {
    op: u32,
    inputs: &'a [ValueId],
    act: Option<Activation>,
    factor: f32,
}

impl Join<'_> {
    fn launch(mut self, builder: &mut Builder<'_>, node: &Node, y: ValueId) -> Result<()> {
        let ty = builder.ty(y);
        let missing = || Error::invalid(format!("node `{}` has too few operands", node.name));
        let ids = match *self.inputs {
            [a, b] => [a, b, b],
            [a, b, c] => [a, b, c],
            _ => return Err(missing()),
        };
        let of = |builder: &Builder<'_>, i: usize| affine(builder.ty(ids[i]));
        if self.op == MUL_BEFORE_ROUND || self.op == ADD_BEFORE_ROUND {
            match (of(builder, 0)?, of(builder, 1)?, affine(ty)?) {
                (Some(a), Some(b), Some(c)) => self.factor = qlinear_mul_multiplier(a.scale, b.scale, c.scale),
                _ => return refuse(Reason::QuantScheme, "the zero point before rounding needs quantized values"),
            }
        }
        if self.act.is_some() && (ty.dtype != DataType::F32 || ty.quant.is_some()) {
            return refuse(Reason::FusionRequired, "an activation of something else than f32");
        }
        let form = form_for(builder, self.inputs, y)?;
        let stored = Stored::new(ty, form)?;
        let operands = [Operand::of(builder, ids[0])?, Operand::of(builder, ids[1])?, Operand::of(builder, ids[2])?];
        let to = builder.write(y, form)?;
        let params = Params { op: self.op, act: self.act, factor: self.factor, ty, node };
        params.launch(builder, &stored, [&operands[0], &operands[1], &operands[2]], to)
    }
}

/// What the kernel is told beside its operands.
struct Params<'a> {
    op: u32,
    act: Option<Activation>,
    factor: f32,
    ty: &'a TensorType,
    node: &'a Node,
}

impl Params<'_> {
    fn launch(
        &self,
        builder: &mut Builder<'_>,
        stored: &Stored,
        operands: [&Operand<'_>; 3],
        to: crate::builder::Buf,
    ) -> Result<()> {
        let lanes = broadcast(stored, &operands)?;
        let ([scale, zp], (lo, hi)) = (scale_words(self.ty)?, range(self.node, self.ty));
        let (least, most) = match self.act {
            None => (0.0, 0.0),
            Some(Activation::Relu) => (0.0, f32::INFINITY),
            Some(Activation::Clip { lo, hi }) => (lo, hi),
        };
        let words = builder.bytes(to) / 4;
        let clipped = u32::from(self.act.is_some());
        let mut params = vec![words as u32, self.op, code(self.ty), scale, zp, lo as u32, hi as u32];
        params.extend([clipped, least.to_bits(), most.to_bits(), self.factor.to_bits(), lanes.len() as u32]);
        for operand in operands {
            params.push(code(operand.ty));
            params.extend(scale_words(operand.ty)?);
        }
        params.extend(lane_words(&lanes, 3)?);
        builder.launch(&Launch {
            kernel: "binary",
            defines: &[],
            spec: &[],
            params: &params,
            inputs: &operands.map(|o| o.buf),
            output: to,
            items: [words, 1, 1],
            local: None,
        })
    }
}
