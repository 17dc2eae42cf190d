//! Matrix products: constant and computed factors, transposed ones, leading axes.

use super::Form;
use super::conv::{product, weights};
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::{Attr, ValueId};

/// A product of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let (m, k, n) = (draw.extent(0, 0, 17), draw.extent(0, 1, 129), draw.extent(1, 1, 65));
    let k = if draw.once_in(4) { draw.size(1, 260) } else { k };
    let mut build = Build::new(form.op);
    let mut node = form.node();
    let gemm = form.op == "Gemm";
    let turned = gemm && draw.once_in(2);
    let lead: Vec<usize> =
        if gemm || draw.once_in(2) { vec![] } else { (0..draw.size(1, 2)).map(|_| draw.size(1, 3)).collect() };
    let xd = [lead.clone(), vec![m, k]].concat();
    let x_params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &xd, x_params.as_ref())?;
    let x = build.input(data, x_params);
    let computed = !gemm && !form.per_axis && draw.once_in(3);
    let (w, wd, axis) = if computed {
        let wd = [lead, vec![k, n]].concat();
        (computed_factor(form, draw, &mut build, &wd)?, wd, 0)
    } else {
        let (wd, axis) = if turned { (vec![n, k], 0) } else { (vec![k, n], 1) };
        (weights(form, draw, &mut build, &wd, axis)?, wd, axis)
    };
    if turned {
        node.attrs.set("transB", Attr::Int(1));
    }
    if gemm && draw.once_in(3) && !form.dtype.is_float() {
        node.attrs.set("alpha", Attr::Float(draw.pick(&[0.5, 2.0, 1.25])));
    }
    let how = if computed { "computed" } else { "constant" };
    let about = format!("{xd:?} times {how} {wd:?}, channel axis {axis}");
    if !gemm {
        return matmul(form, draw, build, node, vec![x, w], about);
    }
    product(form, draw, build, node, vec![x, w], n, about)
}

fn computed_factor(form: &Form, draw: &mut Draw, build: &mut Build, dims: &[usize]) -> Option<ValueId> {
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, dims, params.as_ref())?;
    Some(build.input(data, params))
}

/// MatMul without a bias of its own.
fn matmul(
    form: &Form,
    draw: &mut Draw,
    mut build: Build,
    mut node: ottava_hal::Node,
    inputs: Vec<ValueId>,
    about: String,
) -> Option<Sample> {
    let real = form.dtype.is_float() || draw.once_in(5);
    let dtype = if real { ottava_hal::DataType::F32 } else { form.dtype };
    if real {
        node.requant = None;
    }
    let like = draw.fit(&build, &node, &inputs, dtype)?;
    let y = build.one(node, &inputs, like)?;
    build.finish(&[y], about)
}
