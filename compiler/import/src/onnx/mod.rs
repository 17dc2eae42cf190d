//! The ONNX format: protobuf messages, stored tensors, and (over them) import and export of graphs.
mod attribute;
pub mod decode;
pub mod elem;
pub mod external;
mod functions;
mod names;
mod order;
pub mod proto;
mod raw;
mod schema;
pub mod tensor;
mod wire;

pub use decode::{decode_model, decode_tensor_file, read_model};
pub use elem::ElemType;
pub use external::ExternalData;
pub use tensor::OnnxTensor;
