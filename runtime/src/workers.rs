//! Inferences that nobody waits for yet.
//!
//! Protocol: jobs are in one queue; a thread is started when a job comes and none is idle, up to the limit of
//! inferences in flight. Each thread drives one inference at a time, as the caller of [`crate::Runner::run`] does. When
//! the runner goes away the queue is closed: jobs that no thread has taken are dropped, which answers them with
//! `Cancelled`, and idle threads end; a thread that a driver keeps from returning is left alone.

use crate::sync::{Condvar, Mutex};
use std::collections::VecDeque;
use std::sync::Arc;

/// A piece of work. Dropping it unrun tells whoever waits for it.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// A queue of jobs and the threads that work on it.
pub(crate) struct Workers {
    shared: Arc<Shared>,
}

struct Shared {
    limit: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    idle: usize,
    threads: usize,
    closed: bool,
}

impl Workers {
    /// No threads yet; `limit` at most.
    pub fn new(limit: usize) -> Self {
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { limit: limit.max(1), state, changed: Condvar::new() }) }
    }

    /// Adds a job.
    pub fn push(&self, job: Job) {
        let mut state = self.shared.state.lock();
        state.jobs.push_back(job);
        // Idle threads that were woken for earlier jobs still count as idle until they run, so jobs are compared too.
        if state.jobs.len() > state.idle && state.threads < self.shared.limit {
            state.threads += 1;
            let shared = self.shared.clone();
            drop(state);
            spawn(move || shared.work());
        } else {
            drop(state);
            self.shared.changed.notify_one();
        }
    }
}

#[cfg(not(test))]
fn spawn(f: impl FnOnce() + Send + 'static) {
    std::thread::spawn(f);
}

#[cfg(test)]
fn spawn(f: impl FnOnce() + Send + 'static) {
    shuttle::thread::spawn(f);
}

impl Shared {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            if state.closed {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = self.changed.wait(state, None).0;
            state.idle -= 1;
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.shared.state.lock();
        state.closed = true;
        let jobs = std::mem::take(&mut state.jobs);
        drop(state);
        self.shared.changed.notify_all();
        drop(jobs);
    }
}

#[cfg(test)]
#[path = "workers_tests.rs"]
mod tests;
