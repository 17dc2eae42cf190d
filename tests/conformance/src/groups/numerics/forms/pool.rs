//! Pools over windows and over whole planes.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::Attr;

/// A pool of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let rank = draw.size(1, 3);
    let mut build = Build::new(form.op);
    let mut node = form.node();
    let mut dims = vec![draw.pick(&[1usize, 3]), draw.extent(0, 1, 17)];
    let mut lists = [(); 5].map(|()| Vec::new());
    for i in 0..rank {
        let kernel = draw.attr("kernel_shape", 1, [7, 5, 3][rank - 1]);
        let (stride, dilation) = (draw.attr("strides", 1, 3), if draw.once_in(4) { 2 } else { 1 });
        let (front, behind) = (draw.range(0, kernel / 2), draw.range(0, kernel / 2));
        let least = ((kernel - 1) * dilation + 1).max(1) as usize;
        dims.push(draw.extent(0, 2 + i, [33, 11, 5][rank - 1]).max(least));
        [kernel, stride, dilation, front, behind].into_iter().zip(&mut lists).for_each(|(v, list)| list.push(v));
    }
    let average = form.op == "AveragePool";
    if average || form.op == "MaxPool" {
        let [kernel, strides, dilations, front, behind] = lists;
        let pads = [front, behind].concat();
        let all = [("kernel_shape", kernel), ("strides", strides), ("dilations", dilations), ("pads", pads)];
        all.into_iter().for_each(|(name, list)| node.attrs.set(name, Attr::Ints(list)));
        node.attrs.set("ceil_mode", Attr::Int(i64::from(draw.once_in(4))));
    }
    if average {
        node.attrs.set("count_include_pad", Attr::Int(i64::from(draw.once_in(3))));
    }
    let about = format!("input {dims:?}, {:?}", node.attrs.0);
    let params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &dims, params.as_ref())?;
    let x = build.input(data, params.clone());
    let like = if form.op.contains("Max") || draw.once_in(3) {
        (form.dtype, params)
    } else {
        draw.fit(&build, &node, &[x], form.dtype)?
    };
    let y = build.one(node, &[x], like)?;
    build.finish(&[y], about)
}
