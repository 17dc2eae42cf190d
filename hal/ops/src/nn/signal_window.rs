//! `HannWindow`, `HammingWindow`, `BlackmanWindow`: cosine windows of a given length.
//!
//! * (C1) `w(n) = a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N)`, N = length if `periodic`, else length - 1; computed in
//!   f64 and rounded once.

use crate::elementwise::sample::{case_const, f32s, ints};
use crate::nn::real::Real;
use crate::util::{MAX_ELEMENTS, onnx_dtype};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// A cosine window.
pub struct Window {
    spec: OpSpec,
    coefficients: [f64; 3],
    index: usize,
}

const fn window(index: usize, name: &'static str, coefficients: [f64; 3]) -> Window {
    const ATTRS: &[AttrSpec] =
        &[AttrSpec::optional("output_datatype", AttrKind::Int), AttrSpec::optional("periodic", AttrKind::Int)];
    let spec = OpSpec { name, domain: "", since: 17, inputs: (1, 1), outputs: (1, 1), attrs: ATTRS };
    Window { spec, coefficients, index }
}

/// The three windows.
pub static WINDOWS: [Window; 3] = [
    window(0, "BlackmanWindow", [0.42, 0.5, 0.08]),
    window(1, "HammingWindow", [25.0 / 46.0, 21.0 / 46.0, 0.0]),
    window(2, "HannWindow", [0.5, 0.5, 0.0]),
];

fn length(size: &[i64]) -> Result<usize> {
    let one = if let [n] = *size { usize::try_from(n).ok().filter(|&n| n <= MAX_ELEMENTS) } else { None };
    one.ok_or_else(|| Error::invalid(format!("a window length of {size:?}; expected one number that is not negative")))
}

impl Op for Window {
    fn spec(&self) -> &'static OpSpec {
        &WINDOWS[self.index].spec
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dtype = onnx_dtype(cx.attrs().int("output_datatype", 1)?)?;
        let dim = match cx.input(0)?.constant {
            Some(size) => Dim::Known(length(&size.to_ints()?)?),
            None => cx.fresh(0, 0),
        };
        Ok(vec![cx.ty(dtype, vec![dim])])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let n = length(&cx.input(0)?.to_ints()?)?;
        let dtype = onnx_dtype(cx.attrs().int("output_datatype", 1)?)?;
        let periodic = cx.attrs().int("periodic", 1)? != 0;
        let period = if periodic { n } else { n.saturating_sub(1) }.max(1) as f64;
        let [a0, a1, a2] = self.coefficients;
        let at = |i: usize| {
            let angle = 2.0 * std::f64::consts::PI * i as f64 / period;
            a0 - a1 * libm::cos(angle) + a2 * libm::cos(2.0 * angle)
        };
        let values: Vec<f64> = (0..n).map(at).collect();
        if dtype.is_float() {
            return Ok(vec![f64::write(dtype, &[n], &values)?]);
        }
        let whole: Vec<i64> = values.into_iter().map(|v| v as i64).collect();
        Ok(vec![Tensor::from_ints(dtype, &[n], &whole)?])
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("window", self.spec.name, 17);
        let [a0, a1, a2] = self.coefficients;
        let y = f32s(&[2], &[(a0 - a1 + a2) as f32, (a0 + a1 + a2) as f32]);
        vec![case_const("c1_even_length", node, 0, &[ints(DataType::S64, &[], &[2])], &[y])]
    }
}
