//! Runs a program on the device and says what is wrong: the first differing element, the sum behind it, a likely cause.

use super::build::Sample;
use super::compare::Rule;
use super::hints;
use crate::{Repro, Stop, diagnose, execute};
use ottava_hal::{Device, Program, Tensor, Verdict};

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
    for (i, want) in sample.expected.iter().enumerate() {
        let differing = rule.differing(i, want, &actual[i]);
        if let Some(first) = differing.first() {
            let hint = hints::hint(want, &actual[i], &differing);
            let repro = repro(sample, actual);
            let found = format!("{what} ({}): {}", sample.about, words(&repro, i, *first, differing.len()));
            return Err(repro.differs(format!("{found}{hint}")));
        }
    }
    Ok(())
}

fn repro(sample: &Sample, actual: Vec<Tensor>) -> Repro {
    let (program, inputs, expected) = (sample.program.clone(), sample.inputs.clone(), sample.expected.clone());
    Repro { program, inputs, expected, actual }
}

/// The first element that differs, how the reference comes to it, and the likely cause.
fn words(repro: &Repro, output: usize, first: usize, count: usize) -> String {
    let (want, got) = (&repro.expected[output], &repro.actual[output]);
    let (place, n) = (index(want.shape(), first), want.elements());
    let diagnosis = diagnose(repro);
    let of_this = diagnosis.first.as_ref().filter(|d| d.output.0 == output && d.at == place);
    let steps = of_this.iter().flat_map(|d| &d.steps).map(|(name, value)| format!(", {name} {value}"));
    let steps: String = steps.collect();
    let cause = diagnosis.cause().map(|c| format!("; likely cause: {c}")).unwrap_or_default();
    let (want, got) = (element(want, first), element(got, first));
    format!("output {output} at {place:?} is {got}, expected {want}{steps}; {count} of {n} differ{cause}")
}

/// Coordinates of a flat index.
fn index(shape: &[usize], at: usize) -> Vec<usize> {
    let mut rest = at;
    let step = |d: &usize| {
        let i = rest % d.max(&1);
        rest /= d.max(&1);
        i
    };
    let mut place: Vec<usize> = shape.iter().rev().map(step).collect();
    place.reverse();
    place
}

fn element(t: &Tensor, at: usize) -> String {
    if t.dtype().is_float() {
        return t.to_f32s().ok().and_then(|v| v.get(at).map(|v| format!("{v:e}"))).unwrap_or_default();
    }
    t.to_ints().ok().and_then(|v| v.get(at).map(ToString::to_string)).unwrap_or_default()
}
