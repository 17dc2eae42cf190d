//! A queue: it checks and records a submission in the caller's thread and hands it over as soon as its waits allow.

use crate::device::Shared;
use crate::engine::Engine;
use crate::job::{Job, Work, points};
use ottava_gpu::engine::Profiles;
use ottava_hal::device::Profile;
use ottava_hal::{Queue, Result, Submission};
use parking_lot::Mutex;
use std::sync::Arc;

/// An in-order queue of the device.
pub(crate) struct VulkanQueue {
    device: Arc<Shared>,
    /// The lock keeps the order of submissions.
    state: Mutex<State>,
    profiles: Arc<Profiles>,
}

struct State {
    /// The number that the last submission got.
    submissions: u64,
    /// The queue's place on the device; another one after a reset.
    place: Place,
}

struct Place {
    engine: Arc<Engine>,
    line: u64,
    lane: usize,
}

impl Place {
    fn new(engine: Arc<Engine>) -> Self {
        let (line, lane) = engine.core.open_line();
        Self { engine, line, lane }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.engine.core.close_line(self.line);
    }
}

impl VulkanQueue {
    /// A queue without work.
    pub(crate) fn new(device: Arc<Shared>) -> Self {
        let place = Place::new(device.engine());
        Self { device, state: Mutex::new(State { submissions: 0, place }), profiles: Arc::default() }
    }
}

impl Queue for VulkanQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let engine = self.device.engine();
        let mut state = self.state.lock();
        if !Arc::ptr_eq(&engine, &state.place.engine) {
            state.place = Place::new(engine);
        }
        let (core, lane, line) = (&state.place.engine.core, state.place.lane, state.place.line);
        core.check()?;
        let works = s.commands.iter().map(|c| Work::new(core, lane, c, s.profile)).collect::<Result<_>>()?;
        let (waits, signals) = (points(&s.waits, &core.gpu)?, points(&s.signals, &core.gpu)?);
        let id = state.submissions + 1;
        let job = Job {
            id,
            lane,
            works,
            waits,
            signals,
            deadline: s.deadline,
            profile: s.profile.then(|| Arc::clone(&self.profiles)),
            struck: false,
            not_before: None,
            flip: None,
        };
        let core = Arc::clone(core);
        state.submissions = id;
        core.push(line, job);
        // A listener of a timeline may submit to this queue.
        drop(state);
        core.pump();
        Ok(id)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        self.profiles.take(submission)
    }
}
