//! Queues: a submission is checked in the caller's thread and handed to the worker.

use crate::core::{Engine, Profiles, Waits};
use crate::executable::compiled;
use crate::{Core, Job, memory};
use ottava_hal::device::{Command, Profile};
use ottava_hal::{Binding, Error, Queue, Result, Submission, TensorType};
use parking_lot::Mutex;
use std::sync::Arc;

/// An in-order queue.
pub(crate) struct FaultyQueue {
    engine: Arc<Engine>,
    line: u64,
    submissions: Mutex<u64>,
    profiles: Arc<Profiles>,
}

impl FaultyQueue {
    /// A queue without work.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let line = engine.core.open_line();
        Self { engine, line, submissions: Mutex::new(0), profiles: Arc::default() }
    }
}

impl Queue for FaultyQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let core = &self.engine.core;
        core.lost.check(&core.id)?;
        (core.behaviour.submit)(core, s)?;
        let waits = Waits::register(core, &s.waits);
        let mut submissions = self.submissions.lock();
        *submissions += 1;
        let id = *submissions;
        let profiles = s.profile.then(|| Arc::clone(&self.profiles));
        let job = Job { id, line: self.line, submission: s.clone(), waits, profiles };
        (core.behaviour.enqueued)(core, &job);
        core.enqueue(job);
        Ok((core.behaviour.number)(id))
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        self.profiles.take(submission)
    }
}

impl Drop for FaultyQueue {
    fn drop(&mut self) {
        self.engine.core.close_line(self.line);
    }
}

/// Whether everything of a submission is of this device and fits.
pub(crate) fn check(core: &Core, s: &Submission) -> Result<()> {
    s.commands.iter().try_for_each(|c| check_command(core, c))
}

fn check_command(core: &Core, command: &Command) -> Result<()> {
    match command {
        Command::Dispatch { executable, inputs, outputs } => {
            let exe = compiled(executable.as_ref())?;
            if !std::ptr::eq(Arc::as_ptr(&exe.core), core) || exe.generation != core.generation() {
                return Err(Error::invalid("an executable of another device, or from before a reset"));
            }
            check_all(core, inputs, &exe.inputs, "input")?;
            check_all(core, outputs, &exe.outputs, "output")?;
            check_distinct(inputs, outputs)
        }
        Command::Copy { from, to } if from.len != to.len => {
            Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)))
        }
        Command::Copy { from, to } => {
            check_one(core, from)?;
            check_one(core, to)?;
            if overlap(from, to) { Err(Error::invalid("a copy whose source and destination overlap")) } else { Ok(()) }
        }
        Command::Fill { to, .. } => check_one(core, to),
    }
}

/// The bindings of all inputs or outputs.
pub fn check_all(core: &Core, bindings: &[Binding], types: &[TensorType], what: &str) -> Result<()> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    for (i, (b, ty)) in bindings.iter().zip(types).enumerate() {
        if ty.byte_len() != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {:?}", b.len, ty.byte_len())));
        }
        check_one(core, b)?;
    }
    Ok(())
}

/// A part of a buffer of this device.
pub fn check_one(core: &Core, binding: &Binding) -> Result<()> {
    let buffer = memory::of(binding)?;
    if !std::ptr::eq(Arc::as_ptr(&buffer.core), core) || buffer.generation != core.generation() {
        return Err(Error::invalid("a buffer of another device, or from before a reset"));
    }
    buffer.range(binding.offset, binding.len).map(drop)
}

fn overlap(a: &Binding, b: &Binding) -> bool {
    let same = std::ptr::addr_eq(Arc::as_ptr(&a.buffer), Arc::as_ptr(&b.buffer));
    same && a.offset < b.offset.saturating_add(b.len) && b.offset < a.offset.saturating_add(a.len)
}

/// An output overlaps nothing else that is bound.
pub fn check_distinct(inputs: &[Binding], outputs: &[Binding]) -> Result<()> {
    for (i, out) in outputs.iter().enumerate() {
        if outputs[i + 1..].iter().chain(inputs).any(|other| overlap(out, other)) {
            return Err(Error::invalid(format!("the memory of output {i} is bound twice")));
        }
    }
    Ok(())
}
