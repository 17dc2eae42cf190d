//! ottava-quantize: from observed values to an integer graph.

mod bytes;
pub mod calibration;
pub mod channels;
pub mod error;
pub mod histogram;
pub mod observers;
pub mod params;
