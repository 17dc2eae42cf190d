//! Ottava's own bridges, whose parameters are in the types of their values: `Quantize`, `Dequantize`, `Requantize`, and
//! the table lookup `Lut`.
//!
//! * (C1) Quantize and Dequantize are those of numerics.md section 2.
//! * (C2) Requantize is the Concat row of section 4; equal parameters copy.
//! * (C3) Lut: input 1 holds 256 entries; entry `i` belongs to the byte `i` of the input. For s16 it holds 513.
//! * (C4) In a Q31 mode Quantize rounds half away from zero and Requantize uses a Q31 multiplier, as TFLite does.

use super::lut;
use crate::elementwise::binary::fixed_mode;
use crate::elementwise::sample::{f32s, ints, quant_case};
use crate::{Case, CaseInput, EvalCx, InferCx, OTTAVA, Op, OpSpec, QuantRule, dequantize, quantize, requantize};
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::refmath::tflite::{TfliteRequant, tflite_quantize};
use ottava_hal::{DataType, Error, Node, QuantParams, RequantMode, Result, Tensor, TensorType};

#[derive(Clone, Copy)]
enum Kind {
    Quantize,
    Dequantize,
    Requantize,
    Lut,
}

/// A change of representation.
pub struct Bridge {
    spec: OpSpec,
    kind: Kind,
}

const fn bridge(name: &'static str, kind: Kind, n: usize) -> Bridge {
    Bridge { spec: OpSpec { name, domain: OTTAVA, since: 1, inputs: (n, n), outputs: (1, 1), attrs: &[] }, kind }
}

/// Real to integer.
pub static QUANTIZE: Bridge = bridge("Quantize", Kind::Quantize, 1);
/// Integer to real.
pub static DEQUANTIZE: Bridge = bridge("Dequantize", Kind::Dequantize, 1);
/// Integer to integer.
pub static REQUANTIZE: Bridge = bridge("Requantize", Kind::Requantize, 1);
/// Byte to integer by a table.
pub static LUT: Bridge = bridge("Lut", Kind::Lut, 2);

/// (C4) Real to integer.
fn rounded_away(x: &Tensor, dtype: DataType, to: &QuantParams) -> Result<Tensor> {
    let to = target(dtype, to)?;
    let real = x.to_f32s()?;
    let ints = Tensor::collect(real.iter().map(|v| i64::from(tflite_quantize(*v, to))))?;
    Tensor::from_ints(dtype, x.shape(), &ints)
}

/// (C4) Integer to integer.
fn rescaled(x: &Tensor, from: &QuantParams, dtype: DataType, to: &QuantParams, mode: RequantMode) -> Result<Tensor> {
    let (to, (scale, zp)) = (target(dtype, to)?, one_scale(from)?);
    let requant = TfliteRequant::new(mode, Affine { scale, zp }, to).map_err(|e| Error::invalid(e.to_string()))?;
    let ints = x.to_ints()?;
    let ints = Tensor::collect(ints.iter().map(|v| i64::from(requant.apply(*v as i32))))?;
    Tensor::from_ints(dtype, x.shape(), &ints)
}

fn one_scale(params: &QuantParams) -> Result<(f32, i32)> {
    params.as_per_tensor().ok_or_else(|| Error::invalid("a change of parameters in a Q31 mode needs one scale"))
}

fn target(dtype: DataType, params: &QuantParams) -> Result<Target> {
    let (scale, zp) = one_scale(params)?;
    let (lo, hi) = dtype.storage_range().ok_or_else(|| Error::invalid(format!("{dtype} is no storage")))?;
    Ok(Target { scale, zp, lo, hi })
}

impl Op for Bridge {
    fn spec(&self) -> &'static OpSpec {
        match self.kind {
            Kind::Quantize => &QUANTIZE.spec,
            Kind::Dequantize => &DEQUANTIZE.spec,
            Kind::Requantize => &REQUANTIZE.spec,
            Kind::Lut => &LUT.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = match self.kind {
            Kind::Quantize => DataType::U8,
            Kind::Dequantize => DataType::F32,
            Kind::Requantize => cx.dtype(0)?,
            Kind::Lut => cx.dtype(1)?,
        };
        Ok(vec![cx.ty(dtype, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        if let Kind::Lut = self.kind {
            return Ok(vec![lut::apply(cx.input(0)?, cx.input(1)?)?]);
        }
        Err(Error::invalid(format!("{}: no value is quantized, so there is nothing to convert", cx.node.full_op())))
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let x = cx.input(0)?;
        let missing = |what: &str| Error::invalid(format!("{}: the {what} is not quantized", cx.node.full_op()));
        let from = || cx.in_quant(0).ok_or_else(|| missing("input"));
        let to = || cx.out_quant(0).zip(cx.out_dtype(0)).ok_or_else(|| missing("output"));
        let y = match self.kind {
            Kind::Quantize => {
                let (params, dtype) = to()?;
                match fixed_mode(cx.node) {
                    Some(_) => rounded_away(x, dtype, params)?,
                    None => quantize(x, dtype, params)?,
                }
            }
            Kind::Dequantize => {
                let y = dequantize(x, from()?)?;
                match cx.out_dtype(0) {
                    Some(dtype) if dtype != DataType::F32 => Tensor::from_f32s(dtype, x.shape(), &y.to_f32s()?)?,
                    _ => y,
                }
            }
            Kind::Requantize => {
                let (params, dtype) = to()?;
                match fixed_mode(cx.node) {
                    Some(mode) => rescaled(x, from()?, dtype, params, mode)?,
                    None => requantize(x, from()?, dtype, params)?,
                }
            }
            Kind::Lut => lut::apply(x, cx.input(1)?)?,
        };
        Ok(Some(vec![y]))
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("bridge", self.spec.name, 1);
        node.domain = OTTAVA.into();
        let real = f32s(&[3], &[-0.5, 0.25, 1.0]);
        let bytes = ints(DataType::U8, &[3], &[8, 11, 14]);
        let quant = QuantParams::per_tensor(0.25, 10);
        match self.kind {
            Kind::Quantize => vec![Case {
                name: "c1_quantize",
                node,
                inputs: vec![Some(CaseInput::plain(real))],
                outputs: vec![(ints(DataType::U8, &[3], &[8, 11, 14]), Some(quant))],
            }],
            Kind::Dequantize => vec![Case {
                name: "c1_dequantize",
                node,
                inputs: vec![Some(CaseInput::quantized(bytes, quant))],
                outputs: vec![(real, None)],
            }],
            Kind::Requantize => {
                // -0.5, 0.25, 1.0 at scale 0.5: -1, 0.5 (to even), 2.
                let y = ints(DataType::S8, &[3], &[-1, 0, 2]);
                vec![quant_case("c2_requantize", node, &[(bytes, 0.25, 10)], (y, 0.5, 0))]
            }
            Kind::Lut => {
                let table: Vec<i64> = (0..256).map(|i| 255 - i).collect();
                let table = CaseInput::plain(ints(DataType::U8, &[256], &table)).constant();
                vec![Case {
                    name: "c3_entry_of_the_byte",
                    node,
                    inputs: vec![
                        Some(CaseInput::quantized(
                            ints(DataType::S8, &[3], &[0, -1, 1]),
                            QuantParams::per_tensor(0.1, 0),
                        )),
                        Some(table),
                    ],
                    outputs: vec![(ints(DataType::U8, &[3], &[255, 0, 254]), Some(QuantParams::per_tensor(0.1, 0)))],
                }]
            }
        }
    }
}
