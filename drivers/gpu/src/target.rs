//! What a device offers to the kernels.

/// The integer dot product of four packed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dot {
    /// By shifts and products.
    Plain,
    /// By the device's instruction.
    Packed,
}

/// What lowering asks of a device.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Name in errors and reports.
    pub device: String,
    /// Which dot product the kernels of products use.
    pub dot: Dot,
    /// 64-bit integers.
    pub int64: bool,
    /// Most invocations of a work-group.
    pub max_group: u32,
    /// Most work-groups along each axis.
    pub max_groups: [u32; 3],
    /// Invocations of a work-group where a kernel leaves it open; at most `max_group`.
    pub group: u32,
    /// Bytes of shared memory of a work-group.
    pub shared_bytes: u32,
    /// Whether shared memory is worth using: a GPU's is, that of a CPU that plays a GPU is not.
    pub shared_fast: bool,
    /// Alignment of a buffer that a kernel is given, bytes, a power of two.
    pub alignment: usize,
    /// Largest buffer, bytes.
    pub max_buffer: u64,
    /// The device passed the self-test of the arithmetic: integer results are exact.
    pub exact: bool,
}
