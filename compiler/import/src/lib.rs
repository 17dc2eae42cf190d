//! Reads trained networks into the compiler's graph and writes graphs back.
//!
//! A folder per file format. [`onnx`] holds the ONNX reader and writer: `wire` checks the bytes,
//! `proto` gives them a shape, `tensor` and `external` turn stored tensors into host bytes.
//!
//! Invariant: a model is a stranger's file. Nothing in it makes this crate panic, recurse without
//! bound, read outside the model's folder, or allocate more than a fixed multiple of the file's size.
pub mod error;
pub mod onnx;

pub use error::ImportError;
pub use onnx::{ExportOptions, ImportOptions, export_onnx, import_onnx, import_onnx_bytes};
