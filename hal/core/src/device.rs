//! The object-safe traits that a driver implements.
//!
//! A [`Driver`] lists and opens devices. A [`Device`] answers what it can run, compiles a [`Program`] into an
//! [`Executable`], and makes [`Buffer`]s, [`Queue`]s and [`Fence`]s. Objects of one device are only used with that
//! device; handing over another's is an `Invalid` error, never undefined. Everything is `Send + Sync`; nothing blocks
//! except [`Fence::wait`] and, on devices that run in the caller's thread, [`Queue::submit`].

use crate::fault::Fault;
use crate::host::HostMemory;
use crate::{Capability, Cost, Error, Fence, Program, Reason, Result, Tensor, TensorType, Verdict};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

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
    /// Stable across runs and processes; part of the key of compiled blobs.
    pub uuid: [u8; 16],
    /// Revision of the hardware, or of whatever else makes compiled blobs different (a CPU's instruction set).
    pub hw_rev: u32,
    /// [`Queue::submit`] returns when the work is done; fences are plain host timelines.
    pub sync_only: bool,
    /// A simulator, not hardware.
    pub simulated: bool,
    /// Floats below the normal range become zero.
    pub flushes_denormals: bool,
    /// Alignment of bindings in bytes, a power of two.
    pub alignment: usize,
    /// Largest buffer in bytes; 0 if unknown.
    pub max_buffer: u64,
    /// The way between host memory and the device.
    pub link: Link,
    /// Peak speed.
    pub peak: Peak,
}

/// How data gets to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// The device works in host memory.
    Native,
    /// The device can be handed host memory.
    Import,
    /// Data is copied.
    Copy,
}

/// The way between host memory and a device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// How data gets there.
    pub mode: LinkMode,
    /// Bytes per second of a copy; 0 if unknown.
    pub bytes_per_s: f64,
    /// Fixed cost of a submission or copy, nanoseconds.
    pub latency_ns: u64,
}

/// Peak operations per second by element type; 0 if unknown or not offered.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[allow(missing_docs)] // The element types.
pub struct Peak {
    pub s8: f64,
    pub s16: f64,
    pub f16: f64,
    pub f32: f64,
}

impl DeviceInfo {
    /// A device that works in host memory and in the caller's thread; narrow it with struct update syntax.
    pub fn new(driver: &str, id: &str, kind: DeviceKind) -> Self {
        Self {
            id: id.to_owned(),
            name: id.to_owned(),
            kind,
            isa: String::new(),
            memory_bytes: 0,
            threads: 1,
            uuid: uuid_of(driver, id),
            hw_rev: 0,
            sync_only: true,
            simulated: false,
            flushes_denormals: false,
            alignment: 64,
            max_buffer: 0,
            link: Link { mode: LinkMode::Native, bytes_per_s: 0.0, latency_ns: 1_000 },
            peak: Peak::default(),
        }
    }
}

/// 16 bytes that stand for a driver's device: FNV-1a-64 of the names, forwards and backwards.
fn uuid_of(driver: &str, id: &str) -> [u8; 16] {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    let bytes = || driver.bytes().chain([0]).chain(id.bytes());
    let forth = bytes().fold(0xcbf2_9ce4_8422_2325, fnv);
    let back = bytes().collect::<Vec<_>>().into_iter().rev().fold(0xcbf2_9ce4_8422_2325, fnv);
    let mut uuid = [0; 16];
    uuid[..8].copy_from_slice(&forth.to_le_bytes());
    uuid[8..].copy_from_slice(&back.to_le_bytes());
    uuid
}

/// One option that a driver knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionSpec {
    /// Key.
    pub key: String,
    /// Value taken when the key is absent.
    pub default: String,
    /// Allowed values; empty if any value of the right form is.
    pub allowed: Vec<String>,
    /// One line of help.
    pub help: String,
}

impl OptionSpec {
    /// An option that takes any value of the right form.
    pub fn new(key: &str, default: impl ToString, help: &str) -> Self {
        Self { key: key.into(), default: default.to_string(), allowed: Vec::new(), help: help.into() }
    }
}

/// What a compiled blob was made for. The host keeps it beside the blob; every field is part of the cache key, so an
/// update of a driver or a change of the model invalidates by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlobKey {
    /// Name of the driver.
    pub driver: String,
    /// Version of the driver.
    pub driver_version: String,
    /// [`DeviceInfo::uuid`].
    pub uuid: [u8; 16],
    /// [`DeviceInfo::hw_rev`].
    pub hw_rev: u32,
    /// Version of the program representation.
    pub ir_version: u32,
    /// Hash of the contract's tables.
    pub core_hash: u64,
    /// Hash of the operator list.
    pub ops_hash: u64,
    /// Hash of the program without its quantization.
    pub program_hash: u64,
    /// Hash of every scale and zero point.
    pub quant_hash: u64,
    /// Hash of the compile options and the device's options.
    pub options_hash: u64,
    /// Length of the payload.
    pub payload_len: u64,
    /// SHA-256 of the payload.
    pub payload_sha256: [u8; 32],
}

/// What a driver says about a blob before it sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlobVerdict {
    /// As good as a fresh compilation.
    Optimal,
    /// Usable; compiling again would be better, for the reason given.
    RecompilePreferred(String),
    /// Not usable, for the reason given.
    Incompatible(String),
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

    /// Whether a blob can be used, judged by its key alone; no device is opened. Blobs of other versions of the driver
    /// are refused unless the driver knows better.
    fn check_blob(&self, key: &BlobKey) -> Result<BlobVerdict> {
        let info = self.info();
        let same = (info.name.as_str(), info.version.as_str()) == (key.driver.as_str(), key.driver_version.as_str());
        let text = || format!("made by {} {}, this is {} {}", key.driver, key.driver_version, info.name, info.version);
        Ok(if same { BlobVerdict::Optimal } else { BlobVerdict::Incompatible(text()) })
    }
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

    /// The bytes from which [`Self::deserialize`] makes the same executable again, on this kind of device.
    fn serialize(&self, _executable: &dyn Executable) -> Result<Vec<u8>> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot save executables", self.info().id)))
    }

    /// An executable from the bytes of [`Self::serialize`]. The caller has compared `key` and the payload's hash; a
    /// driver still treats the bytes as hostile.
    fn deserialize(&self, _key: &BlobKey, _payload: &[u8]) -> Result<Arc<dyn Executable>> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot load executables", self.info().id)))
    }

    /// Allocates a buffer.
    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>>;

    /// Makes a buffer of memory that the caller lends, without a copy. The caller keeps the memory alive and does not
    /// touch it while a submission uses it.
    fn import_host(&self, _memory: Box<dyn HostMemory>, _desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        Err(Error::unsupported(Reason::Memory, format!("device `{}` cannot use host memory", self.info().id)))
    }

    /// Tries to bring a lost device back. Its buffers and executables stay invalid.
    fn reset(&self) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` cannot be reset; open it again", self.info().id)))
    }

    /// Arms a fault, for tests (`ottava.test_hooks/1`).
    fn inject(&self, _fault: Fault) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` has no test hooks", self.info().id)))
    }

    /// Takes an armed fault away.
    fn clear_faults(&self) -> Result<()> {
        Err(Error::unsupported(Reason::Other, format!("device `{}` has no test hooks", self.info().id)))
    }

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

/// One piece of work of a submission.
#[derive(Clone)]
pub enum Command {
    /// Runs an executable.
    Dispatch {
        /// What runs.
        executable: Arc<dyn Executable>,
        /// One binding per input.
        inputs: Vec<Binding>,
        /// One binding per output.
        outputs: Vec<Binding>,
    },
    /// Copies between buffers of the device; both have the same length and do not overlap.
    Copy {
        /// Source.
        from: Binding,
        /// Destination.
        to: Binding,
    },
    /// Fills a buffer with a repeated pattern, least significant byte first.
    Fill {
        /// Destination.
        to: Binding,
        /// Four bytes.
        pattern: u32,
    },
}

/// Commands that run in order, with what they wait for and what they signal. Everything it names is kept alive until
/// the signals have fired.
#[derive(Clone, Default)]
pub struct Submission {
    /// What runs, in order.
    pub commands: Vec<Command>,
    /// Timelines that must have reached a value before the first command starts.
    pub waits: Vec<(Arc<dyn Fence>, u64)>,
    /// Timelines that are advanced when the last command is done, or failed when one fails or a wait fails.
    pub signals: Vec<(Arc<dyn Fence>, u64)>,
    /// A submission that cannot start by then does not run and fails its signals with `Timeout`.
    pub deadline: Option<Instant>,
    /// Record the time of each node.
    pub profile: bool,
}

impl Submission {
    /// One run of an executable that waits for nothing and signals nothing.
    pub fn dispatch(executable: Arc<dyn Executable>, inputs: Vec<Binding>, outputs: Vec<Binding>) -> Self {
        Self { commands: vec![Command::Dispatch { executable, inputs, outputs }], ..Self::default() }
    }
}

/// What a device was busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum WorkKind {
    /// A node or kernel.
    #[default]
    Dispatch = 1,
    /// A transfer.
    Copy = 2,
    /// Waiting for a fence.
    Wait = 3,
}

/// Time of one node in one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeTime {
    /// Name of the node.
    pub node: String,
    /// Kernel that ran.
    pub kernel: String,
    /// What the device did.
    pub kind: WorkKind,
    /// Start since [`Profile::begin`], nanoseconds.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Cycles of the device's own clock; 0 if it has none.
    pub cycles: u64,
    /// Bytes moved; 0 if unknown.
    pub bytes: u64,
}

/// Times of one submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// When the first command started, on the host's clock.
    pub begin: Instant,
    /// When the last command was done.
    pub end: Instant,
    /// Times of the nodes, in order.
    pub nodes: Vec<NodeTime>,
}

impl Profile {
    /// A profile that begins now.
    pub fn begin() -> Self {
        let now = Instant::now();
        Self { begin: now, end: now, nodes: Vec::new() }
    }
}

/// Runs submissions in order.
pub trait Queue: Send + Sync {
    /// Submits work; returns the submission's number, which grows with each call. Failures of the work itself go to the
    /// signalled fences; an error here means that nothing was submitted and no fence will change.
    fn submit(&self, submission: &Submission) -> Result<u64>;

    /// Takes the times of a submission that was profiled and is done. Old ones may be gone.
    fn take_profile(&self, _submission: u64) -> Option<Profile> {
        None
    }
}
