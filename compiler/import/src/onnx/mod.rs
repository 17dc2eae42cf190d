//! The ONNX format: protobuf messages, stored tensors, and (over them) import and export of graphs.
mod attribute;
mod bodies;
mod build;
mod captures;
pub mod decode;
pub mod elem;
mod export;
mod export_bodies;
pub mod external;
mod forms;
mod functions;
mod import;
mod mapped;
pub(crate) mod names;
mod order;
pub mod proto;
pub(crate) mod raw;
mod schema;
pub mod tensor;
mod types;
mod wire;

pub use decode::{decode_model, decode_tensor_file, read_model, read_tensor};
pub use elem::ElemType;
pub use export::{ExportOptions, export_onnx};
pub use external::ExternalData;
pub use import::{ImportOptions, OPSETS, import_onnx, import_onnx_bytes};
pub use tensor::OnnxTensor;
