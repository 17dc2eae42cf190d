//! Runs a program on the device and says what is wrong: the first differing element, the sum behind it, a likely cause.

use super::build::Sample;
use super::compare::Rule;
use super::hints;
use crate::{Check, Repro, Stop, diagnose, execute};
use ottava_hal::{DataType, Device, Program, Tensor, Verdict};

/// What became of the programs of a case.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Programs that ran and are right.
    pub right: usize,
    /// Programs that the device says it does not run.
    pub refused: usize,
    /// The largest distance of a real result, in units of its last place.
    ulps: f64,
}

impl Tally {
    /// Runs a program that the device accepts, and compares; `what` is put in front of a failure.
    pub(super) fn check(&mut self, device: &dyn Device, sample: &Sample, what: &str) -> Check {
        let Some(exact) = accepted(device, &sample.program)? else {
            self.refused += 1;
            return Ok(());
        };
        let actual = execute(device, &sample.program, &sample.inputs).map_err(|e| {
            let why = format!("{what} ({}): accepted by `assess`, but it does not run: {e}", sample.about);
            repro(sample, Vec::new()).differs(why)
        })?;
        self.ulps = sample.expected.iter().zip(&actual).map(|(e, a)| ulps(e, a)).fold(self.ulps, f64::max);
        compare(sample, actual, exact, what)?;
        self.right += 1;
        Ok(())
    }

    /// The end of a case that found nothing wrong; one that checked nothing says so.
    pub(super) fn end(self, nothing: fn(String) -> Stop) -> Check {
        if self.right == 0 {
            let why = format!("none of {} programs is accepted, so nothing was checked", self.refused);
            return Err(nothing(why));
        }
        let error = if self.ulps > 0.0 { format!(", the worst error is {:.1} ulp", self.ulps) } else { String::new() };
        Err(Stop::Noted(format!("{} programs are right, {} were refused{error}", self.right, self.refused)))
    }
}

/// The largest distance of finite real results.
fn ulps(expected: &Tensor, actual: &Tensor) -> f64 {
    if expected.dtype() != DataType::F32 || actual.dtype() != DataType::F32 {
        return 0.0;
    }
    let (Ok(e), Ok(a)) = (expected.to_f32s(), actual.to_f32s()) else { return 0.0 };
    let distance = |(x, y): (f32, f32)| {
        let step = f64::from(f32::from_bits(x.abs().to_bits().saturating_add(1))) - f64::from(x.abs());
        let distance = (f64::from(x) - f64::from(y)).abs() / step;
        if distance.is_finite() { distance } else { 0.0 }
    };
    e.into_iter().zip(a).map(distance).fold(0.0, f64::max)
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
