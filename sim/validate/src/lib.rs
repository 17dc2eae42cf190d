//! `ottava-validate`: how far the numbers of a quantized network are from those of its float original.
//!
//! First form: layer-by-layer error and saturation. The crate compares *captured tensors*; how they were captured (by
//! observing an interpreter, or from a device whose program hands out every value) is the caller's affair.
//!
//! 1. [`pairs`] finds what can be compared: values that stand for the same float value in both graphs;
//! 2. [`LayerAccumulator`] takes one pair of tensors after the other and sums up;
//! 3. [`Layer`] is the result: signal-to-noise ratio, cosine, largest error, saturation, bit equality.
//!
//! [`page`] makes one HTML page of such results and of whatever else a run has to say.
//!
//! Quantized tensors are dequantized by their type before they are compared; what is compared is the real value that the
//! integers stand for.

mod layer;
pub mod page;
mod pairs;
mod sums;

pub use layer::{Layer, LayerAccumulator, real_values};
pub use pairs::{Pair, aliases, pairs};
pub use sums::Sums;

/// Why tensors cannot be compared.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Error {
    /// The two tensors of a value do not have the same number of elements.
    #[error(
        "value `{name}`: {tested} elements in the network under test, {reference} in the reference; run both on the same batch"
    )]
    Size {
        /// Name of the value.
        name: String,
        /// Elements of the tested tensor.
        tested: usize,
        /// Elements of the reference tensor.
        reference: usize,
    },
    /// A tensor does not fit its declared type.
    #[error("value `{name}`: {source}")]
    Tensor {
        /// Name of the value.
        name: String,
        /// What does not fit.
        source: ottava_hal::Error,
    },
}

/// Result of comparisons.
pub type Result<T, E = Error> = std::result::Result<T, E>;
