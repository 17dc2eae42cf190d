//! `DeformConv`: a 2-D convolution that reads between the elements, at offsets that are data.
//!
//! * (C1) tap k of output position o reads at `o * stride - pad + k * dilation + offset`, bilinear, zeros outside, times the
//!   mask. (C2) Terms are added in f64 over channels, then taps, in ascending order; the bias last; one rounding.

use super::planar::taps;
use super::real::{Real, alloc, count, with_real};
use super::window::{Axis, Window};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{Attrs, Error, Node, Reason, Result, Tensor, TensorType};

/// The operator.
pub struct DeformConv;

static SPEC: OpSpec = OpSpec {
    name: "DeformConv",
    domain: "",
    since: 19,
    inputs: (3, 5),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("dilations", AttrKind::Ints),
        AttrSpec::optional("group", AttrKind::Int),
        AttrSpec::optional("kernel_shape", AttrKind::Ints),
        AttrSpec::optional("offset_group", AttrKind::Int),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

impl Op for DeformConv {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, w, offset) = (cx.shape(0)?, cx.shape(1)?, cx.shape(2)?);
        if [x.len(), w.len(), offset.len()] != [4, 4, 4] {
            let what = format!("DeformConv on rank {}; only images are supported, of rank 4", x.len());
            return Err(Error::unsupported(Reason::Rank, what));
        }
        Ok(vec![cx.ty(cx.dtype(0)?, vec![x[0].clone(), w[0].clone(), offset[2].clone(), offset[3].clone()])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let y = with_real!(x.dtype(), "DeformConv", T => run::<T>(cx, x))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("deform", "DeformConv", 19);
        let x = f32s(&[1, 1, 1, 3], &[1.0, 3.0, 9.0]);
        // One tap per output, moved half an element to the right; the last one is halfway outside.
        let offset = f32s(&[1, 2, 1, 3], &[0.0, 0.0, 0.0, 0.5, 0.5, 0.5]);
        let inputs = [x, f32s(&[1, 1, 1, 1], &[2.0]), offset, f32s(&[1], &[1.0])];
        vec![case("c1_between", node, &inputs, &[f32s(&[1, 1, 1, 3], &[5.0, 13.0, 10.0])])]
    }
}

/// Extents of a node's operands.
struct Geometry {
    batch: usize,
    channels: usize,
    plane: [usize; 2],
    outputs: usize,
    group: usize,
    offset_group: usize,
    axes: [Axis; 2],
    kernel: [usize; 2],
    out: [usize; 2],
}

impl Geometry {
    fn new(attrs: &Attrs, shapes: [&[usize]; 3]) -> Result<Self> {
        let [x, w, offset] = shapes;
        let wrong = || Error::invalid(format!("DeformConv: x {x:?}, w {w:?}, offset {offset:?} do not fit each other"));
        let (&[batch, channels, height, width], &[outputs, per_group, kh, kw]) = (x, w) else { return Err(wrong()) };
        let groups = |name| usize::try_from(attrs.int(name, 1)?).ok().filter(|n| *n > 0).ok_or_else(wrong);
        let (group, offset_group) = (groups("group")?, groups("offset_group")?);
        let window = Window::parse(attrs, Some(&[kh, kw]), 2)?;
        let [_, a, b] = window.axes(&[height, width])?;
        let out = [a.output, b.output];
        let fits = channels % group == 0
            && outputs % group == 0
            && channels / group == per_group
            && channels % offset_group == 0
            && offset == [batch, offset_group * kh * kw * 2, out[0], out[1]]
            && height * width > 0;
        let (plane, kernel) = ([height, width], [kh, kw]);
        let geometry = Self { batch, channels, plane, outputs, group, offset_group, axes: [a, b], kernel, out };
        if fits { Ok(geometry) } else { Err(wrong()) }
    }

    /// (C1) for the tap `k` at output `o` of an image; `(dy, dx)` is the offset.
    fn position(&self, o: [usize; 2], k: [usize; 2], offset: [f64; 2]) -> [f64; 2] {
        [0, 1].map(|d| {
            let axis = &self.axes[d];
            (o[d] * axis.stride + k[d] * axis.dilation) as f64 - axis.before as f64 + offset[d]
        })
    }
}

fn run<T: Real>(cx: &EvalCx, x: &Tensor) -> Result<Tensor> {
    let (w, offset) = (cx.input(1)?, cx.input(2)?);
    let g = Geometry::new(cx.attrs(), [x.shape(), w.shape(), offset.shape()])?;
    let (data, weights, offsets) = (f64::read(x)?, f64::read(w)?, f64::read(offset)?);
    let bias = cx.opt(3).map(f64::read).transpose()?;
    let mask = cx.opt(4).map(f64::read).transpose()?;
    if bias.as_ref().is_some_and(|b| b.len() != g.outputs)
        || mask.as_ref().is_some_and(|m| m.len() * 2 != offsets.len())
    {
        return Err(Error::invalid("DeformConv: the bias or the mask does not fit"));
    }
    let shape = [g.batch, g.outputs, g.out[0], g.out[1]];
    let points = g.out[0] * g.out[1];
    let mut y = alloc::<T>(count(&shape)?)?;
    let (per_group, taps_n) = (g.channels / g.group, g.kernel[0] * g.kernel[1]);
    let mut column = vec![0.0; g.channels * taps_n];
    for at in 0..g.batch * points {
        let (image, point) = (at / points.max(1), at % points.max(1));
        gather(&g, &data, (&offsets, mask.as_deref()), [image, point], &mut column);
        for o in 0..g.outputs {
            let first = o / (g.outputs / g.group) * per_group * taps_n;
            let terms = column[first..].iter().zip(&weights[o * per_group * taps_n..][..per_group * taps_n]);
            let sum = terms.fold(0.0, |sum, (v, w)| sum + v * w);
            y[(image * g.outputs + o) * points + point] = T::of(sum + bias.as_ref().map_or(0.0, |b| b[o]));
        }
    }
    T::write(x.dtype(), &shape, &y)
}

/// What all taps of one output position read, by channel and tap.
fn gather(g: &Geometry, data: &[f64], (offsets, mask): (&[f64], Option<&[f64]>), at: [usize; 2], column: &mut [f64]) {
    let ([image, point], [h, w]) = (at, g.plane);
    let (points, taps_n) = (g.out[0] * g.out[1], g.kernel[0] * g.kernel[1]);
    let per_offset = g.channels / g.offset_group;
    for (i, to) in column.iter_mut().enumerate() {
        let (c, k) = (i / taps_n, i % taps_n);
        let first = (image * g.offset_group + c / per_offset) * taps_n + k;
        let offset = [0, 1].map(|d| offsets[(first * 2 + d) * points + point]);
        let o = [point / g.out[1], point % g.out[1]];
        let [y, x] = g.position(o, [k / g.kernel[1], k % g.kernel[1]], offset);
        let plane = &data[(image * g.channels + c) * h * w..][..h * w];
        let value: f64 = taps(y, x, g.plane, true).iter().map(|(at, weight)| weight * plane[*at]).sum();
        *to = value * mask.map_or(1.0, |m| m[first * points + point]);
    }
}
