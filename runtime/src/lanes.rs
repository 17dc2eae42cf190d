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

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::DeviceKind;
    use shuttle::sync::Arc;
    use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use shuttle::{check_random, thread};

    /// A device that needs all cores.
    fn wide(sync_only: bool) -> DeviceInfo {
        DeviceInfo { threads: usize::MAX, sync_only, ..DeviceInfo::new("d", "d", DeviceKind::Cpu) }
    }

    #[test]
    fn a_device_that_needs_all_cores_is_used_by_one_at_a_time() {
        let check = || {
            let lanes = Arc::new(Lanes::new([&wide(true)].into_iter(), true));
            let inside = Arc::new(AtomicUsize::new(0));
            let start = |_| {
                let (lanes, inside) = (lanes.clone(), inside.clone());
                thread::spawn(move || {
                    let place = lanes.enter(0, None).unwrap();
                    assert!(place.is_some() && inside.fetch_add(1, SeqCst) == 0);
                    thread::yield_now();
                    inside.fetch_sub(1, SeqCst);
                })
            };
            let threads: Vec<_> = (0..3).map(start).collect();
            threads.into_iter().for_each(|t| t.join().unwrap());
        };
        check_random(check, 400);
    }

    #[test]
    fn other_devices_and_other_plans_have_no_lanes() {
        let lanes = [Lanes::new([&wide(false)].into_iter(), true), Lanes::new([&wide(true)].into_iter(), false)];
        assert!(lanes.iter().all(|l| l.enter(0, None).unwrap().is_none()));
    }
}
