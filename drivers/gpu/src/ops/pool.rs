//! MaxPool and AveragePool over images whose channels lie together.

use super::means::Means;
use super::rows::{float, integer, plain_integer, row, when};
use super::types::{code, range, refuse};
use super::{input, output, window};
use crate::builder::{Builder, Launch};
use crate::{Form, Target};
use ottava_hal::capability::{FusedSupport, Operand};
use ottava_hal::{Node, OpRow, Reason, Result};

/// Operation numbers of the kernel.
const MAX: u32 = 0;
const AVERAGE: u32 = 1;
const RAW_AVERAGE: u32 = 2;

fn images(target: &Target, x: Operand) -> OpRow {
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    OpRow { ranks: (3, 5), fused, ..row(target, vec![x.clone()], x) }
}

/// Rows of MaxPool.
pub(super) fn max_rows(target: &Target) -> Vec<OpRow> {
    let bytes = Operand { dtypes: plain_integer().dtypes[..4].to_vec(), ..plain_integer() };
    [integer(), float(), bytes].map(|x| when(images(target, x), super::rows::SAME_TYPE)).into()
}

/// Rows of AveragePool.
pub(super) fn average_rows(target: &Target) -> Vec<OpRow> {
    vec![images(target, integer()), images(target, float())]
}

/// One launch.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (builder.ty(x), builder.ty(y));
    let (dims, out) = (builder.dims(x)?, builder.dims(y)?);
    let axes = window::axes(&node.attrs, &dims[2..], out.get(2..).unwrap_or(&[]))?;
    let integers = !from.dtype.is_float();
    if from.dtype.bits() != to.dtype.bits() || integers == to.dtype.is_float() {
        return refuse(Reason::Dtype, "a pool from one width to another");
    }
    let with_pad = node.attrs.int("count_include_pad", 0)? != 0;
    let taps: usize = axes.iter().map(|a| a.kernel).product();
    let means = if node.op == "AveragePool" && integers { Some(Means::of(builder, node)?) } else { None };
    let scales = match &means {
        Some(means) => {
            means.check_terms(taps)?;
            means.scales(builder, 0..=taps, taps)?
        }
        None => builder.words(&[0])?,
    };
    let op = match &means {
        _ if node.op == "MaxPool" => MAX,
        Some(means) if means.is_tflite_average() && !with_pad => RAW_AVERAGE,
        _ => AVERAGE,
    };
    let (source, result) = (builder.read(x, Form::Image)?, builder.write(y, Form::Image)?);
    let words = builder.bytes(result) / 4;
    let (lo, hi) = range(node, to);
    let (in_zp, out_zp, mode) = means.map_or((0, 0, 0), |m| (m.x.zp, m.to.zp, m.mode.as_u32()));
    let lanes = 32 / from.dtype.bits();
    let mut params = vec![words as u32, op, code(from), u32::from(integers), in_zp as u32, out_zp as u32];
    params.extend([lo as u32, hi as u32, mode, u32::from(with_pad), dims[1].div_ceil(lanes) as u32]);
    params.extend(axes.iter().flat_map(window::Axis::words));
    params.push(code(to));
    builder.launch(&Launch {
        kernel: "pool",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[source, scales],
        output: result,
        items: [words, 1, 1],
        local: None,
    })
}
