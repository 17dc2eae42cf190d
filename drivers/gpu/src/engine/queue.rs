//! A queue: it checks a submission in the caller's thread and hands it to the worker.

use super::backend::Backend;
use super::line::{Job, Signals};
use super::profiles::Profiles;
use super::worker::Engine;
use ottava_hal::device::Profile;
use ottava_hal::{Queue, Result, Submission};
use parking_lot::Mutex;
use std::sync::Arc;

/// An in-order queue of a device.
pub struct EngineQueue<B: Backend> {
    engine: Arc<Engine<B>>,
    line: u64,
    /// Number of submissions; the lock keeps their order.
    submissions: Mutex<u64>,
    profiles: Arc<Profiles>,
}

impl<B: Backend> EngineQueue<B> {
    /// A queue without work.
    pub fn new(engine: Arc<Engine<B>>) -> Result<Self> {
        let queue = engine.core.backend.queue()?;
        let line = engine.core.change(|state| state.lines.open(queue));
        Ok(Self { engine, line, submissions: Mutex::new(0), profiles: Arc::default() })
    }
}

impl<B: Backend> Queue for EngineQueue<B> {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let core = &self.engine.core;
        core.check()?;
        let work = s.commands.iter().map(|c| core.backend.check(c)).collect::<Result<Vec<_>>>()?;
        let waits = core.waits(&s.waits);
        let mut submissions = self.submissions.lock();
        *submissions += 1;
        let id = *submissions;
        let profile = s.profile.then(|| Arc::clone(&self.profiles));
        core.enqueue(
            self.line,
            Job { id, work, waits, signals: Signals(s.signals.clone()), deadline: s.deadline, profile },
        );
        drop(submissions);
        self.engine.serve(self.line);
        Ok(id)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        self.profiles.take(submission)
    }
}

impl<B: Backend> Drop for EngineQueue<B> {
    fn drop(&mut self) {
        self.engine.core.change(|state| state.lines.close(self.line));
    }
}
