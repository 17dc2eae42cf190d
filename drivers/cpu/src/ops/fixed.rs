//! Add, Sub, Mul and averages of 8-bit values in the Q31 modes: the fixed-point forms of TFLite (numerics.md section 4),
//! by the functions of `refmath`. Values are held as u8, which moves values and zero points alike; only the average, whose
//! rounding depends on the sign of the sum, moves back.

use crate::builder::{Builder, Run, output};
use crate::parallel::for_chunks;
use crate::relayout::failed;
use crate::rows::{input_ty, output_ty, per_tensor};
use crate::storage::{byte_in, byte_out};
use ottava_hal::refmath::error::RefmathError;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::tflite::{TfliteAdd, TfliteRequant, tflite_average, tflite_mul, tflite_mul_multiplier};
use ottava_hal::{Error, Node, OpRow, Program, RequantMode, Result, TensorType, ValueId};
use ottava_kernels::{BinaryOp, Exec, PoolShape};

/// Channels that an average sums at a time.
const LANES: usize = 64;

/// A row for the Q31 modes alone.
pub(crate) fn only_fixed(row: OpRow) -> OpRow {
    OpRow { requant: vec![RequantMode::Q31Double, RequantMode::Q31Single], ..row }
}

/// The Q31 mode of a node.
pub(crate) fn mode(node: &Node) -> Option<RequantMode> {
    node.requant.filter(|mode| *mode != RequantMode::Fp32Rne)
}

fn bad(node: &Node) -> impl Fn(RefmathError) -> Error + '_ {
    |e| Error::invalid(format!("node `{}`: {e}", node.name))
}

/// Whether a sum or product has its fixed-point form: the left shift of its result is 0.
pub(crate) fn binary_fits(program: &Program, node: &Node) -> bool {
    let params = |ty: Option<&TensorType>| ty.and_then(per_tensor).map(|(scale, zp)| Affine { scale, zp });
    let (a, b, y) = (input_ty(program, node, 0), input_ty(program, node, 1), output_ty(program, node));
    let (Some(a), Some(b), Some(y), Some(mode)) = (params(a), params(b), params(y), mode(node)) else { return false };
    let to = Target { scale: y.scale, zp: y.zp, lo: 0, hi: 0 };
    match node.op.as_str() {
        "Mul" => tflite_mul_multiplier(a.scale, b.scale, y.scale, mode).is_ok(),
        _ => TfliteAdd::new(mode, TfliteAdd::SHIFT_8, a, b, to).is_ok(),
    }
}

/// A function of two held bytes, element by element.
pub(crate) type Function = Box<dyn Fn(Exec<'_>, [&[u8]; 2], &mut [u8]) -> Result<()> + Send + Sync>;

/// The fixed-point form of a node.
pub(crate) fn binary(builder: &Builder<'_>, node: &Node, op: BinaryOp, ids: [ValueId; 2]) -> Result<Function> {
    let mode = mode(node).unwrap_or(RequantMode::Q31Double);
    let affine = |id| byte_in(builder.ty(id)).map(|q| Affine { scale: q.scale, zp: q.zero_point });
    let (a, b) = (affine(ids[0])?, affine(ids[1])?);
    let (scale, out) = byte_out(builder.ty(output(node)?), node, false)?;
    let target = Target { scale, zp: out.zero_point, lo: out.lo, hi: out.hi };
    if matches!(op, BinaryOp::Mul) {
        let m = tflite_mul_multiplier(a.scale, b.scale, scale, mode).map_err(bad(node))?;
        return Ok(pairs(move |x, y| tflite_mul([x.into(), y.into()], [a.zp, b.zp], m, mode, target)));
    }
    let add = TfliteAdd::new(mode, TfliteAdd::SHIFT_8, a, b, target).map_err(bad(node))?;
    let sign = if matches!(op, BinaryOp::Sub) { -1 } else { 1 };
    let first = Box::new(std::array::from_fn::<i64, 256, _>(|q| add.scaled(0, q as i32)));
    let second = Box::new(std::array::from_fn::<i64, 256, _>(|q| sign * add.scaled(1, q as i32)));
    Ok(pairs(move |x, y| add.finish(first[usize::from(x)] + second[usize::from(y)])))
}

/// A function of two bytes as a table of all pairs, made once: 64 KiB, of which values that lie close together touch little.
/// Three multiplications with two roundings each would cost five times as much per element.
fn pairs(f: impl Fn(u8, u8) -> i32) -> Function {
    let table: Box<[u8]> = (0..=u16::MAX).map(u16::to_be_bytes).map(|[x, y]| f(x, y) as u8).collect();
    Box::new(move |exec, [a, b], out| {
        let table: Option<&[u8; 1 << 16]> = table.first_chunk();
        let Some(table) = table.filter(|_| a.len() == out.len() && b.len() == out.len()) else {
            return Err(Error::invalid("operands and result differ in size"));
        };
        const CHUNK: usize = 1 << 12;
        for_chunks(exec, out, CHUNK, &|i, part| {
            let at = i * CHUNK..i * CHUNK + part.len();
            for ((y, a), b) in part.iter_mut().zip(&a[at.clone()]).zip(&b[at]) {
                *y = table[usize::from(u16::from_be_bytes([*a, *b]))];
            }
        })
    })
}

/// A change of parameters as a function of the stored value.
pub(crate) fn requantized(node: &Node, from: Affine, to: Target) -> Result<Option<TfliteRequant>> {
    mode(node).map(|mode| TfliteRequant::new(mode, from, to).map_err(bad(node))).transpose()
}

/// AVERAGE_POOL_2D: input and output have the same parameters.
pub(crate) fn average(builder: &Builder<'_>, node: &Node, shape: PoolShape) -> Result<Run> {
    let ty = builder.ty(output(node)?);
    let (_, out) = byte_out(ty, node, false)?;
    // Bytes are held 128 higher than they are.
    let up = if crate::form::flips(ty) { 128 } else { 0 };
    let bounds = (out.lo - up, out.hi - up);
    let [rows, columns] = shape.out_hw().map_err(failed)?;
    Ok(Box::new(move |exec, io| {
        let (x, row) = (io.bytes(0)?, columns * shape.channels);
        let image = shape.in_h * shape.in_w * shape.channels;
        if row == 0 || x.len() / image.max(1) * rows * row != io.out.len() {
            return Err(Error::invalid("input and output differ in size"));
        }
        for_chunks(exec, io.out, row, &|i, part| {
            let x = &x[i / rows * image..][..image];
            let top = taps(i % rows, 0, &shape);
            for (column, pixel) in part.chunks_exact_mut(shape.channels).enumerate() {
                average_pixel(x, &shape, (top, taps(column, 1, &shape)), (up, bounds), pixel);
            }
        })
    }))
}

/// First tap inside the image, and the one behind the last, of window `i` along axis 0 or 1.
fn taps(i: usize, axis: usize, shape: &PoolShape) -> (usize, usize) {
    let extent = if axis == 0 { shape.in_h } else { shape.in_w };
    let (start, pad) = (i * shape.stride[axis], shape.pads[axis]);
    (start.saturating_sub(pad).min(extent), (start + shape.kernel[axis]).saturating_sub(pad).min(extent))
}

/// A range of taps: the first, and the one behind the last.
type Taps = (usize, usize);

/// One pixel of the result; `up` is how much higher than their values bytes are held.
fn average_pixel(
    x: &[u8],
    shape: &PoolShape,
    ((top, bottom), (left, right)): (Taps, Taps),
    (up, (lo, hi)): (i32, (i32, i32)),
    pixel: &mut [u8],
) {
    let n = (bottom.saturating_sub(top) * right.saturating_sub(left)) as i32;
    for (i, lanes) in pixel.chunks_mut(LANES).enumerate() {
        let mut sums = [0i32; LANES];
        for h in top..bottom {
            for w in left..right {
                let at = (h * shape.in_w + w) * shape.channels + i * LANES;
                sums.iter_mut().zip(&x[at..at + lanes.len()]).for_each(|(sum, v)| *sum += i32::from(*v));
            }
        }
        for (y, sum) in lanes.iter_mut().zip(sums) {
            *y = (tflite_average(sum - up * n, n as u32, lo, hi) + up) as u8;
        }
    }
}
