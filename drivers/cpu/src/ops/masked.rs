//! `ottava::MaskedSoftmax` and `ottava::MaskedMean` on bytes (numerics.md, sections 4 and 6): rows of which an integer mask says
//! what counts.

use super::binary::repeat_strides;
use crate::arena::elements_mut;
use crate::builder::{Builder, input, output};
use crate::form::{Form, dims, flips};
use crate::parallel::for_chunks;
use crate::rows::{byte, needs, row, when};
use crate::storage::{byte_out, held};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::refmath::elementwise::average_multiplier;
use ottava_hal::refmath::quantize::Target;
use ottava_hal::refmath::requant::{Multiplier, Requant, RequantMode, check_fp32_multiplier};
use ottava_hal::refmath::softmax::{SOFTMAX_ROW_LIMIT, SoftmaxLut};
use ottava_hal::{DataType, Error, Node, OpRow, Program, Reason, Result};

/// Elements that one task computes, at least.
const CHUNK: usize = 1 << 12;
/// Elements of a sum of bytes that surely fits i32.
const MAX_TERMS: usize = 1 << 23;

/// A mask: booleans or integers.
fn mask() -> Operand {
    let dtypes = vec![DataType::Bool, DataType::U8, DataType::S8, DataType::S32, DataType::S64];
    Operand { dtypes, quant: vec![QuantKind::Plain], constant: false, optional: false }
}

/// Rows of MaskedSoftmax.
pub(crate) fn softmax_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "rows of less than 2^24 elements and a mask that broadcasts", |p, n| {
        Rows::of(p, n).is_ok()
    });
    vec![when(row(op, vec![byte(), mask()], byte()), [fits])]
}

/// Rows of MaskedMean.
pub(crate) fn mean_rows(op: &'static str) -> Vec<OpRow> {
    let fits = needs(Reason::ShapeLimit, "a mask that varies up to the axis only, and sums that fit i32", |p, n| {
        Mean::of(p, n).is_ok()
    });
    vec![when(row(op, vec![byte(), mask()], byte()), [fits])]
}

fn unfit(node: &Node) -> Error {
    Error::unsupported(Reason::ShapeLimit, format!("node `{}`: its mask does not fit its rows", node.name))
}

/// Whether elements of `width` bytes are not zero.
fn flags(bytes: &[u8], width: usize, out: &mut [u8]) {
    let any = |v: &[u8]| u8::from(v.iter().any(|b| *b != 0));
    bytes.chunks_exact(width).zip(out).for_each(|(v, flag)| *flag = any(v));
}

/// Where the mask of each row begins, and how it runs along.
struct Rows {
    len: usize,
    firsts: Vec<usize>,
    /// Step along a row: 1, or 0 where one flag serves all of it.
    step: usize,
    /// Elements of the mask.
    n_flags: usize,
}

impl Rows {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let (x, keep) = (dims(program.ty(input(node, 0)?))?, dims(program.ty(input(node, 1)?))?);
        let steps = repeat_strides(&keep, &x).ok_or_else(|| unfit(node))?;
        let (Some((&len, outer)), Some((&step, steps))) = (x.split_last(), steps.split_last()) else {
            return Err(unfit(node));
        };
        let n_rows: usize = outer.iter().product();
        if len >= SOFTMAX_ROW_LIMIT || len == 0 {
            return Err(unfit(node));
        }
        let first = |mut row: usize| {
            outer.iter().zip(steps).rev().fold(0, |at, (n, step)| {
                let here = row % n;
                row /= n;
                at + here * step
            })
        };
        let firsts = (0..n_rows).map(first).collect();
        Ok(Self { len, firsts, step, n_flags: keep.iter().product() })
    }
}

/// One row of `softmax_lut` with a mask.
fn masked_row(lut: &SoftmaxLut, keep: impl Fn(usize) -> bool, x: &[u8], y: &mut [u8]) {
    let open = x.iter().enumerate().filter(|(j, _)| keep(*j));
    let max = open.map(|(_, v)| i32::from(*v)).max();
    let exp = |j: usize| match max {
        // A row without an element that counts is uniform.
        None => lut.table[0],
        Some(max) if keep(j) => lut.exp(max, x[j].into()),
        Some(_) => 0,
    };
    let sum: u64 = (0..x.len()).map(|j| u64::from(exp(j))).sum();
    let nothing = lut.divide(0, sum) as u8;
    for (j, y) in y.iter_mut().enumerate() {
        let e = exp(j);
        *y = if e == 0 { nothing } else { lut.divide(e, sum) as u8 };
    }
}

/// Steps of MaskedSoftmax.
pub(crate) fn softmax(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Rows { len, firsts, step, n_flags } = Rows::of(builder.program, node)?;
    let (x, keep) = (input(node, 0)?, input(node, 1)?);
    let reads = vec![builder.operand(x, false)?, builder.in_form(keep, Form::OUTSIDE)?];
    let to = builder.result(output(node)?, false)?;
    let (scale, out) = byte_out(builder.ty(output(node)?), node, false)?;
    let target = Target { scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
    let (x_scale, _) = held(builder.ty(x))?;
    let lut = SoftmaxLut::new(x_scale, target).map_err(|e| Error::invalid(format!("node `{}`: {e}", node.name)))?;
    let width = builder.ty(keep).dtype.bits() / 8;
    let per_task = CHUNK.div_ceil(len);
    builder.push(
        "softmax_lut_masked_u8_u8",
        reads,
        to,
        Some(n_flags),
        Box::new(move |exec, io| {
            let (x, kept) = (io.bytes(0)?, io.bytes(1)?);
            let own = io.scratch.get_mut(..n_flags).ok_or_else(|| Error::invalid("the scratch is too small"))?;
            flags(kept, width, own);
            let own = &*own;
            if x.len() != io.out.len() || x.len() != firsts.len() * len {
                return Err(Error::invalid("input and output differ in size"));
            }
            for_chunks(exec, io.out, per_task * len, &|i, part| {
                for (k, y) in part.chunks_mut(len).enumerate() {
                    let row = i * per_task + k;
                    let first = firsts[row];
                    masked_row(&lut, |j| own[first + j * step] != 0, &x[row * len..][..len], y);
                }
            })
        }),
    );
    Ok(())
}

/// Extents of a masked mean: images of `n` rows of `inner` elements.
struct Mean {
    n: usize,
    inner: usize,
    /// The flag of row `k` of image `o` is `firsts[o] + k * step`.
    firsts: Vec<usize>,
    step: usize,
    n_flags: usize,
    scales: (f32, f32),
}

impl Mean {
    fn of(program: &Program, node: &Node) -> Result<Self> {
        let (x, keep) = (dims(program.ty(input(node, 0)?))?, dims(program.ty(input(node, 1)?))?);
        let axis = node.attrs.int("axis", 0)?;
        let axis = usize::try_from(axis).ok().filter(|a| *a < x.len()).ok_or_else(|| unfit(node))?;
        let steps = repeat_strides(&keep, &x).ok_or_else(|| unfit(node))?;
        let scales = (held(program.ty(input(node, 0)?))?.0, byte_out(program.ty(output(node)?), node, false)?.0);
        let plain = node.requant.is_none_or(|mode| mode == RequantMode::Fp32Rne);
        // The largest multiplier is that of one element.
        let bounded = check_fp32_multiplier(average_multiplier(scales.0, scales.1, 1)).is_ok();
        if steps[axis + 1..].iter().any(|s| *s != 0) || x[axis] > MAX_TERMS || !plain || !bounded {
            return Err(unfit(node));
        }
        let outer: usize = x[..axis].iter().product();
        let first = |mut image: usize| {
            x[..axis].iter().zip(&steps[..axis]).rev().fold(0, |at, (n, step)| {
                let here = image % n;
                image /= n;
                at + here * step
            })
        };
        let (inner, n_flags) = (x[axis + 1..].iter().product(), keep.iter().product());
        let firsts = (0..outer).map(first).collect();
        Ok(Self { n: x[axis], inner, firsts, step: steps[axis], n_flags, scales })
    }
}

/// Steps of MaskedMean.
pub(crate) fn mean(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let Mean { n, inner, firsts, step, n_flags, scales: (xs, ys) } = Mean::of(builder.program, node)?;
    let (x, keep) = (input(node, 0)?, input(node, 1)?);
    let reads = vec![
        builder.in_form(x, Form { nhwc: false, flipped: flips(builder.ty(x)) })?,
        builder.in_form(keep, Form::OUTSIDE)?,
    ];
    let to = builder.result(output(node)?, false)?;
    let (_, zx) = held(builder.ty(x))?;
    let (_, out) = byte_out(builder.ty(output(node)?), node, false)?;
    let width = builder.ty(keep).dtype.bits() / 8;
    let sums = inner * 4;
    builder.push(
        "masked_mean_u8_u8",
        reads,
        to,
        Some(sums + n_flags),
        Box::new(move |_, io| {
            let (x, kept) = (io.bytes(0)?, io.bytes(1)?);
            let (sums, own) = io.scratch.split_at_mut(sums);
            let sums = elements_mut::<i32>(sums)?;
            flags(kept, width, own);
            let images = x.chunks_exact((n * inner).max(1)).zip(io.out.chunks_exact_mut(inner.max(1)));
            for ((image, out_row), first) in images.zip(&firsts) {
                sums.fill(0);
                let mut count = 0u32;
                for (k, row) in image.chunks_exact(inner.max(1)).enumerate() {
                    if own[first + k * step] != 0 {
                        count += 1;
                        sums.iter_mut().zip(row).for_each(|(sum, v)| *sum += i32::from(*v) - i32::from(zx));
                    }
                }
                let multiplier = Multiplier::Fp32(average_multiplier(xs, ys, count.max(1)));
                let mode = RequantMode::Fp32Rne;
                let requant = Requant { mode, multiplier, zp: out.zero_point, lo: out.lo, hi: out.hi };
                out_row.iter_mut().zip(&*sums).for_each(|(y, sum)| *y = requant.apply(*sum) as u8);
            }
            Ok(())
        }),
    );
    Ok(())
}
