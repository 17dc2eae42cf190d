//! PRelu: values below 0 times a slope that broadcasts; f32, and 8 bits with slopes of f32 (numerics.md section 4:
//! dequantize, one f32 multiplication, Quantize).

use super::binary::{repeat_strides, repeated};
use crate::arena::Io;
use crate::builder::{Builder, input, output};
use crate::form::flips;
use crate::rows::{byte, float, needs, output_ty, per_tensor, row, when};
use ottava_hal::capability::FusedSupport;
use ottava_hal::refmath::quantize::{dequantize, quantize_f32};
use ottava_hal::{Error, Node, OpRow, Reason, Result, TensorType, ValueId};

/// Rows of PRelu.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let broadcasts = needs(Reason::ShapeLimit, "a slope that broadcasts to the output", |p, n| {
        let Some(y) = output_ty(p, n).and_then(|t| t.shape.known()) else { return false };
        let known = |id: &Option<ValueId>| id.and_then(|id| p.ty(id).shape.known());
        n.inputs.len() == 2
            && n.inputs.first().and_then(known) == Some(y.clone())
            && n.inputs.last().and_then(known).is_some_and(|s| repeat_strides(&s, &y).is_some())
    });
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    let typed = OpRow { fused, ..row(op, vec![byte(), float()], byte()) };
    vec![when(typed, [broadcasts]), when(row(op, vec![float(), float()], float()), [broadcasts])]
}

/// Steps of PRelu.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, slope, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let nhwc = builder.is_nhwc(x);
    let as_floats = TensorType { dtype: ottava_hal::DataType::F32, quant: None, ..to.clone() };
    let reads = vec![builder.operand(x, nhwc)?, repeated(builder, slope, &as_floats, nhwc)?];
    let write = builder.result(y, nhwc)?;
    if from.quant.is_none() {
        builder.push("prelu_f32", reads, write, None, Box::new(move |_, io| floats(io)));
        return Ok(());
    }
    let function = Bytes::of(from, to, node)?;
    builder.push("prelu_u8", reads, write, None, Box::new(move |_, io| function.run(io)));
    Ok(())
}

fn sloped(x: f32, slope: f32) -> f32 {
    if x < 0.0 { x * slope } else { x }
}

fn floats(mut io: Io<'_>) -> Result<()> {
    let (x, slopes): (&[f32], &[f32]) = (io.read(0)?, io.read(1)?);
    for (to, (x, slope)) in io.out::<f32>()?.iter_mut().zip(x.iter().zip(slopes)) {
        *to = sloped(*x, *slope);
    }
    Ok(())
}

/// Held bytes to reals, and back.
struct Bytes {
    reals: Box<[f32; 256]>,
    scale: f32,
    zero_point: i32,
    range: (i32, i32),
    clamp: (i32, i32),
    /// Added to an integer it gives the held byte.
    flip: i32,
}

impl Bytes {
    fn of(x: &TensorType, y: &TensorType, node: &Node) -> Result<Self> {
        let untyped = || Error::invalid(format!("node `{}`: {x} and {y} must be 8-bit with one scale", node.name));
        let ((xs, xz), (scale, zero_point)) = per_tensor(x).zip(per_tensor(y)).ok_or_else(untyped)?;
        let lowest = if flips(x) { -128 } else { 0 };
        let reals = Box::new(std::array::from_fn(|byte| dequantize(byte as i32 + lowest, xz, xs)));
        let range = y.dtype.storage_range().ok_or_else(untyped)?;
        let (clamp, flip) = (node.fused.clamp.unwrap_or(range), if flips(y) { 128 } else { 0 });
        Ok(Self { reals, scale, zero_point, range, clamp, flip })
    }

    fn run(&self, io: Io<'_>) -> Result<()> {
        let (x, slopes): (&[u8], &[f32]) = (io.bytes(0)?, io.read(1)?);
        for (to, (x, slope)) in io.out.iter_mut().zip(x.iter().zip(slopes)) {
            let real = sloped(self.reals[usize::from(*x)], *slope);
            let q = quantize_f32(real, self.scale, self.zero_point, self.range.0, self.range.1);
            *to = (q.clamp(self.clamp.0, self.clamp.1) + self.flip) as u8;
        }
        Ok(())
    }
}
