//! Convolutions and matrix products: plans that pack weights once, and their drivers over pixels and channel panels.

mod depthwise;
mod depthwise_f32;
mod filter;
mod finish_f32;
mod float;
mod integer;
mod pad;
mod pixels;
mod shape;
mod weights;
mod window;

pub use float::ConvF32;
pub use integer::ConvU8;
pub use shape::ConvShape;
pub(crate) use shape::out_extent;
pub use weights::{WeightData, WeightLayout, Weights};
pub(crate) use window::Axis;
