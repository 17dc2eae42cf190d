//! A timeline in host memory.
//!
//! Protocol: the state is under one mutex; each change wakes all waiters. Listeners are called after the lock is
//! released, so a listener may use the fence.

use crate::fence::Notify;
use crate::{Error, Fence, Result, Status};
use parking_lot::{Condvar, Mutex};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A timeline in host memory.
pub struct HostFence {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    reached: Result<u64>,
    listeners: Vec<Listener>,
}

struct Listener {
    value: u64,
    to: Arc<dyn Notify>,
    token: u64,
}

impl HostFence {
    /// A timeline that stands at `initial`.
    pub fn new(initial: u64) -> Self {
        Self { state: Mutex::new(State { reached: Ok(initial), listeners: Vec::new() }), changed: Condvar::new() }
    }

    /// Changes the state and tells everyone whom it concerns.
    fn change(&self, reached: impl FnOnce(&Result<u64>) -> Result<Result<u64>>) -> Result<()> {
        let mut state = self.state.lock();
        state.reached = reached(&state.reached)?;
        self.changed.notify_all();
        let now = state.reached.clone();
        loop {
            let due = |l: &Listener| now.as_ref().map_or(true, |v| *v >= l.value);
            let Some(i) = state.listeners.iter().position(due) else { return Ok(()) };
            let listener = state.listeners.remove(i);
            drop(state);
            listener.to.notified(listener.token, now.clone().map(drop));
            state = self.state.lock();
        }
    }
}

impl Fence for HostFence {
    fn query(&self) -> Result<u64> {
        self.state.lock().reached.clone()
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let mut state = self.state.lock();
        // The clock is read only by those who have to wait.
        let mut deadline = None;
        loop {
            match &state.reached {
                Err(e) => return Err(e.clone()),
                Ok(reached) if *reached >= value => return Ok(()),
                Ok(reached) => {
                    let reached = *reached;
                    let Some(deadline) = *deadline.get_or_insert_with(|| Instant::now().checked_add(timeout)) else {
                        self.changed.wait(&mut state);
                        continue;
                    };
                    if self.changed.wait_until(&mut state, deadline).timed_out() && Instant::now() >= deadline {
                        let what = format!("the timeline stands at {reached}, waited for {value}");
                        return Err(Error::Failed { status: Status::Timeout, what, transient: true });
                    }
                }
            }
        }
    }

    fn signal(&self, value: u64) -> Result<()> {
        self.change(|reached| match reached {
            Err(e) => Err(e.clone()),
            Ok(now) if value <= *now => {
                Err(Error::invalid(format!("a timeline at {now} cannot be signalled to {value}")))
            }
            Ok(_) => Ok(Ok(value)),
        })
    }

    fn fail(&self, error: Error) {
        let first = |reached: &Result<u64>| Ok(reached.clone().and(Err(error)));
        // The closure never refuses.
        let _ = self.change(first);
    }

    fn notify(&self, value: u64, to: Arc<dyn Notify>, token: u64) {
        let mut state = self.state.lock();
        match &state.reached {
            Ok(reached) if *reached < value => state.listeners.push(Listener { value, to, token }),
            reached => {
                let result = reached.clone().map(drop);
                drop(state);
                to.notified(token, result);
            }
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u64, bool)>>);

    impl Notify for Heard {
        fn notified(&self, token: u64, result: Result<()>) {
            self.0.lock().push((token, result.is_ok()));
        }
    }

    #[test]
    fn timelines_only_grow_and_waits_time_out() {
        let fence = HostFence::new(5);
        assert!(fence.signal(5).is_err());
        assert_eq!(fence.wait(5, Duration::ZERO), Ok(()));
        let e = fence.wait(6, Duration::from_millis(1)).unwrap_err();
        assert_eq!(e.status(), Status::Timeout);
    }

    #[test]
    fn listeners_hear_once_and_in_time() {
        let (fence, heard) = (HostFence::new(0), Arc::new(Heard::default()));
        for (value, token) in [(0, 0), (2, 1), (1, 2), (9, 3)] {
            fence.notify(value, heard.clone(), token);
        }
        assert_eq!(*heard.0.lock(), [(0, true)]);
        fence.signal(2).unwrap();
        assert_eq!(*heard.0.lock(), [(0, true), (1, true), (2, true)]);
        fence.fail(Error::invalid("gone"));
        fence.fail(Error::invalid("again"));
        assert_eq!(heard.0.lock()[3..], [(3, false)]);
        fence.notify(1, heard.clone(), 4);
        assert_eq!(heard.0.lock()[4..], [(4, false)]);
        assert_eq!(fence.query().unwrap_err().to_string(), "gone");
    }
}
