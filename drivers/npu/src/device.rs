//! The driver and its one device.

use crate::buffer::{Ledger, NpuBuffer};
use crate::engine::{Core, Engine};
use crate::executable::{Interface, NpuExecutable};
use crate::info::{NPU, info};
use crate::lower::{Builder, Chip, Lowered};
use crate::options::{self, Settings};
use crate::queue::NpuQueue;
use crate::{NodeCycles, blob, cost, cycles, kernels};
use ottava_hal::fault::Fault;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Cost, Device, DeviceInfo, Driver, DriverInfo, Error,
    Executable, Fence, OptionSpec, Options, Program, Queue, Result, Status, Verdict,
};
use ottava_npu::isa::ContainerError;
use ottava_npu::timing::Timed;
use ottava_npu::{Counters, NpuConfig, NpuError, Program as Machine, Stream};
use std::sync::Arc;

/// The driver of the simulated NPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct NpuDriver;

impl NpuDriver {
    /// The driver; it needs nothing.
    pub fn new() -> Self {
        Self
    }

    /// Opens a device as what it is, for callers that ask more of it than the contract has.
    pub fn open_npu(&self, id: &str, options: &Options) -> Result<Arc<NpuDevice>> {
        if id != NPU {
            return Err(Error::invalid(format!("the npu driver has no device `{id}`; it has `{NPU}`")));
        }
        Ok(Arc::new(NpuDevice::open(options::parse(options)?)?))
    }
}

impl Driver for NpuDriver {
    fn info(&self) -> DriverInfo {
        let version = env!("CARGO_PKG_VERSION").into();
        DriverInfo { name: NPU.into(), vendor: "Ottava".into(), version }
    }

    fn devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![info(&options::parse(&Options::new())?)])
    }

    fn option_schema(&self) -> Vec<OptionSpec> {
        options::schema()
    }

    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>> {
        Ok(self.open_npu(id, options)?)
    }
}

/// One NPU.
pub struct NpuDevice {
    info: DeviceInfo,
    settings: Settings,
    chip: Chip,
    capability: Capability,
    ledger: Arc<Ledger>,
    engine: Arc<Engine>,
}

impl NpuDevice {
    fn open(settings: Settings) -> Result<Self> {
        let chip = Chip::new(&settings.config);
        Builder::check_chip(&chip)?;
        let engine = Arc::new(Engine::start(Core::new(NPU, settings.realtime))?);
        let ledger = Ledger::new(settings.memory);
        let (info, capability) = (info(&settings), kernels::capability(&chip));
        Ok(Self { info, capability, chip, ledger, engine, settings })
    }

    /// The chip's description.
    pub fn config(&self) -> &NpuConfig {
        &self.settings.config
    }

    /// Where the cycles of a program go, node by node in the program's order, without running it. Of every node compute
    /// and stalls are its total, and the totals together are those of every run.
    pub fn cycles(&self, program: &Program) -> Result<Vec<NodeCycles>> {
        Ok(cycles::cycles(program, &self.timed(program)?))
    }

    /// Every instruction of a program with its times, without running it. A stream that would not run has no times.
    pub fn timed(&self, program: &Program) -> Result<Timed> {
        self.timed_stream(self.stream_of(program)?)
    }

    /// The instructions of a program, which nothing has verified yet.
    pub fn stream_of(&self, program: &Program) -> Result<Stream> {
        Ok(self.stream(self.lower(program)?))
    }

    /// As [`Self::timed`], of a stream; one that the verifier refuses is an error with the instruction and its node.
    pub fn timed_stream(&self, stream: Stream) -> Result<Timed> {
        let machine = Machine::load(&self.settings.config, stream).map_err(|e| load_error(&e))?;
        let (steps, costs) = (machine.steps().to_vec(), machine.costs().to_vec());
        Ok(Timed { steps, costs, timing: machine.timing().clone() })
    }

    /// As [`Self::cycles`], of what [`Self::timed`] gave for the same program.
    pub fn cycles_of(&self, program: &Program, timed: &Timed) -> Vec<NodeCycles> {
        cycles::cycles(program, timed)
    }

    /// What the last run of an executable of this driver counted; `None` before its first.
    pub fn counters(&self, executable: &dyn Executable) -> Option<Counters> {
        executable.as_any().downcast_ref::<NpuExecutable>()?.counters()
    }

    /// The steps and the stream of a program.
    fn lower(&self, program: &Program) -> Result<Lowered> {
        program.check()?;
        let mut builder = Builder::new(program, &self.chip)?;
        for (i, node) in program.nodes.iter().enumerate() {
            let at_node = |e| match e {
                Error::Unsupported { reason, what } => {
                    let what = format!("node `{}` ({}) on device `{NPU}`: {what}", node.name, node.full_op());
                    Error::Unsupported { reason, what }
                }
                other => other,
            };
            if let Verdict::Rejected { reason, detail } = self.capability.assess_node(program, node) {
                return Err(at_node(Error::Unsupported { reason, what: detail }));
            }
            builder.begin(i);
            kernels::lower(&mut builder, node).map_err(at_node)?;
        }
        builder.finish(&self.settings.config, self.settings.fusion)
    }

    fn stream(&self, lowered: Lowered) -> Stream {
        Stream {
            commands: lowered.commands,
            constants: lowered.constants,
            regions: lowered.regions,
            nodes: lowered.marks,
            config_hash: self.settings.config.hash64(),
        }
    }

    /// Verifies a stream and takes the memory that its runs need.
    fn load(&self, interface: Interface, stream: Stream) -> Result<NpuExecutable> {
        let bytes = stream.regions.iter().fold(0u64, |sum, r| sum.saturating_add(*r));
        let reservation = self.ledger.reserve(bytes)?;
        let machine = Machine::load(&self.settings.config, stream).map_err(|e| load_error(&e))?;
        NpuExecutable::new(interface, machine, self.engine.core.generation(), reservation)
    }
}

/// A stream that the machine refuses.
fn load_error(error: &NpuError) -> Error {
    let status = match error {
        NpuError::Container(ContainerError::Version(_) | ContainerError::Capability(_)) => Status::IncompatibleBlob,
        NpuError::Container(_) => Status::CorruptBlob,
        _ => Status::Internal,
    };
    Error::failed(status, error.to_string())
}

fn interface(program: &Program, lowered: &mut Lowered) -> Interface {
    let types = |ids: &[ottava_hal::ValueId]| ids.iter().map(|id| program.ty(*id).clone()).collect();
    let wide = |at: &[usize]| at.iter().map(|&a| a as u64).collect();
    let kernels = std::mem::take(&mut lowered.kernels).into_iter();
    let kernel = |k: String| if k.is_empty() { "view".to_owned() } else { k };
    Interface {
        inputs: types(&program.inputs),
        outputs: types(&program.outputs),
        input_at: wide(&lowered.inputs),
        output_at: wide(&lowered.outputs),
        nodes: program.nodes.iter().zip(kernels).map(|(n, k)| (n.name.clone(), kernel(k))).collect(),
    }
}

impl Device for NpuDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        program.check()?;
        let one = |i| kernels::assess(&self.capability, &self.chip, program, i);
        Ok((0..program.nodes.len()).map(one).collect())
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        cost::estimate(&self.settings.config, &self.stream(self.lower(program)?))
    }

    fn compile(&self, program: &Program, _: &CompileOptions) -> Result<Arc<dyn Executable>> {
        self.engine.core.lost.check(NPU)?;
        let mut lowered = self.lower(program)?;
        let interface = interface(program, &mut lowered);
        let executable = self.load(interface, self.stream(lowered))?;
        let (cycles, nodes) = (executable.machine().timing().total_cycles, program.nodes.len());
        tracing::debug!(program = %program.name, nodes, cycles, chip = %self.settings.config.name, "compiled for the npu");
        Ok(Arc::new(executable))
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let exe = executable.as_any().downcast_ref::<NpuExecutable>();
        let exe = exe.ok_or_else(|| Error::invalid("the executable belongs to another device"))?;
        blob::write(exe.interface(), &exe.machine().stream().to_bytes(self.settings.crc))
    }

    fn deserialize(&self, _: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        self.engine.core.lost.check(NPU)?;
        let (interface, container) = blob::read(payload)?;
        let stream = Stream::from_bytes(container).map_err(|e| load_error(&e.into()))?;
        let (found, expected) = (stream.config_hash, self.settings.config.hash64());
        if found != expected {
            let what = format!("the blob is for chip {found:016x}, this one is {expected:016x}; compile it again");
            return Err(Error::failed(Status::IncompatibleBlob, what));
        }
        let refused = |e| match e {
            Error::Failed { status: Status::Internal, what, .. } => Error::failed(Status::CorruptBlob, what),
            other => other,
        };
        Ok(Arc::new(self.load(interface, stream).map_err(refused)?))
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        self.engine.core.lost.check(NPU)?;
        self.engine.core.check_memory()?;
        Ok(Arc::new(NpuBuffer::new(&self.ledger, self.engine.core.generation(), desc)?))
    }

    fn reset(&self) -> Result<()> {
        self.engine.core.reset();
        Ok(())
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        self.engine.core.inject(fault);
        Ok(())
    }

    fn clear_faults(&self) -> Result<()> {
        self.engine.core.clear_faults();
        Ok(())
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        self.engine.core.lost.check(NPU)?;
        Ok(Arc::new(NpuQueue::new(Arc::clone(&self.engine))))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        Ok(self.engine.core.timelines.create(initial))
    }
}
