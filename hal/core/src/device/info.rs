//! What drivers and devices say about themselves.

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
    /// [`super::Queue::submit`] returns when the work is done; fences are plain host timelines.
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
