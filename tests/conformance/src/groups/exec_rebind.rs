//! F.3: one executable, many bindings.

use super::Group;
use super::before_signal::submit_apart;
use super::timeline::MOMENT;
use crate::kit::{Bound, Work, buffer_of, done};
use crate::{Case, Check, Stop, Subject};
use ottava_hal::Device;

pub(super) const GROUP: Group = Group {
    id: "F.3",
    name: "exec.rebind",
    about: "the same executable with other buffers and offsets, one after the other and at once",
    cases: |_| {
        vec![
            Case::new("F.3", "exec.rebind.buffers", buffers),
            Case::new("F.3", "exec.rebind.offsets", offsets),
            Case::new("F.3", "exec.rebind.same_input", same_input),
            Case::new("F.3", "exec.rebind.two_queues", two_queues),
            Case::new("F.3", "exec.rebind.threads", threads),
        ]
    },
};

/// Eight submissions with data of their own, all submitted before the first one may run.
fn buffers(subject: &Subject) -> Check {
    gated(subject, 1)
}

fn two_queues(subject: &Subject) -> Check {
    gated(subject, 2)
}

fn gated(subject: &Subject, n_queues: usize) -> Check {
    let device = subject.open()?;
    let gate = device.create_fence(0)?;
    let queues = (0..n_queues).map(|_| device.create_queue()).collect::<ottava_hal::Result<Vec<_>>>()?;
    let work = Work::small(&*device, subject.seed)?;
    let works = (0..8).map(|i| work.with_seed(subject.seed + i)).collect::<Result<Vec<_>, Stop>>()?;
    let mut all: Vec<Bound> = works.iter().map(|w| w.bind(&*device)).collect::<Result<_, Stop>>()?;
    let fences = all.iter_mut().map(|b| b.signal(&*device)).collect::<Result<Vec<_>, Stop>>()?;
    all.iter_mut().for_each(|b| b.submission.waits = vec![(gate.clone(), 1)]);
    std::thread::scope(|scope| {
        let submit = |(i, b): (usize, &Bound)| submit_apart(scope, &queues[i % n_queues], &b.submission);
        let threads: Vec<_> = all.iter().enumerate().map(submit).collect();
        std::thread::sleep(MOMENT);
        gate.signal(1)?;
        fences.iter().try_for_each(|f| done(&**f, 1, "one of 8 submissions"))?;
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })?;
    all.iter().zip(&works).enumerate().try_for_each(|(i, (b, w))| named(b.check(w), &format!("submission {i} of 8")))
}

fn named(check: Check, what: &str) -> Check {
    check.map_err(|e| match e {
        Stop::Failed(why) => Stop::Failed(format!("{what}: {why}")),
        other => other,
    })
}

/// All inputs in one buffer, at offsets that the device's alignment allows.
fn offsets(subject: &Subject) -> Check {
    let device = subject.open()?;
    let step = device.info().alignment.max(8);
    let work = Work::small(&*device, subject.seed)?;
    for shift in [0, 1, 5] {
        let mut bound = work.bind(&*device)?;
        let place = |i: usize| (i * 7 + shift) * step.max(work.inputs[i].len().next_multiple_of(step));
        let size = (0..work.inputs.len()).map(|i| place(i) + work.inputs[i].len()).max().unwrap_or(0);
        let shared = buffer_of(&*device, &vec![0x33; size])?;
        if let Some((inputs, _)) = bound.bindings_mut() {
            for (i, (binding, data)) in inputs.iter_mut().zip(&work.inputs).enumerate() {
                shared.write(place(i), data)?;
                (binding.buffer, binding.offset) = (shared.clone(), place(i));
            }
        }
        let fence = bound.signal(&*device)?;
        device.create_queue()?.submit(&bound.submission)?;
        done(&*fence, 1, "a submission whose inputs share a buffer")?;
        let out = &bound.bindings().1[0];
        let mut found = vec![0; out.len];
        out.buffer.read(out.offset, &mut found)?;
        if let Some(at) = crate::kit::first_difference(&found, &work.expected[0]) {
            return Err(Stop::failed(format!("inputs at offsets of one buffer, shifted by {shift}: {at}")));
        }
    }
    Ok(())
}

/// One part of a buffer as both inputs.
fn same_input(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let inputs = vec![work.inputs[0].clone(); work.inputs.len()];
    let expected = crate::kit::expected(&work.program, &inputs)?;
    let twice = Work { program: work.program.clone(), exe: work.exe.clone(), inputs, expected };
    let mut bound = twice.bind(&*device)?;
    if let Some((inputs, _)) = bound.bindings_mut() {
        let first = inputs[0].clone();
        inputs.iter_mut().for_each(|b| *b = first.clone());
    }
    let fence = bound.signal(&*device)?;
    device.create_queue()?.submit(&bound.submission)?;
    done(&*fence, 1, "a submission that binds one input twice")?;
    bound.check(&twice)
}

fn threads(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let one = |t: u64| -> Check { (0..15).try_for_each(|i| rerun(&*device, &work, subject.seed + 100 * t + i)) };
    // A `Work` is shared by threads as an executable is: it never changes.
    std::thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..4).map(|t| scope.spawn(move || one(t))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}

fn rerun(device: &dyn Device, work: &Work, seed: u64) -> Check {
    work.with_seed(seed)?.run(device)
}
