//! What moves elements or samples between them.

use super::data::{BYTES, FLOATS, STORAGES, integers, params, pick, quantized, reals, shape};
use super::{Random, draft};
use crate::rng::Rng;
use ottava_hal::{Attr, DataType, QuantParams, Tensor};

/// Data that moves, and the type of the result.
fn movable(rng: &mut Rng, s: &[usize]) -> ((Tensor, Option<QuantParams>), (DataType, Option<QuantParams>)) {
    let x = match rng.below(4) {
        0 => quantized(pick(rng, &STORAGES), s, rng),
        1 => (integers(DataType::S64, s, rng), None),
        2 => (integers(DataType::Bool, s, rng), None),
        _ => reals(pick(rng, &FLOATS), s, true, rng),
    };
    let ty = (x.0.dtype(), x.1.clone());
    (x, ty)
}

pub(super) fn movements(rng: &mut Rng) -> Option<Random> {
    let (s, images) = (shape(rng, (1, 5)), rng.chance(40));
    let (x, ty) = movable(rng, &s);
    let axis = rng.below(s.len());
    let n = s[axis] as i64;
    let at = Attr::Int(axis as i64 - if rng.chance(50) { s.len() as i64 } else { 0 });
    match rng.below(8) {
        0 => {
            let mut perm: Vec<i64> = (0..s.len() as i64).collect();
            for i in 0..perm.len() {
                let other = rng.below(perm.len());
                perm.swap(i, other);
            }
            if rng.chance(30) && perm.len() > 2 {
                perm = (0..s.len() as i64).collect();
                perm[1..].rotate_right(1);
            }
            draft("Transpose", 13, ty).input(x).attr("perm", Attr::Ints(perm)).finish(images)
        }
        1 => {
            let step = pick(rng, &[1, 2, -1, -2, 3]);
            let (a, b) = (rng.int(-n - 1, n), rng.int(-n - 1, n + 1));
            draft("Slice", 13, ty)
                .input(x)
                .numbers(&[a])
                .numbers(&[b])
                .numbers(&[axis as i64])
                .numbers(&[step])
                .finish(images)
        }
        2 => {
            let mut d = draft("Split", 18, ty.clone()).input(x).attr("axis", at);
            let sizes: Vec<i64> = if n > 1 { vec![1, n - 1] } else { vec![n] };
            d.outputs = vec![ty; sizes.len()];
            d.numbers(&sizes).finish(images)
        }
        3 => {
            let mode = pick(rng, &["constant", "edge", "reflect", "wrap"]);
            let pads: Vec<i64> = (0..2 * s.len()).map(|_| rng.int(-1, 3)).collect();
            let d = draft("Pad", 21, ty).input(x).numbers(&pads).attr("mode", Attr::Str(mode.into()));
            d.finish(images)
        }
        4 => {
            let target: Vec<i64> = [vec![2], s.iter().map(|d| *d as i64).collect()].concat();
            let keep = rng.below(2);
            draft("Expand", 13, ty).input(x).numbers(&target[keep..]).finish(images)
        }
        5 => {
            let times: Vec<i64> = s.iter().map(|_| rng.int(1, 3)).collect();
            draft("Tile", 13, ty).input(x).numbers(&times).finish(images)
        }
        6 => {
            let count = rng.int(1, 6) as usize;
            let list: Vec<i64> = (0..count).map(|_| rng.int(-n, n - 1)).collect();
            let dims: &[usize] = if rng.chance(30) { &[1, count] } else { &[count] };
            let dtype = pick(rng, &[DataType::S32, DataType::S64]);
            let indices = (Tensor::from_ints(dtype, dims, &list).expect("indices"), None);
            let d = draft("Gather", 13, ty).input(x).attr("axis", at);
            if rng.chance(50) { d.input(indices).finish(images) } else { d.constant(indices).finish(images) }
        }
        _ => {
            let parts = rng.int(1, 7) as usize;
            let joined = ty.1.as_ref().map(|_| pick(rng, &BYTES));
            let out = joined.map_or(ty.clone(), |t| (t, Some(params(rng, t))));
            let mut d = draft("Concat", 13, out).input(x).attr("axis", at);
            for _ in 1..parts {
                let mut other = s.clone();
                other[axis] = rng.int(1, 5) as usize;
                let dtype = ty.0;
                d = d.input(match (&ty.1, dtype.is_float()) {
                    (Some(_), _) => quantized(pick(rng, &STORAGES), &other, rng),
                    (None, true) => reals(dtype, &other, false, rng),
                    (None, false) => (integers(dtype, &other, rng), None),
                });
            }
            d.finish(images)
        }
    }
}

pub(super) fn resizes(rng: &mut Rng) -> Option<Random> {
    let s = vec![1, pick(rng, &[1, 3, 4, 5]), rng.int(1, 6) as usize, rng.int(1, 6) as usize];
    let mode = pick(rng, &["nearest", "linear", "cubic"]);
    let coordinates = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"];
    let (x, y) = if rng.chance(50) {
        let dtype = pick(rng, &BYTES);
        let x = quantized(dtype, &s, rng);
        let y = if mode == "nearest" { x.1.clone() } else { Some(params(rng, dtype)) };
        (x, (dtype, y))
    } else {
        let dtype = pick(rng, &FLOATS);
        (reals(dtype, &s, false, rng), (dtype, None))
    };
    let sizes = [s[0] as i64, s[1] as i64, rng.int(1, 9), rng.int(1, 9)];
    let d = draft("Resize", 19, y).input(x).absent().absent().numbers(&sizes);
    let d = d.attr("mode", Attr::Str(mode.into()));
    let d = d.attr("coordinate_transformation_mode", Attr::Str(pick(rng, &coordinates).into()));
    let nearest = pick(rng, &["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]);
    d.attr("nearest_mode", Attr::Str(nearest.into())).finish(rng.chance(60))
}
