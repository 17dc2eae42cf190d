//! The one error type of the crate: shapes and lengths that do not fit, instruction sets that are absent, failed tasks.

use alloc::string::String;

use thiserror::Error;

/// Why a plan could not be built or a kernel could not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// A slice does not have the length that the shape asks for.
    #[error("{what} holds {found} elements, expected {expected}; pass a slice that matches the plan's shape")]
    Length {
        /// Which argument.
        what: &'static str,
        /// Elements found.
        found: usize,
        /// Elements expected.
        expected: usize,
    },
    /// A shape is impossible (a zero extent, a window larger than the padded image, channels not divisible by groups).
    #[error("invalid shape: {what}")]
    Shape {
        /// What is wrong with it, with the numbers.
        what: String,
    },
    /// A number derived from the shape does not fit in `usize` or in the packed format's 32-bit offsets.
    #[error("{what} is too large for this machine; split the operator")]
    Overflow {
        /// Which quantity.
        what: &'static str,
    },
    /// A parameter is out of its range (scale not finite and positive, zero point outside the storage type, lo > hi).
    #[error("invalid parameter: {what}")]
    Parameter {
        /// What is wrong, with the numbers.
        what: String,
    },
    /// Bytes of packed weights that no plan of this shape has written.
    #[error("the packed weights are damaged or of another shape: {what}; pack them again")]
    Packed {
        /// What is wrong with them.
        what: String,
    },
    /// The requested instruction set is unknown or this CPU lacks it.
    #[error("instruction set `{name}` is not available here; available: {available}")]
    Isa {
        /// The name asked for.
        name: String,
        /// Names that work on this machine.
        available: String,
    },
    /// A task of a parallel region panicked; the output is incomplete.
    #[error("a kernel task panicked: {message}")]
    TaskPanicked {
        /// The panic message, where it was text.
        message: String,
    },
    /// The operating system refused a worker thread.
    #[error("cannot start worker thread {index}: {reason}")]
    Thread {
        /// Index of the worker.
        index: usize,
        /// The system's reason.
        reason: String,
    },
}

/// Result of this crate.
pub type Result<T> = core::result::Result<T, KernelError>;

/// `Err(Length)` unless `found == expected`.
pub(crate) fn check_len(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found == expected { Ok(()) } else { Err(KernelError::Length { what, found, expected }) }
}

/// `a * b * ...` or `Err(Overflow)`.
pub(crate) fn product(what: &'static str, factors: &[usize]) -> Result<usize> {
    factors.iter().try_fold(1usize, |p, f| p.checked_mul(*f)).ok_or(KernelError::Overflow { what })
}
