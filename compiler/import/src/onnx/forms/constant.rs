//! `Constant` nodes in all their forms (operator sets 1 to 13 and later) become constants of the graph.
use super::super::raw::{RawNode, Refusal};
use super::Cx;
use ottava_hal::{Attr, Tensor};

/// Exactly one attribute holds the value: `value`, `value_int(s)`, `value_float(s)`; text and sparse values are
/// refused.
pub(super) fn constant(cx: &mut Cx, node: RawNode) -> Result<(), Refusal> {
    let Some(Some(name)) = node.outputs.first() else {
        return Refusal::invalid("the constant has no output");
    };
    let mut attrs = node.attrs.0.iter();
    let (Some((key, value)), None) = (attrs.next(), attrs.next()) else {
        return Refusal::invalid(format!("{} attributes; a constant has exactly one", node.attrs.0.len()));
    };
    let data = match (key.as_str(), value) {
        ("value", Attr::Tensor(t)) => t.clone(),
        ("value_int", Attr::Int(v)) => Tensor::scalar(*v),
        ("value_ints", Attr::Ints(v)) => Tensor::from_slice(&[v.len()], v)?,
        ("value_float", Attr::Float(v)) => Tensor::scalar(*v),
        ("value_floats", Attr::Floats(v)) => Tensor::from_slice(&[v.len()], v)?,
        ("value_string" | "value_strings", _) => return Refusal::unsupported("a constant of text"),
        (_, value) => return Refusal::invalid(format!("attribute `{key}` of kind {} is not a constant", value.kind())),
    };
    cx.add_constant(name.clone(), data);
    Ok(())
}
