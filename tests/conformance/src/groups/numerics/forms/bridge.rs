//! Changes of representation, and tables.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::{DataType, QuantParams, Tensor};

/// Entries of a table for s16.
const ENTRIES_16: usize = 513;

/// A bridge of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = draw.dims(1, 5, 2000);
    let mut build = Build::new(form.op);
    let node = form.node();
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let about = format!("input {dims:?}");
    let (inputs, like) = match form.op {
        "Dequantize" => (vec![x], (DataType::F32, None)),
        "Lut" => {
            let (table, like) = table(form, draw)?;
            (vec![x, build.constant(table, None)], like)
        }
        _ => {
            let dtype = draw.pick(&[DataType::S8, DataType::U8, DataType::S16, form.dtype]);
            let dtype = if dtype.is_float() { DataType::S8 } else { dtype };
            (vec![x], target(draw, &data_range(&build, x)?, dtype))
        }
    };
    let y = build.one(node, &inputs, like)?;
    build.finish(&[y], about)
}

/// The largest magnitude of a value as a real number.
fn data_range(build: &Build, x: ottava_hal::ValueId) -> Option<f32> {
    let data = match &build.ty(x).quant {
        Some(params) => ottava_ops::dequantize(build.data(x), params).ok()?,
        None => build.data(x).clone(),
    };
    Some(data.to_f32s().ok()?.into_iter().fold(0.0, |m: f32, v| m.max(v.abs())))
}

/// Parameters that a value of a magnitude fills, more or less.
fn target(draw: &mut Draw, magnitude: &f32, dtype: DataType) -> (DataType, Option<QuantParams>) {
    let zp = draw.zero_point(dtype);
    let half = dtype.storage_range().map_or(127.0, |(lo, hi)| (hi - lo) as f32 / 2.0);
    let scale = (magnitude / half * draw.pick(&[0.5f32, 1.0, 2.1])).max(1e-6);
    let scale = if draw.ties { 2f32.powf(scale.log2().round()) } else { scale };
    (dtype, Some(QuantParams::per_tensor(scale, zp)))
}

fn table(form: &Form, draw: &mut Draw) -> Option<(Tensor, (DataType, Option<QuantParams>))> {
    let wide = form.dtype == DataType::S16;
    let dtype = if wide { DataType::S16 } else { draw.pick(&[DataType::S8, DataType::U8]) };
    let (lo, hi) = dtype.storage_range()?;
    let n = if wide { ENTRIES_16 } else { 256 };
    let entries: Vec<i64> = (0..n).map(|_| draw.range(lo.into(), hi.into())).collect();
    let quant = QuantParams::per_tensor(draw.scale(), 0);
    Some((Tensor::from_ints(dtype, &[n], &entries).ok()?, (dtype, Some(quant))))
}
