//! Which steps of an inference are done: the state machine that the threads and devices of one inference share.
//!
//! Protocol. Queued steps are submitted ahead; what they wait for outside their queue is one *gate* per device: a proxy
//! timeline of that device, advanced to turn `t + 1` when everything before turn `t` is done. Completion comes from two
//! sides: the driving thread calls [`Progress::done`] for host steps, the devices' fences call
//! [`Notify::notified`] for queued ones. Whoever completes a step counts its dependents down: host steps become ready
//! and wake the driving thread, gates are signalled at once. No thread waits for a device on behalf of another one.
//!
//! Ordering. All counters are under one mutex, so a step becomes ready exactly once, by whoever completes its last
//! predecessor; the driving thread checks under the same mutex before it sleeps, so no wake-up is lost. Gates are
//! signalled without the lock: one thread at a time per gate (`busy`), and it looks again before it leaves, so that the
//! values grow and none is forgotten.
//!
//! Failure. The first failure is kept and ends the inference; it fails all gates, so nothing that waits starts. A
//! failed timeline stays failed, so a `Progress` that has failed is never begun again.

use crate::flow::{Flow, Kind};
use crate::sync::{Condvar, Guard, Mutex};
use ottava_hal::{Error, Fence, Notify, Result, Status};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Value of [`State::blockers`] for a step that is done.
const DONE: u32 = u32::MAX;

/// Shared by the driving thread and the fences' callbacks.
pub(crate) struct Progress {
    flow: Arc<Flow>,
    /// Per device: the proxy timeline that its gated submissions wait for.
    gates: Vec<Option<Arc<dyn Fence>>>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    blockers: Vec<u32>,
    ready: VecDeque<usize>,
    open: usize,
    failure: Option<Failure>,
    gates: Vec<Gate>,
    /// When each step was done, if that is wanted.
    ends: Option<Vec<Option<Instant>>>,
}

/// How far a device may go.
#[derive(Default, Clone)]
struct Gate {
    /// Value of the timeline before the first turn of this run.
    base: u64,
    /// Turns whose predecessors are all done, counted from the first one without a gap.
    open: usize,
    /// Turns that must be signalled: up to the last gated one of those.
    wanted: usize,
    signalled: usize,
    busy: bool,
}

/// A step that did not work out.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    pub step: usize,
    /// The device that is to blame, if it is not the step's own.
    pub device: Option<usize>,
    pub error: Error,
}

/// What the driving thread does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Run this host step, then report it.
    Run(usize),
    /// Everything is done.
    Finished,
    /// The inference has failed.
    Failed(Failure),
}

impl Progress {
    pub fn new(flow: Arc<Flow>, gates: Vec<Option<Arc<dyn Fence>>>) -> Self {
        let n = flow.kinds.len();
        let state = State {
            blockers: vec![DONE; n],
            ready: VecDeque::with_capacity(n),
            open: 0,
            failure: None,
            gates: vec![Gate::default(); gates.len()],
            ends: None,
        };
        Self { flow, gates, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Starts over, for run number `run` (from 0). Everything of the run before is done.
    pub fn begin(&self, run: u64, timed: bool) {
        let mut state = self.state.lock();
        state.blockers.copy_from_slice(&self.flow.blockers);
        state.ready.clear();
        state.open = self.flow.kinds.len();
        state.ends = timed.then(|| vec![None; self.flow.kinds.len()]);
        for (step, kind) in self.flow.kinds.iter().enumerate() {
            if *kind == Kind::Host && self.flow.blockers[step] == 0 {
                state.ready.push_back(step);
            }
        }
        for (device, turns) in self.flow.turns.iter().enumerate() {
            let base = run.wrapping_mul(turns.len() as u64);
            state.gates[device] = Gate { base, ..Gate::default() };
            self.open_gate(&mut state, device);
        }
        self.signal_gates(state);
    }

    /// A step is done.
    pub fn done(&self, step: usize) {
        let mut state = self.state.lock();
        if state.failure.is_some() || state.blockers[step] == DONE {
            return;
        }
        state.blockers[step] = DONE;
        state.open -= 1;
        if let Some(ends) = &mut state.ends {
            ends[step] = Some(Instant::now());
        }
        for &next in &self.flow.dependents[step] {
            state.blockers[next] -= 1;
            if state.blockers[next] > 0 {
                continue;
            }
            match self.flow.kinds[next] {
                Kind::Host => state.ready.push_back(next),
                Kind::Queued { device, .. } => self.open_gate(&mut state, device),
            }
        }
        if state.open == 0 || !state.ready.is_empty() {
            self.changed.notify_one();
        }
        self.signal_gates(state);
    }

    /// A step has failed, and with it the inference.
    pub fn fail(&self, failure: Failure) {
        let mut state = self.state.lock();
        if state.failure.is_some() {
            return;
        }
        let error = failure.error.clone();
        state.failure = Some(failure);
        drop(state);
        self.changed.notify_one();
        for gate in self.gates.iter().flatten() {
            gate.fail(error.clone());
        }
    }

    /// Waits until there is something to do for the driving thread; gives up at the deadline.
    pub fn next(&self, deadline: Option<Instant>) -> Next {
        let mut state = self.state.lock();
        loop {
            if let Some(failure) = &state.failure {
                return Next::Failed(failure.clone());
            }
            if deadline.is_some_and(|d| Instant::now() >= d) && state.open > 0 {
                let step = state.blockers.iter().position(|b| *b != DONE).unwrap_or(0);
                drop(state);
                let error = Error::failed(Status::Timeout, "not done at the deadline");
                self.fail(Failure { step, device: None, error });
                state = self.state.lock();
                continue;
            }
            if let Some(step) = state.ready.pop_front() {
                return Next::Run(step);
            }
            if state.open == 0 {
                return Next::Finished;
            }
            state = self.changed.wait(state, deadline).0;
        }
    }

    /// When each step was done, if [`Self::begin`] was asked to note it.
    pub fn take_ends(&self) -> Vec<Option<Instant>> {
        self.state.lock().ends.take().unwrap_or_default()
    }

    /// Counts the turns that a device may take now.
    fn open_gate(&self, state: &mut State, device: usize) {
        let turns = &self.flow.turns[device];
        while let Some(step) = turns.get(state.gates[device].open)
            && matches!(state.blockers[*step], 0 | DONE)
        {
            let gate = &mut state.gates[device];
            gate.open += 1;
            if self.flow.is_gated(*step) {
                gate.wanted = gate.open;
            }
        }
    }

    /// Advances the gates that are behind. A gate that refuses belongs to a lost device, whose own timeline says so.
    fn signal_gates<'a>(&'a self, mut state: Guard<'a, State>) {
        let behind = |g: &Gate| g.wanted > g.signalled && !g.busy;
        while let Some(device) = state.gates.iter().position(behind) {
            let gate = &mut state.gates[device];
            (gate.busy, gate.signalled) = (true, gate.wanted);
            let value = gate.base.wrapping_add(gate.wanted as u64);
            drop(state);
            if let Some(fence) = &self.gates[device] {
                let _ = fence.signal(value);
            }
            state = self.state.lock();
            state.gates[device].busy = false;
        }
    }
}

impl Notify for Progress {
    fn notified(&self, token: u64, result: Result<()>) {
        let step = token as usize;
        match result {
            Ok(()) => self.done(step),
            Err(error) => self.fail(Failure { step, device: None, error }),
        }
    }
}

#[cfg(test)]
#[path = "progress_tests.rs"]
mod tests;
