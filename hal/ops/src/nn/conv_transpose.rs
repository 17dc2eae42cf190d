//! `ConvTranspose`: the gradient of a convolution with respect to its input.
//!
//! * (C1) `output = stride*(input-1) + output_padding + dilation*(kernel-1) + 1 - pads`, or `output_shape`, from which
//!   the pads follow.
//! * (C2) `auto_pad` SAME makes `output = input * stride`.
//! * (C3) Quantized: weight channel axis 1; output channel c uses entry `c mod (C_out / group)`.

use super::conv::{channel_bias, groups, product_dtype};
use super::plain;
use super::product::{ConvGeometry, Transposed};
use super::real::with_real;
use super::typed::{Arrange, Typed};
use super::window::{AutoPad, Axis, Window, list};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Result, Scheme, Tensor, TensorType};

/// Transposed convolution.
pub struct ConvTranspose;

static SPEC: OpSpec = OpSpec {
    name: "ConvTranspose",
    domain: "",
    since: 1,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("auto_pad", AttrKind::Str),
        AttrSpec::optional("dilations", AttrKind::Ints),
        AttrSpec::optional("group", AttrKind::Int),
        AttrSpec::optional("kernel_shape", AttrKind::Ints),
        AttrSpec::optional("output_padding", AttrKind::Ints),
        AttrSpec::optional("output_shape", AttrKind::Ints),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

/// The extra attributes of a transposed window.
struct Extra {
    window: Window,
    padding: Vec<usize>,
    shape: Option<Vec<usize>>,
}

impl Extra {
    fn parse(attrs: &Attrs, kernel: &[usize]) -> Result<Self> {
        let rank = kernel.len();
        let window = Window::parse(attrs, Some(kernel), rank)?;
        let padding = match attrs.ints_opt("output_padding")? {
            Some(v) => list("output_padding", v, rank, 0)?,
            None => vec![0; rank],
        };
        let shape = match attrs.ints_opt("output_shape")? {
            // The attribute may hold batch and channel too.
            Some(v) if v.len() == rank + 2 => Some(list("output_shape", &v[2..], rank, 0)?),
            Some(v) => Some(list("output_shape", v, rank, 0)?),
            None => None,
        };
        Ok(Self { window, padding, shape })
    }

    /// The axis of the forward convolution: its output is our input.
    fn axis(&self, i: usize, input: usize) -> Result<Axis> {
        let w = &self.window;
        let (kernel, stride, dilation) = (w.kernel[i], w.strides[i], w.dilations[i]);
        let mut axis = Axis { kernel, stride, dilation, output: input, ..Axis::identity(0) };
        let wrong = || Error::invalid(format!("ConvTranspose: the output of spatial axis {i} is empty or too large"));
        let full = input
            .saturating_sub(1)
            .checked_mul(stride)
            .and_then(|n| n.checked_add(axis.effective()))
            .ok_or_else(wrong)?;
        let full = full.checked_add(self.padding[i]).filter(|&n| n <= isize::MAX as usize / 4).ok_or_else(wrong)?;
        let same = matches!(w.auto, AutoPad::SameUpper | AutoPad::SameLower);
        let wanted = match &self.shape {
            Some(shape) => Some(shape[i]),
            None if same => Some(input.checked_mul(stride).ok_or_else(wrong)?),
            None => None,
        };
        if let Some(wanted) = wanted {
            axis.input = wanted;
            // Where the wanted extent exceeds the full one, the surplus stays zero.
            (axis.before, axis.after) = w.auto.split(full.saturating_sub(wanted));
            return Ok(axis);
        }
        if w.auto == AutoPad::NotSet {
            (axis.before, axis.after) = w.pads[i];
        }
        axis.input = full.checked_sub(axis.before + axis.after).filter(|&n| n > 0).ok_or_else(wrong)?;
        Ok(axis)
    }
}

fn geometry(attrs: &Attrs, x: &[usize], w: &[usize]) -> Result<(ConvGeometry, Vec<usize>)> {
    let groups = groups(attrs)?;
    if x.len() < 3 || w.len() != x.len() || w[0] != x[1] || !x[1].is_multiple_of(groups) {
        return Err(Error::invalid(format!("ConvTranspose: weight {w:?} in {groups} groups does not fit input {x:?}")));
    }
    let extra = Extra::parse(attrs, &w[2..])?;
    let rank = x.len() - 2;
    let mut axes = [Axis::identity(1); 3];
    for i in 0..rank {
        axes[3 - rank + i] = extra.axis(i, x[i + 2])?;
    }
    let channels = w[1].checked_mul(groups).ok_or_else(|| Error::invalid("ConvTranspose: too many channels"))?;
    let mut shape = vec![x[0], channels];
    shape.extend(axes[3 - rank..].iter().map(|a| a.input));
    Ok((ConvGeometry { groups, c_in: x[1] / groups, c_out: w[1], axes }, shape))
}

impl Op for ConvTranspose {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, w) = (cx.shape(0)?, cx.shape(1)?);
        if x.len() < 3 || w.len() != x.len() {
            return Err(Error::invalid(format!("ConvTranspose: weight of rank {} on rank {}", w.len(), x.len())));
        }
        let groups = groups(cx.attrs())?;
        let channels = match w[1].known() {
            Some(c) => Dim::Known(c.saturating_mul(groups)),
            None => cx.fresh(0, 1),
        };
        let mut dims = vec![x[0].clone(), channels];
        let kernel: Option<Vec<usize>> = w[2..].iter().map(Dim::known).collect();
        let extra = kernel.map(|k| Extra::parse(cx.attrs(), &k)).transpose()?;
        for (i, d) in x[2..].iter().enumerate() {
            dims.push(match (&extra, d.known()) {
                (Some(e), Some(n)) => Dim::Known(e.axis(i, n)?.input),
                (Some(Extra { shape: Some(s), .. }), None) => Dim::Known(s[i]),
                _ => cx.fresh(0, i + 2),
            });
        }
        Ok(vec![cx.ty(product_dtype(cx)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let (geometry, shape) = geometry(cx.attrs(), x.shape(), w.shape())?;
        let bias = channel_bias(cx, shape[1])?;
        let kernel = Transposed(geometry);
        let y = with_real!(x.dtype(), "ConvTranspose", T => {
            plain::run::<T, _>(cx, &kernel, &shape, Arrange::default(), bias, (1.0, 1.0))
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(mut typed) = Typed::of(cx, 1)? else { return Ok(None) };
        let (geometry, shape) = geometry(cx.attrs(), cx.input(0)?.shape(), cx.input(1)?.shape())?;
        if cx.in_quant(1).is_some_and(|q| matches!(q.scheme, Scheme::PerAxis { .. })) {
            typed.repeat_channels(geometry.groups);
        }
        let bias = channel_bias(cx, shape[1])?;
        Ok(Some(vec![typed.run(&Transposed(geometry), &shape, Arrange::default(), bias)?]))
    }

    fn macs(&self, _node: &Node, inputs: &[Option<&TensorType>], _outputs: &[&TensorType]) -> u64 {
        let macs = || {
            let weight = inputs.get(1).copied().flatten()?.shape.known()?;
            let per_input = weight.iter().skip(1).try_fold(1u64, |n, &d| n.checked_mul(d as u64))?;
            per_input.checked_mul(inputs.first().copied().flatten()?.shape.elements()? as u64)
        };
        macs().unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        cases().unwrap_or_default()
    }
}

fn cases() -> Result<Vec<Case>> {
    let mut node = Node::new("up", "ConvTranspose", 22);
    node.attrs.set("strides", Attr::Ints(vec![2]));
    Ok(vec![Case {
        name: "c1_stride_spreads_the_input",
        node,
        inputs: vec![
            Some(CaseInput::plain(Tensor::from_slice(&[1, 1, 2], &[1.0f32, 2.0])?)),
            Some(CaseInput::plain(Tensor::from_slice(&[1, 1, 3], &[1.0f32, 10.0, 100.0])?).constant()),
        ],
        outputs: vec![(Tensor::from_slice(&[1, 1, 5], &[1.0f32, 10.0, 102.0, 20.0, 200.0])?, None)],
    }])
}
