//! Softmax over contiguous rows: f32 by the sequence of numerics.md section 7, 8 bits by `softmax_lut` (section 6) or, in a
//! Q31 mode, as TFLite computes it (section 4).

use crate::builder::{Builder, Run, input, output};
use crate::form::dims;
use crate::parallel::for_chunks;
use crate::relayout::failed;
use crate::rows::{byte, float, needs, row, when};
use crate::storage::{byte_out, held};
use ottava_hal::refmath::float::exp;
use ottava_hal::refmath::quantize::Target;
use ottava_hal::refmath::softmax::{SOFTMAX_ROW_LIMIT, SoftmaxLut};
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::{Error, Node, OpRow, Program, Reason, Result};
use ottava_kernels::{Exec, softmax_f32};

/// Elements that one task computes, at least.
const CHUNK: usize = 1 << 12;

/// Rows of Softmax.
pub(crate) fn rows(op: &'static str) -> Vec<OpRow> {
    let short = needs(Reason::ShapeLimit, "rows of less than 2^24 elements", |p, n| {
        row_len(p, n).is_ok_and(|len| len < SOFTMAX_ROW_LIMIT)
    });
    let last = needs(Reason::AttrValue, "the last axis (before version 13: any axis)", |p, n| row_len(p, n).is_ok());
    vec![when(row(op, vec![byte()], byte()), [last, short]), when(row(op, vec![float()], float()), [last])]
}

/// Elements of a row. Before version 13 all axes from `axis` on are one row.
fn row_len(program: &Program, node: &Node) -> Result<usize> {
    let x = dims(program.ty(input(node, 0)?))?;
    let old = node.version < 13;
    let axis = node.attrs.int("axis", if old { 1 } else { -1 })?;
    let axis = if axis < 0 { axis + x.len() as i64 } else { axis };
    let outside = || Error::invalid(format!("node `{}`: axis {axis} is outside {x:?}", node.name));
    let axis = usize::try_from(axis).ok().filter(|a| *a < x.len().max(1)).ok_or_else(outside)?;
    let len: usize = x[axis.min(x.len())..].iter().product();
    if old || x.get(axis).copied().unwrap_or(1) == len {
        return Ok(len);
    }
    Err(Error::unsupported(Reason::AttrValue, format!("node `{}`: Softmax over axis {axis} of {x:?}", node.name)))
}

/// Steps of Softmax.
pub(crate) fn build(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let len = row_len(builder.program, node)?.max(1);
    let chunk = CHUNK.div_ceil(len) * len;
    let from = builder.operand(input(node, 0)?, false)?;
    let to = builder.result(output(node)?, false)?;
    if builder.ty(output(node)?).quant.is_none() {
        let name = builder.kernel("softmax_f32");
        builder.push(&name, vec![from], to, None, float_rows(len));
        return Ok(());
    }
    let (scale, out) = byte_out(builder.ty(output(node)?), node, false)?;
    let target = Target { scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
    let (x_scale, _) = held(builder.ty(input(node, 0)?))?;
    if super::fixed::mode(node).is_some() && TfliteSoftmax::fits(target) {
        let softmax = TfliteSoftmax::new(x_scale, 1.0, (out.lo, out.hi));
        let softmax = softmax.map_err(|e| Error::invalid(format!("node `{}`: {e}", node.name)))?;
        builder.push("softmax_q31_u8_u8", vec![from], to, None, fixed_rows(softmax, len, chunk));
        return Ok(());
    }
    let lut = SoftmaxLut::new(x_scale, target).map_err(|e| Error::invalid(format!("node `{}`: {e}", node.name)))?;
    builder.push("softmax_lut_u8_u8", vec![from], to, None, byte_rows(lut, len, chunk));
    Ok(())
}

fn float_rows(len: usize) -> Run {
    Box::new(move |exec, mut io| softmax_f32(exec, len, &exp, io.read(0)?, io.out()?).map_err(failed))
}

/// Rows of TFLite's fixed-point arithmetic.
fn fixed_rows(softmax: TfliteSoftmax, len: usize, chunk: usize) -> Run {
    Box::new(move |exec, io| {
        let row = |x: &[u8], y: &mut [u8]| {
            // Rows have equal lengths.
            let _ = softmax.row(x, y);
        };
        for_rows(exec, io.bytes(0)?, io.out, (len, chunk), &row)
    })
}

fn byte_rows(lut: SoftmaxLut, len: usize, chunk: usize) -> Run {
    Box::new(move |exec, io| {
        let row = |x: &[u8], y: &mut [u8]| {
            // Rows have equal lengths, and the capability has refused those that are too long.
            let _ = lut.row(x, None, y);
        };
        for_rows(exec, io.bytes(0)?, io.out, (len, chunk), &row)
    })
}

/// Calls `row` with each row of `x` and its place in `out`, on all threads.
fn for_rows<T: Copy + Send + Sync>(
    exec: Exec<'_>,
    x: &[T],
    out: &mut [T],
    (len, chunk): (usize, usize),
    row: &(dyn Fn(&[T], &mut [T]) + Sync),
) -> Result<()> {
    if x.len() != out.len() {
        return Err(Error::invalid("input and output differ in size"));
    }
    for_chunks(exec, out, chunk, &|i, part| {
        for (y, x) in part.chunks_mut(len).zip(x[i * chunk..].chunks(len)) {
            row(x, y);
        }
    })
}
