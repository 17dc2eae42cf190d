//! How many inferences use a synchronous device at the same time.
//!
//! Where a plan also uses asynchronous devices, an inference that gets all of a synchronous device feeds the others
//! sooner than one that shares it with many. So each such device has a lane with as many places as its threads fit into
//! the machine's cores. Plans of synchronous devices alone have no lanes: nothing is gained there by waiting.

use crate::sync::{Condvar, Mutex};
use ottava_hal::{DeviceInfo, Error, Result, Status};
use std::time::Instant;

/// The lanes of a plan's devices.
pub(crate) struct Lanes(Vec<Option<Lane>>);

struct Lane {
    free: Mutex<usize>,
    changed: Condvar,
}

/// A place in a lane, until it is dropped.
pub(crate) struct Place<'a>(&'a Lane);

impl Lanes {
    /// Lanes for the devices of a plan; `is_concurrent` if some of its steps are queued.
    pub fn new<'a>(devices: impl Iterator<Item = &'a DeviceInfo>, is_concurrent: bool) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let lane = |info: &DeviceInfo| {
            let places = (cores / info.threads.max(1)).max(1);
            (is_concurrent && info.sync_only).then(|| Lane { free: Mutex::new(places), changed: Condvar::new() })
        };
        Self(devices.map(lane).collect())
    }

    /// Waits for a place on a device; `None` if the device has no lane.
    pub fn enter(&self, device: usize, deadline: Option<Instant>) -> Result<Option<Place<'_>>> {
        let Some(Some(lane)) = self.0.get(device) else { return Ok(None) };
        let mut free = lane.free.lock();
        while *free == 0 {
            let late;
            (free, late) = lane.changed.wait(free, deadline);
            if late {
                return Err(Error::failed(Status::Timeout, "the deadline passed before the device was free"));
            }
        }
        *free -= 1;
        Ok(Some(Place(lane)))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.changed.notify_one();
    }
}
