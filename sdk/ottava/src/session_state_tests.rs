//! State that a model brings: `y = x + s`, `s' = y`, and `s` begins as 10.

use crate::{Model, Registry, Session, SessionOptions, compile};
use ottava_graph::{Graph, Node};
use ottava_hal::{DataType, Tensor, TensorType};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

fn model() -> Model {
    let ty = TensorType::fixed(DataType::F32, &[1]);
    let mut g = Graph::new("sum");
    let x = g.add_input("x", ty.clone());
    let s = g.add_value("s", ty.clone());
    let y = g.add_value("y", ty.clone());
    let next = g.add_value("next", ty);
    let node = |name: &str, op: &str, inputs, output| {
        let mut node = Node::new(name, op, 14);
        node.inputs = inputs;
        node.outputs = vec![output];
        node
    };
    let zero = g.add_const("zero", Tensor::from_slice(&[1], &[-0.0f32]).unwrap());
    g.nodes = vec![node("add", "Add", vec![Some(x), Some(s)], y), node("keep", "Max", vec![Some(y), Some(zero)], next)];
    g.outputs = vec![y];
    g.add_state("total", s, next, number(10.0));
    g.opsets.insert(String::new(), 17);
    Model { origin: "sum.onnx".into(), graph: g, diagnostics: vec![], size_bytes: 0, plan: None, requant: None }
}

fn number(v: f32) -> Tensor {
    Tensor::from_slice(&[1], &[v]).unwrap()
}

fn session(options: &SessionOptions) -> Session {
    Session::new(&model(), &Registry::new(), options).unwrap()
}

/// `y` of a run with `x`.
fn step(s: &Session, x: f32) -> f32 {
    let outputs = s.run(&[("x", number(x))]).unwrap();
    assert_eq!(outputs.len(), 1, "the state is not among the outputs");
    outputs["y"].to_f32s().unwrap()[0]
}

#[test]
fn the_caller_does_not_see_the_state() {
    let m = model();
    let names = |list: Vec<(String, TensorType)>| list.into_iter().map(|(n, _)| n).collect::<Vec<_>>();
    assert_eq!(
        (names(m.inputs()), names(m.outputs()), names(m.states())),
        (vec!["x".into()], vec!["y".into()], vec!["total".into()])
    );
    let s = session(&SessionOptions::default());
    assert_eq!((s.inputs().len(), s.outputs().len(), s.is_stateful()), (1, 1, true));
    let e = s.run(&[("x", number(0.0)), ("s", number(0.0))]).unwrap_err();
    assert!(e.to_string().contains("no input `s`"), "{e}");
}

#[test]
fn it_begins_as_the_model_says_and_again_after_a_reset() {
    let s = session(&SessionOptions::default());
    assert_eq!([step(&s, 1.0), step(&s, 2.0)], [11.0, 13.0]);
    s.reset().unwrap();
    assert_eq!([step(&s, 1.0), step(&s, 5.0)], [11.0, 16.0]);
    let mut out = [number(0.0)];
    s.run_into(&[number(1.0)], &mut out, false).unwrap();
    assert_eq!(out[0], number(17.0));
    let deadline = Instant::now() + Duration::from_secs(60);
    let by = s.run_by(&[number(1.0)], Default::default(), deadline).unwrap().0;
    assert_eq!(by, [number(18.0)]);
    assert!(s.run_async(vec![number(1.0)], Default::default(), None).is_err());
}

#[test]
fn it_goes_back_by_itself_where_that_is_asked() {
    let s = session(&SessionOptions { reset_every: 2, ..SessionOptions::default() });
    assert_eq!([1.0; 5].map(|x| step(&s, x)), [11.0, 12.0, 11.0, 12.0, 11.0]);
    s.reset().unwrap();
    assert_eq!([1.0; 3].map(|x| step(&s, x)), [11.0, 12.0, 11.0]);
}

#[test]
fn a_run_that_fails_changes_nothing() {
    let s = session(&SessionOptions::default());
    assert_eq!(step(&s, 1.0), 11.0);
    let wrong = Tensor::from_slice(&[2], &[1.0f32, 1.0]).unwrap();
    assert!(s.run(&[("x", wrong)]).is_err());
    assert!(s.run_ordered(&[], false).is_err());
    assert!(s.run_ordered(&[number(1.0), number(1.0)], false).is_err());
    assert_eq!(step(&s, 1.0), 12.0);
}

#[test]
fn runs_of_many_threads_go_one_after_the_other() {
    let s = session(&SessionOptions::default());
    let seen: Vec<f32> = std::thread::scope(|scope| {
        let each = || (0..25).map(|_| step(&s, 1.0)).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(each)).collect();
        threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    let distinct: BTreeSet<u32> = seen.iter().map(|v| *v as u32).collect();
    assert_eq!(distinct, (11..=110).collect(), "each run has seen the one before");
}

#[test]
fn it_lives_in_plans() {
    let (registry, options) = (Registry::new(), SessionOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sum.plan");
    compile(&model(), &registry, &options).unwrap().save(&path).unwrap();
    let plan = Model::load(&path).unwrap();
    assert_eq!((plan.inputs().len(), plan.outputs().len(), plan.states().len()), (1, 1, 1));
    let s = Session::new(&plan, &registry, &options).unwrap();
    assert_eq!([1.0, 2.0, 3.0].map(|x| step(&s, x)), [11.0, 13.0, 16.0]);
    s.reset().unwrap();
    assert_eq!(step(&s, 0.5), 10.5);
}

#[test]
fn links_and_states_do_not_share_an_input() {
    let link = |input: &str| {
        let state = vec![(input.to_owned(), "y".to_owned()), (input.to_owned(), "y".to_owned())];
        Session::new(&model(), &Registry::new(), &SessionOptions { state, ..SessionOptions::default() }).err().unwrap()
    };
    assert!(link("x").to_string().contains("two outputs"));
    assert!(link("s").to_string().contains("no input `s`"));
}
