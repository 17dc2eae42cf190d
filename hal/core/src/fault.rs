//! Injected faults: how tests ask a device to fail on purpose (abi.md section 10, `ottava.test_hooks/1`).

use crate::{Error, Result, Status};
use parking_lot::Mutex;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum FaultKind {
    /// The driver panics.
    Panic = 1,
    /// The device is lost.
    Lost = 2,
    /// A buffer cannot be allocated or a run finds no memory.
    OutOfMemory = 3,
    /// A submission never finishes.
    Hang = 4,
    /// A submission is late; results are right.
    Delay = 5,
    /// One bit of a result is flipped.
    BitFlip = 6,
}

impl FaultKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [Self::Panic, Self::Lost, Self::OutOfMemory, Self::Hang, Self::Delay, Self::BitFlip];
}

/// A fault that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Submissions that still succeed before it strikes.
    pub after_calls: u64,
    /// Decides what the kind leaves open (which bit, how long).
    pub seed: u64,
}

/// Holds a wanted fault and says when it strikes.
#[derive(Debug, Default)]
pub struct FaultSwitch(Mutex<Option<Fault>>);

impl FaultSwitch {
    /// Arms a fault; it replaces an earlier one.
    pub fn arm(&self, fault: Fault) {
        *self.0.lock() = Some(fault);
    }

    /// Takes the fault away.
    pub fn clear(&self) {
        *self.0.lock() = None;
    }

    /// Counts a call. The fault that strikes now, once.
    pub fn strike(&self) -> Option<Fault> {
        let mut armed = self.0.lock();
        let fault = armed.as_mut()?;
        if fault.after_calls > 0 {
            fault.after_calls -= 1;
            return None;
        }
        armed.take()
    }
}

/// The error that a lost device gives from then on.
pub fn lost(device: &str) -> Error {
    Error::failed(Status::DeviceLost, format!("device `{device}` is lost; reset it or open it again"))
}

/// Remembers that a device is lost.
#[derive(Debug, Default)]
pub struct LostFlag(std::sync::atomic::AtomicBool);

impl LostFlag {
    /// Marks the device as lost, or as well again.
    pub fn set(&self, lost: bool) {
        self.0.store(lost, std::sync::atomic::Ordering::SeqCst);
    }

    /// An error while the device is lost.
    pub fn check(&self, device: &str) -> Result<()> {
        if self.0.load(std::sync::atomic::Ordering::SeqCst) { Err(lost(device)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_once_after_its_calls() {
        let switch = FaultSwitch::default();
        switch.arm(Fault { kind: FaultKind::Lost, after_calls: 2, seed: 0 });
        let strikes: Vec<bool> = (0..4).map(|_| switch.strike().is_some()).collect();
        assert_eq!(strikes, [false, false, true, false]);
    }

    #[test]
    fn a_lost_device_says_so_until_it_is_reset() {
        let flag = LostFlag::default();
        assert_eq!(flag.check("d"), Ok(()));
        flag.set(true);
        assert_eq!(flag.check("d").unwrap_err().status(), Status::DeviceLost);
    }
}
