//! The device as the engine of `ottava-gpu` sees it: commands are enqueued, and the event of the last one tells the end.

use crate::job::Work;
use crate::options::Settings;
use crate::probe::Found;
use crate::run::Running;
use crate::shared::Shared;
use opencl3::command_queue::CommandQueue;
use ottava_gpu::engine::{Backend, Completion};
use ottava_hal::device::{Command, Profile};
use ottava_hal::{Buffer, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// A device and its present objects; a reset makes new ones.
pub(crate) struct ClBackend {
    found: Found,
    settings: Settings,
    shared: Mutex<Arc<Shared>>,
}

/// A queue: OpenCL's queue is made anew after a reset.
pub(crate) struct ClQueue(Mutex<(Arc<Shared>, Arc<CommandQueue>)>);

impl ClQueue {
    fn new(shared: &Arc<Shared>) -> Result<Self> {
        Ok(Self(Mutex::new((Arc::clone(shared), Arc::new(shared.queue()?)))))
    }

    fn of(&self, shared: &Arc<Shared>) -> Result<Arc<CommandQueue>> {
        let mut made = self.0.lock();
        if !Arc::ptr_eq(&made.0, shared) {
            *made = (Arc::clone(shared), Arc::new(shared.queue()?));
        }
        Ok(Arc::clone(&made.1))
    }
}

impl ClBackend {
    /// Opens a device.
    pub(crate) fn open(found: &Found, settings: &Settings) -> Result<Self> {
        let shared = Mutex::new(Arc::new(Shared::open(found.clone(), settings)?));
        Ok(Self { found: found.clone(), settings: settings.clone(), shared })
    }

    /// The present objects.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared.lock())
    }
}

impl Backend for ClBackend {
    type Queue = ClQueue;
    type Work = Work;
    type Running = Running;

    fn id(&self) -> &str {
        &self.found.id
    }

    fn queue(&self) -> Result<ClQueue> {
        ClQueue::new(&self.shared())
    }

    fn check(&self, command: &Command) -> Result<Work> {
        Work::check(command, &self.shared())
    }

    fn start(&self, queue: &ClQueue, work: &[Work], profile: bool, done: Completion) -> Result<Running> {
        let mut running = Running::new(queue.of(&self.shared())?, profile);
        let enqueued = work.iter().try_for_each(|w| running.enqueue(w)).and_then(|()| running.watch(done));
        match enqueued {
            Ok(()) => Ok(running),
            Err(e) => {
                running.abandon();
                Err(e)
            }
        }
    }

    fn end(&self, running: Running, profile: Option<&mut Profile>) -> Result<()> {
        running.end(profile)
    }

    fn flip_bit(&self, work: &[Work], seed: u64) -> Result<()> {
        let written = work.last().and_then(|w| w.written().iter().find(|b| b.len > 0));
        let Some(bound) = written else { return Ok(()) };
        let bit = seed % (bound.len as u64 * 8);
        let (buffer, at) = (bound.buffer()?, bound.offset + (bit / 8) as usize);
        let mut byte = [0];
        buffer.read(at, &mut byte)?;
        buffer.write(at, &[byte[0] ^ 1 << (bit % 8)])
    }

    fn reset(&self) -> Result<()> {
        let fresh = Arc::new(Shared::open(self.found.clone(), &self.settings)?);
        // What used the old objects keeps them alive.
        *self.shared.lock() = fresh;
        Ok(())
    }
}
