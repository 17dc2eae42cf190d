//! The TFLite format: FlatBuffer tables, tensors, and operators over them.
//!
//! | file | does |
//! |---|---|
//! | `flatbuffer` | bytes to tables, every read checked |
//! | `schema` | the tables of a model |
//! | `tensor` | types, quantization and data of tensors |
//! | `cx` | what builders of operators work with; in which order of axes a tensor lies |
//! | `ops` | operators to nodes; one line per operator in `ops/table.rs` |
//! | `import` | the frame around all steps |
//!
//! Quantization is part of the types from the begin: an int8 convolution is a Conv of typed values whose requantization
//! mode is an attribute of the node. The order of axes is that of the graph's operators (`[n, c, h, w]`); Transposes stand
//! only where a model reads or writes images, or mixes them with other tensors.
mod cx;
mod flatbuffer;
mod import;
mod ops;
mod schema;
mod tensor;

pub use import::{TfliteOptions, import_tflite, import_tflite_bytes, is_tflite};
