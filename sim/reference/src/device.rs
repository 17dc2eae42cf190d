//! The driver and device `reference`.

use crate::Interpreter;
use ottava_hal::capability::FusedSupport;
use ottava_hal::host::{self, HostExecutable, HostFence, HostQueue};
use ottava_hal::{
    Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, DeviceKind, Driver, DriverInfo, Error,
    Executable, Fence, OpRow, OptionSpec, Options, Program, Queue, Result,
};
use std::sync::Arc;

/// Offers the one device `reference`.
#[derive(Debug, Default)]
pub struct ReferenceDriver;

fn info() -> DeviceInfo {
    DeviceInfo {
        name: "bit-accurate interpreter".into(),
        isa: "scalar".into(),
        simulated: true,
        ..DeviceInfo::new("reference", "reference", DeviceKind::Sim)
    }
}

impl Driver for ReferenceDriver {
    fn info(&self) -> DriverInfo {
        let version = env!("CARGO_PKG_VERSION").into();
        DriverInfo { name: "reference".into(), vendor: "Ottava".into(), version }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![info()])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        if id != "reference" {
            return Err(Error::invalid(format!(
                "the reference driver has no device `{id}`; its device is `reference`"
            )));
        }
        if let Some(key) = options.keys().next() {
            return Err(Error::invalid(format!("the reference device has no option `{key}`; it has none")));
        }
        Ok(Arc::new(ReferenceDevice::new()))
    }
}

/// The interpreter as a device.
pub struct ReferenceDevice {
    info: DeviceInfo,
    capability: Capability,
}

impl ReferenceDevice {
    /// Makes the device; it needs nothing.
    pub fn new() -> Self {
        Self { info: info(), capability: Capability { rows: rows(), dynamic_shapes: true } }
    }
}

impl Default for ReferenceDevice {
    fn default() -> Self {
        Self::new()
    }
}

/// Every operator, in every form.
fn rows() -> Vec<OpRow> {
    let fused = FusedSupport { clamp: true, residual: true, act: true, zp_before_round: true };
    let row = |op: &'static dyn ottava_ops::Op| {
        let spec = op.spec();
        OpRow { domain: spec.domain.into(), fused, ..OpRow::any(spec.name) }
    };
    ottava_ops::all().map(row).collect()
}

/// Nanoseconds that the interpreter takes for one multiply-accumulate or one element, roughly.
const NS_PER_STEP: u64 = 4;

impl Device for ReferenceDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        let bytes: usize = program.values.iter().filter_map(|v| v.ty.byte_len()).fold(0, usize::saturating_add);
        let macs = program.nodes.iter().map(|n| macs(program, n)).fold(0u64, u64::saturating_add);
        let steps = macs.saturating_add(bytes as u64);
        Ok(Cost { time_ns: steps.saturating_mul(NS_PER_STEP), workspace_bytes: bytes as u64, ..Cost::default() })
    }

    fn compile(&self, program: &Program, _options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        // What the table denies does not compile: nobody would know what it means.
        program.nodes.iter().try_for_each(|n| ottava_ops::lookup(&n.domain, &n.op).map(drop))?;
        let types = |ids: &[ottava_hal::ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
        let interpreter = Interpreter::new(program)?;
        let (inputs, outputs) = (types(&program.inputs), types(&program.outputs));
        Ok(Arc::new(HostExecutable::new(inputs, outputs, Box::new(interpreter))))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::alloc(desc)
    }

    fn import_host(&self, memory: Box<dyn host::HostMemory>, _: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        host::import(memory)
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(HostQueue::default()))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(Arc::new(HostFence::new(initial)))
    }
}

fn macs(program: &Program, node: &ottava_hal::Node) -> u64 {
    let Ok(op) = ottava_ops::lookup(&node.domain, &node.op) else { return 0 };
    let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|v| program.ty(v))).collect();
    let outputs: Vec<_> = node.outputs.iter().map(|id| program.ty(*id)).collect();
    op.macs(node, &inputs, &outputs)
}
