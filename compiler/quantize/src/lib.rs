//! `ottava-quantize`: from observed values to an integer graph.
//!
//! A newcomer reads it in the order in which data flows:
//!
//! 1. [`calibration`]: what was observed, per tensor: a mergeable [`histogram`] and, for bias correction, per-[`channels`]
//!    sums. Equal multisets of values give equal bytes, whatever the order, the batches or the shards.
//! 2. [`recipe`]: every choice, as one editable value with a text form.
//! 3. [`observers`]: from statistics to a range; [`params`]: from a range to a scale and a zero point.
//! 4. [`weights`] and [`bias`]: constants to integers, with their guards.
//! 5. `corrections`: what is done to lose less, to the float network and to the constants.
//! 6. [`apply`]: a float graph with all of this becomes a graph with Q/DQ nodes.
//! 7. [`search`]: which tensors to keep in float so that the output reaches a wanted signal-to-noise ratio.
//!
//! Invariants: no clocks, no randomness, sorted maps; sums in a fixed order or in integers. Calibration files and recipes
//! come from strangers: reading them cannot panic or allocate without bound.

pub mod apply;
pub mod bias;
mod bytes;
pub mod calibration;
pub mod channels;
mod corrections;
mod counts;
pub mod error;
pub mod histogram;
pub mod observers;
pub mod params;
pub mod recipe;
mod scan;
pub mod search;
pub mod weights;

pub use apply::{
    Quantized, Report, fingerprint, has_no_block, observations, quantize, quantize_dynamic, quantize_learned,
};
pub use bytes::fnv1a;
pub use calibration::{Calibration, NonFinite, ShardId, TensorStats};
pub use channels::ChannelLayout;
pub use corrections::{Learned, Learning, Prepared, prepare};
pub use error::{Error, Result};
pub use observers::Observer;
pub use recipe::Recipe;
