//! The lock and the condition variable of this crate's protocols: `parking_lot`'s, or `shuttle`'s in this crate's unit
//! tests, where a scheduler tries random interleavings.
//!
//! Invariant: [`crate::progress`], [`crate::admission`], [`crate::workers`] and [`crate::lanes`] block on nothing else,
//! so the schedules that the tests try are all there are.

use std::time::Instant;

pub(crate) use imp::Guard;

/// A mutex.
pub(crate) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub fn lock(&self) -> Guard<'_, T> {
        imp::lock(&self.0)
    }
}

/// A condition variable.
pub(crate) struct Condvar(imp::Condvar);

impl Condvar {
    pub fn new() -> Self {
        Self(imp::Condvar::new())
    }

    /// Waits for a change; also says whether `until` has passed.
    pub fn wait<'a, T>(&self, guard: Guard<'a, T>, until: Option<Instant>) -> (Guard<'a, T>, bool) {
        imp::wait(&self.0, guard, until)
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

#[cfg(not(test))]
mod imp {
    pub use parking_lot::{Condvar, Mutex, MutexGuard as Guard};

    pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
        mutex.lock()
    }

    pub fn wait<'a, T>(cond: &Condvar, mut guard: Guard<'a, T>, until: Option<super::Instant>) -> (Guard<'a, T>, bool) {
        let late = match until {
            Some(until) => cond.wait_until(&mut guard, until).timed_out(),
            None => {
                cond.wait(&mut guard);
                false
            }
        };
        (guard, late)
    }
}

#[cfg(test)]
mod imp {
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard as Guard};
    use std::sync::PoisonError;

    pub fn lock<T>(mutex: &Mutex<T>) -> Guard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time does not pass in the scheduler: nothing is ever late there.
    pub fn wait<'a, T>(cond: &Condvar, guard: Guard<'a, T>, _: Option<super::Instant>) -> (Guard<'a, T>, bool) {
        (cond.wait(guard).unwrap_or_else(PoisonError::into_inner), false)
    }
}
