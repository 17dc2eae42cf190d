//! Pad: elements added before and after each axis (negative counts remove), in four modes.
//!
//! * (C1) constant: the given value, or 0; on quantized data its quantization, or the zero point.
//! * (C2) reflect repeats without the edge element, edge repeats it, wrap continues from the other side.

use super::pick::on_bytes;
use crate::elementwise::cast::cast;
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, CaseInput, EvalCx, InferCx, Op, OpSpec, QuantRule, dequantize, quantize, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, QuantParams, Result, Tensor, TensorType};

/// The operator.
pub struct Pad;

static SPEC: OpSpec = OpSpec {
    name: "Pad",
    domain: "",
    since: 1,
    inputs: (2, 4),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("mode", AttrKind::Str)],
};

impl Op for Pad {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let mut dims = cx.shape(0)?.to_vec();
        if cx.any_open(&[1, 3]) {
            return Ok(vec![cx.open_along(&cx.axes(3, dims.len())?)?]);
        }
        let pads = pads(&cx.const_ints(1)?, cx.opt_const_ints(3)?, dims.len())?;
        for (axis, (before, after)) in pads {
            dims[axis] = match dims[axis].known() {
                Some(n) => Dim::Known(padded(n, before, after)?),
                None if before == 0 && after == 0 => continue,
                None => cx.fresh(0, axis),
            };
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let value = match cx.opt(2) {
            Some(value) if value.dtype() == x.dtype() => value.clone(),
            Some(value) => cast(value, x.dtype())?,
            None => Tensor::zeros(x.dtype(), &[])?,
        };
        Ok(vec![pad(cx, x, &value)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Own
    }

    fn eval_quant(&self, cx: &EvalCx) -> Result<Option<Vec<Tensor>>> {
        let (Some(from), Some(to), Some(dtype)) = (cx.in_quant(0), cx.out_quant(0), cx.out_dtype(0)) else {
            return Ok(None);
        };
        if to.as_per_tensor().is_none() {
            return Ok(None);
        }
        let x = crate::requantize(cx.input(0)?, from, dtype, to)?;
        let real = match (cx.opt(2), cx.in_quant(2)) {
            (Some(value), Some(params)) => dequantize(value, params)?,
            (Some(value), None) => value.clone(),
            (None, _) => Tensor::scalar(0.0f32),
        };
        Ok(Some(vec![pad(cx, &x, &quantize(&real, dtype, to)?)?]))
    }

    fn cases(&self) -> Vec<Case> {
        let node = |mode: &str| {
            let mut node = Node::new("pad", "Pad", 21);
            node.attrs = Attrs::default().with("mode", Attr::Str(mode.into()));
            node
        };
        let i = |v: &[i64]| ints(DataType::S64, &[v.len()], v);
        let x = f32s(&[3], &[1.0, 2.0, 3.0]);
        let params = QuantParams::per_tensor(0.5, 7);
        let quantized = Case {
            name: "c1_zero_point",
            node: node("constant"),
            inputs: vec![
                Some(CaseInput::quantized(ints(DataType::U8, &[2], &[1, 2]), params.clone())),
                Some(CaseInput::plain(i(&[1, 0])).constant()),
            ],
            outputs: vec![(ints(DataType::U8, &[3], &[7, 1, 2]), Some(params))],
        };
        let one = |name, mode, pads: &[i64], y: &[f32]| {
            case_const(name, node(mode), 1, &[x.clone(), i(pads)], &[f32s(&[y.len()], y)])
        };
        vec![
            one("c1_constant", "constant", &[1, -1], &[0.0, 1.0, 2.0]),
            one("c2_reflect", "reflect", &[2, 1], &[3.0, 2.0, 1.0, 2.0, 3.0, 2.0]),
            one("c2_edge", "edge", &[1, 2], &[1.0, 1.0, 2.0, 3.0, 3.0, 3.0]),
            one("c2_wrap", "wrap", &[1, 1], &[3.0, 1.0, 2.0, 3.0, 1.0]),
            quantized,
        ]
    }
}

/// Per axis the counts before and after.
fn pads(pads: &[i64], axes: Option<Vec<i64>>, rank: usize) -> Result<Vec<(usize, (i64, i64))>> {
    let axes = axes.unwrap_or_else(|| (0..rank as i64).collect());
    let n = axes.len();
    if pads.len() != 2 * n {
        return Err(Error::invalid(format!("Pad: {} pads for {n} axes, expected two for each", pads.len())));
    }
    (0..n).map(|i| Ok((util::axis(axes[i], rank)?, (pads[i], pads[n + i])))).collect()
}

fn padded(n: usize, before: i64, after: i64) -> Result<usize> {
    let total = n as i128 + i128::from(before) + i128::from(after);
    // The limit on the counts keeps positions relative to the old axis inside i64.
    let small = before.unsigned_abs().max(after.unsigned_abs()) <= 1 << 40;
    match usize::try_from(total) {
        Ok(total) if small && total <= util::MAX_ELEMENTS => Ok(total),
        _ => Err(Error::invalid(format!("Pad: an axis of {n} with pads {before} and {after} has extent {total}"))),
    }
}

fn pad(cx: &EvalCx, x: &Tensor, value: &Tensor) -> Result<Tensor> {
    let mode = Mode::parse(cx.attrs().str("mode", "constant")?)?;
    if value.elements() != 1 {
        return Err(Error::invalid(format!("Pad: the value has shape {:?}, expected a scalar", value.shape())));
    }
    let value = super::pick::on_wide(value)?;
    on_bytes(x, |x| {
        let mut y = x.clone();
        for (axis, (before, after)) in pads(&cx.input(1)?.to_ints()?, cx.opt_ints(3)?, x.shape().len())? {
            if before != 0 || after != 0 {
                let n = y.shape()[axis];
                let total = padded(n, before, after)?;
                if n == 0 && total > 0 && mode != Mode::Constant {
                    return Err(Error::invalid("Pad: an axis has no elements to repeat"));
                }
                y = take_rows(&y, axis, total, |i| source(i as i64 - before, n, mode), value.bytes())?;
            }
        }
        Ok(y)
    })
}

/// (C1), (C2)
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Constant,
    Edge,
    Reflect,
    Wrap,
}

impl Mode {
    fn parse(name: &str) -> Result<Self> {
        Ok(match name {
            "constant" => Self::Constant,
            "edge" => Self::Edge,
            "reflect" => Self::Reflect,
            "wrap" => Self::Wrap,
            other => return Err(Error::invalid(format!("Pad: mode `{other}` is not constant, edge, reflect or wrap"))),
        })
    }
}

/// Where the element at a position relative to the old axis comes from; `None` is the constant.
fn source(at: i64, n: usize, mode: Mode) -> Option<usize> {
    let extent = i64::try_from(n).unwrap_or(i64::MAX / 4);
    if (0..extent).contains(&at) {
        return Some(at as usize);
    }
    let from = match mode {
        Mode::Constant => return None,
        Mode::Edge => at.clamp(0, extent - 1),
        Mode::Wrap => at.rem_euclid(extent),
        Mode::Reflect if n == 1 => 0,
        Mode::Reflect => {
            let period = 2 * (extent - 1);
            let phase = at.rem_euclid(period);
            phase.min(period - phase)
        }
    };
    Some(from as usize)
}

/// `n` slices along an axis; `row` says which, `None` is filled with an element. The elements are whole bytes.
pub fn take_rows(
    x: &Tensor,
    axis: usize,
    n: usize,
    row: impl Fn(usize) -> Option<usize>,
    fill: &[u8],
) -> Result<Tensor> {
    let mut shape = x.shape().to_vec();
    shape[axis] = n;
    let mut y = util::output(x.dtype(), &shape)?;
    if y.elements() == 0 {
        return Ok(y);
    }
    let inner = shape[axis + 1..].iter().product::<usize>() * (x.dtype().bits() / 8);
    let block = inner * x.shape()[axis];
    for (i, out) in y.bytes_mut().chunks_exact_mut(inner * n).enumerate() {
        let from = &x.bytes()[i * block..][..block];
        for (j, to) in out.chunks_exact_mut(inner).enumerate() {
            match row(j) {
                Some(r) => to.copy_from_slice(&from[r * inner..][..inner]),
                None => to.chunks_exact_mut(fill.len()).for_each(|to| to.copy_from_slice(fill)),
            }
        }
    }
    Ok(y)
}
