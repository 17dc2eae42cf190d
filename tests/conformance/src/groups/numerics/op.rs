//! G.1: every operator that the device claims, in every element type and mode, against the reference.

use super::build::Sample;
use super::check::Tally;
use super::draw::{Draw, KINDS};
use super::fixed;
use super::forms::{Form, Make, forms};
use crate::groups::Group;
use crate::{Case, Check, Stop, Subject};
use ottava_hal::{Capability, Device, OpRow};

pub(in super::super) const GROUP: Group = Group {
    id: "G.1",
    name: "num",
    about: "every claimed operator, element type and requantization mode gives what the reference gives",
    cases,
};

/// Accepted programs of a case; the long form has more.
const PROGRAMS: (usize, usize) = (12, 120);
/// Programs that are drawn for each that must be accepted.
const TRIES: usize = 6;

/// Domain, name and rows of every operator of the table, in its order.
pub(super) fn claimed(capability: &Capability) -> Vec<(String, String, Vec<OpRow>)> {
    let mut found: Vec<(String, String, Vec<OpRow>)> = Vec::new();
    for row in &capability.rows {
        match found.iter_mut().find(|(domain, op, _)| *domain == row.domain && *op == row.op) {
            Some((_, _, rows)) => rows.push(row.clone()),
            None => found.push((row.domain.to_string(), row.op.to_string(), vec![row.clone()])),
        }
    }
    found
}

fn cases(subject: &Subject) -> Vec<Case> {
    // Group B says what is wrong with a device that does not open.
    let Ok(device) = subject.open() else { return Vec::new() };
    let mut cases = Vec::new();
    for (domain, op, rows) in claimed(device.capability()) {
        let found = forms(&domain, &op, &rows);
        if found.is_empty() && fixed::exists(&domain, &op) {
            let prefix = if domain.is_empty() { String::new() } else { format!("{domain}::") };
            let name = format!("num.{prefix}{op}.examples");
            cases.push(Case::new("G.1", name, move |s| fixed::check_op(s, &domain, &op)));
        }
        for (form, make) in found {
            let rows = rows.clone();
            cases.push(Case::new("G.1", format!("num.{}", form.name()), move |s| random(s, &form, make, &rows)));
        }
    }
    cases.push(Case::new("G.1", "num.rows.each_accepts", each_row_accepts));
    cases
}

/// The programs of a form, with numbers.
pub(super) fn samples<'a>(
    seed: u64,
    form: &'a Form,
    make: Make,
    rows: &'a [OpRow],
) -> impl Iterator<Item = (usize, Option<Sample>)> + 'a {
    let seed = form.name().bytes().fold(seed, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
    (0..).map(move |step| {
        let mut draw = Draw::new(seed, step, rows);
        let sample = make(form, &mut draw);
        (step, sample.map(|s| Sample { about: format!("{}; {}", s.about, KINDS[step % KINDS.len()].words()), ..s }))
    })
}

/// Random programs of a form.
fn random(subject: &Subject, form: &Form, make: Make, rows: &[OpRow]) -> Check {
    let device = subject.open()?;
    let wanted = if subject.stress { PROGRAMS.1 } else { PROGRAMS.0 };
    let mut tally = Tally::default();
    examples(&*device, form, &mut tally)?;
    for (step, sample) in samples(subject.seed, form, make, rows).take(wanted * TRIES) {
        if tally.right >= wanted {
            break;
        }
        if let Some(sample) = sample {
            tally.check(&*device, &sample, &format!("program {step}"))?;
        }
    }
    tally.end(Stop::Skipped)
}

/// The operator's own examples of the form's type that the device accepts.
fn examples(device: &dyn Device, form: &Form, tally: &mut Tally) -> Check {
    let of_type = |s: &&Sample| s.program.inputs.first().is_some_and(|id| s.program.ty(*id).dtype == form.dtype);
    let samples = fixed::samples(form.domain, form.op);
    samples.iter().filter(of_type).try_for_each(|sample| tally.check(device, sample, "example"))
}

/// A row that accepts nothing of what is generated was not checked, and that is said.
fn each_row_accepts(subject: &Subject) -> Check {
    let device = subject.open()?;
    let capability = device.capability();
    let mut idle = Vec::new();
    for (domain, op, rows) in claimed(capability) {
        let forms = forms(&domain, &op, &rows);
        for (i, row) in rows.iter().enumerate() {
            let one = Capability { rows: vec![row.clone()], ..capability.clone() };
            let takes = |s: &Sample| s.program.nodes.iter().all(|n| one.assess_node(&s.program, n).is_supported());
            let mine = std::slice::from_ref(row);
            let mut drawn = forms.iter().flat_map(|(form, make)| {
                samples(subject.seed, form, *make, mine).take(60).filter_map(|(_, sample)| sample)
            });
            if !fixed::samples(&domain, &op).iter().any(takes) && !drawn.any(|s| takes(&s)) {
                idle.push(format!("{op} row {i}"));
            }
        }
    }
    if idle.is_empty() {
        return Ok(());
    }
    Err(Stop::Skipped(format!("rows that accept none of the generated programs: {}", idle.join(", "))))
}
