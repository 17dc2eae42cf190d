//! `ottava::Quantize`, `Dequantize` and `Requantize`: one element type and scale to another (numerics.md section 2 and
//! the Concat row of section 4).

use super::rows::{float, integer, only_fp32, row};
use super::{input, output};
use crate::Target;
use crate::builder::{Builder, Launch};
use crate::form::Stored;
use ottava_hal::capability::FusedSupport;
use ottava_hal::{Node, OpRow, Result, TensorType};

/// Rows of Quantize.
pub(super) fn quantize_rows(target: &Target) -> Vec<OpRow> {
    vec![clamped(only_fp32(row(target, vec![float()], integer())))]
}

/// Rows of Dequantize.
pub(super) fn dequantize_rows(target: &Target) -> Vec<OpRow> {
    vec![row(target, vec![integer()], float())]
}

/// Rows of Requantize.
pub(super) fn requantize_rows(target: &Target) -> Vec<OpRow> {
    vec![clamped(only_fp32(row(target, vec![integer()], integer())))]
}

fn clamped(row: OpRow) -> OpRow {
    OpRow { fused: FusedSupport { clamp: true, ..FusedSupport::default() }, ..row }
}

/// One launch, in the form in which the input lies.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let form = builder.form_of(x);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let stored = Stored::new(to, form)?;
    // Words of both sides hold the same elements only without padding or with the same padding.
    let form = if Stored::new(from, form)?.axes == stored.axes { form } else { crate::Form::Plain };
    let count = Stored::new(to, form)?.elements()?;
    let (lo, hi) = node.fused.clamp.or(to.dtype.storage_range()).unwrap_or((0, 0));
    let ((in_scale, in_zp), (out_scale, out_zp)) = (scale_of(from), scale_of(to));
    let params = [
        count as u32,
        code(from),
        code(to),
        in_zp as u32,
        out_zp as u32,
        lo as u32,
        hi as u32,
        in_scale.to_bits(),
        out_scale.to_bits(),
        1,
        1,
    ];
    let (source, result) = (builder.read(x, form)?, builder.write(y, form)?);
    let none = builder.words(&[0])?;
    let words = builder.bytes(result) / 4;
    builder.launch(&Launch {
        kernel: "convert",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[source, none],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}

/// Scale and zero point; scale 0 stands for a value without them.
fn scale_of(ty: &TensorType) -> (f32, i32) {
    ty.quant.as_ref().and_then(|q| q.as_per_tensor()).unwrap_or((0.0, 0))
}

/// The number of an element type in the kernels: that of the plugin ABI.
fn code(ty: &TensorType) -> u32 {
    ty.dtype as u32
}
