//! Sessions on a network of two nodes: `y = x + s`, `s_next = y + 1`.

use super::*;
use crate::config::Config;
use ottava_graph::Node;
use ottava_hal::{DataType, Dim, Shape};

fn model() -> Model {
    let ty = TensorType::new(DataType::F32, Shape(vec![Dim::Sym("N".into()), Dim::Known(2)]));
    let mut g = Graph::new("sum");
    let x = g.add_input("x", ty.clone());
    let s = g.add_input("s", ty.clone());
    let one = g.add_const("one", Tensor::scalar(1.0f32));
    let y = g.add_value("y", ty.clone());
    let next = g.add_value("s_next", ty);
    for (name, a, b, out) in [("add", x, s, y), ("next", y, one, next)] {
        let mut node = Node::new(name, "Add", 14);
        node.inputs = vec![Some(a), Some(b)];
        node.outputs = vec![out];
        g.nodes.push(node);
    }
    g.outputs = vec![y, next];
    g.opsets.insert(String::new(), 17);
    Model { origin: "sum.onnx".into(), graph: g, diagnostics: vec![], size_bytes: 0, plan: None, requant: None }
}

fn session(state: bool) -> Session {
    let state = if state { vec![("s".to_owned(), "s_next".to_owned())] } else { vec![] };
    Session::new(&model(), &Registry::new(), &SessionOptions { state, ..SessionOptions::default() }).unwrap()
}

fn pair(a: f32, b: f32) -> Tensor {
    Tensor::from_slice(&[1, 2], &[a, b]).unwrap()
}

#[test]
fn inputs_and_outputs_go_by_name() {
    let s = session(false);
    let outputs = s.run(&[("s", pair(10.0, 20.0)), ("x", pair(1.0, 2.0))]).unwrap();
    assert_eq!(outputs["y"], pair(11.0, 22.0));
    assert_eq!(outputs["s_next"], pair(12.0, 23.0));
    let message = |inputs: &[(&str, Tensor)]| s.run(inputs).unwrap_err().to_string();
    assert!(message(&[("x", pair(0.0, 0.0))]).contains("input `s` is not given"));
    assert!(message(&[("z", pair(0.0, 0.0))]).contains("no input `z`"));
    let x = || ("x", pair(0.0, 0.0));
    assert!(message(&[x(), x(), ("s", pair(0.0, 0.0))]).contains("given twice"));
    let wrong = Tensor::from_slice(&[1, 3], &[0.0f32; 3]).unwrap();
    assert!(message(&[("x", wrong), ("s", pair(0.0, 0.0))]).contains("expected f32[1,2]"));
}

#[test]
fn state_lives_from_run_to_run_and_is_reset() {
    let s = session(true);
    let run = || s.run(&[("x", pair(1.0, 1.0))]).unwrap()["y"].clone();
    assert_eq!(run(), pair(1.0, 1.0));
    assert_eq!(run(), pair(3.0, 3.0));
    s.reset().unwrap();
    assert_eq!(run(), pair(1.0, 1.0));
}

#[test]
fn state_names_are_checked() {
    let state = vec![("s".to_owned(), "next".to_owned())];
    let options = SessionOptions { state, ..SessionOptions::default() };
    let e = Session::new(&model(), &Registry::new(), &options).err().unwrap();
    assert!(e.to_string().contains("no output `next`"), "{e}");
}

#[test]
fn a_session_runs_on_many_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    let s = session(false);
    shared(&s);
    std::thread::scope(|scope| {
        for i in 0..4 {
            let s = &s;
            scope.spawn(move || {
                for _ in 0..20 {
                    let y = s.run(&[("x", pair(i as f32, 0.0)), ("s", pair(0.5, 0.5))]).unwrap();
                    assert_eq!(y["y"], pair(i as f32 + 0.5, 0.5));
                }
            });
        }
    });
}

#[test]
fn dimensions_without_a_value_and_unknown_devices_are_told() {
    let bind = |name: &str| {
        let dims = BTreeMap::from([(name.to_owned(), 2)]);
        Session::new(&model(), &Registry::new(), &SessionOptions { dims, ..SessionOptions::default() })
    };
    assert!(bind("N").is_ok());
    assert!(bind("M").err().unwrap().to_string().contains("no symbolic dimension `M`"));
    let device = Some("gpu".to_owned());
    let e = Session::new(&model(), &Registry::new(), &SessionOptions { device, ..SessionOptions::default() });
    assert!(e.err().unwrap().to_string().contains("no device `gpu`"));
}

#[test]
fn parts_of_the_configuration_that_are_not_offered_are_refused() {
    let config = Config::from_ron("Ottava(placement: Auto(objective: Energy))").unwrap();
    let e = Session::new(&model(), &Registry::new().configured(config), &SessionOptions::default());
    assert!(e.err().unwrap().to_string().contains("key `placement`"));
    let config = Config::from_ron(r#"Ottava(drivers: [Builtin("cuda")])"#).unwrap();
    let e = Session::new(&model(), &Registry::new().configured(config), &SessionOptions::default());
    assert!(e.err().unwrap().to_string().contains("no built-in driver `cuda`"));
}

#[test]
fn another_mode_is_chosen_where_the_model_is_read() {
    let with = |model: &Model, ron: &str| {
        let registry = Registry::new().configured(Config::from_ron(ron).unwrap());
        Session::new(model, &registry, &SessionOptions::default()).map(drop).map_err(|e| e.to_string())
    };
    let force = "Ottava(force_requantize: Some(Q31Single))";
    assert_eq!(with(&model(), force), Ok(()), "floats have no mode");
    let mut typed = model();
    typed.graph.nodes[0].requant = Some(ottava_hal::RequantMode::Q31Double);
    let e = with(&typed, force).unwrap_err();
    assert!(e.contains("key `force_requantize`") && e.contains("Model::load_as"), "{e}");
    let e = Config::from_ron("Ottava(force_requantize: Some(Q15))").unwrap_err().to_string();
    assert!(["Q15", "Fp32Rne", "Q31Double", "Q31Single"].iter().all(|name| e.contains(name)), "{e}");
}

/// Devices with the CPU in front.
fn on_cpu() -> Registry {
    Registry::new().with(std::sync::Arc::new(ottava_driver_cpu::CpuDriver))
}

#[test]
fn an_output_that_is_listed_twice_comes_twice() {
    let mut doubled = model();
    let (y, x) = (doubled.graph.outputs[0], doubled.graph.inputs[0]);
    doubled.graph.outputs.extend([y, x]);
    for registry in [Registry::new(), on_cpu()] {
        let s = Session::new(&doubled, &registry, &SessionOptions::default()).unwrap();
        let (made, _) = s.run_ordered(&[pair(1.0, 2.0), pair(10.0, 20.0)], false).unwrap();
        assert_eq!(made, [pair(11.0, 22.0), pair(12.0, 23.0), pair(11.0, 22.0), pair(1.0, 2.0)]);
    }
}

#[test]
fn what_is_shown_is_what_comes_out() {
    let mut doubled = model();
    let (y, x) = (doubled.graph.outputs[0], doubled.graph.inputs[0]);
    doubled.graph.outputs.extend([y, x]);
    for (registry, inside) in [(Registry::new(), false), (on_cpu(), true)] {
        let s = Session::new(&doubled, &registry, &SessionOptions::default()).unwrap();
        assert_eq!(s.shows_inside(), inside);
        for round in 0..2 {
            let inputs = [pair(1.0, round as f32), pair(10.0, 20.0)];
            let (made, _) = s.run_ordered(&inputs, false).unwrap();
            let mut shown = vec![None; made.len()];
            s.run_shown(&inputs, &mut |i, value| {
                assert!(shown[i].is_none(), "output {i} is shown once");
                shown[i] = Some(Tensor::from_bytes(value.dtype, value.shape, value.bytes).unwrap());
            })
            .unwrap();
            assert_eq!(shown.into_iter().flatten().collect::<Vec<_>>(), made);
        }
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_no_model() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe.onnx");
    match std::process::Command::new("mkfifo").arg(&pipe).status() {
        Ok(made) if made.success() => {
            let e = Model::load(&pipe).unwrap_err().to_string();
            assert!(e.contains("no regular file") && e.contains("pipe.onnx"), "{e}");
        }
        _ => println!("a_pipe_is_no_model: skipped, there is no mkfifo"),
    }
}
