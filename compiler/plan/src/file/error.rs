//! Why a plan file cannot be written or read.

use ottava_hal::{Error, Status};
use std::io;

/// Why a plan file cannot be written or read; every text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// The file cannot be opened, mapped, written or renamed.
    #[error("plan file `{path}`: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The first bytes are not those of a plan.
    #[error("this is not an Ottava plan: it begins with {found:02x?}; make one with `ottava compile`")]
    NotAPlan {
        /// The first bytes, at most eight.
        found: Vec<u8>,
    },
    /// Bytes are missing at the end.
    #[error("the plan is truncated: {found} of {expected} bytes are there; copy or compile it again")]
    Truncated {
        /// Bytes found.
        found: u64,
        /// Bytes that the header promises.
        expected: u64,
    },
    /// Bytes follow the end.
    #[error("the plan has {extra} bytes behind its end; copy or compile it again")]
    Trailing {
        /// How many.
        extra: u64,
    },
    /// Another version has written the file.
    #[error(
        "the plan has format {format} and needs a reader of format {needs} or newer; this is format {ours}: update \
         Ottava, or compile the model again with this version"
    )]
    Version {
        /// Format of the file.
        format: u32,
        /// Oldest reader that understands it.
        needs: u32,
        /// Format of this reader.
        ours: u32,
    },
    /// The file uses something that this version does not know.
    #[error("the plan uses features {flags:#x} that this version does not know: update Ottava")]
    Flags {
        /// The unknown flags.
        flags: u32,
    },
    /// Bytes are not those that were written.
    #[error("the plan is damaged: the checksum of {section} does not match; copy or compile it again")]
    Checksum {
        /// Which part.
        section: String,
    },
    /// The bytes are intact but say something impossible.
    #[error("the plan is not valid: {section}: {what}; compile the model again")]
    Corrupt {
        /// Which part.
        section: String,
        /// What is wrong.
        what: String,
    },
    /// The plan cannot be written.
    #[error("the plan cannot be written: {0}")]
    Refused(#[from] Error),
}

impl FileError {
    pub(crate) fn io(path: &std::path::Path, source: io::Error) -> Self {
        Self::Io { path: path.display().to_string(), source }
    }

    pub(crate) fn corrupt(section: impl Into<String>, what: impl ToString) -> Self {
        Self::Corrupt { section: section.into(), what: what.to_string() }
    }
}

impl From<FileError> for Error {
    fn from(e: FileError) -> Self {
        match e {
            FileError::Refused(e) => e,
            FileError::Io { ref source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Self::failed(Status::NotFound, e.to_string())
            }
            FileError::Io { .. } => Self::failed(Status::Internal, e.to_string()),
            FileError::Version { .. } | FileError::Flags { .. } => {
                Self::failed(Status::IncompatibleBlob, e.to_string())
            }
            _ => Self::failed(Status::CorruptBlob, e.to_string()),
        }
    }
}
