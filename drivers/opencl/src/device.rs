//! An open device.

use crate::buffer::ClBuffer;
use crate::engine::Core;
use crate::executable::ClExecutable;
use crate::options::Settings;
use crate::probe::Found;
use crate::program::Programs;
use crate::queue::ClQueue;
use crate::shared::Shared;
use ottava_gpu::{Target, assess, capability, lower};
use ottava_hal::host::HostFence;
use ottava_hal::{
    Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Executable, Fence, Program, Queue,
    Result, Verdict,
};
use std::sync::Arc;

/// One OpenCL device.
pub(crate) struct ClDevice {
    info: DeviceInfo,
    target: Target,
    capability: Capability,
    core: Arc<Core>,
}

impl ClDevice {
    /// Opens a device.
    pub(crate) fn open(found: &Found, settings: &Settings) -> Result<Self> {
        let shared = Arc::new(Shared::open(found.clone(), Programs::default())?);
        let target = found.target(settings);
        let capability = capability(&target);
        Ok(Self { info: found.info(), capability, target, core: Core::new(shared) })
    }
}

impl Device for ClDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        assess(program, &self.target)
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        let recipe = lower(program, &self.target)?;
        let time_ns = self.info.link.latency_ns + 5_000 * recipe.steps.len() as u64;
        Ok(Cost { time_ns, ..Cost::default() })
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        let shared = self.core.shared()?;
        Ok(Arc::new(ClExecutable::new(&shared, lower(program, &self.target)?)?))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(ClBuffer::new(&self.core.shared()?, desc)?))
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        let shared = self.core.shared()?;
        Ok(Arc::new(ClQueue::new(&self.core, &shared)?))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(HostFence::new(initial)))
    }
}
