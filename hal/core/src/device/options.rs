//! What is asked for: options of drivers and devices, of compilations, of buffers.

use std::collections::BTreeMap;

/// Options of a driver or device, as written in the application's RON file.
pub type Options = BTreeMap<String, String>;

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
    /// Values that tuning compares with the default. Empty where speed does not depend on the option, or results do.
    pub tune: Vec<String>,
}

impl OptionSpec {
    /// An option that takes any value of the right form.
    pub fn new(key: &str, default: impl ToString, help: &str) -> Self {
        Self { key: key.into(), default: default.to_string(), allowed: Vec::new(), help: help.into(), tune: Vec::new() }
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
