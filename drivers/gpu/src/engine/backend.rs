//! What a driver implements, and how it tells the end of a submission.

use super::core::{Board, Core};
use ottava_hal::device::{Command, Profile};
use ottava_hal::{Error, Result, Status};
use std::sync::{Arc, Weak};

/// A device as the engine sees it. All but `check` and `queue` are called by the worker alone.
pub trait Backend: Send + Sync + Sized + 'static {
    /// One queue of the device, whose work runs in order.
    type Queue: Send + Sync + 'static;
    /// A command whose objects are known to be the device's and to fit; it keeps them alive.
    type Work: Send + Sync + 'static;
    /// What commands on the device need until they are done.
    type Running: Send + 'static;

    /// Id of the device, for errors.
    fn id(&self) -> &str;

    /// Makes a queue.
    fn queue(&self) -> Result<Self::Queue>;

    /// Checks a command.
    fn check(&self, command: &Command) -> Result<Self::Work>;

    /// Hands commands to the device and returns without waiting for them; `done` is told when the last one ends, also
    /// where there is none. After an error nothing of the submission runs any more.
    fn start(&self, queue: &Self::Queue, work: &[Self::Work], profile: bool, done: Completion)
    -> Result<Self::Running>;

    /// The device is done: checks how each command ended, adds times to `profile`, and lets the memory go.
    fn end(&self, running: Self::Running, profile: Option<&mut Profile>) -> Result<()>;

    /// Flips one bit of what finished commands wrote, chosen by the seed.
    fn flip_bit(&self, work: &[Self::Work], seed: u64) -> Result<()>;

    /// Brings the device back after a loss; objects made before stay void.
    fn reset(&self) -> Result<()>;
}

/// Who wants to be told.
pub(super) trait Ended: Send + Sync {
    fn ended(&self, ticket: u64, result: Result<()>);
}

/// Tells the engine, once and from any thread, how a submission ended. One that is dropped tells of a failure.
pub struct Completion {
    to: Weak<dyn Ended>,
    ticket: u64,
    told: bool,
}

impl Completion {
    pub(super) fn new<B: Backend>(core: &Core<B>, ticket: u64) -> Self {
        let to: Weak<Board<B>> = Arc::downgrade(core.board());
        Self { to, ticket, told: false }
    }

    /// The commands are done, or the device has given them up.
    pub fn tell(mut self, result: Result<()>) {
        self.send(result);
    }

    fn send(&mut self, result: Result<()>) {
        if let (false, Some(to)) = (std::mem::replace(&mut self.told, true), self.to.upgrade()) {
            to.ended(self.ticket, result);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.send(Err(Error::failed(Status::Internal, "the device never said how the submission ended")));
    }
}
