//! What works on rows: Softmax and the normalizations.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::{Attr, DataType, QuantParams, RequantMode};

/// A row operator of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let dims = draw.dims(1, 4, 3000);
    let mut build = Build::new(form.op);
    let mut node = form.node();
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params);
    let mut inputs = vec![x];
    let norm = form.op.ends_with("Normalization");
    let axis = if norm || draw.once_in(2) { -1 } else { draw.range(0, dims.len() as i64 - 1) };
    node.attrs.set("axis", Attr::Int(axis));
    if norm {
        let last = *dims.last()?;
        node.attrs.set("epsilon", Attr::Float(draw.pick(&[1e-5, 1e-3, 0.5])));
        let gamma = draw.data(DataType::F32, &[last], None)?;
        inputs.push(build.constant(gamma, None));
        if form.op == "LayerNormalization" {
            let beta = draw.data(DataType::F32, &[last], None)?;
            inputs.push(build.constant(beta, None));
        }
    }
    let dtype = if form.dtype == DataType::S16 { DataType::S8 } else { form.dtype };
    let like = if form.op == "Softmax" { probabilities(form) } else { draw.fit(&build, &node, &inputs, dtype)? };
    let about = format!("input {dims:?}, axis {axis}");
    let y = build.one(node, &inputs, like)?;
    build.finish(&[y], about)
}

/// The output that TFLite prescribes, and which fits any softmax.
fn probabilities(form: &Form) -> (DataType, Option<QuantParams>) {
    let rne = form.mode.is_none_or(|m| m == RequantMode::Fp32Rne);
    match form.dtype {
        DataType::S8 => (DataType::S8, Some(QuantParams::per_tensor(1.0 / 256.0, -128))),
        DataType::U8 if rne => (DataType::U8, Some(QuantParams::per_tensor(1.0 / 255.0, 0))),
        DataType::U8 => (DataType::U8, Some(QuantParams::per_tensor(1.0 / 256.0, 0))),
        other => (other, None),
    }
}
