//! `QuantizeLinear`, `DequantizeLinear`, `DynamicQuantizeLinear` with scales as inputs (numerics.md section 2).
//!
//! * (C1) Quantize: `t = fl32(x / scale)`, `y = sat(rne(t) + zp)`; NaN gives the least value.
//! * (C2) The quotient is rounded to the type of the scale, or to `precision`.
//! * (C3) The output type is that of the zero point, or `output_dtype`, or u8.
//! * (C4) Dequantize: `fl32((q - zp) * scale)`, then one rounding to the type of the scale or `output_dtype`.
//! * (C5) Parameters are per tensor, per index of `axis` (default 1), or per block of `block_size` along it.
//! * (C6) The dynamic form takes its range from the finite elements, widened to 0.

use super::params::from_tensors;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::util::{axis, onnx_dtype};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, dequantize, quant};
use ottava_hal::refmath::quantize::{Precision, Target, dynamic_params_u8, quantize, quantize_f32};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, QuantParams, Reason, Result, Scheme, Tensor, TensorType};

/// Real to integer.
pub struct QuantizeLinear;
/// Integer to real.
pub struct DequantizeLinear;
/// Real to u8 with parameters from the data.
pub struct DynamicQuantizeLinear;

static QUANTIZE: OpSpec = OpSpec {
    name: "QuantizeLinear",
    domain: "",
    since: 10,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("axis", AttrKind::Int),
        AttrSpec::optional("block_size", AttrKind::Int),
        AttrSpec::optional("output_dtype", AttrKind::Int),
        AttrSpec::optional("precision", AttrKind::Int),
        AttrSpec::optional("saturate", AttrKind::Int),
    ],
};

static DEQUANTIZE: OpSpec = OpSpec {
    name: "DequantizeLinear",
    domain: "",
    since: 10,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[
        AttrSpec::optional("axis", AttrKind::Int),
        AttrSpec::optional("block_size", AttrKind::Int),
        AttrSpec::optional("output_dtype", AttrKind::Int),
    ],
};

static DYNAMIC: OpSpec =
    OpSpec { name: "DynamicQuantizeLinear", domain: "", since: 11, inputs: (1, 1), outputs: (3, 3), attrs: &[] };

/// (C5) Which elements of a tensor of shape `x` share an entry of a scale of shape `scale`.
pub(crate) fn scheme(attrs: &Attrs, x: &[usize], scale: &[usize]) -> Result<Scheme> {
    let block = attrs.int("block_size", 0)?;
    if scale.iter().product::<usize>() == 1 && block == 0 && scale.len() <= 1 {
        return Ok(Scheme::PerTensor);
    }
    let at = axis(attrs.int("axis", 1)?, x.len())?;
    if block == 0 {
        if scale.len() == 1 && scale[0] == x[at] {
            return Ok(Scheme::PerAxis { axis: at });
        }
        return Err(Error::invalid(format!("a scale of shape {scale:?} fits neither {x:?} nor its axis {at}")));
    }
    let block = usize::try_from(block).map_err(|_| Error::invalid(format!("block_size is {block}, expected >= 0")))?;
    let mut expected = x.to_vec();
    expected[at] = x[at].div_ceil(block);
    if expected != scale {
        return Err(Error::invalid(format!("a scale of shape {scale:?} for blocks of {block}, expected {expected:?}")));
    }
    Ok(Scheme::Blocked { axis: at, block })
}

/// An element type attribute; absent or 0 is none.
fn dtype_attr(attrs: &Attrs, name: &str) -> Result<Option<DataType>> {
    match attrs.int(name, 0)? {
        0 => Ok(None),
        code => onnx_dtype(code).map(Some),
    }
}

/// (C3)
fn quantized_dtype(attrs: &Attrs, zero_point: Option<DataType>) -> Result<DataType> {
    let wanted = dtype_attr(attrs, "output_dtype")?;
    let dtype = match (zero_point, wanted) {
        (Some(z), Some(w)) if z != w => {
            return Err(Error::invalid(format!("QuantizeLinear: output_dtype is {w}, the zero point {z}")));
        }
        (Some(t), _) | (None, Some(t)) => t,
        (None, None) => DataType::U8,
    };
    if dtype.storage_range().is_none() || dtype == DataType::S32 {
        let what = format!("QuantizeLinear to {dtype}; integers of 4, 8 and 16 bits are supported");
        return Err(Error::unsupported(Reason::Dtype, what));
    }
    Ok(dtype)
}

/// (C2)
fn precision(attrs: &Attrs, scale: DataType) -> Result<Precision> {
    match dtype_attr(attrs, "precision")?.unwrap_or(scale) {
        DataType::F16 => Ok(Precision::F16),
        DataType::BF16 => Ok(Precision::Bf16),
        DataType::F32 => Ok(Precision::F32),
        other => Err(Error::unsupported(Reason::Dtype, format!("QuantizeLinear with precision {other}"))),
    }
}

/// Scales are floats; constant ones are checked here, before anything is computed with them.
fn expect_float_scale(cx: &InferCx) -> Result<()> {
    let dtype = cx.dtype(1)?;
    if !dtype.is_float() {
        return Err(Error::invalid(format!("the scale is of type {dtype}, expected a float type")));
    }
    let constant = cx.input(1)?.constant.map(Tensor::to_f32s).transpose()?.unwrap_or_default();
    match constant.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        Some(s) => Err(Error::invalid(format!("a scale is {s}, expected finite numbers greater than 0"))),
        None => Ok(()),
    }
}

impl Op for QuantizeLinear {
    fn spec(&self) -> &'static OpSpec {
        &QUANTIZE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = quantized_dtype(cx.attrs(), cx.opt(2).map(|z| z.ty.dtype))?;
        expect_float_scale(cx)?;
        Ok(vec![cx.ty(dtype, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, scale) = (cx.input(0)?, cx.input(1)?);
        let dtype = quantized_dtype(cx.attrs(), cx.opt(2).map(Tensor::dtype))?;
        let scheme = scheme(cx.attrs(), x.shape(), scale.shape())?;
        let params = from_tensors(scale, cx.opt(2), dtype, scheme)?;
        let precision = precision(cx.attrs(), scale.dtype())?;
        let (lo, hi) = dtype.storage_range().ok_or_else(|| Error::invalid("the output is no storage type"))?;
        let index = quant::channel_index(&params, x.shape());
        let one = |(i, &v): (usize, &f32)| {
            let c = index.of(i);
            let target = Target { scale: params.scales[c], zp: params.zero_points[c], lo, hi };
            i64::from(quantize(v, target, precision))
        };
        let y: Vec<i64> = x.to_f32s()?.iter().enumerate().map(one).collect();
        Ok(vec![Tensor::from_ints(dtype, x.shape(), &y)?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |axis| {
            let mut node = Node::new("q", "QuantizeLinear", 21);
            node.attrs.set("axis", Attr::Int(axis));
            node
        };
        let x = f32s(&[7], &[0.5, 1.5, 2.5, 1e10, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
        let (unit, zero) = (f32s(&[], &[1.0]), ints(DataType::S8, &[], &[1]));
        let y = ints(DataType::S8, &[7], &[1, 3, 3, 127, 127, -128, -128]);
        let axis_x = f32s(&[2, 2], &[1.0, 2.0, 1.0, 2.0]);
        let scales = f32s(&[2], &[0.5, 0.25]);
        let axis_y = ints(DataType::U8, &[2, 2], &[2, 4, 4, 8]);
        vec![
            case_const("c1_ties_and_saturation", node(1), 1, &[x, unit, zero], &[y]),
            case_const("c5_per_axis", node(0), 1, &[axis_x, scales], &[axis_y]),
        ]
    }
}

impl Op for DequantizeLinear {
    fn spec(&self) -> &'static OpSpec {
        &DEQUANTIZE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = dtype_attr(cx.attrs(), "output_dtype")?.unwrap_or(cx.dtype(1)?);
        expect_float_scale(cx)?;
        Ok(vec![cx.ty(dtype, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, scale) = (cx.input(0)?, cx.input(1)?);
        let scheme = scheme(cx.attrs(), x.shape(), scale.shape())?;
        let params = from_tensors(scale, cx.opt(2), x.dtype(), scheme)?;
        let dtype = dtype_attr(cx.attrs(), "output_dtype")?.unwrap_or(scale.dtype());
        let y = dequantize(x, &params)?;
        Ok(vec![if dtype == DataType::F32 { y } else { Tensor::from_f32s(dtype, x.shape(), &y.to_f32s()?)? }])
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("dq", "DequantizeLinear", 21);
        node.attrs = Attrs::default().with("axis", Attr::Int(0)).with("block_size", Attr::Int(2));
        let x = ints(DataType::S4, &[3], &[-8, 7, 1]);
        let (scale, zero) = (f32s(&[2], &[0.5, 2.0]), ints(DataType::S4, &[2], &[0, -1]));
        let y = f32s(&[3], &[-4.0, 3.5, 4.0]);
        vec![case_const("c5_blocks_of_nibbles", node, 1, &[x, scale, zero], &[y])]
    }
}

impl Op for DynamicQuantizeLinear {
    fn spec(&self) -> &'static OpSpec {
        &DYNAMIC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let y = cx.ty(DataType::U8, cx.shape(0)?.to_vec());
        Ok(vec![y, cx.ty(DataType::F32, vec![]), cx.ty(DataType::U8, vec![])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let (y, params) = dynamic_quantize(x)?;
        let (scale, zp) = params.channel(0);
        Ok(vec![y, Tensor::scalar(scale), Tensor::scalar(zp as u8)])
    }

    fn cases(&self) -> Vec<Case> {
        let case = |name, x: &[f32], y: &[i64], scale, zp| Case {
            name,
            node: Node::new("dyn", "DynamicQuantizeLinear", 11),
            inputs: vec![Some(CaseInput::plain(f32s(&[x.len()], x)))],
            outputs: vec![
                (ints(DataType::U8, &[x.len()], y), None),
                (f32s(&[], &[scale]), None),
                (ints(DataType::U8, &[], &[zp]), None),
            ],
        };
        vec![
            case("c6_range_includes_zero", &[2.55, 1.275], &[255, 128], 2.55f32 / 255.0, 0),
            case("c6_all_zero", &[0.0, 0.0], &[0, 0], 1.0, 0),
        ]
    }
}

/// (C6) The u8 form of a tensor and its parameters.
pub(crate) fn dynamic_quantize(x: &Tensor) -> Result<(Tensor, QuantParams)> {
    let data = x.to_f32s()?;
    let p = dynamic_params_u8(&data);
    let bytes: Vec<u8> = data.iter().map(|&v| quantize_f32(v, p.scale, p.zp, 0, 255) as u8).collect();
    Ok((Tensor::from_slice(x.shape(), &bytes)?, QuantParams::per_tensor(p.scale, p.zp)))
}
