//! Attributes: `AttributeProto` to typed values.
//!
//! The declared type must be the one that is filled in. Files of the first format version declare no type; there
//! the filled field decides. Attribute kinds that no supported operator has (graphs, types, sparse tensors) are
//! refused by name.
use super::external::ExternalData;
use super::proto::attribute_proto::AttributeType as Kind;
use super::proto::{AttributeProto, TensorProto};
use super::raw::Refusal;
use super::tensor::OnnxTensor;
use ottava_hal::{Attr, Attrs, Tensor};

/// Reads the attributes of one node; a name that occurs twice is an error.
pub(crate) fn read_all(attributes: &[AttributeProto], external: &mut ExternalData) -> Result<Attrs, Refusal> {
    let mut attrs = Attrs::default();
    for proto in attributes {
        let value = read(proto, external)?;
        if attrs.get(&proto.name).is_some() {
            return Refusal::invalid(format!("attribute `{}` is set twice", proto.name));
        }
        attrs.set(&proto.name, value);
    }
    Ok(attrs)
}

fn read(proto: &AttributeProto, external: &mut ExternalData) -> Result<Attr, Refusal> {
    if !proto.ref_attr_name.is_empty() {
        let (name, outer) = (&proto.name, &proto.ref_attr_name);
        return Refusal::invalid(format!(
            "attribute `{name}` refers to `{outer}` of a function, outside of a function"
        ));
    }
    match kind(proto)? {
        Kind::Float => Ok(Attr::Float(proto.f.unwrap_or_default())),
        Kind::Int => Ok(Attr::Int(proto.i.unwrap_or_default())),
        Kind::String => Ok(Attr::Str(text(proto, proto.s.as_deref().unwrap_or_default())?)),
        Kind::Tensor => Ok(Attr::Tensor(tensor(proto.t.as_ref().unwrap_or(&TensorProto::default()), external)?)),
        Kind::Floats => Ok(Attr::Floats(proto.floats.clone())),
        Kind::Ints => Ok(Attr::Ints(proto.ints.clone())),
        Kind::Strings => proto.strings.iter().map(|s| text(proto, s)).collect::<Result<_, _>>().map(Attr::Strs),
        other => Refusal::unsupported(format!("attribute `{}` is of kind {}", proto.name, other.as_str_name())),
    }
}

/// A stored tensor in host memory.
pub(crate) fn tensor(proto: &TensorProto, external: &mut ExternalData) -> Result<Tensor, Refusal> {
    Ok(OnnxTensor::from_proto(proto, external)?.to_tensor()?)
}

/// The declared kind, checked against the fields that are filled in.
fn kind(proto: &AttributeProto) -> Result<Kind, Refusal> {
    let name = &proto.name;
    let filled = filled(proto);
    let declared = Kind::try_from(proto.r#type)
        .or_else(|_| Refusal::invalid(format!("attribute `{name}` is of the unknown kind {}", proto.r#type)))?;
    match (declared, filled.as_slice()) {
        (Kind::Undefined, []) => Refusal::invalid(format!("attribute `{name}` has no value")),
        (Kind::Undefined, &[only]) => Ok(only),
        // Some writers leave out a value that is zero or empty.
        (_, []) if declared != Kind::Tensor => Ok(declared),
        (_, &[only]) if only == declared => Ok(declared),
        _ => {
            let found: Vec<_> = filled.iter().map(|k| k.as_str_name()).collect();
            let declared = declared.as_str_name();
            Refusal::invalid(format!("attribute `{name}` declares {declared} and holds {}", list(&found)))
        }
    }
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}

fn filled(p: &AttributeProto) -> Vec<Kind> {
    let fields = [
        (Kind::Float, p.f.is_some()),
        (Kind::Int, p.i.is_some()),
        (Kind::String, p.s.is_some()),
        (Kind::Tensor, p.t.is_some()),
        (Kind::Graph, p.g.is_some()),
        (Kind::Floats, !p.floats.is_empty()),
        (Kind::Ints, !p.ints.is_empty()),
        (Kind::Strings, !p.strings.is_empty()),
        (Kind::Tensors, !p.tensors.is_empty()),
        (Kind::Graphs, !p.graphs.is_empty()),
        (Kind::SparseTensor, p.sparse_tensor.is_some()),
        (Kind::SparseTensors, !p.sparse_tensors.is_empty()),
        (Kind::TypeProto, p.tp.is_some()),
        (Kind::TypeProtos, !p.type_protos.is_empty()),
    ];
    fields.into_iter().filter_map(|(kind, filled)| filled.then_some(kind)).collect()
}

fn text(proto: &AttributeProto, bytes: &[u8]) -> Result<String, Refusal> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Refusal::invalid(format!("attribute `{}` holds text that is not UTF-8", proto.name)),
    }
}

/// The stored form of an attribute; none of a body, which `export_bodies` writes.
pub(crate) fn write(name: &str, value: &Attr) -> Option<AttributeProto> {
    let mut proto = AttributeProto { name: name.to_owned(), ..Default::default() };
    let kind = match value {
        Attr::Float(v) => (proto.f = Some(*v), Kind::Float).1,
        Attr::Int(v) => (proto.i = Some(*v), Kind::Int).1,
        Attr::Str(v) => (proto.s = Some(v.clone().into_bytes()), Kind::String).1,
        Attr::Floats(v) => (proto.floats = v.clone(), Kind::Floats).1,
        Attr::Ints(v) => (proto.ints = v.clone(), Kind::Ints).1,
        Attr::Strs(v) => (proto.strings = v.iter().map(|s| s.clone().into_bytes()).collect(), Kind::Strings).1,
        Attr::Tensor(v) => (proto.t = Some(OnnxTensor::from_tensor("", v).to_proto()), Kind::Tensor).1,
        Attr::Program(_) => return None,
    };
    proto.r#type = kind as i32;
    Some(proto)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attr(name: &str, kind: Kind) -> AttributeProto {
        AttributeProto { name: name.into(), r#type: kind as i32, ..Default::default() }
    }

    fn one(proto: AttributeProto) -> Result<Attr, Refusal> {
        let name = proto.name.clone();
        let attrs = read_all(&[proto], &mut ExternalData::none())?;
        Ok(attrs.get(&name).expect("the attribute that was read").clone())
    }

    fn refuse(proto: AttributeProto, part: &str) {
        match one(proto) {
            Err(Refusal::Invalid(text) | Refusal::Unsupported(text)) => assert!(text.contains(part), "{text}"),
            Ok(value) => panic!("{value:?} should be refused"),
        }
    }

    #[test]
    fn every_kind_comes_back() {
        let tensor = Tensor::from_slice(&[2], &[1.5f32, -2.0]).expect("two elements");
        let values = [
            Attr::Int(-7),
            Attr::Float(0.5),
            Attr::Str("SAME_UPPER".into()),
            Attr::Ints(vec![1, -1]),
            Attr::Floats(vec![1.0, 2.0]),
            Attr::Strs(vec!["a".into(), String::new()]),
            Attr::Tensor(tensor),
        ];
        for value in values {
            let proto = write("a", &value).expect("a stored form");
            assert_eq!(one(proto), Ok(value));
        }
    }

    #[test]
    fn a_left_out_value_is_zero_and_an_undeclared_kind_is_found() {
        assert_eq!(one(attr("a", Kind::Int)), Ok(Attr::Int(0)));
        assert_eq!(one(attr("a", Kind::Ints)), Ok(Attr::Ints(vec![])));
        let undeclared = AttributeProto { f: Some(2.0), ..attr("a", Kind::Undefined) };
        assert_eq!(one(undeclared), Ok(Attr::Float(2.0)));
    }

    #[test]
    fn wrong_kinds_are_named() {
        refuse(AttributeProto { floats: vec![1.0], ..attr("axis", Kind::Int) }, "`axis` declares INT and holds FLOATS");
        refuse(AttributeProto { i: Some(1), f: Some(1.0), ..attr("axis", Kind::Int) }, "holds FLOAT, INT");
        refuse(attr("value", Kind::Tensor), "declares TENSOR and holds nothing");
        refuse(attr("body", Kind::Graph), "`body` is of kind GRAPH");
        refuse(attr("x", Kind::Undefined), "no value");
        refuse(AttributeProto { r#type: 77, ..attr("x", Kind::Int) }, "unknown kind 77");
        refuse(AttributeProto { s: Some(vec![0xff]), ..attr("mode", Kind::String) }, "not UTF-8");
        refuse(AttributeProto { ref_attr_name: "alpha".into(), ..attr("x", Kind::Int) }, "outside of a function");
        let twice = [AttributeProto { i: Some(1), ..attr("a", Kind::Int) }, attr("a", Kind::Int)];
        assert!(read_all(&twice, &mut ExternalData::none()).is_err());
    }
}
