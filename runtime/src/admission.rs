//! Who may run, and on what: the limit of inferences in flight and the protocol for lost devices.
//!
//! Protocol. Every inference enters before it runs and leaves after it; it runs on the *current* compilation `G` that
//! it was given. An inference that fails because a device is lost leaves with a [`Loss`]. From then on nobody enters;
//! the others fail or finish by themselves and leave too. When nobody is left inside, one of those who wait calls the
//! recovery, alone and without the lock, so a reset meets no other call; then everybody goes on with its result: those
//! that were lost run again, the others enter for the first time. One loss is recovered once, however many inferences
//! report it, because a recovery waits for all of them.
//!
//! Ordering. All state is under one mutex; each change that someone may wait for wakes all. Whoever waits for a
//! recovery may carry it out, so none is forgotten when an inference gives up at its deadline. If a recovery fails, the
//! failure stays: everyone who waits or comes later gets it.
//!
//! Limit. A driver call that never returns under an inference without a deadline holds up a recovery; inferences that wait
//! for it still end at their own deadlines.

use crate::sync::{Condvar, Guard, Mutex};
use ottava_hal::{Error, Result, Status};
use std::sync::Arc;
use std::time::Instant;

/// A device that was lost under an inference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Loss {
    pub device: String,
    pub error: Error,
}

/// What an inference runs on.
pub(crate) struct Entry<G> {
    pub current: Arc<G>,
    generation: u64,
}

/// How a new compilation is made after losses. It does not panic.
pub(crate) type Recover<'a, G> = &'a dyn Fn(&Arc<G>, &[Loss]) -> Result<Arc<G>>;

/// The gate that all inferences of a runner pass.
pub(crate) struct Admission<G> {
    limit: usize,
    state: Mutex<State<G>>,
    changed: Condvar,
}

struct State<G> {
    current: Arc<G>,
    generation: u64,
    inside: usize,
    waiting: usize,
    losses: Vec<Loss>,
    recovering: bool,
    dead: Option<Error>,
}

impl<G> Admission<G> {
    /// Lets `limit` inferences (at least one) in at a time.
    pub fn new(current: Arc<G>, limit: usize) -> Self {
        let state =
            State { current, generation: 0, inside: 0, waiting: 0, losses: Vec::new(), recovering: false, dead: None };
        Self { limit: limit.max(1), state: Mutex::new(state), changed: Condvar::new() }
    }

    /// The compilation that the next inference will get.
    pub fn current(&self) -> Arc<G> {
        self.state.lock().current.clone()
    }

    /// Waits for a place; carries out a recovery that is due.
    pub fn enter(&self, deadline: Option<Instant>, recover: Recover<'_, G>) -> Result<Entry<G>> {
        let mut state = self.state.lock();
        loop {
            if let Some(error) = &state.dead {
                return Err(error.clone());
            }
            if state.losses.is_empty() && state.inside < self.limit {
                state.inside += 1;
                return Ok(Entry { current: state.current.clone(), generation: state.generation });
            }
            state = self.settle(state, deadline, recover)?;
        }
    }

    /// The inference is over, well or not.
    pub fn leave(&self, _entry: Entry<G>) {
        let mut state = self.state.lock();
        state.inside -= 1;
        self.wake(&state);
    }

    /// The inference is over because a device was lost. `Ok` when it may enter again.
    pub fn leave_lost(
        &self,
        entry: Entry<G>,
        loss: Loss,
        deadline: Option<Instant>,
        recover: Recover<'_, G>,
    ) -> Result<()> {
        let generation = entry.generation;
        // The last reference to an old compilation goes here, before a reset.
        drop(entry);
        let mut state = self.state.lock();
        state.inside -= 1;
        // Nobody recovers while this inference is inside, so the loss belongs to the present generation.
        if !state.losses.iter().any(|l| l.device == loss.device) {
            state.losses.push(loss);
        }
        self.wake(&state);
        loop {
            match &state.dead {
                Some(error) => return Err(error.clone()),
                None if state.generation != generation => return Ok(()),
                None => state = self.settle(state, deadline, recover)?,
            }
        }
    }

    fn wake(&self, state: &State<G>) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Recovers if that is due and nobody does; waits for a change otherwise.
    fn settle<'a>(
        &'a self,
        mut state: Guard<'a, State<G>>,
        deadline: Option<Instant>,
        recover: Recover<'_, G>,
    ) -> Result<Guard<'a, State<G>>> {
        if state.inside == 0 && !state.recovering && !state.losses.is_empty() {
            return Ok(self.recover(state, recover));
        }
        state.waiting += 1;
        let (mut state, late) = self.changed.wait(state, deadline);
        state.waiting -= 1;
        match late {
            true => Err(Error::failed(Status::Timeout, "the deadline passed before the inference could start")),
            false => Ok(state),
        }
    }

    fn recover<'a>(&'a self, mut state: Guard<'a, State<G>>, recover: Recover<'_, G>) -> Guard<'a, State<G>> {
        state.recovering = true;
        let (current, losses) = (state.current.clone(), state.losses.clone());
        drop(state);
        let result = recover(&current, &losses);
        drop(current);
        let mut state = self.state.lock();
        state.recovering = false;
        state.losses.clear();
        state.generation += 1;
        let old = match result {
            Ok(current) => Some(std::mem::replace(&mut state.current, current)),
            Err(error) => {
                state.dead = Some(error);
                None
            }
        };
        self.wake(&state);
        // What the old compilation owns goes without the lock: drivers are called.
        drop(state);
        drop(old);
        self.state.lock()
    }
}

#[cfg(test)]
#[path = "admission_tests.rs"]
mod tests;
