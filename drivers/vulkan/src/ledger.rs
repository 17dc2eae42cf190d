//! Memory of the device, counted against what it has.

use ottava_hal::{Error, Result, Status};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much memory the device has and how much is in use.
#[derive(Debug)]
pub(crate) struct Ledger {
    limit: u64,
    used: AtomicU64,
}

/// Memory in use, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    ledger: Arc<Ledger>,
    bytes: u64,
}

impl Ledger {
    /// An unused memory.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Takes memory, or says how much is left.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Reservation> {
        // Relaxed is enough: the counter guards nothing but itself.
        let take = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(Reservation { ledger: Arc::clone(self), bytes }),
            Err(used) => {
                let (left, limit) = (self.limit - used.min(self.limit), self.limit);
                let what = format!("{bytes} bytes wanted, {left} of the device's {limit} are free");
                Err(Error::failed(Status::OutOfDeviceMemory, what))
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.ledger.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_counted_and_given_back() {
        let ledger = Ledger::new(100);
        let first = ledger.reserve(60).unwrap();
        let e = ledger.reserve(41).unwrap_err();
        assert_eq!(e.status(), Status::OutOfDeviceMemory);
        assert!(e.to_string().contains("40 of the device's 100"), "{e}");
        drop(first);
        ledger.reserve(100).unwrap();
        assert!(ledger.reserve(u64::MAX).is_err());
    }
}
