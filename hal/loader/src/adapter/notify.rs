//! Callbacks of timelines (`fence_notify`).
//!
//! A driver gets no pointer but a ticket: index and generation of a slot in one table of the process. A driver that calls
//! back twice, too late or with nonsense hits a slot of another generation, and nothing happens. Slots are reused, so that
//! a steady state allocates nothing.

use crate::once;
use ottava_abi::{NotifyFn, status};
use ottava_hal::{Error, Notify, Result};
use parking_lot::Mutex;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who is to be told.
struct Waiting {
    to: Arc<dyn Notify>,
    token: u64,
    /// Set before it is told.
    called: Arc<AtomicBool>,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    waiting: Option<Waiting>,
}

struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

static TABLE: Mutex<Table> = Mutex::new(Table { slots: Vec::new(), free: Vec::new() });

/// A place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    index: u32,
    generation: u32,
}

impl Ticket {
    /// Notes who is to be told.
    pub fn take(to: Arc<dyn Notify>, token: u64, called: Arc<AtomicBool>) -> Self {
        let mut table = TABLE.lock();
        let index = table.free.pop().unwrap_or_else(|| {
            table.slots.push(Slot::default());
            table.slots.len() as u32 - 1
        });
        let slot = &mut table.slots[index as usize];
        slot.waiting = Some(Waiting { to, token, called });
        Self { index, generation: slot.generation }
    }

    /// The ticket as the driver carries it.
    pub fn as_user(self) -> *mut c_void {
        std::ptr::without_provenance_mut((self.index as usize) << 32 | self.generation as usize)
    }

    fn from_user(user: *mut c_void) -> Self {
        Self { index: (user.addr() >> 32) as u32, generation: user.addr() as u32 }
    }

    /// Tells whoever waits, once. Whether there was someone.
    pub fn redeem(self, result: Result<()>) -> bool {
        let waiting = {
            let mut table = TABLE.lock();
            let slot = table.slots.get_mut(self.index as usize).filter(|s| s.generation == self.generation);
            let Some(waiting) = slot.and_then(|s| s.waiting.take()) else { return false };
            table.slots[self.index as usize].generation = self.generation.wrapping_add(1);
            table.free.push(self.index);
            waiting
        };
        waiting.called.store(true, Ordering::Release);
        waiting.to.notified(waiting.token, result);
        true
    }
}

/// The function that a driver calls.
pub(crate) const DONE: NotifyFn = NotifyFn { call: done };

unsafe extern "C" fn done(user: *mut c_void, code: i32) {
    // A listener that panics must not unwind into the driver.
    let told = catch_unwind(AssertUnwindSafe(|| {
        let result = if code == status::OK { Ok(()) } else { Err(failure(code)) };
        Ticket::from_user(user).redeem(result)
    }));
    match told {
        Ok(true) => {}
        Ok(false) => once::warn("", "a driver calls back a second time for one `fence_notify`, or for none"),
        Err(_) => tracing::error!("whoever was notified of a fence panicked"),
    }
}

/// The failure of a timeline, of which a driver tells only the code.
pub(crate) fn failure(code: i32) -> Error {
    let name = status::name(code).unwrap_or("an unknown status");
    super::error::of_code(code, None, format!("the timeline failed with {name} ({code})"), false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::Status;

    #[derive(Default)]
    struct Heard(Mutex<Vec<(u64, Result<()>)>>);

    impl Notify for Heard {
        fn notified(&self, token: u64, result: Result<()>) {
            assert_ne!(token, 99, "a listener that panics");
            self.0.lock().push((token, result));
        }
    }

    fn take(to: Arc<Heard>, token: u64) -> Ticket {
        Ticket::take(to, token, Arc::default())
    }

    /// Calls back as a driver does.
    fn call_back(ticket: Ticket, code: i32) {
        // SAFETY: the function accepts every pointer.
        unsafe { (DONE.call)(ticket.as_user(), code) };
    }

    #[test]
    fn a_listener_hears_once_whatever_the_driver_does() {
        let heard = Arc::new(Heard::default());
        let (a, b) = (take(heard.clone(), 1), take(heard.clone(), 2));
        call_back(a, status::OK);
        call_back(a, status::OK);
        call_back(Ticket { index: u32::MAX, generation: 0 }, status::OK);
        let c = take(heard.clone(), 3);
        call_back(a, status::OK);
        call_back(b, status::DEVICE_LOST);
        call_back(c, 4711);
        let heard = heard.0.lock();
        assert_eq!(heard.iter().map(|(t, _)| *t).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(heard[1].1.as_ref().unwrap_err().status(), Status::DeviceLost);
        assert!(heard[2].1.as_ref().unwrap_err().to_string().contains("4711"));
    }

    #[test]
    fn a_panic_of_the_listener_stays_on_this_side() {
        call_back(take(Arc::new(Heard::default()), 99), status::OK);
    }

    #[test]
    fn tickets_survive_the_pointer() {
        for ticket in [Ticket { index: 0, generation: u32::MAX }, Ticket { index: u32::MAX, generation: 7 }] {
            assert_eq!(Ticket::from_user(ticket.as_user()), ticket);
        }
    }
}
