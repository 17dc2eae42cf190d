//! The test of the arithmetic, run when a device is opened for the first time in a process.

use crate::device::Shared;
use crate::executable::VulkanExecutable;
use crate::probe::Traits;
use crate::queue::VulkanQueue;
use ottava_gpu::{Target, selftest};
use ottava_hal::{Binding, Buffer, BufferDesc, Executable, Fence, Queue, Result, Submission};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// A device that has not answered by then is not asked any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// What makes a device compute as it does: itself, its driver, and the version that is asked for.
type Key = ([u8; 16], [u8; 16], u32, u32);

/// What came out earlier in this process: arithmetic does not change.
static KNOWN: Mutex<Option<HashMap<Key, bool>>> = Mutex::new(None);

/// Whether the device's integer results are exact.
pub(crate) fn passes(shared: &Arc<Shared>, traits: &Traits, target: &Target) -> Result<bool> {
    let key = (traits.uuid, traits.cache_uuid, traits.driver_version, traits.api);
    if let Some(known) = KNOWN.lock().as_ref().and_then(|k| k.get(&key)) {
        return Ok(*known);
    }
    let verdict = selftest::check(&answers(shared, target)?);
    if let Err(why) = &verdict {
        tracing::warn!("device `{}` ({}) fails the test of its arithmetic: {why}", target.device, traits.name);
    }
    KNOWN.lock().get_or_insert_default().insert(key, verdict.is_ok());
    Ok(verdict.is_ok())
}

fn answers(shared: &Arc<Shared>, target: &Target) -> Result<Vec<u8>> {
    let engine = shared.engine();
    let core = &engine.core;
    let exe = Arc::new(VulkanExecutable::new(&core.gpu, &core.transfers, selftest::recipe(target)?, None)?);
    let bytes = exe.outputs().iter().filter_map(|ty| ty.byte_len()).sum();
    let output: Arc<dyn Buffer> = shared.alloc(&BufferDesc { bytes, alignment: 64 })?;
    let done = core.timelines.create(core, 0)?;
    let mut run = Submission::dispatch(exe, Vec::new(), vec![Binding::whole(Arc::clone(&output))]);
    run.signals = vec![(Arc::clone(&done) as Arc<dyn Fence>, 1)];
    VulkanQueue::new(Arc::clone(shared)).submit(&run)?;
    done.wait(1, PATIENCE)?;
    let mut found = vec![0; bytes];
    output.read(0, &mut found)?;
    Ok(found)
}
