//! `Softmax`, `LogSoftmax`, `Hardmax`.
//!
//! * (C1) Rows lie along `axis` (default -1); before version 13 the input is coerced to a matrix at `axis` (default 1).
//! * (C2) Softmax subtracts the maximum, takes `exp`, sums ascending and divides (numerics.md section 7).
//! * (C3) Softmax with 8 bits in and out per tensor is the integer form `softmax_lut` (section 6).
//! * (C4) Hardmax is 1 at the first maximum.
//! * (C5) In a Q31 mode, with the output that TFLite prescribes, it is that of TFLite's reference kernel, on 8 bits and on s16.

use super::real::{Real, with_real};
use super::requantize::model;
use super::softmax_wide::SoftmaxWide;
use crate::elementwise::binary::fixed_mode;
use crate::elementwise::sample::{case, f32s, ints, quant_case};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::refmath::quantize::Target;
use ottava_hal::refmath::softmax::SoftmaxLut;
use ottava_hal::refmath::tflite_softmax::TfliteSoftmax;
use ottava_hal::{Attr, DataType, Node, QuantParams, Result, Tensor, TensorType};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Soft,
    Log,
    Hard,
}

/// A row operator along one axis.
pub struct RowMax {
    spec: OpSpec,
    kind: Kind,
}

const fn row_op(name: &'static str, kind: Kind) -> RowMax {
    const ATTRS: &[AttrSpec] = &[AttrSpec::optional("axis", AttrKind::Int)];
    RowMax { spec: OpSpec { name, domain: "", since: 1, inputs: (1, 1), outputs: (1, 1), attrs: ATTRS }, kind }
}

/// Softmax.
pub static SOFTMAX: RowMax = row_op("Softmax", Kind::Soft);
/// The logarithm of Softmax.
pub static LOG_SOFTMAX: RowMax = row_op("LogSoftmax", Kind::Log);
/// One at the first maximum.
pub static HARDMAX: RowMax = row_op("Hardmax", Kind::Hard);

/// Rows of a shape: how many before, how long, and the step between their elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Number of groups of interleaved rows.
    pub outer: usize,
    /// Length of a row.
    pub n: usize,
    /// Rows interleaved, which is the step between elements of a row.
    pub inner: usize,
}

impl Rows {
    /// The rows along one axis.
    pub fn along(shape: &[usize], axis: usize) -> Self {
        let outer = shape[..axis].iter().product();
        Self { outer, n: shape[axis], inner: shape[axis + 1..].iter().product() }
    }

    /// The rows over all axes from `axis` on.
    pub fn from_axis(shape: &[usize], axis: usize) -> Self {
        Self { outer: shape[..axis].iter().product(), n: shape[axis..].iter().product(), inner: 1 }
    }

    /// Calls `f` with each row of `x` and its place in `y`.
    pub fn map<A: Copy + Default, B: Copy + Default>(
        self,
        x: &[A],
        y: &mut [B],
        mut f: impl FnMut(&[A], &mut [B]) -> Result<()>,
    ) -> Result<()> {
        let (mut row, mut out) = (vec![A::default(); self.n], vec![B::default(); self.n]);
        for o in 0..self.outer {
            for i in 0..self.inner {
                let at = |k: usize| (o * self.n + k) * self.inner + i;
                row.iter_mut().enumerate().for_each(|(k, v)| *v = x[at(k)]);
                f(&row, &mut out)?;
                out.iter().enumerate().for_each(|(k, v)| y[at(k)] = *v);
            }
        }
        Ok(())
    }
}

/// (C1)
fn rows(node: &Node, opset: u32, shape: &[usize]) -> Result<Rows> {
    if shape.is_empty() {
        return Ok(Rows { outer: 1, n: 1, inner: 1 });
    }
    if opset < 13 {
        let axis = node.attrs.int("axis", 1)?;
        let end = i64::try_from(shape.len()).unwrap_or(i64::MAX);
        // The matrix may also be split behind the last axis.
        let at = if axis == end { shape.len() } else { util::axis(axis, shape.len())? };
        return Ok(Rows::from_axis(shape, at));
    }
    Ok(Rows::along(shape, util::axis(node.attrs.int("axis", -1)?, shape.len())?))
}

/// (C3) The integer form between two per-tensor quantizations, `None` where the types have none.
pub(crate) fn integer_softmax(cx: &EvalCx, opset: u32) -> Result<Option<Tensor>> {
    let x = cx.input(0)?;
    let per_tensor = |q: Option<&QuantParams>| q.and_then(QuantParams::as_per_tensor);
    let (Some((xs, _)), Some((scale, zp)), Some(dtype)) =
        (per_tensor(cx.in_quant(0)), per_tensor(cx.out_quant(0)), cx.out_dtype(0))
    else {
        return Ok(None);
    };
    let byte = |t: DataType| matches!(t, DataType::S8 | DataType::U8);
    if (x.dtype(), dtype, zp) == (DataType::S16, DataType::S16, 0) && scale == 1.0 / 32_768.0 {
        return wide_softmax(cx, opset, xs);
    }
    let (Some((lo, hi)), true) = (dtype.storage_range(), byte(x.dtype()) && byte(dtype)) else { return Ok(None) };
    let target = Target { scale, zp, lo, hi };
    let data: Vec<i32> = x.to_ints()?.into_iter().map(|v| v as i32).collect();
    let mut y = vec![0i32; data.len()];
    let rows = rows(cx.node, opset, x.shape())?;
    if fixed_mode(cx.node).is_some() && TfliteSoftmax::fits(target) {
        let softmax = TfliteSoftmax::new(xs, 1.0, (lo, hi)).map_err(model)?;
        rows.map(&data, &mut y, |row, out| softmax.row(row, out).map_err(model))?;
    } else {
        let lut = SoftmaxLut::new(xs, target).map_err(model)?;
        rows.map(&data, &mut y, |row, out| lut.row(row, None, out).map_err(model))?;
    }
    let y: Vec<i64> = y.into_iter().map(i64::from).collect();
    Ok(Some(Tensor::from_ints(dtype, x.shape(), &y)?))
}

/// (C5) On s16, `None` in other modes.
fn wide_softmax(cx: &EvalCx, opset: u32, xs: f32) -> Result<Option<Tensor>> {
    let Some(mode) = fixed_mode(cx.node) else { return Ok(None) };
    let (x, softmax) = (cx.input(0)?, SoftmaxWide::new(xs, mode)?);
    let data: Vec<i32> = x.to_ints()?.into_iter().map(|v| v as i32).collect();
    let mut y = vec![0i32; data.len()];
    rows(cx.node, opset, x.shape())?.map(&data, &mut y, |row, out| {
        softmax.row(row, out);
        Ok(())
    })?;
    let y: Vec<i64> = y.into_iter().map(i64::from).collect();
    Tensor::from_ints(DataType::S16, x.shape(), &y).map(Some)
}

impl Op for RowMax {
    fn spec(&self) -> &'static OpSpec {
        match self.kind {
            Kind::Soft => &SOFTMAX.spec,
            Kind::Log => &LOG_SOFTMAX.spec,
            Kind::Hard => &HARDMAX.spec,
        }
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let rows = rows(cx.node, cx.node.version, x.shape())?;
        let y = with_real!(x.dtype(), self.spec.name, T => {
            let data = T::read(x)?;
            let mut y = vec![T::default(); data.len()];
            rows.map(&data, &mut y, |row, out| {
                self.row(row, out);
                Ok(())
            })?;
            T::write(x.dtype(), x.shape(), &y)
        })?;
        Ok(vec![y])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        if self.kind == Kind::Soft { QuantRule::Own } else { QuantRule::Float }
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        Ok(integer_softmax(cx, cx.node.version)?.map(|y| vec![y]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = |version| Node::new("softmax", self.spec.name, version);
        let x = || f32s(&[1, 2, 2], &[0.0, 0.0, f32::NEG_INFINITY, 1.0]);
        let y = match self.kind {
            Kind::Soft => [0.5, 0.5, 0.0, 1.0],
            Kind::Log => [-std::f32::consts::LN_2, -std::f32::consts::LN_2, f32::NEG_INFINITY, 0.0],
            Kind::Hard => [1.0, 0.0, 0.0, 1.0],
        };
        let mut cases = vec![case("c2_rows", node(13), &[x()], &[f32s(&[1, 2, 2], &y)])];
        if self.kind == Kind::Soft {
            let mut old = node(11);
            old.attrs.set("axis", Attr::Int(1));
            let flat = f32s(&[1, 2, 2], &[0.25; 4]);
            cases.push(case("c1_coerced_to_a_matrix", old, &[f32s(&[1, 2, 2], &[3.0; 4])], &[flat]));
            let x = ints(DataType::U8, &[1, 2], &[7, 7]);
            let half = ints(DataType::U8, &[1, 2], &[128, 128]);
            cases.push(quant_case("c3_integers", node(13), &[(x, 0.1, 3)], (half, 1.0 / 256.0, 0)));
        }
        cases
    }
}

impl RowMax {
    fn row<T: Real>(&self, x: &[T], y: &mut [T]) {
        match self.kind {
            Kind::Soft => T::softmax_row(x, y),
            Kind::Log => T::log_softmax_row(x, y),
            Kind::Hard => {
                let mut best = 0;
                for (i, v) in x.iter().enumerate() {
                    if *v > x[best] {
                        best = i;
                    }
                }
                y.iter_mut().enumerate().for_each(|(i, v)| *v = if i == best { T::ONE } else { T::default() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn softmax_c1_axis_outside_the_rank_is_an_error() {
        let mut node = Node::new("s", "Softmax", 13);
        node.attrs.set("axis", Attr::Int(2));
        let e = rows(&node, 13, &[2, 3]).unwrap_err();
        assert_eq!(e.to_string(), "axis 2 is outside rank 2");
        assert_eq!(rows(&node, 11, &[2, 3]).unwrap(), Rows { outer: 6, n: 1, inner: 1 });
    }
}
