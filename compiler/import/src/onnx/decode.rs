//! Bytes to messages: a model file, or a lone tensor as in the ONNX test vectors (`input_0.pb`).
use super::proto::{ModelProto, TensorProto};
use super::schema::{MODEL, Message, TENSOR};
use super::tensor::OnnxTensor;
use super::{ExternalData, wire};
use crate::ImportError;
use prost::bytes::Bytes;
use std::path::Path;

/// Protobuf messages end at 2 GiB; larger models keep their weights in files beside the model.
const MAX_FILE: u64 = (1 << 31) - 1;

/// Decodes a model. Weights stored as raw bytes are slices of `bytes`, not copies. `origin` names the
/// file in errors.
pub fn decode_model(bytes: Bytes, origin: &str) -> Result<ModelProto, ImportError> {
    decode(bytes, origin, "model", &MODEL)
}

/// Decodes a file that holds one tensor, as the ONNX test vectors do.
pub fn decode_tensor_file(bytes: Bytes, origin: &str) -> Result<OnnxTensor, ImportError> {
    let tensor: TensorProto = decode(bytes, origin, "tensor", &TENSOR)?;
    OnnxTensor::from_proto(&tensor, &mut ExternalData::none())
}

/// Reads the file at `path` that holds one tensor.
pub fn read_tensor(path: &Path) -> Result<OnnxTensor, ImportError> {
    decode_tensor_file(read_file(path)?, &path.display().to_string())
}

/// Reads and decodes the model file at `path`.
pub fn read_model(path: &Path) -> Result<ModelProto, ImportError> {
    decode_model(read_file(path)?, &path.display().to_string())
}

/// Reads a regular file of at most 2 GiB.
pub(crate) fn read_file(path: &Path) -> Result<Bytes, ImportError> {
    let meta = std::fs::metadata(path).map_err(|e| ImportError::io(path, e))?;
    let refuse = |why: String| ImportError::io(path, std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    if !meta.is_file() {
        return Err(refuse("not a regular file; name the model file itself".to_owned()));
    }
    if meta.len() > MAX_FILE {
        return Err(refuse(format!("{} bytes; a protobuf file has at most {MAX_FILE}", meta.len())));
    }
    std::fs::read(path).map(Bytes::from).map_err(|e| ImportError::io(path, e))
}

fn decode<M: prost::Message + Default>(
    bytes: Bytes,
    origin: &str,
    message: &'static str,
    shape: &'static Message,
) -> Result<M, ImportError> {
    let malformed = |offset, place: String, what| ImportError::Malformed {
        origin: origin.to_owned(),
        message,
        offset,
        place: if place.is_empty() { format!("the {message} itself") } else { place },
        what,
    };
    if bytes.is_empty() {
        return Err(malformed(0, String::new(), "the file is empty".to_owned()));
    }
    if bytes.get(4..8) == Some(b"TFL3") {
        return Err(ImportError::TensorFlowLite { origin: origin.to_owned() });
    }
    wire::scan(&bytes, shape).map_err(|e| malformed(e.offset, e.place, e.what))?;
    // The scan leaves the decoder little to refuse (a scalar of another wire type); it gives no offset.
    M::decode(bytes).map_err(|e| malformed(0, String::new(), e.to_string()))
}

/// Encodes a message.
pub(crate) fn encode(message: &impl prost::Message) -> Vec<u8> {
    message.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::onnx::proto::{GraphProto, NodeProto};

    fn small_model() -> ModelProto {
        let node = NodeProto { op_type: "Relu".into(), input: vec!["x".into()], ..Default::default() };
        let w = TensorProto { name: "w".into(), raw_data: Some(Bytes::from_static(&[7; 64])), ..Default::default() };
        let graph = GraphProto { name: "g".into(), node: vec![node], initializer: vec![w], ..Default::default() };
        ModelProto { ir_version: 8, graph: Some(graph), ..Default::default() }
    }

    #[test]
    fn a_model_comes_back_and_its_weights_are_slices_of_the_file() {
        let model = small_model();
        let bytes = Bytes::from(encode(&model));
        let back = decode_model(bytes.clone(), "m.onnx").expect("well-formed");
        assert_eq!(back, model);
        let raw = back.graph.expect("a graph").initializer[0].raw_data.clone().expect("raw data");
        assert!(bytes.as_ptr_range().contains(&raw.as_ptr()));
    }

    #[test]
    fn a_tflite_file_is_unsupported_and_not_damaged() {
        let e = decode_model(Bytes::from_static(b"\x1c\0\0\0TFL3\x14\0\x20\0"), "m.tflite").expect_err("TFLite");
        assert!(matches!(e, ImportError::TensorFlowLite { .. }), "{e:?}");
        assert!(e.to_string().starts_with("m.tflite: a TFLite model, where an ONNX model was expected"), "{e}");
    }

    #[test]
    fn every_truncation_is_an_error_or_a_shorter_model() {
        let bytes = encode(&small_model());
        for len in 0..bytes.len() {
            if let Err(e) = decode_model(Bytes::copy_from_slice(&bytes[..len]), "m.onnx") {
                assert!(e.to_string().starts_with("m.onnx: byte "), "{e}");
            }
        }
    }

    #[test]
    fn a_text_file_is_refused_by_name_and_place() {
        let e = decode_model(Bytes::from_static(b"hello, this is not a model"), "notes.txt").expect_err("text");
        let text = e.to_string();
        assert!(text.contains("notes.txt: byte 2") && text.contains("not an ONNX model"), "{text}");
    }

    #[test]
    fn a_folder_is_not_a_model() {
        let e = read_model(Path::new(env!("CARGO_MANIFEST_DIR"))).expect_err("a folder");
        assert!(e.to_string().contains("not a regular file"), "{e}");
    }
}
