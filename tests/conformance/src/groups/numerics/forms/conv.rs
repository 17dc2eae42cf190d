//! Convolutions, transposed ones too: any rank, group, window, bias, and what is fused behind.

use super::Form;
use crate::groups::numerics::build::{Build, Sample};
use crate::groups::numerics::draw::Draw;
use ottava_hal::program::Activation;
use ottava_hal::{Attr, DataType, Node, QuantParams, RequantMode, Tensor, ValueId};

/// Multiplications of one program at most.
const MOST_WORK: usize = 400_000;

/// The shapes of a convolution.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct ConvPlan {
    /// Batch.
    pub batch: usize,
    /// Groups.
    pub groups: usize,
    /// Input and output channels of a group.
    pub channels: (usize, usize),
    /// Extent, kernel, stride, dilation, pads in front and behind, of each spatial axis.
    pub axes: Vec<[usize; 6]>,
}

impl ConvPlan {
    fn draw(draw: &mut Draw, ranks: (usize, usize)) -> Self {
        let rank = draw.size(ranks.0, ranks.1);
        let most = [33, 11, 5][rank - 1];
        let axes = (0..rank).map(|i| Self::axis(draw, 2 + i, most, rank)).collect();
        let depthwise = draw.once_in(3);
        let groups = if depthwise { draw.extent(0, 1, 17) } else { draw.pick(&[1, 1, 1, 2, 3]) };
        let inputs = if depthwise { 1 } else { draw.extent(0, 1, 33) };
        let outputs = if depthwise { draw.size(1, 2) } else { draw.extent(1, 0, 33) };
        Self { batch: draw.pick(&[1, 1, 3]), groups, channels: (inputs, outputs), axes }
    }

    fn axis(draw: &mut Draw, axis: usize, most: usize, rank: usize) -> [usize; 6] {
        let kernel = draw.attr("kernel_shape", 1, [7, 7, 3][rank - 1]) as usize;
        let kernel = if draw.once_in(3) { 1 } else { kernel };
        let stride = draw.attr("strides", 1, 3) as usize;
        let dilation = if draw.once_in(3) { draw.attr("dilations", 1, 2) as usize } else { 1 };
        let reach = (kernel - 1) * dilation;
        let mut pad = || if draw.once_in(3) { 0 } else { draw.size(0, reach.min(3)) };
        let (front, behind) = (pad(), pad());
        let least = (reach + 1).saturating_sub(front + behind).max(1);
        let extent = draw.extent(0, axis, most).max(least);
        [extent, kernel, stride, dilation, front, behind]
    }

    fn work(&self) -> usize {
        let taps: usize = self.axes.iter().map(|a| a[0] * a[1]).product();
        self.batch * self.groups * self.channels.0 * self.channels.1 * taps
    }

    fn column(&self, i: usize) -> Vec<i64> {
        self.axes.iter().map(|a| a[i] as i64).collect()
    }

    /// Sets the attributes of a node.
    pub(in super::super) fn attrs(&self, node: &mut Node) {
        let pads = [self.column(4), self.column(5)].concat();
        let lists = [("kernel_shape", self.column(1)), ("strides", self.column(2)), ("dilations", self.column(3))];
        lists.into_iter().for_each(|(name, list)| node.attrs.set(name, Attr::Ints(list)));
        node.attrs.set("pads", Attr::Ints(pads));
        node.attrs.set("group", Attr::Int(self.groups as i64));
    }

    /// Shapes of input and weights.
    fn shapes(&self, transposed: bool) -> (Vec<usize>, Vec<usize>) {
        let (inputs, outputs) = (self.groups * self.channels.0, self.groups * self.channels.1);
        let spatial = |i: usize| self.axes.iter().map(move |a| a[i]);
        let x = [self.batch, inputs].into_iter().chain(spatial(0)).collect();
        let w = if transposed { [inputs, self.channels.1] } else { [outputs, self.channels.0] };
        (x, w.into_iter().chain(spatial(1)).collect())
    }
}

/// A convolution of a form.
pub(super) fn make(form: &Form, draw: &mut Draw) -> Option<Sample> {
    let plans = (0..20).map(|_| ConvPlan::draw(draw, (1, 3))).collect::<Vec<_>>();
    let plan = plans.into_iter().find(|p| p.work() <= MOST_WORK)?;
    conv(form, draw, &plan)
}

/// A convolution of given shapes.
pub(in super::super) fn conv(form: &Form, draw: &mut Draw, plan: &ConvPlan) -> Option<Sample> {
    let transposed = form.op == "ConvTranspose";
    let (xd, wd) = plan.shapes(transposed);
    let mut build = Build::new(form.op);
    let x_params = draw.params(form.dtype);
    let data = draw.data(form.dtype, &xd, x_params.as_ref())?;
    let x = build.input(data, x_params.clone());
    let axis = usize::from(transposed);
    let w = weights(form, draw, &mut build, &wd, axis)?;
    let mut node = form.node();
    plan.attrs(&mut node);
    let channels = plan.groups * plan.channels.1;
    let about = format!("input {xd:?}, weights {wd:?}, attributes {}", words(&node));
    product(form, draw, build, node, vec![x, w], channels, about)
}

/// Attributes in words.
fn words(node: &Node) -> String {
    let one = |(name, attr): (&String, &Attr)| match attr {
        Attr::Ints(v) => format!("{name} {v:?}"),
        Attr::Int(v) => format!("{name} {v}"),
        other => format!("{name} {other:?}"),
    };
    node.attrs.0.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Constant weights: bytes or nibbles, with and without zero points, one scale or one for each channel.
pub(super) fn weights(form: &Form, draw: &mut Draw, build: &mut Build, dims: &[usize], axis: usize) -> Option<ValueId> {
    if form.dtype.is_float() {
        let data = draw.data(form.dtype, dims, None)?;
        return Some(build.constant(data, None));
    }
    let dtype = match draw.size(0, 5) {
        0 if form.dtype != DataType::S16 => DataType::U8,
        1 => DataType::S4,
        _ => DataType::S8,
    };
    let n = if form.per_axis { *dims.get(axis)? } else { 1 };
    let scales: Vec<f32> = (0..n).map(|_| draw.scale()).collect();
    let neutral = if dtype == DataType::U8 { 128 } else { 0 };
    let odd = !form.per_axis && draw.once_in(4);
    let zp = if odd { draw.zero_point(dtype) } else { neutral };
    let quant = match form.per_axis {
        true => QuantParams { zero_points: vec![zp; n], ..QuantParams::per_axis_symmetric(axis, scales) },
        false => QuantParams::per_tensor(scales[0], zp),
    };
    let data = draw.data(dtype, dims, Some(&quant))?;
    Some(build.constant(data, Some(quant)))
}

/// A bias of s32 at the accumulator's scale, or of f32 for floats.
fn bias(form: &Form, draw: &mut Draw, build: &mut Build, of: &[ValueId], channels: usize) -> Option<ValueId> {
    if form.dtype.is_float() {
        let data = draw.data(DataType::F32, &[channels], None)?;
        return Some(build.constant(data, None));
    }
    let xs = build.ty(of[0]).quant.as_ref()?.scales[0];
    let ws = build.ty(of[1]).quant.as_ref()?.clone();
    let scale = |c: usize| xs * ws.scales[c % ws.scales.len()];
    let quant = if ws.scales.len() == 1 {
        QuantParams::per_tensor(scale(0), 0)
    } else {
        QuantParams::per_axis_symmetric(0, (0..channels).map(scale).collect())
    };
    let most = draw.pick(&[100, 3000, 100_000]);
    let values: Vec<i32> = (0..channels).map(|_| draw.range(-most, most) as i32).collect();
    Some(build.constant(Tensor::from_slice(&[channels], &values).ok()?, Some(quant)))
}

/// The rest of a product: bias, what is fused, result.
pub(super) fn product(
    form: &Form,
    draw: &mut Draw,
    mut build: Build,
    mut node: Node,
    mut inputs: Vec<ValueId>,
    channels: usize,
    mut about: String,
) -> Option<Sample> {
    if !draw.once_in(3) {
        inputs.push(bias(form, draw, &mut build, &inputs, channels)?);
        about.push_str(", bias");
    }
    let real = form.dtype.is_float();
    // In the Q31 modes neither a residual nor a real result has a rounding of its own.
    let rne = form.mode.is_none_or(|m| m == RequantMode::Fp32Rne);
    let fusion = if rne { draw.size(0, 6) } else { draw.size(0, 1) };
    let dtype = match fusion {
        _ if real => DataType::F32,
        5 if form.mode.is_some() => DataType::F32,
        3 | 4 if draw.once_in(4) => DataType::S16,
        _ => form.dtype,
    };
    if dtype.is_float() {
        node.requant = None;
    }
    if matches!(fusion, 3 | 4) {
        residual(form, draw, &mut build, &node, &mut inputs)?;
        node.fused.residual = true;
        about.push_str(", residual");
    }
    if fusion == 4 || (dtype.is_float() && draw.once_in(2)) {
        node.fused.act = Some(draw.pick(&[Activation::Relu, Activation::Clip { lo: -1.0, hi: 6.0 }]));
        about.push_str(", activation");
    }
    let like = draw.fit(&build, &node, &inputs, dtype)?;
    if let (1, false, Some((lo, hi))) = (fusion, real, dtype.storage_range()) {
        let (a, b) = (draw.range(lo.into(), hi.into()) as i32, draw.range(lo.into(), hi.into()) as i32);
        node.fused.clamp = Some((a.min(b), a.max(b)));
        about.push_str(", clamp");
    }
    let y = build.one(node, &inputs, like)?;
    build.finish(&[y], about)
}

/// Appends another operand of the result's shape.
fn residual(form: &Form, draw: &mut Draw, build: &mut Build, node: &Node, inputs: &mut Vec<ValueId>) -> Option<()> {
    let plain = Node { requant: None, ..node.clone() };
    let mut probe = build.clone();
    let y = probe.one(plain, inputs, (DataType::F32, None))?;
    let dims = probe.data(y).shape().to_vec();
    let magnitude = build.magnitude(node, inputs)?;
    let quant = (!form.dtype.is_float()).then(|| {
        let scale = (magnitude / 100.0).clamp(1e-20, 1e20);
        QuantParams::per_tensor(if magnitude == 0.0 { 1.0 } else { scale }, draw.zero_point(form.dtype))
    });
    let data = draw.data(form.dtype, &dims, quant.as_ref())?;
    inputs.push(build.input(data, quant));
    Some(())
}
