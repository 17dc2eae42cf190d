//! Cast and CastLike between any two element types.
//!
//! * (C1) float to integer truncates and saturates, NaN gives 0 (numerics.md section 7); to a nibble it truncates and
//!   wraps, as ONNX's own cases do.
//! * (C2) integer to integer wraps. (C3) to boolean: whether the value is not 0 (NaN is true).
//! * (C4) to a float type: rounded once, to nearest even; overflow is infinite.

use super::number::{Number, with_integer};
use super::sample::{bools, case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use half::{bf16, f16};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Result, Tensor, TensorType};

const OPTIONS: [AttrSpec; 2] =
    [AttrSpec::optional("saturate", AttrKind::Int), AttrSpec::optional("round_mode", AttrKind::Str)];

static CAST: OpSpec = OpSpec {
    name: "Cast",
    domain: "",
    since: 6,
    inputs: (1, 1),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("to", AttrKind::Int), OPTIONS[0], OPTIONS[1]],
};

static CAST_LIKE: OpSpec =
    OpSpec { name: "CastLike", domain: "", since: 15, inputs: (2, 2), outputs: (1, 1), attrs: &OPTIONS };

/// Cast to the type that the attribute `to` names.
pub struct Cast;

impl Op for Cast {
    fn spec(&self) -> &'static OpSpec {
        &CAST
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(target(cx.attrs())?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![cast(cx.input(0)?, target(cx.attrs())?)?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = |to: i64| {
            let mut node = Node::new("cast", "Cast", 13);
            node.attrs = Attrs::default().with("to", Attr::Int(to));
            node
        };
        let x = f32s(&[5], &[1.9, -1.9, 300.0, f32::NAN, -300.0]);
        let wide = ints(DataType::S32, &[3], &[300, -1, 7]);
        let halves = Tensor::from_f32s(DataType::F16, &[2], &[2048.0, f32::INFINITY]).expect("two elements");
        vec![
            case("c1_to_s8", node(3), &[x], &[ints(DataType::S8, &[5], &[1, -1, 127, 0, -128])]),
            case("c2_wraps", node(2), &[wide], &[ints(DataType::U8, &[3], &[44, 255, 7])]),
            case("c3_to_bool", node(9), &[f32s(&[3], &[0.0, -0.5, f32::NAN])], &[bools(&[3], &[false, true, true])]),
            case("c4_to_f16", node(10), &[f32s(&[2], &[2049.0, 1e5])], &[halves]),
        ]
    }
}

/// Cast to the type of the second input.
pub struct CastLike;

impl Op for CastLike {
    fn spec(&self) -> &'static OpSpec {
        &CAST_LIKE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(1)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Ok(vec![cast(cx.input(0)?, cx.input(1)?.dtype())?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("cast", "CastLike", 15);
        let like = ints(DataType::S32, &[], &[0]);
        vec![case("s32", node, &[f32s(&[2], &[1.5, -2.5]), like], &[ints(DataType::S32, &[2], &[1, -2])])]
    }
}

fn target(attrs: &Attrs) -> Result<DataType> {
    let code = attrs.int_opt("to")?.ok_or_else(|| Error::invalid("Cast: attribute `to` is missing"))?;
    util::onnx_dtype(code)
}

/// A tensor converted to another element type.
pub fn cast(x: &Tensor, to: DataType) -> Result<Tensor> {
    if x.dtype() == to {
        return Ok(x.clone());
    }
    match x.dtype() {
        DataType::F32 => from_reals(x.as_slice::<f32>()?.iter().map(|&v| v.into()), x.shape(), to),
        DataType::F64 => from_reals(x.as_slice::<f64>()?.iter().copied(), x.shape(), to),
        DataType::F16 | DataType::BF16 => from_reals(x.to_f32s()?.into_iter().map(f64::from), x.shape(), to),
        DataType::U64 => from_integers(x.as_slice::<u64>()?.iter().map(|&v| v.into()), x.shape(), to),
        _ => from_integers(x.to_ints()?.into_iter().map(i128::from), x.shape(), to),
    }
}

fn from_reals(values: impl Iterator<Item = f64>, shape: &[usize], to: DataType) -> Result<Tensor> {
    match to {
        DataType::Bool => collect(shape, to, values.map(|v| u8::from(v != 0.0))),
        DataType::F16 => collect(shape, to, values.map(|v| f16::from_f32(to_odd(v)))),
        DataType::BF16 => collect(shape, to, values.map(|v| bf16::from_f32(to_odd(v)))),
        DataType::F32 => collect(shape, to, values.map(|v| v as f32)),
        DataType::F64 => collect(shape, to, values),
        DataType::U64 => collect(shape, to, values.map(|v| v as u64)),
        DataType::S64 => collect(shape, to, values.map(|v| v as i64)),
        DataType::S4 | DataType::U4 => from_integers(values.map(|v| (v as i64).into()), shape, to),
        _ => {
            let (lo, hi) = to.int_range().unwrap_or((i64::MIN, i64::MAX));
            // `as` truncates, saturates and maps NaN to 0.
            Tensor::from_ints(to, shape, &values.map(|v| (v as i64).clamp(lo, hi)).collect::<Vec<_>>())
        }
    }
}

fn from_integers(values: impl Iterator<Item = i128>, shape: &[usize], to: DataType) -> Result<Tensor> {
    let nibble = |v: i128| v & 15;
    match to {
        DataType::Bool => collect(shape, to, values.map(|v| u8::from(v != 0))),
        DataType::S4 => {
            let wrapped = values.map(|v| ((nibble(v) ^ 8) - 8) as i64);
            Tensor::from_ints(to, shape, &wrapped.collect::<Vec<_>>())
        }
        DataType::U4 => Tensor::from_ints(to, shape, &values.map(|v| nibble(v) as i64).collect::<Vec<_>>()),
        // Integers up to 2^24 are exact in f32, and larger ones overflow f16.
        DataType::F16 => collect(shape, to, values.map(|v| f16::from_f32(v as f32))),
        DataType::BF16 => collect(shape, to, values.map(|v| bf16::from_f32(to_odd(v as f64)))),
        DataType::F32 => collect(shape, to, values.map(|v| v as f32)),
        DataType::F64 => collect(shape, to, values.map(|v| v as f64)),
        _ => with_integer!(to, "Cast", T => collect(shape, to, values.map(T::narrow))),
    }
}

fn collect<T: ottava_hal::Element>(shape: &[usize], to: DataType, values: impl Iterator<Item = T>) -> Result<Tensor> {
    let mut out = Tensor::zeros(to, shape)?;
    out.as_slice_mut::<T>()?.iter_mut().zip(values).for_each(|(y, v)| *y = v);
    Ok(out)
}

/// f64 to f32, rounded to odd: a following rounding to f16 or bf16 is then as if it were the only one.
fn to_odd(v: f64) -> f32 {
    let near = v as f32;
    if f64::from(near) == v || !near.is_finite() {
        return near;
    }
    let bits = near.to_bits();
    let toward_zero = if f64::from(near).abs() > v.abs() { bits - 1 } else { bits };
    f32::from_bits(toward_zero | 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c4_f64_rounds_once() {
        // Just above the tie between 1 and 1 + 2^-10: f32 alone would fall back onto the tie.
        let v = 1.0 + 2f64.powi(-11) + 2f64.powi(-40);
        assert_eq!(f16::from_f32(to_odd(v)).to_bits(), 0x3c01);
        assert_eq!(f16::from_f32(v as f32).to_bits(), 0x3c00);
        assert_eq!(f16::from_f32(to_odd(1e300)), f16::INFINITY);
    }

    #[test]
    fn c2_nibbles_wrap() {
        let x = ints(DataType::S32, &[3], &[8, -9, 21]);
        assert_eq!(cast(&x, DataType::S4).unwrap().to_ints().unwrap(), [-8, 7, 5]);
        assert_eq!(cast(&x, DataType::U4).unwrap().to_ints().unwrap(), [8, 7, 5]);
    }

    #[test]
    fn u64_keeps_its_upper_half() {
        let x = Tensor::from_slice(&[1], &[u64::MAX]).unwrap();
        assert_eq!(cast(&x, DataType::F64).unwrap().as_slice::<f64>().unwrap(), [18446744073709551616.0]);
    }
}
