//! Closed forms: cycles, accesses and traffic of a layer on an array, without running a program (`npu.md` sections 3, 4).
//!
//! Everything here is a function of plain numbers and is exact: integers throughout, times in 1/256 of a cycle where a
//! transfer does not end on a cycle. The event engine is compared with these forms, and these forms with published tables.
//!
//! * [`Gemm`], [`ArrayShape`], [`Folds`]: how a layer is cut into folds of the array;
//! * [`compute_cycles`], [`fold_cycles`]: array cycles in the three timing modes;
//! * [`sram_accesses`], [`utilization`]: accesses of the scratchpads and the share of useful array cycles;
//! * [`Depthwise`]: the three ways to run a depthwise convolution, and the cheapest of them;
//! * [`ConvShape`]: a convolution as a product of matrices;
//! * [`gemm_run`], [`TwoBuffers`]: the two-buffer recurrence, its bounds and where the waiting went;
//! * [`cold_start_run`], [`serial_run`]: the forms without overlap.
//!
//! Invariants: a dimension is 1 to [`DIM_MAX`], so that a product of four of them fits a `u128`; a result that does not
//! fit a `u64` is an [`Error`], never a wrapped number.

mod access;
mod cold_start;
mod conv;
mod cycles;
mod depthwise;
mod fixed;
mod gemm_run;
mod recurrence;
mod shape;

pub use access::{SramAccesses, sram_accesses, utilization};
pub use cold_start::{cold_start_run, serial_run};
pub use conv::{ConvGemm, ConvShape, Window};
pub use cycles::{PIPELINE_MIN_INTERVAL, compute_cycles, fold_cycles};
pub use depthwise::{Depthwise, DepthwiseCost, DepthwiseMapping, depthwise_run, packed_channels};
pub use fixed::{Bandwidth, Time};
pub use gemm_run::{Buffers, gemm_run};
pub use recurrence::{Bounds, Dram, MAX_FOLDS, Run, Traffic, TwoBuffers, bounds};
pub use shape::{ARRAY_MAX, ArrayShape, DIM_MAX, Fold, Folds, Gemm, Mapping};

/// Why a closed form has no value for its input.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A dimension is zero or larger than the forms are made for.
    #[error("{what} is {value}; expected 1 to {max}")]
    Range {
        /// Which number.
        what: &'static str,
        /// The number.
        value: u64,
        /// Largest number that is accepted.
        max: u64,
    },
    /// A result does not fit its integer type.
    #[error("{what} does not fit 64 bits; use a smaller layer or split it")]
    Overflow {
        /// Which result.
        what: &'static str,
    },
    /// The recurrence would walk too many folds.
    #[error("{folds} folds are more than the {limit} that the recurrence walks; use a larger array or split the layer")]
    TooManyFolds {
        /// Folds of the layer.
        folds: u128,
        /// Largest number that is accepted.
        limit: u64,
    },
}

/// Result of a closed form.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A `u128` as the `u64` that results are given in.
fn narrow(value: u128, what: &'static str) -> Result<u64> {
    u64::try_from(value).map_err(|_| Error::Overflow { what })
}

/// `value`, if it is in 1 to `max`.
fn in_range(value: u64, max: u64, what: &'static str) -> Result<u64> {
    if (1..=max).contains(&value) { Ok(value) } else { Err(Error::Range { what, value, max }) }
}
