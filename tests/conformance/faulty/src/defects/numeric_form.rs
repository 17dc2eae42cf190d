//! Groups G.6 and G.7: tables, integer forms, fusions.

use super::Defect;
use super::numeric::{Op, PRODUCTS, is, with};
use ottava_hal::{Attr, DataType, QuantParams, Result, Tensor, TensorType};
use ottava_ops::{EvalCx, evaluate};

const BYTES: &str = "num.lut.bytes";
const SOFTMAX: &str = "num.lut.softmax";
const NORM: &str = "num.lut.layer_norm";
const RESIDUAL: &str = "num.fusion.residual";

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("lut_index_unsigned", "G.6", BYTES, "every s8", |b| {
        b.node = |cx| with(cx, &["Lut"], |op| entries(op, |t| t.rotate_left(t.len() / 2)));
    }),
    Defect::new("lut_off_by_one", "G.6", BYTES, "every", |b| {
        b.node = |cx| with(cx, &["Lut"], |op| entries(op, |t| t.rotate_left(1)));
    }),
    Defect::new("lut_last_entry", "G.6", BYTES, "every", |b| {
        b.node = |cx| with(cx, &["Lut"], |op| entries(op, |t| t[255] = t[254]));
    }),
    Defect::new("lut16_steps", "G.6", "num.lut.words", "segment", |b| b.node = steps),
    Defect::new("function_of_bits", "G.6", "num.lut.functions", "every byte", |b| {
        b.node = |cx| {
            with(cx, &["Sigmoid", "Tanh", "Gelu"], |op| op.params(0).into_iter().for_each(|q| q.zero_points[0] = 0))
        };
    }),
    Defect::new("softmax_without_maximum", "G.6", SOFTMAX, "scale", |b| b.node = no_maximum),
    Defect::new("softmax_last_axis", "G.6", SOFTMAX, "axis", |b| {
        b.node = |cx| with(cx, &["Softmax"], |op| op.node.attrs.set("axis", Attr::Int(-1)));
    }),
    Defect::new("softmax_of_255", "G.6", SOFTMAX, "scale", |b| {
        b.node = |cx| with(cx, &["Softmax"], |op| scale_of(op, 1.0 / 255.0));
    }),
    Defect::new("epsilon_missing", "G.6", NORM, "epsilon is 0", |b| {
        b.node = |cx| with(cx, &["LayerNormalization"], |op| op.node.attrs.set("epsilon", Attr::Float(0.0)));
    }),
    Defect::new("norm_without_beta", "G.6", NORM, "LayerNormalization", |b| {
        b.node = |cx| with(cx, &["LayerNormalization"], |op| op.bytes(2, |b| b.fill(0)));
    }),
    Defect::new("rms_minus_mean", "G.6", NORM, "RMSNormalization", |b| {
        b.node = |cx| with(cx, &["RMSNormalization"], |op| op.node.op = "LayerNormalization".into());
    }),
    Defect::new("clamp_missing", "G.7", "num.fusion.clamp", "clamp is not applied", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| op.node.fused.clamp = None);
    }),
    Defect::new("clamp_before_zero_point", "G.7", "num.fusion.clamp", "before the zero point", |b| {
        b.node = early_clamp
    }),
    Defect::new("activation_missing", "G.7", "num.fusion.activation", "activation is not applied", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| op.node.fused.act = None);
    }),
    Defect::new("residual_dropped", "G.7", RESIDUAL, "residual is not added", |b| {
        b.node = |cx| with(cx, PRODUCTS, |op| last_input(op, |zp, bytes| bytes.fill(zp as u8)));
    }),
    Defect::new("residual_without_zero_point", "G.7", RESIDUAL, "fused residual", |b| {
        b.node = |cx| with(cx, PRODUCTS, raw_residual)
    }),
    Defect::new("residual_after_activation", "G.7", RESIDUAL, "fused residual", |b| b.node = |cx| apart(cx, false)),
    Defect::new("residual_rounds_twice", "G.7", RESIDUAL, "by one", |b| b.node = |cx| apart(cx, true)),
];

/// Another scale of the result.
fn scale_of(op: &mut Op, scale: f32) {
    if let Some(quant) = op.out_types[0].quant.as_mut() {
        std::sync::Arc::make_mut(quant).scales[0] = scale;
    }
}

/// Changes the entries of a table of bytes.
fn entries(op: &mut Op, change: impl FnOnce(&mut [u8])) {
    if op.inputs[1].as_ref().is_some_and(|t| t.dtype().bits() == 8) {
        op.bytes(1, change);
    }
}

/// A table of 16 bits without the straight lines between its entries.
fn steps(cx: &EvalCx) -> Result<Vec<Tensor>> {
    with(cx, &["Lut"], |op| {
        if let Some(Ok(x)) =
            op.inputs[0].as_mut().filter(|x| x.dtype() == DataType::S16).map(Tensor::as_slice_mut::<i16>)
        {
            x.iter_mut().for_each(|v| *v &= !127);
        }
    })
}

/// `exp` of the numbers themselves, in f32: what is large overflows.
fn no_maximum(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let (Some(from), Some(to)) = (cx.in_quant(0), cx.out_quant(0)) else { return evaluate(cx) };
    let last = cx.input(0)?.shape().last().copied().unwrap_or(1);
    if !is(cx, &["Softmax"]) || cx.attrs().int("axis", -1)? != -1 {
        return evaluate(cx);
    }
    let x = ottava_ops::dequantize(cx.input(0)?, from)?;
    let mut powers: Vec<f32> = x.to_f32s()?.iter().map(|v| v.exp()).collect();
    for row in powers.chunks_exact_mut(last) {
        let sum: f32 = row.iter().sum();
        row.iter_mut().for_each(|v| *v /= sum);
    }
    let y = Tensor::from_f32s(DataType::F32, x.shape(), &powers)?;
    Ok(vec![ottava_ops::quantize(&y, cx.out_dtype(0).unwrap_or(DataType::S8), to)?])
}

/// The bounds are applied to what the zero point is added to afterwards.
fn early_clamp(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let zp = cx.out_quant(0).map_or(0, |q| q.zero_points[0]);
    with(cx, PRODUCTS, |op| {
        let moved = |v: i32| v.saturating_add(zp).clamp(-128, 127);
        op.node.fused.clamp = op.node.fused.clamp.map(|(lo, hi)| (moved(lo), moved(hi)));
    })
}

/// Changes the residual's bytes; its zero point is known.
fn last_input(op: &mut Op, change: impl FnOnce(i32, &mut [u8])) {
    let last = op.inputs.len() - 1;
    let zp = op.params(last).map_or(0, |q| q.zero_points[0]);
    if op.node.fused.residual && op.inputs[last].as_ref().is_some_and(|t| t.dtype().bits() == 8) {
        op.bytes(last, |bytes| change(zp, bytes));
    }
}

fn raw_residual(op: &mut Op) {
    let last = op.inputs.len() - 1;
    if op.node.fused.residual {
        op.params(last).into_iter().for_each(|q| q.zero_points[0] = 0);
    }
}

/// The product first, as a result of its own: real, its activation in front of the sum, or rounded in front of it.
fn apart(cx: &EvalCx, rounds: bool) -> Result<Vec<Tensor>> {
    let (true, Some(to)) = (cx.node.fused.residual && is(cx, PRODUCTS), cx.out_quant(0)) else { return evaluate(cx) };
    let mut op = Op::of(cx);
    let last = op.inputs.len() - 1;
    let (Some(other), Some(params)) = (op.inputs.pop().flatten(), cx.in_quant(last)) else { return evaluate(cx) };
    op.in_types.pop();
    let act = if rounds { op.node.fused.act.take() } else { None };
    op.node.fused.residual = false;
    let ty = op.out_types[0].clone();
    op.out_types[0] = TensorType { dtype: DataType::F32, quant: None, ..ty };
    op.node.requant = None;
    let mut y = op.eval()?.swap_remove(0);
    if rounds {
        y = ottava_ops::dequantize(&ottava_ops::quantize(&y, DataType::S8, &finer(to))?, &finer(to))?;
    }
    let other = ottava_ops::dequantize(&other, params)?.to_f32s()?;
    for (v, o) in y.as_slice_mut::<f32>()?.iter_mut().zip(other) {
        *v = act.map_or(*v + o, |a| a.apply(*v + o));
    }
    Ok(vec![ottava_ops::quantize(&y, cx.out_dtype(0).unwrap_or(DataType::S8), to)?])
}

/// Parameters of the rounded product: the same scale, symmetric.
fn finer(to: &QuantParams) -> QuantParams {
    QuantParams::per_tensor(to.scales[0], 0)
}
