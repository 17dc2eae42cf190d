//! Tools for defects of arithmetic: one node is evaluated by the reference on changed parts, or its result is changed.

use half::f16;
use ottava_hal::refmath::requant::fp32_multiplier;
use ottava_hal::{DataType, Node, QuantParams, RequantMode, Result, Tensor, TensorType};
use ottava_ops::{EvalCx, evaluate};
use std::sync::Arc;

/// Operators that are sums of products.
pub(super) const PRODUCTS: &[&str] = &["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// A node with its data, to be changed.
pub(super) struct Op {
    pub node: Node,
    pub inputs: Vec<Option<Tensor>>,
    pub in_types: Vec<Option<TensorType>>,
    pub out_types: Vec<TensorType>,
}

impl Op {
    /// A copy of what is evaluated.
    pub(super) fn of(cx: &EvalCx) -> Self {
        Self {
            node: cx.node.clone(),
            inputs: cx.inputs.iter().map(|t| t.cloned()).collect(),
            in_types: cx.in_types.iter().map(|t| t.cloned()).collect(),
            out_types: cx.out_types.iter().map(|t| (*t).clone()).collect(),
        }
    }

    /// What the reference makes of it.
    pub(super) fn eval(&self) -> Result<Vec<Tensor>> {
        let inputs: Vec<Option<&Tensor>> = self.inputs.iter().map(Option::as_ref).collect();
        let in_types: Vec<Option<&TensorType>> = self.in_types.iter().map(Option::as_ref).collect();
        let out_types: Vec<&TensorType> = self.out_types.iter().collect();
        evaluate(&EvalCx { node: &self.node, inputs: &inputs, in_types: &in_types, out_types: &out_types })
    }

    /// Parameters of an input.
    pub(super) fn params(&mut self, i: usize) -> Option<&mut QuantParams> {
        self.in_types.get_mut(i)?.as_mut()?.quant.as_mut().map(Arc::make_mut)
    }

    /// Changes the bytes of an input.
    pub(super) fn bytes(&mut self, i: usize, change: impl FnOnce(&mut [u8])) {
        if let Some(Some(tensor)) = self.inputs.get_mut(i) {
            change(tensor.bytes_mut());
        }
    }

    /// Replaces an input; its parameters stay.
    pub(super) fn replace(&mut self, i: usize, tensor: Tensor) {
        let quant = self.in_types[i].as_ref().and_then(|ty| ty.quant.clone());
        self.in_types[i] = Some(TensorType { quant, ..tensor.ty() });
        self.inputs[i] = Some(tensor);
    }
}

/// Whether a node is one of some operators.
pub(super) fn is(cx: &EvalCx, ops: &[&str]) -> bool {
    ops.contains(&cx.node.op.as_str())
}

/// Evaluates one of some operators on changed parts, and every other as it is.
pub(super) fn with(cx: &EvalCx, ops: &[&str], change: impl FnOnce(&mut Op)) -> Result<Vec<Tensor>> {
    if !is(cx, ops) {
        return evaluate(cx);
    }
    let mut op = Op::of(cx);
    change(&mut op);
    op.eval()
}

/// Evaluates, then changes the integers of the first result; what leaves the type wraps.
pub(super) fn ints(cx: &EvalCx, ops: &[&str], change: impl FnOnce(&mut Vec<i64>)) -> Result<Vec<Tensor>> {
    let mut results = evaluate(cx)?;
    let dtype = results[0].dtype();
    if let (true, Some((lo, hi))) = (is(cx, ops), dtype.int_range()) {
        let mut values = results[0].to_ints()?;
        change(&mut values);
        values.iter_mut().for_each(|v| *v = lo + (*v - lo).rem_euclid(hi - lo + 1));
        results[0] = Tensor::from_ints(dtype, results[0].shape(), &values)?;
    }
    Ok(results)
}

/// Evaluates, then changes the f32 numbers of the first result.
pub(super) fn reals(cx: &EvalCx, ops: &[&str], change: impl FnOnce(&mut [f32])) -> Result<Vec<Tensor>> {
    let mut results = evaluate(cx)?;
    if is(cx, ops) && results[0].dtype() == DataType::F32 {
        change(results[0].as_slice_mut::<f32>()?);
    }
    Ok(results)
}

/// A sum that is to be rescaled.
pub(super) struct Sum {
    /// The sum.
    pub acc: f64,
    /// The multiplier of its channel.
    pub m: f32,
    /// Zero point of the result.
    pub zp: f64,
    /// Index of the element.
    pub at: usize,
}

impl Sum {
    /// The product before rounding, as `fp32_rne` has it.
    pub(super) fn real(&self) -> f64 {
        f64::from(self.acc as f32 * self.m)
    }
}

/// Products in a mode with another rescaling; everything else as it is. `clamped` keeps the last step right.
pub(super) fn rescaled(
    cx: &EvalCx,
    modes: &[RequantMode],
    clamped: bool,
    rescale: impl Fn(&Sum) -> f64,
) -> Result<Vec<Tensor>> {
    let chosen = cx.node.requant.is_some_and(|m| modes.contains(&m)) && !cx.node.fused.residual;
    let parts = (cx.in_quant(0), cx.in_quant(1), cx.out_quant(0).and_then(QuantParams::as_per_tensor), cx.out_dtype(0));
    let (true, (Some(x), Some(w), Some((ys, zp)), Some(dtype))) = (chosen && is(cx, PRODUCTS), parts) else {
        return evaluate(cx);
    };
    let sums = sums(cx)?;
    let (lo, hi) = dtype.storage_range().unwrap_or((0, 0));
    let (lo, hi) = cx.node.fused.clamp.unwrap_or((lo, hi));
    let n = w.scales.len();
    let inner = if is(cx, &["Conv", "ConvTranspose"]) { sums.shape()[2..].iter().product() } else { 1usize };
    let value = |(i, acc): (usize, &f32)| {
        let m = fp32_multiplier(x.scales[0], w.scales[i / inner.max(1) % n], ys);
        let y = rescale(&Sum { acc: f64::from(*acc), m, zp: zp.into(), at: i }) as i64;
        if clamped { y.clamp(lo.into(), hi.into()) } else { y }
    };
    let values: Vec<i64> = sums.as_slice::<f32>()?.iter().enumerate().map(value).collect();
    let wrapped: Vec<i64> = match dtype.int_range() {
        Some((lo, hi)) => values.iter().map(|v| lo + (v - lo).rem_euclid(hi - lo + 1)).collect(),
        None => values,
    };
    Ok(vec![Tensor::from_ints(dtype, sums.shape(), &wrapped)?])
}

/// The integer sums of a product, as f32.
fn sums(cx: &EvalCx) -> Result<Tensor> {
    let mut op = Op::of(cx);
    (op.node.requant, op.node.fused.clamp) = (None, None);
    (0..op.inputs.len()).for_each(|i| {
        if let Some(params) = op.params(i) {
            params.scales.fill(1.0);
        }
    });
    let ty = op.out_types[0].clone();
    op.out_types[0] = TensorType { dtype: DataType::F32, quant: None, ..ty };
    Ok(op.eval()?.swap_remove(0))
}

/// A number as f16 holds it.
pub(super) fn as_f16(v: f32) -> f32 {
    f16::from_f32(v).to_f32()
}
