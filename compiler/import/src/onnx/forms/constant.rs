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

#[cfg(test)]
mod tests {
    use super::super::testing::Sample;
    use super::*;

    fn constant(name: &str, value: Attr) -> Sample {
        Sample::new("Constant", 13).outputs("c").attr(name, value)
    }

    #[test]
    fn every_form_becomes_a_constant() {
        constant("value", Attr::Tensor(Tensor::scalar(2u8))).gives(&["c = u8[] [2]"]);
        constant("value_int", Attr::Int(-3)).gives(&["c = s64[] [-3]"]);
        constant("value_ints", Attr::Ints(vec![1, 2])).gives(&["c = s64[2] [1, 2]"]);
        constant("value_float", Attr::Float(0.5)).gives(&["c = f32[] [0.5]"]);
        constant("value_floats", Attr::Floats(vec![])).gives(&["c = f32[0] []"]);
    }

    #[test]
    fn other_forms_are_refused() {
        constant("value_string", Attr::Str("a".into())).refused_for("a constant of text");
        constant("value", Attr::Int(1)).refused_for("attribute `value` of kind int");
        constant("value_int", Attr::Int(1)).attr("value", Attr::Int(1)).refused_for("2 attributes");
        Sample::new("Constant", 13).outputs("c").refused_for("0 attributes");
        Sample::new("Constant", 13).attr("value_int", Attr::Int(1)).refused_for("no output");
    }
}
