//! A queue: it checks a submission and runs it.

use crate::engine::{Core, timeout};
use crate::job::Work;
use crate::run::Running;
use crate::shared::Shared;
use crate::status::run_failed;
use opencl3::command_queue::CommandQueue;
use ottava_hal::device::Profile;
use ottava_hal::{Queue, Result, Submission};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An in-order queue of the device.
pub(crate) struct ClQueue {
    core: Arc<Core>,
    commands: CommandQueue,
    submissions: Mutex<u64>,
}

impl ClQueue {
    /// A queue without work.
    pub(crate) fn new(core: &Arc<Core>, shared: &Shared) -> Result<Self> {
        Ok(Self { core: Arc::clone(core), commands: shared.queue()?, submissions: Mutex::new(0) })
    }

    fn run(&self, s: &Submission, work: &[Work]) -> Result<()> {
        for (fence, value) in &s.waits {
            let left = s.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
            fence.wait(*value, left)?;
        }
        if s.deadline.is_some_and(|d| d <= Instant::now()) {
            return Err(timeout());
        }
        let mut running = Running::default();
        let enqueued = work.iter().try_for_each(|w| running.enqueue(&self.commands, w, s.profile));
        let done = self.commands.finish().map_err(|e| run_failed("the run", e.0));
        running.finish();
        enqueued.and(done)
    }
}

impl Queue for ClQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let shared = self.core.shared()?;
        let work = s.commands.iter().map(|c| Work::check(c, &shared)).collect::<Result<Vec<_>>>()?;
        let mut submissions = self.submissions.lock();
        *submissions += 1;
        let result = self.run(s, &work);
        for (fence, value) in &s.signals {
            match &result {
                // A timeline that someone else moved or failed keeps what it has.
                Ok(()) => drop(fence.signal(*value)),
                Err(e) => fence.fail(e.clone()),
            }
        }
        Ok(*submissions)
    }

    fn take_profile(&self, _: u64) -> Option<Profile> {
        None
    }
}
