//! Runs a program on the device and says what is wrong: the first differing element, the sum behind it, a likely cause.

use super::build::Sample;
use super::compare::{Miss, Rule};
use super::hints;
use crate::{Repro, Stop, execute};
use ottava_hal::{Device, Program, QuantParams, Tensor, TensorType, Verdict};
use ottava_reference::Interpreter;
use std::sync::Arc;

/// What became of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tried {
    /// The device says that it does not run it.
    Refused,
    /// It ran and is right.
    Right,
}

/// Whether every node is accepted, and whether exactly.
pub(super) fn accepted(device: &dyn Device, program: &Program) -> Result<Option<bool>, Stop> {
    let verdicts = device.assess(program)?;
    if verdicts.len() != program.nodes.len() {
        return Err(Stop::failed(format!("{} verdicts for {} nodes", verdicts.len(), program.nodes.len())));
    }
    let exact = |v: &Verdict| match v {
        Verdict::Supported { exact } => Some(*exact),
        Verdict::Rejected { .. } => None,
    };
    let all: Option<Vec<bool>> = verdicts.iter().map(exact).collect();
    Ok(all.map(|all| all.into_iter().all(|e| e)))
}

/// Runs a program that the device accepts, and compares; `what` is put in front of a failure.
pub(super) fn check(device: &dyn Device, sample: &Sample, what: &str) -> Result<Tried, Stop> {
    let Some(exact) = accepted(device, &sample.program)? else { return Ok(Tried::Refused) };
    let actual = execute(device, &sample.program, &sample.inputs).map_err(|e| {
        let why = format!("{what} ({}): accepted by `assess`, but it does not run: {e}", sample.about);
        repro(sample, Vec::new()).differs(why)
    })?;
    compare(sample, actual, exact, what)?;
    Ok(Tried::Right)
}

/// Compares results with those of the reference.
pub(super) fn compare(sample: &Sample, actual: Vec<Tensor>, exact: bool, what: &str) -> Result<(), Stop> {
    let rule = Rule::of(sample, exact);
    for (i, (want, got)) in sample.expected.iter().zip(&actual).enumerate() {
        if let Some(miss) = rule.miss(i, want, got) {
            let differing = rule.differing(i, want, got);
            let hint = hints::hint(sample, &actual, (i, &differing));
            let text = format!("{what} ({}): {}{hint}", sample.about, words(sample, (i, miss), want, got));
            return Err(repro(sample, actual).differs(text));
        }
    }
    Ok(())
}

fn repro(sample: &Sample, actual: Vec<Tensor>) -> Repro {
    let (program, inputs, expected) = (sample.program.clone(), sample.inputs.clone(), sample.expected.clone());
    Repro { program, inputs, expected, actual }
}

fn words(sample: &Sample, (output, miss): (usize, Miss), want: &Tensor, got: &Tensor) -> String {
    let shape = want.shape();
    let place = index(shape, miss.at);
    let (want, got) = (element(want, miss.at), element(got, miss.at));
    let n: usize = shape.iter().product();
    let sum = accumulator(sample, output, miss.at).map(|acc| format!(", accumulator {acc}")).unwrap_or_default();
    let scales = scales(&sample.program).unwrap_or_default();
    format!("output {output} at {place:?} is {got}, expected {want}{sum}{scales}; {} of {n} differ", miss.count)
}

/// Coordinates of a flat index.
fn index(shape: &[usize], at: usize) -> Vec<usize> {
    let mut rest = at;
    let mut place: Vec<usize> = shape
        .iter()
        .rev()
        .map(|d| {
            let i = rest % d.max(&1);
            rest /= d.max(&1);
            i
        })
        .collect();
    place.reverse();
    place
}

fn element(t: &Tensor, at: usize) -> String {
    if t.dtype().is_float() {
        return t.to_f32s().ok().and_then(|v| v.get(at).map(|v| format!("{v:e}"))).unwrap_or_default();
    }
    t.to_ints().ok().and_then(|v| v.get(at).map(ToString::to_string)).unwrap_or_default()
}

/// Scales and mode of a program of one node.
fn scales(program: &Program) -> Option<String> {
    let [node] = program.nodes.as_slice() else { return None };
    let params = |ty: &TensorType| {
        let q = ty.quant.as_ref()?;
        let more = if q.scales.len() > 1 { ", .." } else { "" };
        Some(format!("{} {:e}{more} zero point {}", ty.dtype, q.scales.first()?, q.zero_points.first()?))
    };
    let from: Vec<String> = node.inputs.iter().flatten().filter_map(|id| params(program.ty(*id))).collect();
    let to = node.outputs.first().and_then(|id| params(program.ty(*id))).unwrap_or_else(|| "real".into());
    if from.is_empty() && to == "real" {
        return None;
    }
    let mode = node.requant.map(|m| format!(", {}", m.name())).unwrap_or_default();
    Some(format!(" ({} to {to}{mode})", from.join(" and ")))
}

/// The integer sum behind an element of a product: the same product with every scale 1 and a real result.
fn accumulator(sample: &Sample, output: usize, at: usize) -> Option<f32> {
    let mut program = sample.program.clone();
    let [node] = program.nodes.as_mut_slice() else { return None };
    if !matches!(node.op.as_str(), "Conv" | "ConvTranspose" | "Gemm" | "MatMul") || output > 0 {
        return None;
    }
    if node.fused.residual {
        node.inputs.pop();
    }
    (node.requant, node.fused) = (None, ottava_hal::Fused::default());
    node.attrs.0.remove("alpha");
    let (y, inputs) = (*node.outputs.first()?, node.inputs.clone());
    for id in inputs.into_iter().flatten() {
        let quant = program.values[id.0].ty.quant.as_ref()?;
        let unit = QuantParams { scales: vec![1.0; quant.scales.len()], ..(**quant).clone() };
        program.values[id.0].ty.quant = Some(Arc::new(unit));
    }
    let ty = &mut program.values[y.0].ty;
    *ty = TensorType::new(ottava_hal::DataType::F32, ty.shape.clone());
    let results = Interpreter::new(&program).ok()?.run(&sample.inputs).ok()?;
    results.first()?.to_f32s().ok()?.get(at).copied()
}
