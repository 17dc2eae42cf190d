//! Groups G.2 and G.3: rounding, rescaling, saturation.

use super::Defect;
use super::numeric::{Op, PRODUCTS, Sum, as_f16, is, rescaled, with};
use ottava_hal::{DataType, RequantMode, Result, Tensor};
use ottava_ops::{EvalCx, evaluate};

const RNE: &[RequantMode] = &[RequantMode::Fp32Rne];
const FIXED: &[RequantMode] = &[RequantMode::Q31Double, RequantMode::Q31Single];
const ALL: &[RequantMode] = &[RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];
const TIES: &str = "num.rounding.ties.fp32_rne";
const FULL: &str = "num.saturation.full_scale";
const WIDE: &str = "num.saturation.sums_of_32_bits";
const RESULTS: &str = "num.saturation.results";

pub(super) static DEFECTS: &[Defect] = &[
    Defect::new("half_away_from_zero", "G.3", TIES, "half is rounded away", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| s.real().round() + s.zp);
    }),
    Defect::new("half_up", "G.3", TIES, "half is rounded up", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| (s.real() + 0.5).floor() + s.zp);
    }),
    Defect::new("rounds_down", "G.3", TIES, "always rounded down", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| s.real().floor() + s.zp);
    }),
    Defect::new("zero_point_before_rounding", "G.3", TIES, "added before rounding", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| (s.real() + s.zp).round_ties_even());
    }),
    Defect::new("double_instead_of_single", "G.3", "num.rounding.twice.q31_single", "mode q31_double", |b| {
        b.node = |cx| in_mode(cx, RequantMode::Q31Single, RequantMode::Q31Double);
    }),
    Defect::new("mode_ignored", "G.3", "num.rounding.product_of_scales.q31_double", "by one", |b| {
        b.node = |cx| in_mode(cx, RequantMode::Q31Double, RequantMode::Fp32Rne);
    }),
    Defect::new("shift_truncates", "G.3", "num.rounding.ties.q31_double", "by one", |b| {
        b.node = |cx| rescaled(cx, FIXED, true, |s| (s.acc * f64::from(s.m)).floor() + s.zp);
    }),
    Defect::new("multiplier_f16", "G.2", "num.saturation.scales", "accumulator", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| (s.acc * f64::from(as_f16(s.m))).round_ties_even() + s.zp);
    }),
    Defect::new("exact_product", "G.3", "num.rounding.product_of_scales.fp32_rne", "585", |b| {
        // The multiplier has more bits than f32, as the real product of the scales.
        b.node = |cx| rescaled(cx, RNE, true, |s| (s.acc * (f64::from(s.m) + 1e-9)).round_ties_even() + s.zp);
    }),
    Defect::new("reciprocal", "G.3", "num.rounding.quantize", "by one", |b| b.node = reciprocal),
    Defect::new("nan_is_zero", "G.3", "num.rounding.quantize", "saturate", |b| {
        b.node = |cx| with(cx, &["Quantize"], |op| real(op, |v| if v.is_nan() { 0.0 } else { v }));
    }),
    Defect::new("quantize_wraps", "G.3", "num.rounding.quantize", "saturate", |b| {
        b.node = |cx| with(cx, &["Quantize"], |op| real(op, |v| if v > 1e9 { -v } else { v }));
    }),
    Defect::new("requantize_copies", "G.3", "num.rounding.requantize", "Requantize", |b| {
        b.node = |cx| if is(cx, &["Requantize"]) { Ok(vec![cx.input(0)?.clone()]) } else { evaluate(cx) };
    }),
    Defect::new("before_round_ignored", "G.3", "num.rounding.zero_point_before", "other side of rounding", |b| {
        b.node = |cx| with(cx, &["Add", "Mul"], |op| op.node.fused.zp_before_round = false);
    }),
    Defect::new("mean_rounds_down", "G.3", "num.rounding.means", "by one", |b| b.node = mean_rounds_down),
    Defect::new("no_saturation", "G.2", RESULTS, "saturation is missing", |b| {
        b.node = |cx| rescaled(cx, RNE, false, |s| s.real().round_ties_even() + s.zp);
    }),
    Defect::new("upper_end_of_s8", "G.2", RESULTS, "u8", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| (s.real().round_ties_even() + s.zp).min(127.0));
    }),
    Defect::new("saturates_before_zero_point", "G.2", RESULTS, "accumulator", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| s.real().round_ties_even().clamp(-128.0, 127.0) + s.zp);
    }),
    Defect::new("pairs_saturate_at_16_bits", "G.2", FULL, "accumulator", |b| b.node = pairs),
    Defect::new("sum_of_16_bits", "G.2", FULL, "wraps at 16 bits", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| half(s, (s.acc as i64 as i16).into()));
    }),
    Defect::new("sum_of_24_bits", "G.2", FULL, "accumulator", |b| {
        b.node = |cx| rescaled(cx, RNE, true, |s| half(s, ((((s.acc as i64) << 40) >> 40) as i32).into()));
    }),
    Defect::new("sum_saturates_at_2_30", "G.2", WIDE, "near 2^31", |b| {
        b.node = |cx| rescaled(cx, ALL, true, |s| half(s, s.acc.clamp(-1_073_741_824.0, 1_073_741_823.0)));
    }),
    Defect::new("u8_is_s8", "G.2", FULL, "255 times", |b| b.node = |cx| with(cx, PRODUCTS, signed)),
    Defect::new("weight_of_minus_128", "G.2", FULL, "-128", |b| {
        b.node = |cx| {
            with(cx, PRODUCTS, |op| op.bytes(1, |w| w.iter_mut().for_each(|v| *v = if *v == 128 { 129 } else { *v })))
        };
    }),
];

fn half(sum: &Sum, acc: f64) -> f64 {
    (f64::from(acc as f32 * sum.m)).round_ties_even() + sum.zp
}

fn in_mode(cx: &EvalCx, from: RequantMode, to: RequantMode) -> Result<Vec<Tensor>> {
    with(cx, PRODUCTS, |op| {
        if op.node.requant == Some(from) {
            op.node.requant = Some(to);
        }
    })
}

/// Changes the f32 numbers of the first input.
fn real(op: &mut Op, change: impl Fn(f32) -> f32) {
    if let Some(Ok(values)) = op.inputs[0].as_mut().map(Tensor::as_slice_mut::<f32>) {
        values.iter_mut().for_each(|v| *v = change(*v));
    }
}

/// Quantize multiplies by `1 / scale`.
fn reciprocal(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let scale = cx.out_quant(0).map_or(1.0, |q| q.scales[0]);
    with(cx, &["Quantize"], |op| {
        real(op, |v| v * (1.0 / scale));
        op.out_types[0].quant.as_mut().map(std::sync::Arc::make_mut).into_iter().for_each(|q| q.scales[0] = 1.0);
    })
}

/// The means of a scale twice as fine, halved without rounding.
fn mean_rounds_down(cx: &EvalCx) -> Result<Vec<Tensor>> {
    let means = ["GlobalAveragePool", "AveragePool", "ReduceMean"];
    let right = evaluate(cx)?;
    if !is(cx, &means) || cx.out_quant(0).is_none() {
        return Ok(right);
    }
    let mut op = Op::of(cx);
    op.out_types[0] = ottava_hal::TensorType { dtype: DataType::F32, quant: None, ..op.out_types[0].clone() };
    op.node.requant = None;
    let reals = op.eval()?;
    let (scale, zp) = cx.out_quant(0).map_or((1.0, 0), |q| (q.scales[0], q.zero_points[0]));
    let (lo, hi) = right[0].dtype().int_range().unwrap_or((0, 0));
    let down = |v: f32| ((v / scale).floor() as i64 + i64::from(zp)).clamp(lo, hi);
    let values: Vec<i64> = reals[0].to_f32s()?.into_iter().map(down).collect();
    Ok(vec![Tensor::from_ints(right[0].dtype(), right[0].shape(), &values)?])
}

/// The bytes of u8 are read as s8.
fn signed(op: &mut Op) {
    let Some(Some(x)) = op.inputs.first() else { return };
    if x.dtype() != DataType::U8 {
        return;
    }
    if let Ok(x) = Tensor::from_bytes(DataType::S8, x.shape(), x.bytes()) {
        op.replace(0, x);
        op.params(0).into_iter().for_each(|q| q.zero_points[0] = q.zero_points[0].min(127));
    }
}

/// `vpmaddubsw` without a proof: sums of two products stop at 16 bits.
fn pairs(cx: &EvalCx) -> Result<Vec<Tensor>> {
    if !is(cx, &["Gemm", "MatMul"]) || cx.attrs().int("transB", 0)? != 0 || cx.input(1)?.shape().len() != 2 {
        return evaluate(cx);
    }
    let (x, w) = (cx.input(0)?, cx.input(1)?);
    let (k, n) = (w.shape()[0], w.shape()[1]);
    let (x, w) = (x.to_ints()?, w.to_ints()?);
    let lost = |s: &Sum| -> i64 {
        let (row, column) = (s.at / n, s.at % n);
        let product = |i: usize| if i < k { x[row * k + i] * w[i * n + column] } else { 0 };
        let pair = |i: usize| product(i) + product(i + 1);
        (0..k).step_by(2).map(|i| pair(i) - pair(i).clamp(-32_768, 32_767)).sum()
    };
    rescaled(cx, RNE, true, |s| half(s, s.acc - lost(s) as f64))
}
