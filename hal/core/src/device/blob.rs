//! What a saved executable was made for.

/// What a compiled blob was made for. The host keeps it beside the blob; every field is part of the cache key, so an
/// update of a driver or a change of the model invalidates by itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BlobKey {
    /// Name of the driver.
    pub driver: String,
    /// Version of the driver.
    pub driver_version: String,
    /// [`super::DeviceInfo::uuid`].
    pub uuid: [u8; 16],
    /// [`super::DeviceInfo::hw_rev`].
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
