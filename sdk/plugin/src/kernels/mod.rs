//! A complete driver from a list of kernels, for devices that work in host memory.
//!
//! A [`Kernel`] is a row of the operator table and a function from bytes to bytes. [`KernelDriver`] makes the rest of
//! them: assessment, compilation into a list of steps, memory for intermediate results, queues, timelines.
//! The crate's page has an example.

mod cx;
mod executable;

pub use cx::KernelCx;

use executable::KernelProgram;
use ottava_hal::host::{self, HostExecutable, HostFence, HostMemory, HostQueue};
use ottava_hal::{
    Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Driver, DriverInfo, Error, Executable,
    Fence, Node, OpRow, OptionSpec, Options, Program, Queue, Reason, Result, Status, Verdict,
};
use std::sync::Arc;

/// Bytes per nanosecond that [`Device::estimate`] assumes: what plain loops move.
const BYTES_PER_NS: u64 = 2;

/// One form of an operator that the device runs.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// What it accepts. Where several rows accept a node, the first one runs it.
    pub row: OpRow,
    /// Name in profiles.
    pub name: &'static str,
    /// The kernel. Inputs and outputs have the types that the row accepts.
    pub run: fn(&mut KernelCx) -> Result<()>,
}

/// A driver with one device that runs kernels in the caller's thread.
pub struct KernelDriver {
    info: DriverInfo,
    device: DeviceInfo,
    kernels: Arc<[Kernel]>,
}

impl KernelDriver {
    /// A driver of these kernels. The device finishes inside `submit` and shares the host's memory, whatever `device`
    /// says of that.
    pub fn new(info: DriverInfo, device: DeviceInfo, kernels: Vec<Kernel>) -> Self {
        let link = ottava_hal::device::Link { mode: ottava_hal::device::LinkMode::Native, ..device.link };
        Self { info, device: DeviceInfo { sync_only: true, link, ..device }, kernels: kernels.into() }
    }
}

impl Driver for KernelDriver {
    fn info(&self) -> DriverInfo {
        self.info.clone()
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![self.device.clone()])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        if id != self.device.id {
            let what = format!("driver `{}` has no device `{id}`; it has `{}`", self.info.name, self.device.id);
            return Err(Error::failed(Status::NotFound, what));
        }
        if let Some(key) = options.keys().next() {
            return Err(Error::invalid(format!("driver `{}` has no options, found `{key}`", self.info.name)));
        }
        let rows = self.kernels.iter().map(|k| k.row.clone()).collect();
        let capability = Capability { rows, dynamic_shapes: false };
        Ok(Arc::new(KernelDevice { info: self.device.clone(), capability, kernels: Arc::clone(&self.kernels) }))
    }
}

struct KernelDevice {
    info: DeviceInfo,
    capability: Capability,
    kernels: Arc<[Kernel]>,
}

impl KernelDevice {
    /// The first kernel that accepts a node.
    fn choose(&self, program: &Program, node: &Node, exact_only: bool) -> Result<&Kernel> {
        let refused = |reason, why: String| {
            let what = format!("node `{}` ({}) on device `{}`: {why}", node.name, node.full_op(), self.info.id);
            Err(Error::unsupported(reason, what))
        };
        if let Verdict::Rejected { reason, detail } = self.capability.assess_node(program, node) {
            return refused(reason, detail);
        }
        let accepts = |kernel: &&Kernel| {
            let row = Capability { rows: vec![kernel.row.clone()], dynamic_shapes: false };
            (kernel.row.exact || !exact_only) && row.assess_node(program, node).is_supported()
        };
        match self.kernels.iter().find(accepts) {
            Some(kernel) => Ok(kernel),
            None => refused(Reason::Precision, "only kernels that are not bit-exact accept it".into()),
        }
    }
}

impl Device for KernelDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    /// Bytes that are read and written, at the speed of plain loops.
    fn estimate(&self, program: &Program) -> Result<Cost> {
        let bytes = |ids: &mut dyn Iterator<Item = ottava_hal::ValueId>| {
            ids.filter_map(|id| program.ty(id).byte_len()).fold(0, |n: u64, len| n.saturating_add(len as u64))
        };
        let of_node = |n: &Node| bytes(&mut n.inputs.iter().flatten().chain(&n.outputs).copied());
        let moved = program.nodes.iter().map(of_node).fold(0, u64::saturating_add);
        let workspace = bytes(&mut program.nodes.iter().flat_map(|n| n.outputs.iter().copied()));
        Ok(Cost { time_ns: moved / BYTES_PER_NS, workspace_bytes: workspace, ..Cost::default() })
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        program.check()?;
        let choose = |n| self.choose(program, n, options.exact_only).cloned();
        let kernels = program.nodes.iter().map(choose).collect::<Result<Vec<_>>>()?;
        let types = |ids: &[ottava_hal::ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
        let (inputs, outputs) = (types(&program.inputs), types(&program.outputs));
        let compiled = KernelProgram::new(program.clone(), kernels)?;
        Ok(Arc::new(HostExecutable::new(inputs, outputs, Box::new(compiled))))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, _: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::import(memory)
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(HostQueue::default()))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(HostFence::new(initial)))
    }
}
