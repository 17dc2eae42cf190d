//! An open device.

use crate::backend::ClBackend;
use crate::buffer::ClBuffer;
use crate::executable::ClExecutable;
use crate::job::own;
use crate::options::Settings;
use crate::probe::Found;
use crate::selftest;
use ottava_gpu::engine::{Core, Engine, EngineQueue};
use ottava_gpu::{Target, assess, blob, capability, lower};
use ottava_hal::fault::Fault;
use ottava_hal::host::HostMemory;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Error, Executable, Fence,
    Program, Queue, Reason, Result, Verdict,
};
use std::sync::Arc;

/// Begins the bytes of an executable.
const BLOB: &[u8; 4] = b"OCLB";

/// One OpenCL device.
pub struct OpenCLDevice {
    info: DeviceInfo,
    target: Target,
    capability: Capability,
    engine: Arc<Engine<ClBackend>>,
}

impl OpenCLDevice {
    /// Opens a device.
    pub(crate) fn open(found: &Found, settings: &Settings) -> Result<Self> {
        let core = Core::new(ClBackend::open(found, settings)?);
        let engine = Arc::new(if settings.in_caller { Engine::without_thread(core) } else { Engine::start(core)? });
        let mut target = found.target(settings);
        target.exact = selftest::passes(&engine, &target)?;
        let info = DeviceInfo { sync_only: settings.in_caller, ..found.info() };
        Ok(Self { info, capability: capability(&target), target, engine })
    }

    /// What the device offers to the kernels.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// How many programs were built from their text since the device was opened or reset; the others came from the
    /// cache.
    pub fn builds(&self) -> u64 {
        self.engine.core.backend.shared().programs.builds()
    }

    fn core(&self) -> &Core<ClBackend> {
        &self.engine.core
    }

    fn build(&self, program: &Program) -> Result<Arc<dyn Executable>> {
        self.core().check()?;
        let recipe = lower(program, &self.target)?;
        let steps = recipe.steps.len();
        let exe = ClExecutable::new(&self.core().backend.shared(), recipe, Some(program.clone()))?;
        tracing::debug!(program = %program.name, nodes = program.nodes.len(), steps, device = %self.info.id, "compiled");
        Ok(Arc::new(exe))
    }
}

impl Device for OpenCLDevice {
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
        let is_cpu = self.core().backend.shared().found.traits.is_cpu;
        Ok(ottava_gpu::estimate(program, &lower(program, &self.target)?, is_cpu))
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        if options.exact_only && !self.target.exact {
            let what = format!("device `{}` fails the test of its arithmetic; nothing on it is exact", self.info.id);
            return Err(Error::unsupported(Reason::Other, what));
        }
        self.build(program)
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let program = own(executable)?.program();
        blob::write(BLOB, program.ok_or_else(|| Error::invalid("the executable was not compiled from a program"))?)
    }

    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.build(&blob::read(BLOB, payload)?)
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.core().check()?;
        self.core().check_memory()?;
        Ok(Arc::new(ClBuffer::new(&self.core().backend.shared(), desc)?))
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, _: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.core().check()?;
        Ok(Arc::new(ClBuffer::lent(&self.core().backend.shared(), memory)?))
    }

    fn reset(&self) -> Result<()> {
        self.core().reset()
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        self.core().inject(fault);
        Ok(())
    }

    fn clear_faults(&self) -> Result<()> {
        self.core().clear_faults();
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.core().check()?;
        Ok(Arc::new(EngineQueue::new(Arc::clone(&self.engine))?))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(self.core().create_fence(initial))
    }
}
