//! Likely causes of wrong results: which changed program would give exactly what the device gave, else where and how
//! the results differ.

use super::build::Sample;
use ottava_hal::{Attr, Node, Program, QuantParams, RequantMode, Tensor};
use ottava_reference::Interpreter;
use std::sync::Arc;

/// Changes a program as a mistake would; whether there was something to change.
type Change = fn(&mut Program) -> bool;

/// Mistakes that are a change of the program.
static MISTAKES: &[(&str, Change)] = &[
    ("as if it rounded in fp32_rne", |p| nodes(p, |n| mode(n, RequantMode::Fp32Rne))),
    ("as if it rounded in q31_double", |p| nodes(p, |n| mode(n, RequantMode::Q31Double))),
    ("as if it rounded in q31_single", |p| nodes(p, |n| mode(n, RequantMode::Q31Single))),
    ("as if the zero point were added after rounding", |p| nodes(p, |n| std::mem::take(&mut n.fused.zp_before_round))),
    ("as if the zero point were added before rounding", |p| {
        nodes(p, |n| !std::mem::replace(&mut n.fused.zp_before_round, true))
    }),
    ("as if the fused clamp were missing", |p| nodes(p, |n| n.fused.clamp.take().is_some())),
    ("as if the fused activation were missing", |p| nodes(p, |n| n.fused.act.take().is_some())),
    ("as if the residual were missing", no_residual),
    ("as if the bias were missing", |p| nodes(p, no_bias)),
    ("as if there were no dilation", |p| nodes(p, |n| n.attrs.0.remove("dilations").is_some())),
    ("as if the strides were in the other order", |p| nodes(p, |n| reversed(n, "strides"))),
    ("as if the dilations were in the other order", |p| nodes(p, |n| reversed(n, "dilations"))),
    ("as if front and back pads were exchanged", |p| nodes(p, turned_pads)),
    ("as if count_include_pad were the other way", |p| nodes(p, |n| flipped(n, "count_include_pad"))),
    ("as if alpha were missing", |p| nodes(p, |n| n.attrs.0.remove("alpha").is_some())),
    ("as if epsilon were 0", |p| nodes(p, |n| n.attrs.0.insert("epsilon".into(), Attr::Float(0.0)).is_some())),
    ("as if each channel had its neighbour's scale", |p| {
        params(p, |q| {
            q.scales.rotate_left(1);
            q.scales.len() > 1
        })
    }),
    ("as if every channel had the first one's scale", |p| {
        params(p, |q| {
            let s = q.scales[0];
            q.scales.fill(s);
            q.scales.len() > 1
        })
    }),
    ("as if the input's zero point were ignored", |p| {
        first_input(p, |q| {
            q.zero_points.fill(0);
            true
        })
    }),
];

/// A sentence for a failure; empty if nothing is known. `differing` are elements of the output of a number.
pub(super) fn hint(sample: &Sample, actual: &[Tensor], (output, differing): (usize, &[usize])) -> String {
    if let Some(words) = MISTAKES.iter().find(|(_, change)| explains(sample, actual, *change)).map(|(words, _)| words) {
        return format!("; {words}");
    }
    let (want, got) = (&sample.expected[output], &actual[output]);
    let all = [place(want, differing), manner(want, got, differing)];
    all.into_iter().flatten().map(|words| format!("; {words}")).collect()
}

fn explains(sample: &Sample, actual: &[Tensor], change: Change) -> bool {
    let mut program = sample.program.clone();
    if !change(&mut program) {
        return false;
    }
    let run = Interpreter::new(&program).and_then(|i| i.run(&sample.inputs));
    run.is_ok_and(|results| results.as_slice() == actual)
}

fn nodes(p: &mut Program, change: impl Fn(&mut Node) -> bool) -> bool {
    p.nodes.iter_mut().filter_map(|n| change(n).then_some(())).count() > 0
}

fn params(p: &mut Program, change: impl Fn(&mut QuantParams) -> bool) -> bool {
    let weights = p.values.iter_mut().filter(|v| v.constant.is_some() && v.ty.shape.rank() > 1);
    weights.filter_map(|v| v.ty.quant.as_mut()).filter_map(|q| change(Arc::make_mut(q)).then_some(())).count() > 0
}

fn first_input(p: &mut Program, change: impl Fn(&mut QuantParams) -> bool) -> bool {
    let Some(id) = p.inputs.first().copied() else { return false };
    p.values[id.0].ty.quant.as_mut().is_some_and(|q| change(Arc::make_mut(q)))
}

fn mode(node: &mut Node, mode: RequantMode) -> bool {
    node.requant.is_some_and(|m| m != mode) && node.requant.replace(mode).is_some()
}

/// A residual of nothing: without one the sum would be rescaled in another way.
fn no_residual(p: &mut Program) -> bool {
    let fused: Vec<_> = p.nodes.iter().filter(|n| n.fused.residual).filter_map(|n| n.inputs.last().copied()?).collect();
    let mut scales = fused.into_iter().filter_map(|id| p.values[id.0].ty.quant.clone().map(|q| (id, q)));
    let Some((id, mut quant)) = scales.next() else { return false };
    Arc::make_mut(&mut quant).scales.fill(1e-30);
    p.values[id.0].ty.quant = Some(quant);
    true
}

fn no_bias(node: &mut Node) -> bool {
    let residual = usize::from(node.fused.residual);
    let has =
        matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul") && node.inputs.len() == 3 + residual;
    if has && residual > 0 {
        node.inputs.remove(2);
    } else if has {
        node.inputs.truncate(2);
    }
    has
}

fn reversed(node: &mut Node, name: &str) -> bool {
    match node.attrs.0.get_mut(name) {
        Some(Attr::Ints(list)) => {
            list.reverse();
            list.len() > 1
        }
        _ => false,
    }
}

fn turned_pads(node: &mut Node) -> bool {
    match node.attrs.0.get_mut("pads") {
        Some(Attr::Ints(list)) => {
            let half = list.len() / 2;
            list.rotate_left(half);
            half > 0
        }
        _ => false,
    }
}

fn flipped(node: &mut Node, name: &str) -> bool {
    match node.attrs.0.get_mut(name) {
        Some(Attr::Int(v)) => {
            *v = 1 - *v;
            true
        }
        _ => false,
    }
}

/// Where the elements lie.
fn place(want: &Tensor, differing: &[usize]) -> Option<&'static str> {
    let (shape, n) = (want.shape(), want.elements());
    let all = |holds: &dyn Fn(usize) -> bool| !differing.is_empty() && differing.iter().all(|i| holds(*i));
    let first_axis = n / shape.first().copied().unwrap_or(1).max(1);
    let border = |i: usize| {
        let mut rest = i;
        shape.iter().rev().take(shape.len().saturating_sub(2)).any(|d| {
            let at = rest % d.max(&1);
            rest /= d.max(&1);
            at == 0 || at + 1 == *d
        })
    };
    if n > 1 && all(&|i| i + 1 == n) {
        Some("only the last element, the tail")
    } else if shape.first().is_some_and(|b| *b > 1) && all(&|i| i >= first_axis) {
        Some("only behind the first sample of the batch")
    } else if shape.len() > 2 && differing.len() < n && all(&border) {
        Some("only at the border, where the padding is")
    } else {
        None
    }
}

/// How the values differ.
fn manner(want: &Tensor, got: &Tensor, differing: &[usize]) -> Option<&'static str> {
    if want.dtype() != got.dtype() {
        return Some("the element type is another one");
    }
    let (lo, hi) = want.dtype().storage_range().map(|(lo, hi)| (i64::from(lo), i64::from(hi)))?;
    let (e, a) = (want.to_ints().ok()?, got.to_ints().ok()?);
    let all = |holds: &dyn Fn(i64, i64) -> bool| differing.iter().all(|i| holds(e[*i], a[*i]));
    if all(&|e, a| e.abs_diff(a) == 1) {
        Some("all by one: a matter of rounding")
    } else if all(&|e, _| e == lo || e == hi) {
        Some("only where results saturate")
    } else if all(&|_, a| a == lo || a == hi) {
        Some("the device saturates too early")
    } else {
        None
    }
}
