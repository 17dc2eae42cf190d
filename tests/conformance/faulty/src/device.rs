//! The device: everything it is asked goes to a decision of [`Behaviour`].

use crate::core::Engine;
use crate::queue::FaultyQueue;
use crate::{Behaviour, Compiled, Core, FaultyBuffer};
use ottava_hal::fault::Fault;
use ottava_hal::host::HostMemory;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Error, Executable, Fence,
    Program, Queue, Result, Verdict,
};
use std::sync::Arc;

/// A device.
pub struct FaultyDevice {
    info: DeviceInfo,
    capability: Capability,
    engine: Arc<Engine>,
}

impl FaultyDevice {
    /// Opens a device and starts its worker.
    pub(crate) fn open(behaviour: Behaviour, info: DeviceInfo) -> Result<Self> {
        let engine = Arc::new(Engine::start(Core::new(behaviour, &info))?);
        let device = Self { info, capability: (behaviour.capability)(), engine };
        (behaviour.opened)(&device);
        Ok(device)
    }

    /// What the device shares with its worker.
    pub fn core(&self) -> &Arc<Core> {
        &self.engine.core
    }

    fn behaviour(&self) -> &Behaviour {
        &self.engine.core.behaviour
    }

    fn check_lost(&self) -> Result<()> {
        self.engine.core.lost.check(&self.info.id)
    }
}

impl Drop for FaultyDevice {
    fn drop(&mut self) {
        (self.behaviour().closed)(self);
    }
}

impl Device for FaultyDevice {
    fn info(&self) -> &DeviceInfo {
        (self.behaviour().info)(&self.info)
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        (self.behaviour().assess)(&self.capability, program)
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        program.check()?;
        (self.behaviour().estimate)(program)
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        self.check_lost()?;
        Ok(Arc::new((self.behaviour().compile)(&self.engine.core, &self.capability, program)?))
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let exe = executable.as_any().downcast_ref::<Compiled>();
        let exe = exe.ok_or_else(|| Error::invalid("the executable belongs to another device"))?;
        (self.behaviour().serialize)(&exe.program)
    }

    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.check_lost()?;
        let program = (self.behaviour().deserialize)(payload)?;
        Ok(Arc::new(Compiled::new(&self.engine.core, program)))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.check_lost()?;
        Ok(Arc::new((self.behaviour().alloc)(&self.engine.core, desc)?))
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.check_lost()?;
        (self.behaviour().import_ok)(memory.bytes(), desc)?;
        Ok(Arc::new(FaultyBuffer::lent(&self.engine.core, memory)))
    }

    fn reset(&self) -> Result<()> {
        (self.behaviour().reset)(&self.engine.core);
        Ok(())
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        (self.behaviour().inject)(&self.engine.core, fault);
        Ok(())
    }

    fn clear_faults(&self) -> Result<()> {
        self.engine.core.clear_faults();
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.check_lost()?;
        Ok(Arc::new(FaultyQueue::new(Arc::clone(&self.engine))))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(self.engine.core.create_fence(initial))
    }
}
