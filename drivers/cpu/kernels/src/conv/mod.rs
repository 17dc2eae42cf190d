//! Convolutions and matrix products: plans that pack weights once, and their drivers over pixels and channel panels.

mod dense_f32;
mod depthwise;
mod depthwise_f32;
mod filter;
mod filter_f32;
mod finish_f32;
mod float;
mod integer;
mod matmul_f32;
mod pad;
mod pixels;
mod shape;
mod tiles_f32;
mod weights;
mod window;
mod winograd;

pub use filter_f32::FloatWeights;
pub(crate) use finish_f32::{FinishF32, OutF32};
pub use float::ConvF32;
pub use integer::ConvU8;
pub use matmul_f32::MatMulF32;
pub use shape::ConvShape;
pub(crate) use shape::out_extent;
pub use weights::{WeightData, WeightLayout, Weights};
pub(crate) use window::Axis;
