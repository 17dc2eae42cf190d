//! Loops: types that settle, empty stacks, loops without an end.

use crate::{EvalCx, InferCx, InferInput, OTTAVA, evaluate, infer};
use ottava_hal::{Attr, Attrs, DataType, Node, Program, Tensor, TensorType, Value, ValueId};

fn value(name: &str, ty: TensorType) -> Value {
    Value { name: name.into(), ty, constant: None }
}

/// A loop with one state, which grows by itself along axis 0 or stays, and is stacked if it stays.
fn looped(op: &str) -> Node {
    let ty = || TensorType::unranked(DataType::F32);
    let number = TensorType::fixed(DataType::S64, &[]);
    let go = TensorType::fixed(DataType::Bool, &[]);
    let mut step = Node::new("step", op, 13);
    step.inputs = vec![Some(ValueId(2)), Some(ValueId(2))];
    step.outputs = vec![ValueId(3)];
    if op == "Concat" {
        step.attrs.set("axis", Attr::Int(0));
    }
    let mut outputs = vec![ValueId(1), ValueId(3)];
    if op != "Concat" {
        outputs.push(ValueId(3));
    }
    let body = Program {
        name: "body".into(),
        values: vec![value("i", number), value("go", go), value("s", ty()), value("t", ty())],
        nodes: vec![step],
        inputs: (0..3).map(ValueId).collect(),
        outputs: outputs.clone(),
    };
    let mut node = Node::new("loop", "Loop", 1);
    node.domain = OTTAVA.into();
    node.attrs = Attrs::default().with("body", Attr::Program(body.into())).with("captures", Attr::Int(0));
    node.outputs = (0..outputs.len() - 1).map(ValueId).collect();
    node
}

fn types(node: &Node, trips: Option<&Tensor>) -> Vec<String> {
    let (number, x) = (TensorType::fixed(DataType::S64, &[]), TensorType::fixed(DataType::F32, &[2, 3]));
    let known = |ty, constant| Some(InferInput { ty, constant });
    let inputs = [known(&number, trips), None, known(&x, None)];
    let types = infer(&InferCx { node, inputs: &inputs }).expect("types");
    types.iter().map(ToString::to_string).collect()
}

fn run(node: &Node, trips: Option<i64>) -> ottava_hal::Result<Vec<Tensor>> {
    let trips = trips.map(Tensor::scalar);
    let x = Tensor::from_slice(&[1, 1], &[1.0f32])?;
    let inputs = [trips.as_ref(), None, Some(&x)];
    evaluate(&EvalCx { node, inputs: &inputs, in_types: &[None, None, None], out_types: &[] })
}

#[test]
fn a_state_that_grows_is_open_where_it_grows() {
    assert_eq!(types(&looped("Concat"), None), ["f32[loop:0:0,3]"]);
    assert_eq!(types(&looped("Add"), None), ["f32[2,3]", "f32[loop:1:64,2,3]"]);
    let five = Tensor::scalar(5i64);
    assert_eq!(types(&looped("Add"), Some(&five)), ["f32[2,3]", "f32[5,2,3]"]);
}

#[test]
fn a_state_may_have_another_shape_in_every_pass() {
    let node = Node { outputs: vec![ValueId(0)], ..looped("Concat") };
    let y = run(&node, Some(3)).expect("three passes");
    assert_eq!(y[0].shape(), [8, 1]);
}

#[test]
fn c2_without_a_pass_a_stack_is_empty() {
    for trips in [0, -1] {
        let y = run(&looped("Add"), Some(trips)).expect("no pass");
        assert_eq!((y[0].shape(), y[1].shape()), (&[1, 1][..], &[0, 1, 1][..]));
    }
}

#[test]
fn c3_a_loop_without_an_end_is_an_error() {
    let mut node = looped("Min");
    node.outputs.truncate(1);
    let error = run(&node, None).unwrap_err().to_string();
    assert!(error.contains("passes"), "{error}");
}
