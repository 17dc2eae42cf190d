//! `Conv`: 1-D to 3-D convolution with groups, dilations and asymmetric pads.
//!
//! * (C1) Float: K ascends over (kernel position, input channel), padded taps are skipped, the bias is added last.
//! * (C2) Quantized: `acc = sum (x-zx)(w-zw[c]) + b[c]`, weight channel axis 0 (numerics.md section 4).

use super::plain;
use super::product::{ConvGeometry, Forward};
use super::real::with_real;
use super::typed::{Arrange, Bias, BiasIndex, Typed, own};
use super::window::Window;
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, QuantParams, RequantMode, Result, Tensor, TensorType};

/// Convolution.
pub struct Conv;

static SPEC: OpSpec = OpSpec {
    name: "Conv",
    domain: "",
    since: 1,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("auto_pad", AttrKind::Str),
        AttrSpec::optional("dilations", AttrKind::Ints),
        AttrSpec::optional("group", AttrKind::Int),
        AttrSpec::optional("kernel_shape", AttrKind::Ints),
        AttrSpec::optional("pads", AttrKind::Ints),
        AttrSpec::optional("strides", AttrKind::Ints),
    ],
};

/// The `group` attribute.
pub(super) fn groups(attrs: &Attrs) -> Result<usize> {
    let group = attrs.int("group", 1)?;
    usize::try_from(group)
        .ok()
        .filter(|&g| g > 0)
        .ok_or_else(|| Error::invalid(format!("group is {group}, expected > 0")))
}

/// Geometry and output shape of a convolution of these shapes.
pub(crate) fn geometry(attrs: &Attrs, x: &[usize], w: &[usize]) -> Result<(ConvGeometry, Vec<usize>)> {
    let wrong = || Error::invalid(format!("Conv: weight {w:?} does not fit input {x:?}"));
    if x.len() < 3 || w.len() != x.len() {
        return Err(wrong());
    }
    let groups = groups(attrs)?;
    if w[1].checked_mul(groups) != Some(x[1]) || !w[0].is_multiple_of(groups) {
        return Err(Error::invalid(format!("Conv: weight {w:?} in {groups} groups does not fit input {x:?}")));
    }
    let axes = Window::parse(attrs, Some(&w[2..]), x.len() - 2)?.axes(&x[2..])?;
    let mut shape = vec![x[0], w[0]];
    shape.extend(axes[3 - (x.len() - 2)..].iter().map(|a| a.output));
    Ok((ConvGeometry { groups, c_in: w[1], c_out: w[0] / groups, axes }, shape))
}

/// Input 2 as a bias per output channel, checked.
pub(super) fn channel_bias<'a>(cx: &EvalCx<'a>, channels: usize) -> Result<Option<Bias<'a>>> {
    let Some(tensor) = own(cx, 2) else { return Ok(None) };
    if tensor.elements() != channels {
        let found = tensor.shape();
        return Err(Error::invalid(format!("{}: bias {found:?}, expected [{channels}]", cx.node.full_op())));
    }
    Ok(Some(Bias { tensor, params: cx.in_quant(2), index: BiasIndex::PerChannel }))
}

/// Element type of a product's result: real where the operands are quantized and the output is not.
pub(super) fn product_dtype(cx: &InferCx) -> Result<DataType> {
    let x = cx.input(0)?.ty;
    Ok(if x.quant.is_some() { DataType::F32 } else { x.dtype })
}

/// Shape inference of the spatial axes behind batch and channel.
pub(super) fn infer_spatial(cx: &InferCx, window: &Window, x: &[Dim]) -> Result<Vec<Dim>> {
    x[2..].iter().enumerate().map(|(i, d)| window.output_dim(i, d, cx.fresh(0, i + 2))).collect()
}

impl Op for Conv {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let (x, w) = (cx.shape(0)?, cx.shape(1)?);
        if x.len() < 3 || w.len() != x.len() {
            return Err(Error::invalid(format!("Conv: weight of rank {} on input of rank {}", w.len(), x.len())));
        }
        let groups = groups(cx.attrs())?;
        if let (Some(c), Some(cw)) = (x[1].known(), w[1].known())
            && cw.checked_mul(groups) != Some(c)
        {
            return Err(Error::invalid(format!("Conv: {c} channels, but {groups} groups of {cw} in the weight")));
        }
        let kernel: Option<Vec<usize>> = w[2..].iter().map(Dim::known).collect();
        let mut dims = vec![x[0].clone(), w[0].clone()];
        if kernel.is_none() && cx.attrs().get("kernel_shape").is_none() {
            dims.extend((2..x.len()).map(|i| cx.fresh(0, i)));
        } else {
            let window = Window::parse(cx.attrs(), kernel.as_deref(), x.len() - 2)?;
            dims.extend(infer_spatial(cx, &window, x)?);
        }
        Ok(vec![cx.ty(product_dtype(cx)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, w) = (cx.input(0)?, cx.input(1)?);
        let (geometry, shape) = geometry(cx.attrs(), x.shape(), w.shape())?;
        let bias = channel_bias(cx, shape[1])?;
        let kernel = Forward(geometry);
        let y = with_real!(x.dtype(), "Conv", T => {
            plain::run::<T, _>(cx, &kernel, &shape, Arrange::default(), bias, (1.0, 1.0))
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let Some(typed) = Typed::of(cx, 0)? else { return Ok(None) };
        let (geometry, shape) = geometry(cx.attrs(), cx.input(0)?.shape(), cx.input(1)?.shape())?;
        let bias = channel_bias(cx, shape[1])?;
        Ok(Some(vec![typed.run(&Forward(geometry), &shape, Arrange::default(), bias)?]))
    }

    fn macs(&self, node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> u64 {
        macs(node, inputs, outputs).unwrap_or(0)
    }

    fn cases(&self) -> Vec<Case> {
        cases().unwrap_or_default()
    }
}

fn macs(_node: &Node, inputs: &[Option<&TensorType>], outputs: &[&TensorType]) -> Option<u64> {
    let weight = inputs.get(1).copied().flatten()?.shape.known()?;
    let per_output = weight.iter().skip(1).try_fold(1u64, |n, &d| n.checked_mul(d as u64))?;
    per_output.checked_mul(outputs.first()?.shape.elements()? as u64)
}

fn cases() -> Result<Vec<Case>> {
    let node = |pads: &[i64]| {
        let mut node = Node::new("conv", "Conv", 22);
        node.attrs.set("pads", Attr::Ints(pads.to_vec()));
        node
    };
    let float = Case {
        name: "c1_padded_taps_are_skipped",
        node: node(&[1, 0]),
        inputs: vec![
            Some(CaseInput::plain(Tensor::from_slice(&[1, 1, 3], &[1.0f32, 2.0, 3.0])?)),
            Some(CaseInput::plain(Tensor::from_slice(&[2, 1, 2], &[10.0f32, 1.0, 0.5, f32::INFINITY])?).constant()),
            Some(CaseInput::plain(Tensor::from_slice(&[2], &[0.5f32, 0.0])?).constant()),
        ],
        outputs: vec![(
            Tensor::from_slice(&[1, 2, 3], &[1.5f32, 12.5, 23.5, f32::INFINITY, f32::INFINITY, f32::INFINITY])?,
            None,
        )],
    };
    // Input zero point 10: the padded tap contributes 0, not the byte 0. Channel 0 doubles the scale of channel 1.
    let mut quantized = node(&[1, 0]);
    quantized.requant = Some(RequantMode::Fp32Rne);
    let typed = Case {
        name: "c2_padding_is_zero_point",
        node: quantized,
        inputs: vec![
            Some(CaseInput::quantized(
                Tensor::from_slice(&[1, 1, 3], &[11u8, 12, 13])?,
                QuantParams::per_tensor(0.5, 10),
            )),
            Some(
                CaseInput::quantized(
                    Tensor::from_slice(&[2, 1, 2], &[10i8, 1, 10, 1])?,
                    QuantParams::per_axis_symmetric(0, vec![1.0, 0.5]),
                )
                .constant(),
            ),
            Some(CaseInput::plain(Tensor::from_slice(&[2], &[0i32, 100])?).constant()),
        ],
        // Sums 1, 12, 23 (+100); multipliers 0.5 and 0.25; ties go to even.
        outputs: vec![(
            Tensor::from_slice(&[1, 2, 3], &[3u8, 9, 15, 28, 31, 34])?,
            Some(QuantParams::per_tensor(1.0, 3)),
        )],
    };
    Ok(vec![float, typed])
}

#[cfg(test)]
mod tests {
    use super::super::typed::own_inputs;
    use super::*;

    #[test]
    fn conv_c2_residual_is_not_a_bias() {
        let mut node = Node::new("c", "Conv", 22);
        node.fused.residual = true;
        let x = Tensor::from_slice(&[1, 1, 2], &[1.0f32, 2.0]).unwrap();
        let w = Tensor::from_slice(&[1, 1, 1], &[3.0f32]).unwrap();
        let r = Tensor::from_slice(&[1, 1, 2], &[10.0f32, 20.0]).unwrap();
        let types: Vec<TensorType> = [&x, &w, &r].iter().map(|t| t.ty()).collect();
        let in_types: Vec<Option<&TensorType>> = types.iter().map(Some).collect();
        let inputs = [Some(&x), Some(&w), Some(&r)];
        let cx = EvalCx { node: &node, inputs: &inputs, in_types: &in_types, out_types: &[&types[0]] };
        assert_eq!(own_inputs(&cx), 2);
        assert_eq!(crate::evaluate(&cx).unwrap()[0].as_slice::<f32>().unwrap(), [13.0, 26.0]);
    }

    #[test]
    fn a_kernel_larger_than_the_padded_input_is_an_error() {
        let e = geometry(&Attrs::default(), &[1, 1, 2], &[1, 1, 3]).unwrap_err();
        assert!(e.to_string().contains("does not fit"), "{e}");
        assert!(geometry(&Attrs::default().with("group", Attr::Int(0)), &[1, 1, 2], &[1, 1, 1]).is_err());
    }
}
