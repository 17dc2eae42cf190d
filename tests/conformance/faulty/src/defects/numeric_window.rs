//! Groups G.4 and G.5: windows, padding, and what belongs to which channel.

use super::Defect;
use super::numeric::{Op, PRODUCTS, is, with};
use ottava_hal::{Attr, DataType, Node, Result, Scheme, Tensor};
use ottava_ops::{EvalCx, evaluate};

const CONV: &[&str] = &["Conv"];
const CONVS: &[&str] = &["Conv", "ConvTranspose"];
const PADDED: &str = "num.padding.Conv";

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("padding_is_byte_0", "G.4", PADDED, "zero bytes", |b| {
        b.node = |cx| with(cx, CONV, |op| filled(op, 0));
    }),
    Defect::new("padding_is_lowest", "G.4", "num.padding.AveragePool", "padding", |b| {
        b.node = |cx| with(cx, &["AveragePool"], |op| filled(op, -128));
    }),
    Defect::new("max_pool_pads_with_0", "G.4", "num.padding.MaxPool", "border", |b| {
        b.node = |cx| with(cx, &["MaxPool"], |op| filled(op, 0));
    }),
    Defect::new("pads_only_behind", "G.4", PADDED, "padding", |b| {
        b.node = |cx| with(cx, CONVS, |op| pads(op, |f, b| (0, f + b)))
    }),
    Defect::new("pads_symmetric", "G.4", "num.padding.ConvTranspose", "output", |b| {
        b.node = |cx| with(cx, &["ConvTranspose"], |op| pads(op, |f, b| ((f + b) / 2, f + b - (f + b) / 2)));
    }),
    Defect::new("padding_counts", "G.4", "num.padding.AveragePool", "counts in the average", |b| {
        b.node = |cx| with(cx, &["AveragePool"], |op| op.node.attrs.set("count_include_pad", Attr::Int(1)));
    }),
    Defect::new("pad_fills_byte_0", "G.4", "num.padding.Pad", "padding", |b| {
        b.node = |cx| with(cx, &["Pad"], |op| forget(op, 0));
    }),
    Defect::new("zero_point_ignored", "G.4", PADDED, "pads", |b| {
        b.node = |cx| with(cx, CONV, |op| op.params(0).into_iter().for_each(|q| q.zero_points.fill(0)));
    }),
    Defect::new("neighbour_scale", "G.5", "num.axis.scales", "next channel", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| op.params(1).into_iter().for_each(|q| q.scales.rotate_left(1)));
    }),
    Defect::new("one_scale_for_all", "G.5", "num.axis.scales", "channel 0", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| op.params(1).into_iter().for_each(first_scale));
    }),
    Defect::new("transposed_axis_0", "G.5", "num.axis.ConvTranspose", "ConvTranspose", |b| {
        b.node = |cx| with(cx, &["ConvTranspose"], axis_0);
    }),
    Defect::new("nibbles_swapped", "G.5", "num.axis.nibbles", "nibbles", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| of_nibbles(op, |w| w.iter_mut().for_each(|v| *v = v.rotate_left(4))));
    }),
    Defect::new("nibbles_unsigned", "G.5", "num.axis.nibbles", "nibbles", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| of_nibbles(op, |w| w.iter_mut().for_each(|v| *v &= 0x77)));
    }),
    Defect::new("bias_dropped", "G.5", "num.axis.biases", "bias is not added", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| bias(op, |b| b.fill(0)));
    }),
    Defect::new("bias_of_the_neighbour", "G.5", "num.axis.biases", "bias for each channel", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| bias(op, |b| b.rotate_left(4)));
    }),
    Defect::new("groups_mixed", "G.5", "num.axis.Conv.groups", "accumulator", |b| {
        b.node = |cx| with(cx, CONV, groups_mixed)
    }),
    Defect::new("channels_of_depthwise", "G.5", "num.axis.Conv.depthwise", "group", |b| {
        b.node = |cx| with(cx, CONV, first_filter);
    }),
    Defect::new("kernel_turned", "G.5", "num.axis.Conv.groups", "weights", |b| {
        b.node = |cx| with(cx, CONV, kernel_turned)
    }),
    Defect::new("dilation_ignored", "G.5", "num.axis.Conv.windows", "dilations", |b| {
        b.node = |cx| sampled(cx, |node| node.attrs.set("dilations", Attr::Ints(vec![1, 1])), [2, 1]);
    }),
    Defect::new("strides_swapped", "G.5", "num.axis.Conv.windows", "strides", |b| {
        b.node = |cx| sampled(cx, |_| {}, [1, 2])
    }),
];

fn first_scale(q: &mut ottava_hal::QuantParams) {
    let first = q.scales[0];
    q.scales.fill(first);
}

/// The pads of a window, and none any more.
fn take_pads(op: &mut Op) -> Option<Vec<i64>> {
    let pads = op.node.attrs.ints_opt("pads").ok()??.to_vec();
    op.node.attrs.set("pads", Attr::Ints(vec![0; pads.len()]));
    Some(pads)
}

/// Pads the image itself, with a byte.
fn filled(op: &mut Op, byte: i64) {
    let image = op.inputs[0].clone().filter(|x| x.shape().len() == 4 && !x.dtype().is_float());
    let (Some(x), Some(pads)) = (image, take_pads(op)) else { return };
    let Some((lo, hi)) = x.dtype().int_range() else { return };
    let (d, p): (Vec<usize>, Vec<usize>) = (x.shape().to_vec(), pads.iter().map(|p| *p as usize).collect());
    let (h, w) = (d[2] + p[0] + p[2], d[3] + p[1] + p[3]);
    let mut values = vec![byte.clamp(lo, hi); d[0] * d[1] * h * w];
    for (i, v) in x.to_ints().unwrap_or_default().into_iter().enumerate() {
        let (plane, row, column) = (i / (d[2] * d[3]), i / d[3] % d[2], i % d[3]);
        values[(plane * h + row + p[0]) * w + column + p[1]] = v;
    }
    if let Ok(x) = Tensor::from_ints(x.dtype(), &[d[0], d[1], h, w], &values) {
        op.replace(0, x);
    }
}

/// Changes the pads in front and behind of every axis.
fn pads(op: &mut Op, change: impl Fn(i64, i64) -> (i64, i64)) {
    if let Some(pads) = take_pads(op) {
        let n = pads.len() / 2;
        let (front, behind): (Vec<i64>, Vec<i64>) = (0..n).map(|i| change(pads[i], pads[n + i])).unzip();
        op.node.attrs.set("pads", Attr::Ints([front, behind].concat()));
    }
}

/// A value without its parameters.
fn forget(op: &mut Op, i: usize) {
    op.in_types[i].iter_mut().for_each(|ty| ty.quant = None);
    op.out_types[i].quant = None;
}

/// Scales along the input channels.
fn axis_0(op: &mut Op) {
    let n = op.inputs[1].as_ref().map_or(1, |w| w.shape()[0]);
    if let Some(q) = op.params(1).filter(|q| q.scales.len() > 1) {
        let (scales, zeros) = (q.scales.clone(), q.zero_points.clone());
        q.scheme = Scheme::PerAxis { axis: 0 };
        q.scales = scales.iter().copied().cycle().take(n).collect();
        q.zero_points = zeros.iter().copied().cycle().take(n).collect();
    }
}

fn of_nibbles(op: &mut Op, change: impl FnOnce(&mut [u8])) {
    if op.inputs[1].as_ref().is_some_and(|w| w.dtype() == DataType::S4) {
        op.bytes(1, change);
    }
}

/// Changes the bytes of a bias of s32.
fn bias(op: &mut Op, change: impl FnOnce(&mut [u8])) {
    if op.inputs.len() == 3 + usize::from(op.node.fused.residual) {
        op.bytes(2, change);
    }
}

fn group_of(node: &Node) -> usize {
    node.attrs.int("group", 1).unwrap_or(1).max(1) as usize
}

/// Each group takes the weights of the next.
fn groups_mixed(op: &mut Op) {
    let groups = group_of(&op.node);
    op.bytes(1, |w| w.rotate_left(w.len() / groups));
}

/// Every channel of a depthwise convolution takes the first one's weights.
fn first_filter(op: &mut Op) {
    let groups = group_of(&op.node);
    op.bytes(1, |w| {
        let n = w.len() / groups;
        let first = w[..n].to_vec();
        w.chunks_exact_mut(n.max(1)).for_each(|filter| filter.copy_from_slice(&first));
    });
}

/// Rows of a square kernel are its columns.
fn kernel_turned(op: &mut Op) {
    let Some(w) = op.inputs[1].clone().filter(|w| w.dtype().bits() == 8 && w.shape().len() == 4) else { return };
    let (h, v) = (w.shape()[2], w.shape()[3]);
    if h == v {
        op.bytes(1, |to| {
            for (i, byte) in w.bytes().iter().enumerate() {
                let (plane, row, column) = (i / (h * v), i / v % h, i % v);
                to[(plane * h + column) * v + row] = *byte;
            }
        });
    }
}

/// A convolution of an oblong window whose results are read from other places: those of the changed node at stride 1,
/// in steps of their own.
fn sampled(cx: &EvalCx, change: impl FnOnce(&mut Node), steps: [usize; 2]) -> Result<Vec<Tensor>> {
    let right = evaluate(cx)?;
    let strides = cx.attrs().ints_opt("strides")?;
    if !is(cx, CONV) || strides != Some(&[2, 1]) || cx.node.fused.residual || right[0].shape().len() != 4 {
        return Ok(right);
    }
    let mut op = Op::of(cx);
    op.node.attrs.set("strides", Attr::Ints(vec![1, 1]));
    change(&mut op.node);
    let dense = op.eval()?.swap_remove(0);
    let (d, s) = (right[0].shape().to_vec(), dense.shape().to_vec());
    let (size, mut y) = (dense.dtype().bits() / 8, right[0].clone());
    for (i, to) in y.bytes_mut().chunks_exact_mut(size).enumerate() {
        let (plane, row, column) = (i / (d[2] * d[3]), i / d[3] % d[2], i % d[3]);
        let (row, column) = ((row * steps[0]).min(s[2] - 1), (column * steps[1]).min(s[3] - 1));
        let from = ((plane * s[2] + row) * s[3] + column) * size;
        to.copy_from_slice(&dense.bytes()[from..from + size]);
    }
    Ok(vec![y])
}
