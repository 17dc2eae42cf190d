//! F.2: queues: order, signals, and what is kept alive.

use super::Group;
use super::before_signal::submit_apart;
use super::timeline::{Listener, MOMENT};
use crate::kit::{LIMIT, Work, buffer_of, bytes_of, done};
use crate::{Case, Check, Stop, Subject, ensure};
use ottava_hal::{Binding, Command, Submission};
use std::time::Duration;

pub(super) const GROUP: Group = Group {
    id: "F.2",
    name: "exec.async",
    about: "signals come after the work, once and in order; a queue keeps its order; what is submitted is kept alive",
    cases: |_| {
        vec![
            Case::new("F.2", "exec.async.signal_after_work", signal_after_work),
            Case::new("F.2", "exec.async.no_write_after_signal", no_write_after_signal),
            Case::new("F.2", "exec.async.signal_once", signal_once),
            Case::new("F.2", "exec.async.every_signal", every_signal),
            Case::new("F.2", "exec.async.order", order),
            Case::new("F.2", "exec.async.signals_in_order", signals_in_order),
            Case::new("F.2", "exec.async.kept_alive", kept_alive),
            Case::new("F.2", "exec.async.across_queues", across_queues),
        ]
    },
};

/// The outputs are read at once when the signal has come.
fn signal_after_work(subject: &Subject) -> Check {
    let device = subject.open()?;
    let queue = device.create_queue()?;
    let work = Work::long(&*device, subject.seed)?;
    for i in 0..4 {
        let work = work.with_seed(subject.seed + i)?;
        let mut bound = work.bind(&*device)?;
        let fence = bound.signal(&*device)?;
        queue.submit(&bound.submission)?;
        done(&*fence, 1, "a submission")?;
        let early = |e: Stop| match e {
            Stop::Failed(why) => Stop::Failed(format!("when the fence was signalled: {why}")),
            other => other,
        };
        bound.check(&work).map_err(early)?;
    }
    Ok(())
}

/// What the host writes into an output after the signal stays there.
fn no_write_after_signal(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    device.create_queue()?.submit(&bound.submission)?;
    done(&*fence, 1, "a submission")?;
    let out = &bound.bindings().1[0];
    let mine = vec![0x77; out.len];
    out.buffer.write(out.offset, &mine)?;
    std::thread::sleep(2 * MOMENT);
    let mut found = vec![0; out.len];
    out.buffer.read(out.offset, &mut found)?;
    ensure!(found == mine, "the device wrote to an output after it had signalled");
    Ok(())
}

fn signal_once(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, fence) = (device.create_queue()?, device.create_fence(0)?);
    for value in [1, 10, 11] {
        queue.submit(&Submission { signals: vec![(fence.clone(), value)], ..Submission::default() })?;
        done(&*fence, value, "a submission")?;
        std::thread::sleep(Duration::from_millis(5));
        let now = fence.query()?;
        ensure!(now == value, "a submission that signals {value} leaves the timeline at {now}");
    }
    Ok(())
}

fn every_signal(subject: &Subject) -> Check {
    let device = subject.open()?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fences = (0..5).map(|_| bound.signal(&*device)).collect::<Result<Vec<_>, Stop>>()?;
    device.create_queue()?.submit(&bound.submission)?;
    fences.iter().enumerate().try_for_each(|(i, f)| done(&**f, 1, &format!("signal {i} of 5")))?;
    bound.check(&work)
}

/// Fills of one buffer: the last one that was submitted is the one that stays.
fn order(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, gate) = (device.create_queue()?, device.create_fence(0)?);
    let fences = (0..16).map(|_| device.create_fence(0)).collect::<ottava_hal::Result<Vec<_>>>()?;
    let buffer = buffer_of(&*device, &[0; 64])?;
    let log = buffer_of(&*device, &[0; 64])?;
    let part = |offset, len| Binding { buffer: log.clone(), offset, len };
    std::thread::scope(|scope| {
        let (queue, fences, gate, buffer) = (&queue, &fences, &gate, &buffer);
        let submit = scope.spawn(move || -> Check {
            for i in 1..=16u8 {
                let fill = Command::Fill { to: Binding::whole(buffer.clone()), pattern: u32::from(i) * 0x0101_0101 };
                let from = Binding { buffer: buffer.clone(), offset: 0, len: 4 };
                let commands = vec![fill, Command::Copy { from, to: part(4 * (i as usize - 1), 4) }];
                let waits = if i == 1 { vec![(gate.clone(), 1)] } else { vec![] };
                let signals = vec![(fences[i as usize - 1].clone(), 1)];
                queue.submit(&Submission { commands, waits, signals, ..Submission::default() })?;
            }
            Ok(())
        });
        std::thread::sleep(MOMENT);
        gate.signal(1)?;
        submit.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))?;
        fences.iter().try_for_each(|f| done(&**f, 1, "one of 16 submissions of a queue"))
    })?;
    let last = bytes_of(&*buffer)?[0];
    ensure!(last == 16, "the queue does not keep its order: the last of 16 fills was number {last}");
    let seen: Vec<u8> = bytes_of(&*log)?.into_iter().step_by(4).collect();
    ensure!(seen == (1..=16).collect::<Vec<u8>>(), "the queue does not keep its order within submissions: {seen:?}");
    Ok(())
}

/// A listener per submission hears of them in the order of the queue.
fn signals_in_order(subject: &Subject) -> Check {
    let device = subject.open()?;
    let (queue, gate) = (device.create_queue()?, device.create_fence(0)?);
    let (listener, from) = Listener::new();
    let fences = (0..12).map(|_| device.create_fence(0)).collect::<ottava_hal::Result<Vec<_>>>()?;
    fences.iter().zip(0..).for_each(|(f, i)| f.notify(1, listener.clone(), i));
    std::thread::scope(|scope| {
        let (queue, gate, fences) = (&queue, &gate, &fences);
        let submit = scope.spawn(move || -> Check {
            for (i, fence) in fences.iter().enumerate() {
                let waits = if i == 0 { vec![(gate.clone(), 1)] } else { vec![] };
                queue.submit(&Submission { waits, signals: vec![(fence.clone(), 1)], ..Submission::default() })?;
            }
            Ok(())
        });
        std::thread::sleep(MOMENT);
        gate.signal(1)?;
        submit.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
    })?;
    let heard: Vec<u64> = (0..12).filter_map(|_| from.recv_timeout(LIMIT).ok().map(|(token, _)| token)).collect();
    ensure!(heard == (0..12).collect::<Vec<_>>(), "submissions of one queue were signalled in the order {heard:?}");
    Ok(())
}

/// Everything that a submission names is dropped while it waits.
fn kept_alive(subject: &Subject) -> Check {
    let device = subject.open()?;
    let gate = device.create_fence(0)?;
    let work = Work::small(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let fence = bound.signal(&*device)?;
    bound.submission.waits = vec![(gate.clone(), 1)];
    let out = bound.bindings().1[0].clone();
    let queue = device.create_queue()?;
    let expected = work.expected.clone();
    std::thread::scope(|scope| {
        let submitted = submit_apart(scope, &queue, &bound.submission);
        std::thread::sleep(MOMENT);
        drop((bound, work, queue));
        gate.signal(1)?;
        done(&*fence, 1, "a submission whose objects were dropped")?;
        submitted.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
    })?;
    let mut found = vec![0; out.len];
    out.buffer.read(out.offset, &mut found)?;
    ensure!(found == expected[0], "the output of a submission whose objects were dropped is wrong");
    Ok(())
}

/// A second queue waits for the first one and reads what it wrote.
fn across_queues(subject: &Subject) -> Check {
    let device = subject.open()?;
    let queues = [device.create_queue()?, device.create_queue()?];
    let work = Work::long(&*device, subject.seed)?;
    let mut bound = work.bind(&*device)?;
    let first = bound.signal(&*device)?;
    let out = bound.bindings().1[0].clone();
    let copy = buffer_of(&*device, &vec![0; out.len])?;
    let (to, second) = (Binding::whole(copy.clone()), device.create_fence(0)?);
    let follow = Submission {
        commands: vec![Command::Copy { from: out, to }],
        waits: vec![(first, 1)],
        signals: vec![(second.clone(), 1)],
        ..Submission::default()
    };
    std::thread::scope(|scope| {
        let submitted = submit_apart(scope, &queues[1], &follow);
        std::thread::sleep(MOMENT);
        queues[0].submit(&bound.submission)?;
        done(&*second, 1, "a submission that waits for another queue")?;
        submitted.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked")))
    })?;
    ensure!(bytes_of(&*copy)? == work.expected[0], "what a queue read after another queue's signal is wrong");
    Ok(())
}
