//! Ottava's own operators as model-local functions of standard operators (numerics.md section 4), so that every runtime can
//! follow a file that holds them, and the way back: a call of a function with exactly such a body is the operator.
//!
//! `DynamicMatMul(x, w, ws)` and `DynamicMatMulBias(x, w, ws, bias)` are `ottava::DynamicMatMul`:
//!
//! ```text
//! s = Where(max|x|/127 == 0, 1, max|x|/127)     q = Cast(Clip(Round(x / s), -127, 127))
//! y = Cast(MatMulInteger(q, w)) * (s * ws) (+ bias)
//! ```
use super::attribute;
use super::proto::{FunctionProto, NodeProto, OperatorSetIdProto};
use ottava_graph::{Attr, Graph};
use ottava_hal::Node;
use ottava_ops::OTTAVA;

/// The first operator set in which ReduceMax takes its axes as an input.
pub(crate) const OPSET: u32 = 18;
const OPERATOR: &str = "DynamicMatMul";
const WITH_BIAS: &str = "DynamicMatMulBias";
/// ONNX numbers of the element types that Cast writes.
const FLOAT: i64 = 1;
const INT8: i64 = 3;

/// The function that says a node, if there is one.
pub(crate) fn name_of(node: &Node) -> Option<&'static str> {
    let own = node.domain == OTTAVA && node.op == OPERATOR && node.attrs.0.is_empty();
    own.then_some(if node.input(3).is_some() { WITH_BIAS } else { OPERATOR })
}

/// The functions that the nodes of a graph call, in a fixed order.
pub(crate) fn used_by(graph: &Graph, opset: i64) -> Vec<FunctionProto> {
    let is_called = |name: &str| graph.nodes.iter().any(|n| name_of(n) == Some(name));
    [false, true].into_iter().map(|bias| dynamic_matmul(bias, opset)).filter(|f| is_called(&f.name)).collect()
}

/// The operator that a function says, if its body is the one that [`used_by`] writes for an operator set.
pub(crate) fn operator_of(function: &FunctionProto) -> Option<&'static str> {
    let opset = match function.opset_import.as_slice() {
        [one] if one.domain.is_empty() => one.version,
        _ => return None,
    };
    let bias = function.name == WITH_BIAS;
    let own = function.domain == OTTAVA && opset >= i64::from(OPSET) && *function == dynamic_matmul(bias, opset);
    own.then_some(OPERATOR)
}

fn node(op: &str, input: &[&str], output: &str, attrs: &[(&str, Attr)]) -> NodeProto {
    NodeProto {
        name: output.to_owned(),
        op_type: op.to_owned(),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        attribute: attrs.iter().map(|(name, value)| attribute::write(name, value)).collect(),
        ..Default::default()
    }
}

fn number(name: &str, value: f32) -> NodeProto {
    node("Constant", &[], name, &[("value_float", Attr::Float(value))])
}

fn dynamic_matmul(bias: bool, opset: i64) -> FunctionProto {
    let mut input: Vec<String> = ["x", "w", "w_scale"].map(str::to_owned).to_vec();
    let product = if bias { "scaled" } else { "y" };
    let mut nodes = vec![
        node("Constant", &[], "last", &[("value_ints", Attr::Ints(vec![-1]))]),
        number("zero", 0.0),
        number("one", 1.0),
        number("low", -127.0),
        number("high", 127.0),
        node("Abs", &["x"], "magnitude", &[]),
        node("ReduceMax", &["magnitude", "last"], "largest", &[("keepdims", Attr::Int(1))]),
        node("Div", &["largest", "high"], "step", &[]),
        node("Equal", &["step", "zero"], "is_zero", &[]),
        node("Where", &["is_zero", "one", "step"], "scale", &[]),
        node("Div", &["x", "scale"], "quotient", &[]),
        node("Round", &["quotient"], "rounded", &[]),
        node("Clip", &["rounded", "low", "high"], "clipped", &[]),
        node("Cast", &["clipped"], "codes", &[("to", Attr::Int(INT8))]),
        node("MatMulInteger", &["codes", "w"], "sums", &[]),
        node("Cast", &["sums"], "real", &[("to", Attr::Int(FLOAT))]),
        node("Mul", &["scale", "w_scale"], "factor", &[]),
        node("Mul", &["real", "factor"], product, &[]),
    ];
    if bias {
        input.push("bias".to_owned());
        nodes.push(node("Add", &["scaled", "bias"], "y", &[]));
    }
    FunctionProto {
        name: if bias { WITH_BIAS } else { OPERATOR }.to_owned(),
        domain: OTTAVA.to_owned(),
        input,
        output: vec!["y".to_owned()],
        node: nodes,
        opset_import: vec![OperatorSetIdProto { domain: String::new(), version: opset }],
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_body_is_the_operator() {
        for bias in [false, true] {
            let own = dynamic_matmul(bias, 18);
            assert_eq!(operator_of(&own), Some(OPERATOR));
            let mut other = own.clone();
            other.node[3] = number("low", -128.0);
            assert_eq!(operator_of(&other), None, "another bound");
            let mut older = own.clone();
            older.opset_import[0].version = 17;
            assert_eq!(operator_of(&older), None, "ReduceMax has no such input");
            let foreign = FunctionProto { domain: "elsewhere".into(), ..own };
            assert_eq!(operator_of(&foreign), None);
        }
    }
}
