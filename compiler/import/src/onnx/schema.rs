//! The nesting of the ONNX messages as data, for the scan in `wire`: which field numbers hold a message,
//! a text or a list, and what a decoded message costs in memory. Scalars need no row: they cost nothing
//! beyond the message that holds them.
use super::proto;
use std::mem::size_of;

/// A message type: its in-memory size and the fields that nest or allocate.
pub(super) struct Message {
    pub size: usize,
    pub fields: &'static [Field],
}

/// A field that nests or allocates.
pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    pub content: Content,
}

/// What a field holds.
#[derive(Clone, Copy)]
pub(super) enum Content {
    /// A message of its own.
    Message(&'static Message),
    /// UTF-8 text.
    Text,
    /// Bytes that are copied.
    Bytes,
    /// Bytes that the decoded message borrows from the file.
    Borrowed,
    /// A list of varints, packed or not.
    Varints,
    /// A list of 4-byte values, packed or not.
    Fixed32s,
    /// A list of 8-byte values, packed or not.
    Fixed64s,
}

use Content::{Borrowed, Bytes, Fixed32s, Fixed64s, Text, Varints};

const fn f(number: u32, name: &'static str, content: Content) -> Field {
    Field { number, name, content }
}

const fn m(number: u32, name: &'static str, message: &'static Message) -> Field {
    Field { number, name, content: Content::Message(message) }
}

pub(super) static MODEL: Message = Message {
    size: size_of::<proto::ModelProto>(),
    fields: &[
        f(2, "producer_name", Text),
        f(3, "producer_version", Text),
        f(4, "domain", Text),
        f(6, "doc_string", Text),
        m(7, "graph", &GRAPH),
        m(8, "opset_import", &OPSET),
        m(14, "metadata_props", &ENTRY),
        m(20, "training_info", &TRAINING),
        m(25, "functions", &FUNCTION),
    ],
};

static OPSET: Message = Message { size: size_of::<proto::OperatorSetIdProto>(), fields: &[f(1, "domain", Text)] };

static ENTRY: Message =
    Message { size: size_of::<proto::StringStringEntryProto>(), fields: &[f(1, "key", Text), f(2, "value", Text)] };

static TRAINING: Message = Message {
    size: size_of::<proto::TrainingInfoProto>(),
    fields: &[m(1, "initialization", &GRAPH), m(2, "algorithm", &GRAPH)],
};

static FUNCTION: Message = Message {
    size: size_of::<proto::FunctionProto>(),
    fields: &[
        f(1, "name", Text),
        f(4, "input", Text),
        f(5, "output", Text),
        f(6, "attribute", Text),
        m(7, "node", &NODE),
        f(8, "doc_string", Text),
        m(9, "opset_import", &OPSET),
        f(10, "domain", Text),
        m(11, "attribute_proto", &ATTRIBUTE),
        m(12, "value_info", &VALUE_INFO),
        f(13, "overload", Text),
    ],
};

static GRAPH: Message = Message {
    size: size_of::<proto::GraphProto>(),
    fields: &[
        m(1, "node", &NODE),
        f(2, "name", Text),
        m(5, "initializer", &TENSOR),
        f(10, "doc_string", Text),
        m(11, "input", &VALUE_INFO),
        m(12, "output", &VALUE_INFO),
        m(13, "value_info", &VALUE_INFO),
        m(15, "sparse_initializer", &SPARSE),
        m(16, "metadata_props", &ENTRY),
    ],
};

static NODE: Message = Message {
    size: size_of::<proto::NodeProto>(),
    fields: &[
        f(1, "input", Text),
        f(2, "output", Text),
        f(3, "name", Text),
        f(4, "op_type", Text),
        m(5, "attribute", &ATTRIBUTE),
        f(6, "doc_string", Text),
        f(7, "domain", Text),
        f(8, "overload", Text),
    ],
};

static ATTRIBUTE: Message = Message {
    size: size_of::<proto::AttributeProto>(),
    fields: &[
        f(1, "name", Text),
        f(4, "s", Bytes),
        m(5, "t", &TENSOR),
        m(6, "g", &GRAPH),
        f(7, "floats", Fixed32s),
        f(8, "ints", Varints),
        f(9, "strings", Bytes),
        m(10, "tensors", &TENSOR),
        m(11, "graphs", &GRAPH),
        f(13, "doc_string", Text),
        m(14, "tp", &TYPE),
        m(15, "type_protos", &TYPE),
        f(21, "ref_attr_name", Text),
        m(22, "sparse_tensor", &SPARSE),
        m(23, "sparse_tensors", &SPARSE),
    ],
};

pub(super) static TENSOR: Message = Message {
    size: size_of::<proto::TensorProto>(),
    fields: &[
        f(1, "dims", Varints),
        m(3, "segment", &SEGMENT),
        f(4, "float_data", Fixed32s),
        f(5, "int32_data", Varints),
        f(6, "string_data", Bytes),
        f(7, "int64_data", Varints),
        f(8, "name", Text),
        f(9, "raw_data", Borrowed),
        f(10, "double_data", Fixed64s),
        f(11, "uint64_data", Varints),
        f(12, "doc_string", Text),
        m(13, "external_data", &ENTRY),
    ],
};

static SEGMENT: Message = Message { size: size_of::<proto::tensor_proto::Segment>(), fields: &[] };

static SPARSE: Message = Message {
    size: size_of::<proto::SparseTensorProto>(),
    fields: &[m(1, "values", &TENSOR), m(2, "indices", &TENSOR), f(3, "dims", Varints)],
};

static VALUE_INFO: Message = Message {
    size: size_of::<proto::ValueInfoProto>(),
    fields: &[f(1, "name", Text), m(2, "type", &TYPE), f(3, "doc_string", Text)],
};

static SHAPE: Message = Message { size: size_of::<proto::TensorShapeProto>(), fields: &[m(1, "dim", &DIMENSION)] };

static DIMENSION: Message = Message {
    size: size_of::<proto::tensor_shape_proto::Dimension>(),
    fields: &[f(2, "dim_param", Text), f(3, "denotation", Text)],
};

pub(super) static TYPE: Message = Message {
    size: size_of::<proto::TypeProto>(),
    fields: &[
        m(1, "tensor_type", &TENSOR_TYPE),
        m(4, "sequence_type", &ELEMENT_TYPE),
        m(5, "map_type", &MAP_TYPE),
        f(6, "denotation", Text),
        m(8, "sparse_tensor_type", &TENSOR_TYPE),
        m(9, "optional_type", &ELEMENT_TYPE),
    ],
};

static TENSOR_TYPE: Message =
    Message { size: size_of::<proto::type_proto::Tensor>(), fields: &[m(2, "shape", &SHAPE)] };

static ELEMENT_TYPE: Message =
    Message { size: size_of::<proto::type_proto::Sequence>(), fields: &[m(1, "elem_type", &TYPE)] };

static MAP_TYPE: Message = Message { size: size_of::<proto::type_proto::Map>(), fields: &[m(2, "value_type", &TYPE)] };
