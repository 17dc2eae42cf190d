//! Convolutions and matrix products: plans that pack weights once, and their drivers over pixels and channel panels.

mod filter;
mod integer;
mod pad;
mod pixels;
mod shape;
mod weights;

pub use integer::ConvU8;
pub use shape::ConvShape;
pub use weights::{WeightData, WeightLayout, Weights};
