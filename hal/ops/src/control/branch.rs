//! If: one of two bodies, chosen by a condition.
//!
//! * (C1) inputs behind the condition are those of both bodies. (C2) a condition that is known picks the types, too: a
//!   branch that would be wrong for these shapes is no error as long as it is not taken.

use super::body::{flag, infer_body, join, outside, run_body, symbols};
use crate::elementwise::sample::{bools, case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, OTTAVA, Op, OpSpec};
use ottava_hal::{Attr, Attrs, DataType, Node, Program, Result, Tensor, TensorType, Value, ValueId};

/// The operator.
pub struct If;

static SPEC: OpSpec = OpSpec {
    name: "If",
    domain: OTTAVA,
    since: 1,
    inputs: (1, usize::MAX),
    outputs: (1, usize::MAX),
    attrs: &[
        AttrSpec::required("else_branch", AttrKind::Program),
        AttrSpec::required("then_branch", AttrKind::Program),
    ],
};

/// The attribute of the branch that a condition takes.
fn branch(condition: bool) -> &'static str {
    if condition { "then_branch" } else { "else_branch" }
}

impl Op for If {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infers_from_unranked(&self) -> bool {
        true
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let symbols = symbols(cx);
        let types = |taken| {
            let inner = infer_body(cx.attrs().program(branch(taken))?, cx.inputs.get(1..).unwrap_or(&[]))?;
            Ok(inner.iter().enumerate().map(|(i, ty)| outside(cx, ty, &symbols, i)).collect::<Vec<_>>())
        };
        if let Some(condition) = cx.input(0)?.constant {
            return types(flag(condition)?);
        }
        match (types(true), types(false)) {
            (Ok(a), Ok(b)) => a.iter().zip(&b).enumerate().map(|(i, (a, b))| join(cx, a, b, i)).collect(),
            // Whoever takes the other branch gets an error, so all results have these types.
            (Ok(types), Err(_)) | (Err(_), Ok(types)) => Ok(types),
            (Err(e), Err(_)) => Err(e),
        }
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let inputs: Vec<Option<Tensor>> = cx.inputs.iter().skip(1).map(|t| t.cloned()).collect();
        run_body(cx.attrs().program(branch(flag(cx.input(0)?)?))?, &inputs)
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("if", "If", 1);
        node.domain = OTTAVA.into();
        let attrs = Attrs::default().with("then_branch", Attr::Program(unary("Neg").into()));
        node.attrs = attrs.with("else_branch", Attr::Program(unary("Abs").into()));
        let x = f32s(&[2], &[1.0, -2.0]);
        let run = |name, condition, y: &[f32]| {
            case(name, node.clone(), &[bools(&[], &[condition]), x.clone()], &[f32s(&[2], y)])
        };
        vec![run("c1_then", true, &[-1.0, 2.0]), run("c1_else", false, &[1.0, 2.0])]
    }
}

/// A body of one operator.
fn unary(op: &str) -> Program {
    let value = |name: &str| Value { name: name.into(), ty: TensorType::unranked(DataType::F32), constant: None };
    let mut node = Node::new("n", op, 13);
    (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
    Program {
        name: op.into(),
        values: vec![value("x"), value("y")],
        nodes: vec![node],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(1)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InferInput, infer};

    #[test]
    fn c2_a_known_condition_ignores_the_other_branch() {
        let mut broken = unary("Squeeze");
        broken.nodes[0].inputs.push(Some(ValueId(2)));
        let axes = Tensor::from_slice(&[1], &[5i64]).expect("one axis");
        broken.values.push(Value { name: "axes".into(), ty: axes.ty(), constant: Some(axes) });
        let mut node = Node::new("if", "If", 1);
        node.domain = OTTAVA.into();
        let attrs = Attrs::default().with("then_branch", Attr::Program(broken.into()));
        node.attrs = attrs.with("else_branch", Attr::Program(unary("Abs").into()));
        node.outputs = vec![ValueId(0)];
        let (x, flag) = (TensorType::fixed(DataType::F32, &[2]), TensorType::fixed(DataType::Bool, &[]));
        let known = bools(&[], &[true]);
        let with = |constant| {
            let inputs = [Some(InferInput { ty: &flag, constant }), Some(InferInput { ty: &x, constant: None })];
            infer(&InferCx { node: &node, inputs: &inputs }).map(|t| t[0].to_string())
        };
        assert_eq!(with(None).as_deref(), Ok("f32[2]"));
        assert!(with(Some(&known)).unwrap_err().to_string().contains("in the body: node `n` (Squeeze)"));
    }
}
