//! The numeric contract in code (numerics.md).
pub mod bias;
pub mod bounds;
pub mod cast;
pub mod error;
pub mod float;
pub mod maddubs;
pub mod quantize;
pub mod requant;
pub mod round;
pub mod rows;
#[cfg(test)]
mod testing;
