//! Functions of one 16-bit value as tables of 513 entries with a straight line between two of them, made as TFLite makes
//! them: in f32, every entry moved by half of what the line misses in the middle of its interval.

use super::super::cx::{Built, Cx, Layout};
use super::activation::Function;
use ottava_hal::{DataType, Tensor, ValueId};

/// Intervals of a table.
const INTERVALS: usize = 512;
/// The least and the largest value.
const BOUNDS: (f32, f32) = (-32768.0, 32767.0);

/// Whether two tensors are s16, quantized, and the file's arithmetic is asked for.
pub(crate) fn applies(cx: &Cx<'_>, x: usize, t: usize) -> bool {
    let is_s16 = |t: &usize| cx.ty(*t, Layout::File).is_ok_and(|ty| ty.dtype == DataType::S16 && ty.quant.is_some());
    cx.q31().is_some() && [x, t].iter().all(is_s16)
}

/// Adds the table of a function and the node that reads it.
pub(crate) fn push(cx: &mut Cx<'_>, (x, id): (usize, ValueId), t: usize, layout: Layout, f: &Function) -> Built {
    let (from, to) = (cx.per_tensor(x)?.unwrap_or((1.0, 0)), cx.per_tensor(t)?.unwrap_or((1.0, 0)));
    let entries = entries(from, to, f.f32);
    let name = format!("{}/table", cx.def(t).name);
    let entries = cx.add_constant(&name, Tensor::from_slice(&[entries.len()], &entries)?, None);
    let mut node = cx.own_node("Lut", t);
    node.inputs = vec![Some(id), Some(entries)];
    cx.push(node, &[t], layout)
}

/// Scale and zero point.
type Params = (f32, i32);

/// All entries. The zero point of the output does not enter: TFLite's 16-bit values are symmetric.
fn entries((xs, xz): Params, (ys, yz): Params, f: fn(f32) -> f32) -> Vec<i16> {
    let end = |scale: f32, zp: i32, bound: f32| scale * (bound - zp as f32);
    let (first, last) = (end(xs, xz, BOUNDS.0), end(xs, xz, BOUNDS.1));
    let (least, most) = (end(ys, yz, BOUNDS.0), end(ys, yz, BOUNDS.1));
    let (step, per_step) = ((last - first) / INTERVALS as f32, 65536.0 / (most - least));
    // A logarithm has no value below 0; it is the least one there.
    let f = |x: f32| Some(f(x)).filter(|y| !y.is_nan() && *y != f32::NEG_INFINITY).unwrap_or(least);
    let stored = |v: f32| v.clamp(BOUNDS.0, BOUNDS.1) as i16;
    let mut found: Vec<i16> = (0..INTERVALS)
        .map(|i| first + i as f32 * step)
        .enumerate()
        .map(|(i, x)| {
            let (here, middle, next) = (f(x), f(x + step / 2.0), f(first + (i + 1) as f32 * step));
            let sample = (here * per_step).round();
            let line = ((next * per_step + sample) / 2.0).round();
            let missed = line - (middle * per_step).round();
            // Where the function leaves what f32 holds, infinities cancel: there is no middle to correct for.
            stored(if missed.is_nan() { sample } else { sample - (missed / 2.0).round() })
        })
        .collect();
    found.push(stored((f(last) * per_step).round()));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_exact_and_functions_saturate() {
        let line = entries((0.5, 0), (0.5, 0), |x| x);
        // 512 intervals share 65,535 steps, so the middle entry stands half a step below 0, and rounds away from it.
        assert_eq!((line.len(), line[0], line[256], line[512]), (513, -32768, -1, 32767));
        let log = entries((0.001, 0), (0.001, 0), f32::ln);
        assert_eq!((log[0], log[255], log[512]), (-32768, -32768, 3489));
        assert_eq!(entries((1.0, 0), (1.0, 0), f32::exp)[511], i16::MAX);
    }
}
