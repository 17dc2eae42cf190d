//! E.3: why a node is not accepted.

use super::Group;
use super::honest::{Sample, samples};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{CompileOptions, Device, Error, Reason, Status, Verdict};

pub(super) const GROUP: Group = Group {
    id: "E.3",
    name: "cap.reasons",
    about: "each refusal has a code and words, which are the same in every call and in compile",
    cases: |_| {
        vec![
            Case::new("E.3", "cap.reasons.words", words),
            Case::new("E.3", "cap.reasons.stable", stable),
            Case::new("E.3", "cap.reasons.unknown_operator", unknown_operator),
            Case::new("E.3", "cap.reasons.compile", compile),
        ]
    },
};

/// The verdicts on a program; none if it cannot even be asked about, as bodies of loops behind the plugin boundary.
fn assess(device: &dyn Device, sample: &Sample) -> Result<Vec<Verdict>, Stop> {
    match device.assess(&sample.program) {
        Err(e) if e.status() == Status::Unsupported => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// The cases, each as it is, with an operator that nobody has, and of a version that nobody has.
fn programs() -> Vec<Sample> {
    let mut all = samples();
    for sample in samples().into_iter().step_by(7) {
        let mut other = sample;
        other.program.nodes[0].version = u32::MAX;
        other.name.push_str(" of the last version");
        all.push(other);
    }
    all.push(nobody());
    all
}

fn nobody() -> Sample {
    let mut sample = samples().swap_remove(0);
    sample.program.nodes[0].op = "NoSuchOperator".into();
    sample.name = "NoSuchOperator".into();
    sample
}

fn words(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in programs() {
        for verdict in assess(&*device, &sample)? {
            if let Verdict::Rejected { reason, detail } = verdict {
                let empty = detail.trim().is_empty();
                ensure!(!empty, "{}: refused ({reason}) without a word of why", sample.name);
            }
        }
    }
    Ok(())
}

fn stable(subject: &Subject) -> Check {
    let (device, other) = (subject.open()?, subject.open()?);
    for sample in programs() {
        let first = assess(&*device, &sample)?;
        for again in [assess(&*device, &sample)?, assess(&*other, &sample)?] {
            ensure!(again == first, "{}: the verdict changes from {first:?} to {again:?}", sample.name);
        }
    }
    Ok(())
}

fn unknown_operator(subject: &Subject) -> Check {
    let verdicts = subject.open()?.assess(&nobody().program)?;
    match verdicts.first() {
        Some(Verdict::Rejected { reason: Reason::OpUnknown, .. }) => Ok(()),
        other => Err(Stop::failed(format!("an operator that nobody has gives {other:?}, expected OP_UNKNOWN"))),
    }
}

/// Compile gives the reason that assess gave.
fn compile(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in programs() {
        let verdicts = assess(&*device, &sample)?;
        let Sample { name, program, .. } = sample;
        let Some(Verdict::Rejected { reason, .. }) = verdicts.iter().find(|v| !v.is_supported()) else { continue };
        match device.compile(&program, &CompileOptions::default()) {
            Err(Error::Unsupported { reason: found, what }) => {
                ensure!(found == *reason, "{name}: assess says {reason}, compile says {found}");
                ensure!(!what.trim().is_empty(), "{name}: compile refuses without a word of why");
            }
            // A program that the operator itself refuses.
            Err(Error::Invalid(_)) => {}
            Err(e) => {
                return Err(Stop::failed(format!("{name}: assess says {reason}, compile gives {:?}", e.status())));
            }
            Ok(_) => return Err(Stop::failed(format!("{name}: assess says {reason}, and it compiles"))),
        }
    }
    Ok(())
}
