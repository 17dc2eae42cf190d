//! F.1: one submission.

use super::Group;
use crate::kit::{Work, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::Submission;

pub(super) const GROUP: Group = Group {
    id: "F.1",
    name: "exec.sync",
    about: "one submission runs on the device, writes its outputs and nothing else, and signals",
    cases: |_| {
        vec![
            Case::new("F.1", "exec.sync.runs", runs),
            Case::new("F.1", "exec.sync.again", again),
            Case::new("F.1", "exec.sync.empty", empty),
            Case::new("F.1", "exec.sync.numbers", numbers),
            Case::new("F.1", "exec.sync.several_commands", several_commands),
            Case::new("F.1", "exec.sync.ran_there", ran_there),
            Case::new("F.1", "exec.sync.kernels", kernels),
        ]
    },
};

fn runs(subject: &Subject) -> Check {
    let device = subject.open()?;
    Work::small(&*device, subject.seed)?.run(&*device)?;
    Work::long(&*device, subject.seed)?.run(&*device)
}

/// The same executable with other data: nothing of the last run is left.
fn again(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    (0..10).try_for_each(|i| work.with_seed(subject.seed + i)?.run(&*device))
}

fn empty(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, fence) = (device.create_queue()?, device.create_fence(0)?);
    for value in 1..4 {
        queue.submit(&Submission { signals: vec![(fence.clone(), value)], ..Submission::default() })?;
        done(&*fence, value, "a submission without commands")?;
    }
    queue.submit(&Submission::default()).map(drop).map_err(Stop::from)
}

fn numbers(subject: &Subject) -> Check {
    let device = subject.open()?;
    let queue = device.create_queue()?;
    let mut last = None;
    for _ in 0..5 {
        let id = queue.submit(&Submission::default())?;
        ensure!(last.is_none_or(|l| id > l), "submission {id} follows {last:?}; numbers grow");
        last = Some(id);
    }
    Ok(())
}

/// Two runs in one submission, the second on what the first has written.
fn several_commands(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let first = work.bind(&*device)?;
    let mut inputs = work.inputs.clone();
    inputs[0] = work.expected[0].clone();
    let next = Work {
        expected: crate::kit::expected(&work.program, &inputs)?,
        inputs,
        program: work.program.clone(),
        exe: work.exe.clone(),
    };
    let mut second = next.bind(&*device)?;
    let written = first.bindings().1[0].clone();
    if let Some((inputs, _)) = second.bindings_mut() {
        inputs[0] = written;
    }
    let mut submission = first.submission.clone();
    submission.commands.extend(second.submission.commands.iter().cloned());
    crate::kit::submit_and_wait(&*device, &*device.create_queue()?, submission)?;
    first.check(&work)?;
    second.check(&next)
}

/// What a run leaves in the profile: a device that lets the host compute has no records of the nodes.
fn ran_there(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (work, queue) = (Work::small(&*device, subject.seed)?, device.create_queue()?);
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.profile = true;
    let id = queue.submit(&bound.submission)?;
    done(&*fence, 1, "a submission that is profiled")?;
    let Some(profile) = queue.take_profile(id) else {
        return Err(Stop::Unsupported("the driver keeps no profiles, which say where a node ran".into()));
    };
    let node = &work.program.nodes[0].name;
    let recorded = profile.nodes.iter().any(|n| n.node.contains(node.as_str()));
    ensure!(recorded, "the profile has no record of node `{node}`: it did not run on the device");
    Ok(())
}

fn kernels(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let (first, second) = (work.exe.kernels(), work.exe.kernels());
    ensure!(first == second, "the kernels of an executable change: {first:?}, {second:?}");
    for (node, kernel) in &first {
        let known = work.program.nodes.iter().any(|n| n.name == *node);
        ensure!(
            known && !kernel.is_empty(),
            "kernel `{kernel}` is said to run node `{node}`, which is not in the program"
        );
    }
    Ok(())
}
