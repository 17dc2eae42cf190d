//! `ottava::Quantize`, `Dequantize` and `Requantize`: one element type and scale to another (numerics.md section 2 and
//! the Concat row of section 4).

use super::rows::{float, integer, row};
use super::types::{affine, code, constant_floats, fixed_mode, range, refuse};
use super::{fixed, input, output};
use crate::builder::{Buf, Builder, Launch};
use crate::form::Stored;
use crate::{Form, Target};
use ottava_hal::capability::{FusedSupport, Operand, QuantKind};
use ottava_hal::refmath::quantize::quantize_f32;
use ottava_hal::{DataType, Node, OpRow, Reason, Result, Scheme, TensorType};

/// Rows of Quantize.
pub(super) fn quantize_rows(target: &Target) -> Vec<OpRow> {
    vec![clamped(row(target, vec![float()], integer()))]
}

/// Rows of Dequantize.
pub(super) fn dequantize_rows(target: &Target) -> Vec<OpRow> {
    let dtypes = [integer().dtypes, vec![DataType::S32]].concat();
    let x = Operand { dtypes, quant: vec![QuantKind::PerTensor, QuantKind::PerAxis], ..Operand::default() };
    vec![row(target, vec![x], float())]
}

/// Rows of Requantize.
pub(super) fn requantize_rows(target: &Target) -> Vec<OpRow> {
    vec![clamped(row(target, vec![integer()], integer()))]
}

fn clamped(row: OpRow) -> OpRow {
    OpRow { fused: FusedSupport { clamp: true, ..FusedSupport::default() }, ..row }
}

/// The bound of a Clip in input `i`; a NaN is none.
pub(super) fn bound(builder: &Builder<'_>, node: &Node, i: usize) -> Result<Option<f32>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    match constant_floats(builder, id, "a bound")?[..] {
        [v] => Ok(Some(v).filter(|v| !v.is_nan())),
        _ => refuse(Reason::AttrValue, "a bound that is no scalar"),
    }
}

/// The range of the result: its storage, a fused clamp, and what Relu and Clip ask for. The upper bound wins.
fn limits(builder: &Builder<'_>, node: &Node, to: &TensorType) -> Result<(i32, i32)> {
    let (lo, hi) = to.dtype.storage_range().unwrap_or((0, 0));
    let Some(a) = affine(to)? else { return Ok((lo, hi)) };
    let quantized = |v: f32| quantize_f32(v, a.scale, a.zp, lo, hi);
    let (least, most) = match node.op.as_str() {
        "Relu" => (a.zp, hi),
        "Clip" => (bound(builder, node, 1)?.map_or(lo, quantized), bound(builder, node, 2)?.map_or(hi, quantized)),
        _ => (lo, hi),
    };
    let (low, high) = range(node, to);
    let most = most.clamp(low, high);
    Ok((least.clamp(low, high).min(most), most))
}

/// One launch, in the form in which the input lies.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    if node.op == "Requantize" && fixed_mode(node).is_some() {
        return fixed::lower(builder, node);
    }
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let form = builder.form_of(x);
    let per_axis = from.quant.as_ref().is_some_and(|q| matches!(q.scheme, Scheme::PerAxis { .. }));
    // Words of both sides hold the same elements only without padding or with the same padding.
    let same = Stored::new(from, form)?.axes == Stored::new(to, form)?.axes;
    let form = if same && !per_axis { form } else { Form::Plain };
    let count = Stored::new(to, form)?.elements()?;
    let (lo, hi) = limits(builder, node, to)?;
    let (scales, [axis, behind]) = axis_scales(builder, from)?;
    let (in_scale, in_zp) = if per_axis { (1.0, 0) } else { affine(from)?.map_or((0.0, 0), |a| (a.scale, a.zp)) };
    let (out_scale, out_zp) = affine(to)?.map_or((0.0, 0), |a| (a.scale, a.zp));
    let mut params = vec![count as u32, code(from), code(to), in_zp as u32, out_zp as u32, lo as u32, hi as u32];
    let away = u32::from(node.op == "Quantize" && fixed_mode(node).is_some());
    params.extend([in_scale.to_bits(), out_scale.to_bits(), axis, behind, away]);
    let (source, result) = (builder.read(x, form)?, builder.write(y, form)?);
    let words = builder.bytes(result) / 4;
    builder.launch(&Launch {
        kernel: "convert",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[source, scales],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}

/// Scales of an axis of the input as the kernel takes them: the list, the extent (1: one scale for all), what is behind.
fn axis_scales(builder: &mut Builder<'_>, ty: &TensorType) -> Result<(Buf, [u32; 2])> {
    let per_axis = ty.quant.as_ref().and_then(|q| match q.scheme {
        Scheme::PerAxis { axis } => Some((axis, q)),
        _ => None,
    });
    let (Some((axis, quant)), Some(dims)) = (per_axis, ty.shape.known()) else {
        return Ok((builder.words(&[0])?, [1, 1]));
    };
    if quant.scales.iter().any(|s| !s.is_normal()) {
        return refuse(Reason::QuantScheme, "a scale below 2^-126");
    }
    let mut words: Vec<u32> = Vec::with_capacity(2 * quant.scales.len() + 2);
    for (scale, zp) in quant.scales.iter().zip(&quant.zero_points) {
        words.extend([scale.to_bits(), *zp as u32]);
    }
    // The kernel takes an extent of 1 for "one scale for all": such an axis is listed twice over.
    let (extent, behind) = (dims[axis], dims[axis + 1..].iter().product::<usize>());
    if extent == 1 {
        words.extend_from_within(..);
        return Ok((builder.words(&words)?, [2, dims.iter().product::<usize>() as u32]));
    }
    Ok((builder.words(&words)?, [extent as u32, behind as u32]))
}
