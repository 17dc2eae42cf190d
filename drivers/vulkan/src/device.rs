//! A device of the contract.

use crate::buffer::VulkanBuffer;
use crate::engine::Engine;
use crate::executable::VulkanExecutable;
use crate::gpu::Gpu;
use crate::instance::Instance;
use crate::messages::Messages;
use crate::options::Settings;
use crate::pipeline::Compiled;
use crate::probe::Found;
use crate::queue::VulkanQueue;
use crate::selftest;
use ottava_gpu::{Recipe, Target, blob};
use ottava_hal::fault::Fault;
use ottava_hal::host::HostMemory;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Error, Executable, Fence,
    Program, Queue, Reason, Result, Verdict,
};
use parking_lot::RwLock;
use std::sync::Arc;

/// Begins the bytes of an executable.
const BLOB: &[u8; 4] = b"OVKB";

/// What a device and its queues share: the logical device in use, another one after a reset.
pub(crate) struct Shared {
    engine: RwLock<Arc<Engine>>,
    /// Buffers go through staging even where the host could reach them.
    staged: bool,
}

impl Shared {
    /// The logical device in use.
    pub(crate) fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine.read())
    }

    /// Allocates a buffer.
    pub(crate) fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        let core = &self.engine().core;
        core.check()?;
        core.check_memory()?;
        Ok(Arc::new(VulkanBuffer::new(&core.gpu, &core.transfers, desc, self.staged)?))
    }
}

/// One Vulkan device.
pub struct VulkanDevice {
    shared: Arc<Shared>,
    instance: Arc<Instance>,
    found: Found,
    settings: Settings,
    info: DeviceInfo,
    target: Target,
    capability: Capability,
}

impl VulkanDevice {
    /// Opens a device that was found.
    pub(crate) fn open(instance: Arc<Instance>, found: Found, settings: Settings) -> Result<Self> {
        let mut target = found.target(&settings)?;
        let engine = Arc::new(start(&instance, &found, &settings)?);
        let shared = Arc::new(Shared { engine: RwLock::new(engine), staged: settings.staged });
        target.exact = selftest::passes(&shared, &found.traits, &target)?;
        let (info, capability) = (found.info(), ottava_gpu::capability(&target));
        Ok(Self { shared, instance, found, settings, info, target, capability })
    }

    /// What the validation layers have said; `None` where they are off. It stays readable when the device is closed.
    pub fn messages(&self) -> Option<Arc<Messages>> {
        self.instance.messages.clone()
    }

    /// How many pipelines were compiled since the device was opened or reset.
    pub fn compiled(&self) -> Compiled {
        self.shared.engine().core.gpu.pipelines.compiled()
    }

    /// What lowering knows about the device.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// An executable of a recipe that did not come from a program.
    pub fn load(&self, recipe: Recipe) -> Result<Arc<dyn Executable>> {
        let core = &self.shared.engine().core;
        Ok(Arc::new(VulkanExecutable::new(&core.gpu, &core.transfers, recipe, None)?))
    }

    fn build(&self, program: &Program) -> Result<Arc<dyn Executable>> {
        let engine = self.shared.engine();
        let core = &engine.core;
        core.check()?;
        let recipe = ottava_gpu::lower(program, &self.target)?;
        let steps = recipe.steps.len();
        let executable = VulkanExecutable::new(&core.gpu, &core.transfers, recipe, Some(program.clone()))?;
        tracing::debug!(program = %program.name, nodes = program.nodes.len(), steps, device = %self.info.id, "compiled");
        core.check()?;
        Ok(Arc::new(executable))
    }
}

fn start(instance: &Arc<Instance>, found: &Found, settings: &Settings) -> Result<Engine> {
    Engine::start(Gpu::new(Arc::clone(instance), found.clone(), settings)?)
}

impl Device for VulkanDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        ottava_gpu::assess(program, &self.target)
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        Ok(ottava_gpu::estimate(program, &ottava_gpu::lower(program, &self.target)?, self.found.traits.is_cpu))
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        if options.exact_only && !self.target.exact {
            let what =
                format!("device `{}` has failed the test of its arithmetic; nothing on it is exact", self.info.id);
            return Err(Error::unsupported(Reason::Other, what));
        }
        self.build(program)
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let exe = executable.as_any().downcast_ref::<VulkanExecutable>();
        let program = exe.and_then(VulkanExecutable::program);
        blob::write(BLOB, program.ok_or_else(|| Error::invalid("the executable belongs to another device"))?)
    }

    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.build(&blob::read(BLOB, payload)?)
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.shared.alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, _: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        let core = &self.shared.engine().core;
        core.check()?;
        Ok(Arc::new(VulkanBuffer::lent(&core.gpu, memory)?))
    }

    fn reset(&self) -> Result<()> {
        let old = self.shared.engine();
        old.core.lose();
        let fresh = Arc::new(start(&self.instance, &self.found, &self.settings)?);
        *self.shared.engine.write() = fresh;
        Ok(())
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        self.shared.engine().core.inject(fault);
        Ok(())
    }

    fn clear_faults(&self) -> Result<()> {
        self.shared.engine().core.clear_faults();
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.shared.engine().core.check()?;
        Ok(Arc::new(VulkanQueue::new(Arc::clone(&self.shared))))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        let core = &self.shared.engine().core;
        Ok(core.timelines.create(core, initial)?)
    }
}
