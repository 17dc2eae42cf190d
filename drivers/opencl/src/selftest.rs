//! The test of the arithmetic, run when a device is opened for the first time in a process.

use crate::backend::ClBackend;
use crate::buffer::ClBuffer;
use crate::executable::ClExecutable;
use ottava_gpu::engine::{Engine, EngineQueue};
use ottava_gpu::{Target, selftest};
use ottava_hal::{Binding, Buffer, BufferDesc, Executable, Queue, Result, Submission};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// A device that has not answered by then is not asked any more.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came out earlier in this process, by device and driver: arithmetic does not change.
static KNOWN: Mutex<BTreeMap<String, bool>> = Mutex::new(BTreeMap::new());

/// Whether the device's integer results are exact.
pub(crate) fn passes(engine: &Arc<Engine<ClBackend>>, target: &Target) -> Result<bool> {
    let shared = engine.core.backend.shared();
    let key = shared.programs.made_for().to_owned();
    if let Some(known) = KNOWN.lock().get(&key) {
        return Ok(*known);
    }
    let verdict = selftest::check(&answers(engine, target)?);
    if let Err(why) = &verdict {
        let name = &shared.found.traits.name;
        tracing::warn!("device `{}` ({name}) fails the test of its arithmetic: {why}", target.device);
    }
    KNOWN.lock().insert(key, verdict.is_ok());
    Ok(verdict.is_ok())
}

fn answers(engine: &Arc<Engine<ClBackend>>, target: &Target) -> Result<Vec<u8>> {
    let shared = engine.core.backend.shared();
    let exe = Arc::new(ClExecutable::new(&shared, selftest::recipe(target)?, None)?);
    let bytes = exe.outputs().iter().filter_map(|ty| ty.byte_len()).sum();
    let output: Arc<dyn Buffer> = Arc::new(ClBuffer::new(&shared, &BufferDesc { bytes, alignment: 64 })?);
    let done = engine.core.create_fence(0);
    let mut run = Submission::dispatch(exe, Vec::new(), vec![Binding::whole(Arc::clone(&output))]);
    run.signals = vec![(Arc::clone(&done), 1)];
    EngineQueue::new(Arc::clone(engine))?.submit(&run)?;
    done.wait(1, PATIENCE)?;
    let mut found = vec![0; bytes];
    output.read(0, &mut found)?;
    Ok(found)
}
