//! The one error type of the driver contract: invalid, unsupported, failed.

use crate::capability::Reason;
use std::fmt;

/// Result of every fallible call of the contract.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Stable status numbers, shared with the plugin ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
#[allow(missing_docs)] // The names are the documentation; abi.md section 4 lists them.
pub enum Status {
    InvalidArgument = 1,
    Unsupported = 2,
    OutOfHostMemory = 3,
    OutOfDeviceMemory = 4,
    Timeout = 5,
    Cancelled = 6,
    DeviceLost = 7,
    Busy = 8,
    IncompatibleBlob = 9,
    CorruptBlob = 10,
    Panic = 11,
    Internal = 12,
    NotFound = 13,
    BufferTooSmall = 14,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 14] = [
        Self::InvalidArgument,
        Self::Unsupported,
        Self::OutOfHostMemory,
        Self::OutOfDeviceMemory,
        Self::Timeout,
        Self::Cancelled,
        Self::DeviceLost,
        Self::Busy,
        Self::IncompatibleBlob,
        Self::CorruptBlob,
        Self::Panic,
        Self::Internal,
        Self::NotFound,
        Self::BufferTooSmall,
    ];
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?} ({})", *self as i32)
    }
}

/// Why a call did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The caller's fault: what was found, what was expected, what to do.
    #[error("{0}")]
    Invalid(String),
    /// Legal, but this device or this version does not do it.
    #[error("unsupported ({reason}): {what}")]
    Unsupported {
        /// Machine-readable reason.
        reason: Reason,
        /// Names operator, type and device.
        what: String,
    },
    /// The device could not do it: memory, loss, a driver's own failure.
    #[error("{status}: {what}")]
    Failed {
        /// Stable status number.
        status: Status,
        /// What happened, in words.
        what: String,
        /// A retry may succeed. Persistent failures are never retried.
        transient: bool,
    },
}

impl Error {
    /// The caller's fault.
    pub fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// Legal but not done here.
    pub fn unsupported(reason: Reason, what: impl Into<String>) -> Self {
        Self::Unsupported { reason, what: what.into() }
    }

    /// A persistent failure.
    pub fn failed(status: Status, what: impl Into<String>) -> Self {
        Self::Failed { status, what: what.into(), transient: false }
    }

    /// The status number that crosses the plugin boundary.
    pub fn status(&self) -> Status {
        match self {
            Self::Invalid(_) => Status::InvalidArgument,
            Self::Unsupported { .. } => Status::Unsupported,
            Self::Failed { status, .. } => *status,
        }
    }
}
