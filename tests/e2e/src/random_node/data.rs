//! Shapes, parameters and data of random nodes.

use crate::rng::Rng;
use ottava_hal::{DataType, QuantParams, RequantMode, Tensor};

/// Storages of quantized values.
pub(super) const BYTES: [DataType; 2] = [DataType::S8, DataType::U8];
pub(super) const STORAGES: [DataType; 4] = [DataType::S8, DataType::U8, DataType::S16, DataType::U16];
pub(super) const FLOATS: [DataType; 3] = [DataType::F32, DataType::F16, DataType::BF16];
pub(super) const FIXED: [RequantMode; 2] = [RequantMode::Q31Double, RequantMode::Q31Single];

pub(super) fn pick<T: Copy>(rng: &mut Rng, list: &[T]) -> T {
    list[rng.below(list.len())]
}

pub(super) fn shape(rng: &mut Rng, ranks: (usize, usize)) -> Vec<usize> {
    let rank = rng.int(ranks.0 as i64, ranks.1 as i64) as usize;
    (0..rank).map(|_| pick(rng, &[1, 2, 3, 4, 5, 7, 9])).collect()
}

/// Some axes of a shape become 1, some leading ones go.
pub(super) fn narrowed(rng: &mut Rng, shape: &[usize]) -> Vec<usize> {
    let cut = if rng.chance(30) { rng.below(shape.len() + 1) } else { 0 };
    shape[cut..].iter().map(|n| if rng.chance(25) { 1 } else { *n }).collect()
}

pub(super) fn params(rng: &mut Rng, dtype: DataType) -> QuantParams {
    let (lo, hi) = dtype.storage_range().unwrap_or((0, 0));
    let zp = if rng.chance(30) { 0.clamp(lo, hi) } else { rng.int(lo.into(), hi.into()) as i32 };
    let base = if dtype.bits() == 8 { 0.05 } else { 0.0005 };
    QuantParams::per_tensor(base * rng.real(0.1, 4.0), zp)
}

/// Integers of the whole range, its ends more often.
pub(super) fn integers(dtype: DataType, shape: &[usize], rng: &mut Rng) -> Tensor {
    let (lo, hi) = if dtype == DataType::Bool { (0, 1) } else { dtype.int_range().unwrap_or((-1000, 1000)) };
    let one = |rng: &mut Rng| if rng.chance(10) { pick(rng, &[lo, hi]) } else { rng.int(lo, hi) };
    let values: Vec<i64> = (0..shape.iter().product()).map(|_| one(rng)).collect();
    match dtype {
        DataType::Bool => Tensor::from_bools(shape, &values.iter().map(|v| *v != 0).collect::<Vec<_>>()),
        _ => Tensor::from_ints(dtype, shape, &values),
    }
    .expect("integers")
}

pub(super) fn quantized(dtype: DataType, shape: &[usize], rng: &mut Rng) -> (Tensor, Option<QuantParams>) {
    let params = params(rng, dtype);
    (integers(dtype, shape, rng), Some(params))
}

/// Reals of many magnitudes; the special ones now and then.
pub(super) fn reals(dtype: DataType, shape: &[usize], special: bool, rng: &mut Rng) -> (Tensor, Option<QuantParams>) {
    let one = |rng: &mut Rng| {
        if special && rng.chance(5) {
            return pick(rng, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0]);
        }
        let size = 2f32.powi(rng.int(-8, 3) as i32);
        size * rng.real(-1.0, 1.0)
    };
    let values: Vec<f32> = (0..shape.iter().product()).map(|_| one(rng)).collect();
    (Tensor::from_f32s(dtype, shape, &values).expect("reals"), None)
}
