//! The errors of this crate, in three families: invalid input, legal but unsupported requests, and conflicts between
//! calibrations. Every message names the place, what was found, and what to do.

use thiserror::Error;

/// Everything that can go wrong while calibrating and quantizing.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// A calibration file is damaged, truncated or was written by another version.
    #[error("calibration data, byte {offset}: found {found}, expected {expected}; collect it again with `calibrate`")]
    BadCalibration {
        /// Byte offset of the problem.
        offset: usize,
        /// What the bytes say.
        found: String,
        /// What they should say.
        expected: String,
    },
    /// Two calibrations cannot be combined.
    #[error("these calibrations cannot be merged: {reason}; {help}")]
    Merge {
        /// Why.
        reason: String,
        /// The remedy.
        help: &'static str,
    },
    /// A calibration belongs to another model.
    #[error(
        "the calibration was collected on a model with fingerprint {found:016x}, this model has {expected:016x}; \
         collect it again on this model"
    )]
    OtherModel {
        /// Fingerprint stored in the calibration.
        found: u64,
        /// Fingerprint of the model at hand.
        expected: u64,
    },
    /// A tensor's range cannot be chosen.
    #[error("tensor `{tensor}` has no usable calibration data: {reason}; {help}")]
    NoData {
        /// Name of the tensor.
        tensor: String,
        /// Why there is none.
        reason: String,
        /// The remedy.
        help: &'static str,
    },
    /// Values handed to the calibration do not have the stated shape.
    #[error("tensor `{tensor}`: {found}, expected {expected}; observe whole tensors with a fixed channel count")]
    BadObservation {
        /// Name of the tensor.
        tensor: String,
        /// What was handed in.
        found: String,
        /// What it should have been.
        expected: String,
    },
    /// A recipe cannot be read.
    #[error("recipe, line {line}, column {column}: {message}{}", help.as_deref().map(|h| format!("; {h}")).unwrap_or_default())]
    Recipe {
        /// Line of the problem, from 1; 0 when the problem has no single place.
        line: usize,
        /// Column of the problem, from 1; 0 when the problem has no single place.
        column: usize,
        /// What is wrong.
        message: String,
        /// The nearest valid name, or the remedy.
        help: Option<String>,
    },
    /// Weights or biases do not have the stated shape, or are not finite.
    #[error("`{tensor}`: {found}, expected {expected}; repair the model")]
    BadWeights {
        /// Name of the constant.
        tensor: String,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// A legal request that this version does not carry out.
    #[error("{what} is not supported: {reason}; {help}")]
    Unsupported {
        /// The request.
        what: String,
        /// Why it is refused.
        reason: String,
        /// What to do instead.
        help: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
