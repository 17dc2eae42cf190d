//! What a device and its queues share.

use crate::shared::Shared;
use ottava_hal::fault::LostFlag;
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::sync::Arc;

/// What a device and its queues share.
pub(crate) struct Core {
    shared: Mutex<Arc<Shared>>,
    pub lost: LostFlag,
}

impl Core {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Self { shared: Mutex::new(shared), lost: LostFlag::default() })
    }

    /// The device's objects, unless it is lost.
    pub(crate) fn shared(&self) -> Result<Arc<Shared>> {
        let shared = Arc::clone(&self.shared.lock());
        self.lost.check(&shared.found.id)?;
        Ok(shared)
    }
}

pub(crate) fn timeout() -> Error {
    Error::failed(Status::Timeout, "the deadline had passed before the run could start")
}
