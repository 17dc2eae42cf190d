//! The operators' own examples with known answers, and what the reference makes of them.

use super::build::Sample;
use super::check::Tally;
use crate::{Check, Stop, Subject};
use ottava_hal::Tensor;
use ottava_reference::Interpreter;

/// Whether an operator has examples.
pub(super) fn exists(domain: &str, op: &str) -> bool {
    ottava_ops::lookup(domain, op).is_ok_and(|op| !op.cases().is_empty())
}

/// The examples as programs; what only the reference can run on this machine is left out.
pub(super) fn samples(domain: &str, op: &str) -> Vec<Sample> {
    let Ok(op) = ottava_ops::lookup(domain, op) else { return Vec::new() };
    let one = |case: ottava_ops::Case| {
        let program = case.program();
        let inputs: Vec<Tensor> =
            case.inputs.iter().flatten().filter(|i| !i.constant).map(|i| i.tensor.clone()).collect();
        let expected = Interpreter::new(&program).ok()?.run(&inputs).ok()?;
        Some(Sample { program, inputs, expected, about: format!("example {}", case.name) })
    };
    op.cases().into_iter().filter_map(one).collect()
}

/// Every example that the device accepts.
pub(super) fn check_op(subject: &Subject, domain: &str, op: &str) -> Check {
    let device = subject.open()?;
    let samples = samples(domain, op);
    let mut tally = Tally::default();
    for sample in &samples {
        tally.check(&*device, sample, "example")?;
    }
    tally.end(Stop::Skipped)
}
