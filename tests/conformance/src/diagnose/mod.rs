//! What is wrong with wrong results: the first element that differs, and hypotheses about the cause.
//!
//! A hypothesis is a defect that drivers are known to have ("half is rounded away from zero", "the padding is zero bytes").
//! Each is *tested*: what a driver with that defect would give is computed, and compared with what the device gave. One
//! that gives the same bytes everywhere is named as the likely cause; the others are shown with how much they explain.
//!
//! | file | has |
//! |---|---|
//! | `elements` | tensors as lists of comparable elements |
//! | `sums` | the accumulators and multipliers of one convolution or matrix product |
//! | `requants` | defects in the way from an accumulator to an output |
//! | `reals` | the same from a real number, for what is computed in f32 |
//! | `programs` | defects that are the same as another program, or other data |
//! | `layouts` | defects in which elements are where |

mod elements;
mod layouts;
mod programs;
mod reals;
mod requants;
mod sums;

use crate::Repro;
use elements::Elements;
use ottava_hal::Tensor;
use reals::Reals;
use sums::Sums;

/// A defect that would give other results: its words, and the outputs that it would give.
pub(crate) struct Hypothesis {
    /// The defect in words.
    pub words: String,
    /// What each output would be.
    pub outputs: Vec<Tensor>,
}

/// A hypothesis after its test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The defect in words.
    pub words: String,
    /// Of the elements that differ from the reference, how many it gives as the device did.
    pub explained: usize,
    /// Elements, of all, that it gives otherwise than the device did.
    pub contradicted: usize,
}

/// An element that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Index and name of the output.
    pub output: (usize, String),
    /// Coordinates of the element.
    pub at: Vec<usize>,
    /// What the reference gives.
    pub expected: String,
    /// What the device gives.
    pub actual: String,
    /// How the reference comes to it: name, value.
    pub steps: Vec<(String, String)>,
}

/// What is known about wrong results.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnosis {
    /// The first element that differs.
    pub first: Option<Difference>,
    /// Elements that differ.
    pub differing: usize,
    /// All elements.
    pub total: usize,
    /// The largest difference of integers.
    pub largest: Option<u64>,
    /// The hypotheses that explain something, the best first.
    pub findings: Vec<Finding>,
    /// How many were tested.
    pub tested: usize,
}

impl Diagnosis {
    /// The likely cause: a hypothesis that explains everything and contradicts nothing.
    pub fn cause(&self) -> Option<&str> {
        self.findings.iter().find(|f| f.contradicted == 0).map(|f| f.words.as_str())
    }
}

/// Looks into a repro.
pub fn diagnose(repro: &Repro) -> Diagnosis {
    let (expected, actual) = (Elements::of(&repro.expected), Elements::of(&repro.actual));
    let differing = expected.differing(&actual);
    let mut found = Diagnosis {
        differing: differing.len(),
        total: expected.len(),
        largest: expected.largest(&actual),
        ..Diagnosis::default()
    };
    let Some(first) = differing.first() else { return found };
    if repro.actual.is_empty() {
        return found;
    }
    let sums = Sums::of(repro);
    let reals = if sums.is_none() { Reals::of(repro) } else { None };
    let steps = |i| sums.as_ref().map(|s| s.steps(i)).or_else(|| reals.as_ref().map(|r| r.steps(i)));
    found.first = Some(difference(repro, &expected, *first, steps));
    // Of two that explain the same, the first is named; those of layout take bytes over as the device gave them.
    let all = sums.iter().flat_map(|s| requants::hypotheses(repro, s));
    let all = all.chain(reals.iter().flat_map(Reals::hypotheses));
    let all = all.chain(programs::hypotheses(repro)).chain(layouts::hypotheses(repro));
    for hypothesis in all {
        found.tested += 1;
        let predicted = Elements::of(&hypothesis.outputs);
        if predicted.len() != expected.len() || predicted.differing(&expected).is_empty() {
            continue;
        }
        let contradicted = predicted.differing(&actual).len();
        let explained = differing.iter().filter(|i| predicted.at(**i) == actual.at(**i)).count();
        if explained > 0 {
            found.findings.push(Finding { words: hypothesis.words, explained, contradicted });
        }
    }
    found.findings.sort_by_key(|f| (f.contradicted, std::cmp::Reverse(f.explained)));
    found
}

/// The first element that differs in a sentence; nothing if none does.
pub(crate) fn first_in_words(repro: &Repro) -> Option<String> {
    let (expected, actual) = (Elements::of(&repro.expected), Elements::of(&repro.actual));
    let differing = expected.differing(&actual);
    let first = *differing.first()?;
    if repro.actual.len() != repro.expected.len() || expected.len() != actual.len() {
        return Some(format!("{} outputs were expected, {} were found", repro.expected.len(), repro.actual.len()));
    }
    let d = difference(repro, &expected, first, |_| None);
    let largest = expected.largest(&actual).map_or_else(String::new, |n| format!(", by {n} at most"));
    Some(format!(
        "output `{}` at {:?}: expected {}, found {}; {} of {} elements differ{largest}",
        d.output.1,
        d.at,
        d.expected,
        d.actual,
        differing.len(),
        expected.len()
    ))
}

fn difference(
    repro: &Repro,
    elements: &Elements,
    flat: usize,
    steps: impl Fn(usize) -> Option<Vec<(String, String)>>,
) -> Difference {
    let (output, i) = elements.place(flat);
    let (e, a) = (&repro.expected[output], &repro.actual[output]);
    let name = repro.program.outputs.get(output).map(|id| repro.program.value(*id).name.clone()).unwrap_or_default();
    Difference {
        output: (output, name),
        at: coordinates(i, e.shape()),
        expected: elements::text(e, i),
        actual: elements::text(a, i),
        // The arithmetic is that of the first output.
        steps: if output == 0 { steps(i).unwrap_or_default() } else { Vec::new() },
    }
}

fn coordinates(mut flat: usize, shape: &[usize]) -> Vec<usize> {
    let mut at = vec![0; shape.len()];
    for (place, extent) in at.iter_mut().zip(shape).rev() {
        *place = flat % (*extent).max(1);
        flat /= (*extent).max(1);
    }
    at
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
