//! Reads trained networks into the compiler's graph and writes graphs back.
//!
//! A folder per file format. [`onnx`] is the ONNX reader and writer; a model passes through its files in this order:
//!
//! | file | does |
//! |---|---|
//! | `decode`, `wire`, `schema` | bytes to messages, checked before anything is allocated |
//! | `tensor`, `external`, `elem`, `types` | stored tensors and declared types to those of the graph |
//! | `functions`, `names` | functions of the model written out, unique names |
//! | `attribute`, `raw` | attributes typed, problems collected |
//! | `order` | order of evaluation, cycles, double and missing definitions |
//! | `forms` | every operator to its newest form; one line per operator in `forms/table.rs` |
//! | `build`, `import` | the graph, and the frame around all steps |
//! | `export` | graph to model |
//!
//! [`tflite`] is the TFLite reader; its module page has the same table.
//!
//! Invariant: a model is a stranger's file. Nothing in it makes this crate panic, recurse without bound, read outside
//! the model's folder, or allocate more than a fixed multiple of the file's size (a TFLite state that
//! begins as zeros: 4 MiB at most each).
pub mod error;
pub mod onnx;
pub mod tflite;

pub use error::ImportError;
pub use onnx::{ExportOptions, ImportOptions, export_onnx, import_onnx, import_onnx_bytes};
pub use tflite::{TfliteOptions, import_tflite, import_tflite_bytes, is_tflite};
