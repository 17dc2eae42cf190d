//! E.2: what the table, `assess`, `compile` and a run say of a node is the same, in both directions.
//!
//! The programs are the operators' own cases, and changes of them that cross the usual limits: another requantization mode,
//! a fused clamp, another version, constants that come at run time and the other way round, attributes at and just beyond
//! the limits of a row. What is right is what the reference computes.

use super::Group;
use crate::kit::{case_programs, expected, first_difference, guarded_run};
use crate::{Case, Check, Stop, Subject, ensure, refused};
use ottava_hal::capability::{Compare, Subject as Looks};
use ottava_hal::{Attr, CompileOptions, Device, Program, RequantMode, Status, Tensor, Verdict};

pub(super) const GROUP: Group = Group {
    id: "E.2",
    name: "cap.honest",
    about: "inside and just outside of every limit table, assess, compile and run agree",
    cases: |_| {
        vec![
            Case::new("E.2", "cap.honest.cases", cases),
            Case::new("E.2", "cap.honest.modes", modes),
            Case::new("E.2", "cap.honest.constants", constants),
            Case::new("E.2", "cap.honest.limits", limits),
            Case::new("E.2", "cap.honest.unknown", unknown),
        ]
    },
};

/// A program of one node with data for its inputs.
pub(super) struct Sample {
    pub name: String,
    pub program: Program,
    pub inputs: Vec<Vec<u8>>,
}

/// The operators' own cases.
pub(super) fn samples() -> Vec<Sample> {
    let inputs = |case: &ottava_ops::Case| {
        let given = case.inputs.iter().flatten().filter(|x| !x.constant);
        given.map(|x| x.tensor.bytes().to_vec()).collect()
    };
    let sample =
        |(name, program, case): (String, Program, ottava_ops::Case)| Sample { name, program, inputs: inputs(&case) };
    case_programs().into_iter().map(sample).collect()
}

/// All four answers about a sample agree.
pub(super) fn agree(device: &dyn Device, sample: &Sample) -> Check {
    let Sample { name, program, inputs } = sample;
    let verdicts = match device.assess(program) {
        // Behind the plugin boundary some programs cannot even be asked about.
        Err(e) if e.status() == Status::Unsupported => {
            return refused(name, device.compile(program, &CompileOptions::default()), Status::Unsupported);
        }
        other => other?,
    };
    let nodes = program.nodes.len();
    ensure!(verdicts.len() == nodes, "{name}: {} verdicts on {nodes} nodes", verdicts.len());
    let by_table = device.capability().assess(program);
    for (table, verdict) in by_table.iter().zip(&verdicts) {
        let claimed = verdict.is_supported() && !table.is_supported();
        ensure!(!claimed, "{name}: assess accepts what the table denies: {table:?}");
    }
    let compiled = device.compile(program, &CompileOptions::default());
    if let Some(Verdict::Rejected { detail, .. }) = verdicts.iter().find(|v| !v.is_supported()) {
        return match compiled {
            Ok(_) => Err(Stop::failed(format!("{name}: denied by assess ({detail}), and it compiles"))),
            Err(e) if matches!(e.status(), Status::Unsupported | Status::InvalidArgument) => Ok(()),
            Err(e) => Err(Stop::failed(format!("{name}: denied by assess, and compile gives {:?}: {e}", e.status()))),
        };
    }
    // What the reference itself refuses is no valid program.
    let Ok(want) = expected(program, inputs) else { return Ok(()) };
    let exe = compiled.map_err(|e| Stop::failed(format!("{name}: claimed by assess, and it does not compile: {e}")))?;
    let found = guarded_run(device, exe, inputs, &want);
    let found = found.map_err(|e| Stop::failed(format!("{name}: claimed by assess, and it does not run: {e:?}")))?;
    let exact = verdicts.iter().all(|v| matches!(v, Verdict::Supported { exact: true }));
    for (i, (found, want)) in found.iter().zip(&want).enumerate() {
        let whole = !program.ty(program.outputs[i]).dtype.is_float();
        let difference = first_difference(found, want).filter(|_| exact && whole);
        ensure!(difference.is_none(), "{name}: output {i} is not what it claims: {}", difference.unwrap_or_default());
    }
    Ok(())
}

fn all(subject: &Subject, variants: impl Fn(&dyn Device, &Sample) -> Vec<Sample>) -> Check {
    let device = subject.open()?;
    for sample in samples() {
        variants(&*device, &sample).iter().try_for_each(|s| agree(&*device, s))?;
    }
    Ok(())
}

fn cases(subject: &Subject) -> Check {
    let device = subject.open()?;
    let samples = samples();
    samples.iter().try_for_each(|s| agree(&*device, s))?;
    let claimed = |s: &&Sample| device.assess(&s.program).is_ok_and(|v| v.iter().all(Verdict::is_supported));
    ensure!(samples.iter().any(|s| claimed(&s)), "none of {} programs is accepted", samples.len());
    Ok(())
}

fn changed(sample: &Sample, what: &str, change: impl FnOnce(&mut Program)) -> Sample {
    let mut program = sample.program.clone();
    change(&mut program);
    Sample { name: format!("{} {what}", sample.name), program, inputs: sample.inputs.clone() }
}

/// Other requantization modes, a fused clamp.
fn modes(subject: &Subject) -> Check {
    all(subject, |_, sample| {
        let quantized = sample.program.values.iter().all(|v| v.ty.quant.is_some());
        if sample.program.nodes[0].requant.is_none() || !quantized {
            return Vec::new();
        }
        let mode = |m: RequantMode| changed(sample, m.name(), |p| p.nodes[0].requant = Some(m));
        let mut all = [RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single]
            .map(mode)
            .into_iter()
            .collect::<Vec<_>>();
        all.push(changed(sample, "with a clamp", |p| p.nodes[0].fused.clamp = Some((0, 1))));
        all
    })
}

/// Constants that come at run time, and inputs that are known when it is compiled.
fn constants(subject: &Subject) -> Check {
    all(subject, |_, sample| {
        let (program, mut variants) = (&sample.program, Vec::new());
        for (i, id) in program.inputs.iter().enumerate() {
            let (ty, Some(shape)) = (program.ty(*id), program.ty(*id).shape.known()) else { continue };
            let Ok(tensor) = Tensor::from_bytes(ty.dtype, &shape, &sample.inputs[i]) else { continue };
            let mut variant = changed(sample, &format!("with input {i} constant"), |p| {
                p.values[id.0].constant = Some(tensor);
                p.inputs.remove(i);
            });
            variant.inputs.remove(i);
            variants.push(variant);
        }
        for (i, value) in program.values.iter().enumerate() {
            let Some(tensor) = &value.constant else { continue };
            let mut variant = changed(sample, &format!("with `{}` at run time", value.name), |p| {
                p.values[i].constant = None;
                p.inputs.push(ottava_hal::ValueId(i));
            });
            variant.inputs.push(tensor.bytes().to_vec());
            variants.push(variant);
        }
        variants
    })
}

/// Attributes at the limits of the rows, and just beyond.
fn limits(subject: &Subject) -> Check {
    all(subject, |device, sample| {
        let node = &sample.program.nodes[0];
        let rows = device.capability().rows.iter().filter(|r| r.op == node.op && r.domain == node.domain);
        let mut variants = vec![changed(sample, "of version 4000000", |p| p.nodes[0].version = 4_000_000)];
        for limit in rows.flat_map(|r| &r.limits) {
            let Looks::Attr(name) = &limit.subject else { continue };
            let edges = match limit.compare {
                Compare::Eq(n) | Compare::Le(n) | Compare::Ge(n) | Compare::MultipleOf(n) => vec![n],
                Compare::InRange(lo, hi) => vec![lo, hi],
            };
            for n in edges.into_iter().flat_map(|n| [n.saturating_sub(1), n, n.saturating_add(1)]) {
                let Some(Attr::Int(_)) = node.attrs.get(name) else { continue };
                let what = format!("with {name} {n}");
                variants.push(changed(sample, &what, |p| p.nodes[0].attrs.set(name.to_string(), Attr::Int(n))));
            }
        }
        variants
    })
}

/// An operator that nobody has.
fn unknown(subject: &Subject) -> Check {
    let device = subject.open()?;
    for sample in samples().iter().take(3) {
        let nobody = changed(sample, "as NoSuchOperator", |p| p.nodes[0].op = "NoSuchOperator".into());
        agree(&*device, &nobody)?;
        let verdicts = device.assess(&nobody.program)?;
        ensure!(!verdicts.iter().any(Verdict::is_supported), "an operator that does not exist is accepted");
    }
    Ok(())
}
