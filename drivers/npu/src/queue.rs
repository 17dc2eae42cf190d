//! A queue: it checks a submission in the caller's thread and hands it to the worker.

use crate::engine::Engine;
use crate::fence::Waits;
use crate::info::NPU;
use crate::job::{Job, Profiles, Work};
use ottava_hal::device::Profile;
use ottava_hal::{Queue, Result, Submission};
use parking_lot::Mutex;
use std::sync::Arc;

/// An in-order queue of the device.
pub(crate) struct NpuQueue {
    engine: Arc<Engine>,
    line: u64,
    /// Number of submissions; the lock keeps their order.
    submissions: Mutex<u64>,
    profiles: Arc<Profiles>,
}

impl NpuQueue {
    /// A queue without work.
    pub(crate) fn new(engine: Arc<Engine>) -> Self {
        let line = engine.core.open_line();
        Self { engine, line, submissions: Mutex::new(0), profiles: Arc::default() }
    }
}

impl Queue for NpuQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let core = &self.engine.core;
        core.lost.check(NPU)?;
        let generation = core.generation();
        let commands = s.commands.iter().map(|c| Work::check(c, &generation)).collect::<Result<Vec<_>>>()?;
        let waits = Waits::register(core, &s.waits);
        let mut submissions = self.submissions.lock();
        *submissions += 1;
        let id = *submissions;
        let profile = s.profile.then(|| Arc::clone(&self.profiles));
        let signals = s.signals.clone();
        core.enqueue(self.line, Job { id, commands, waits, signals, deadline: s.deadline, profile });
        Ok(id)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        self.profiles.take(submission)
    }
}

impl Drop for NpuQueue {
    fn drop(&mut self) {
        self.engine.core.close_line(self.line);
    }
}
