//! O.1: a chip that exists as a description. The device must run what the description runs, give its bytes, and, where a
//! tolerance is given, take its cycles.
//!
//! Without an oracle the group has no cases. What the device runs beyond its description is not looked at.

use super::Group;
use crate::execute::execute_profiled;
use crate::kit::{Net, basis, case_programs};
use crate::{Case, Check, Oracle, Repro, Stop, Subject, ensure};
use ottava_hal::device::Profile;
use ottava_hal::{Device, Program, RequantMode, Tensor, Verdict};
use std::collections::BTreeSet;

/// Lengths of additions, around powers of two: where a description has a limit, the device must not have a smaller one.
const LENGTHS: [usize; 12] = [1, 2, 15, 16, 17, 255, 256, 1023, 4096, 4097, 65_536, 262_144];

pub(super) const GROUP: Group = Group {
    id: "O.1",
    name: "oracle",
    about: "what the description of the chip runs, the device runs with the same bytes and cycles",
    cases,
};

fn cases(subject: &Subject) -> Vec<Case> {
    let Some(oracle) = &subject.oracle else { return Vec::new() };
    let mut ops = BTreeSet::new();
    for (name, program, _) in case_programs() {
        if runs(oracle.device.as_ref(), &program).is_ok() {
            ops.insert(name.split('/').next().unwrap_or_default().to_owned());
        }
    }
    let of_op = |op: String| Case::new("O.1", format!("oracle.run.{op}"), move |subject| run_op(subject, &op));
    let sizes = Case::new("O.1", "oracle.size.Add", sizes);
    ops.into_iter().map(of_op).chain([sizes]).collect()
}

/// Whether a device runs a program; otherwise why not.
fn runs(device: &dyn Device, program: &Program) -> Result<(), String> {
    let verdicts = device.assess(program).map_err(|e| e.to_string())?;
    let refusal = verdicts.into_iter().find_map(|v| match v {
        Verdict::Rejected { reason, detail } => Some(format!("{reason}: {detail}")),
        Verdict::Supported { .. } => None,
    });
    refusal.map_or(Ok(()), Err)
}

fn oracle(subject: &Subject) -> Result<&Oracle, Stop> {
    subject.oracle.as_ref().ok_or_else(|| Stop::Skipped("there is no description to compare with".to_owned()))
}

/// Every case of an operator in every requantization mode that the description has.
fn run_op(subject: &Subject, op: &str) -> Check {
    let (oracle, device) = (oracle(subject)?, subject.open()?);
    for (name, program, case) in case_programs().into_iter().filter(|(name, ..)| name.split('/').next() == Some(op)) {
        let inputs: Vec<Tensor> =
            case.inputs.iter().flatten().filter(|x| !x.constant).map(|x| x.tensor.clone()).collect();
        for (mode, program) in in_modes(&program) {
            if runs(oracle.device.as_ref(), &program).is_ok() {
                compare(oracle, device.as_ref(), &format!("{name}{mode}"), program, &inputs)?;
            }
        }
    }
    Ok(())
}

/// The program, once per mode where a mode matters.
fn in_modes(program: &Program) -> Vec<(String, Program)> {
    if program.nodes.iter().all(|n| n.requant.is_none()) {
        return vec![(String::new(), program.clone())];
    }
    let with = |mode: RequantMode| {
        let mut program = program.clone();
        program.nodes.iter_mut().filter_map(|n| n.requant.as_mut()).for_each(|m| *m = mode);
        (format!(" in {mode}"), program)
    };
    RequantMode::ALL.into_iter().map(with).collect()
}

fn compare(oracle: &Oracle, device: &dyn Device, name: &str, program: Program, inputs: &[Tensor]) -> Check {
    if let Err(why) = runs(device, &program) {
        return Err(Stop::failed(format!("{name}: the description runs it, the device does not: {why}")));
    }
    // What the description itself cannot run is no measure.
    let Ok((expected, described)) = execute_profiled(oracle.device.as_ref(), &program, inputs) else { return Ok(()) };
    let (actual, measured) = execute_profiled(device, &program, inputs)?;
    match (Repro { program, inputs: inputs.to_vec(), expected, actual }).equal() {
        Err(Stop::Differs(what, repro)) => return Err(Stop::Differs(format!("{name}: {what}"), repro)),
        other => other?,
    }
    oracle.tolerance.map_or(Ok(()), |percent| same_cycles(name, described, measured, percent))
}

fn cycles(profile: Option<&Profile>) -> u64 {
    profile.map_or(0, |p| p.nodes.iter().fold(0, |sum, n| sum.saturating_add(n.cycles)))
}

fn same_cycles(name: &str, described: Option<Profile>, measured: Option<Profile>, percent: f64) -> Check {
    let (want, got) = (cycles(described.as_ref()), cycles(measured.as_ref()));
    if want == 0 {
        return Ok(());
    }
    ensure!(got > 0, "{name}: the device tells no cycles (ottava.profile/1), the description says {want}");
    let off = got.abs_diff(want) as f64 * 100.0 / want as f64;
    ensure!(
        off <= percent,
        "{name}: {got} cycles, the description says {want}: {off:.1} % off, {percent} % are allowed"
    );
    Ok(())
}

/// Additions of growing length.
fn sizes(subject: &Subject) -> Check {
    let (oracle, device) = (oracle(subject)?, subject.open()?);
    let described = oracle.device.as_ref();
    for n in LENGTHS {
        let program = Net::chain(&basis(described, n)?, 1);
        if runs(described, &program).is_ok()
            && let Err(why) = runs(device.as_ref(), &program)
        {
            return Err(Stop::failed(format!("Add of {n}: the description runs it, the device does not: {why}")));
        }
    }
    Ok(())
}
