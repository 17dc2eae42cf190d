//! The object-safe traits that a driver implements.
//!
//! A [`Driver`] lists and opens devices. A [`Device`] answers what it can run, compiles a [`Program`] into an
//! [`Executable`], and makes [`Buffer`]s, [`Queue`]s and [`Fence`]s. Objects of one device are only used with that
//! device; handing over another's is an `Invalid` error, never undefined. Everything is `Send + Sync`; nothing blocks
//! except [`Fence::wait`] and, on devices that run in the caller's thread, [`Queue::submit`].

use crate::{Capability, Cost, Error, Fence, Program, Reason, Result, Tensor, TensorType, Verdict};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Options of a driver or device, as written in the application's RON file.
pub type Options = BTreeMap<String, String>;

/// Who a driver is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DriverInfo {
    /// Short name, unique in a process.
    pub name: String,
    /// Who makes it.
    pub vendor: String,
    /// Its version.
    pub version: String,
}

/// What kind of machine a device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The names are the documentation.
pub enum DeviceKind {
    Cpu,
    Gpu,
    Npu,
    Dsp,
    Sim,
}

impl DeviceKind {
    /// Lower-case name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Npu => "npu",
            Self::Dsp => "dsp",
            Self::Sim => "sim",
        }
    }
}

/// What a device is.
#[derive(Debug, Clone, PartialEq)]
pub struct DeviceInfo {
    /// Stable across runs.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Kind of machine.
    pub kind: DeviceKind,
    /// Instruction set or hardware revision in use, for the report and for keys of packed weights.
    pub isa: String,
    /// Bytes of memory it can use; 0 if unknown.
    pub memory_bytes: u64,
    /// Worker threads; 1 if it has none of its own.
    pub threads: usize,
}

/// One option that a driver knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Key.
    pub key: &'static str,
    /// Value taken when the key is absent.
    pub default: String,
    /// Allowed values; empty if any value of the right form is.
    pub allowed: Vec<String>,
    /// One line of help.
    pub help: &'static str,
}

/// A plugin's root object.
pub trait Driver: Send + Sync {
    /// Who it is.
    fn info(&self) -> DriverInfo;

    /// Devices that are present. None is a valid answer.
    fn devices(&self) -> Result<Vec<DeviceInfo>>;

    /// Options that [`Driver::open`] understands.
    fn option_schema(&self) -> Vec<OptionSpec>;

    /// Opens a device by the id of [`Driver::devices`]. Unknown keys and values are errors that name the valid ones.
    fn open(&self, id: &str, options: &Options) -> Result<Arc<dyn Device>>;
}

/// Choices of one compilation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompileOptions {
    /// Refuse kernels that are not bit-equal to the reference.
    pub exact_only: bool,
    /// Keep the names of nodes for profiles.
    pub debug: bool,
}

impl Default for CompileOptions {
    fn default() -> Self {
        Self { exact_only: true, debug: true }
    }
}

/// A buffer that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferDesc {
    /// Size in bytes.
    pub bytes: usize,
    /// Alignment in bytes, a power of two.
    pub alignment: usize,
}

/// One accelerator.
pub trait Device: Send + Sync {
    /// What it is.
    fn info(&self) -> &DeviceInfo;

    /// What it can run.
    fn capability(&self) -> &Capability;

    /// One verdict per node of the program.
    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        Ok(self.capability().assess(program))
    }

    /// What the program would cost here.
    fn estimate(&self, program: &Program) -> Result<Cost>;

    /// Compiles a program. Weights are packed here, never at run time.
    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>>;

    /// Allocates a buffer.
    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>>;

    /// Creates a queue. Submissions of one queue run in order.
    fn create_queue(&self) -> Result<Arc<dyn Queue>>;

    /// Creates a timeline that stands at `initial`.
    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>>;
}

/// A compiled program.
pub trait Executable: Send + Sync {
    /// Types of the inputs, in program order.
    fn inputs(&self) -> &[TensorType];

    /// Types of the outputs, in program order.
    fn outputs(&self) -> &[TensorType];

    /// For each node that runs, its name and the kernel that was chosen.
    fn kernels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// Bytes of working memory of one inference.
    fn arena_bytes(&self) -> usize {
        0
    }

    /// Runs on host tensors and returns outputs whose shapes only the run decides. Only devices that declare
    /// `dynamic_shapes` can.
    fn run_dynamic(&self, _inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::unsupported(Reason::DynamicShape, "this device runs fixed shapes only"))
    }

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}

/// Memory of a device.
pub trait Buffer: Send + Sync {
    /// Size in bytes.
    fn len(&self) -> usize;

    /// Whether the size is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies from the buffer; an error if the range is outside.
    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()>;

    /// Copies into the buffer; an error if the range is outside.
    fn write(&self, offset: usize, from: &[u8]) -> Result<()>;

    /// For the device that made it.
    fn as_any(&self) -> &dyn Any;
}

/// A part of a buffer that stands for one input or output.
#[derive(Clone)]
pub struct Binding {
    /// The buffer.
    pub buffer: Arc<dyn Buffer>,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Binding {
    /// A whole buffer.
    pub fn whole(buffer: Arc<dyn Buffer>) -> Self {
        let len = buffer.len();
        Self { buffer, offset: 0, len }
    }
}

/// One run of an executable, with what it waits for and what it signals.
#[derive(Clone)]
pub struct Submission {
    /// What runs.
    pub executable: Arc<dyn Executable>,
    /// One binding per input.
    pub inputs: Vec<Binding>,
    /// One binding per output.
    pub outputs: Vec<Binding>,
    /// Timelines that must have reached a value before the run starts.
    pub waits: Vec<(Arc<dyn Fence>, u64)>,
    /// Timelines that are advanced when the run is done, or failed when it fails.
    pub signals: Vec<(Arc<dyn Fence>, u64)>,
    /// Record the time of each node.
    pub profile: bool,
}

/// Time of one node in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeTime {
    /// Name of the node.
    pub node: String,
    /// Kernel that ran.
    pub kernel: String,
    /// Start since the begin of the submission, nanoseconds.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
}

/// Runs submissions in order.
pub trait Queue: Send + Sync {
    /// Submits a run. Failures of the run itself go to the signalled fences; an error here means that nothing was
    /// submitted and no fence will change.
    fn submit(&self, submission: &Submission) -> Result<()>;

    /// Times of the last profiled submission; empty if there was none.
    fn take_profile(&self) -> Vec<NodeTime> {
        Vec::new()
    }
}
