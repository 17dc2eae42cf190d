//! The device's memory: host memory, counted against the device's limit.

use ottava_hal::host::HostBuffer;
use ottava_hal::{Buffer, BufferDesc, Error, Result, Status};
use std::any::Any;
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

/// Objects of one device between two resets carry the same mark.
#[derive(Debug, Default)]
pub(crate) struct Generation;

/// A buffer of the device.
pub(crate) struct NpuBuffer {
    pub(crate) host: HostBuffer,
    pub(crate) generation: Arc<Generation>,
    _reservation: Reservation,
}

impl NpuBuffer {
    /// Allocates zeroed memory.
    pub(crate) fn new(ledger: &Arc<Ledger>, generation: Arc<Generation>, desc: &BufferDesc) -> Result<Self> {
        let reservation = ledger.reserve(desc.bytes as u64)?;
        Ok(Self { host: HostBuffer::new(desc)?, generation, _reservation: reservation })
    }
}

impl Buffer for NpuBuffer {
    fn len(&self) -> usize {
        self.host.len()
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        self.host.read(offset, to)
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        self.host.write(offset, from)
    }

    fn as_any(&self) -> &dyn Any {
        self
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
