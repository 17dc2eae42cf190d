//! A small convolutional network with a symbolic batch, and one of attention with symbolic batch and sequence.

use super::*;
use ottava_graph::{Attr, Graph, Node};
use ottava_hal::{DataType, Dim, Shape, TensorType, ValueId};

struct Net {
    g: Graph,
}

impl Net {
    fn new(dims: &[&str]) -> (Self, ValueId) {
        let dim = |d: &&str| d.parse().map_or_else(|_| Dim::Sym((*d).into()), Dim::Known);
        let mut g = Graph::new("net");
        g.opsets.insert(String::new(), 17);
        let x = g.add_input("x", TensorType::new(DataType::F32, Shape(dims.iter().map(dim).collect())));
        (Self { g }, x)
    }

    fn weights(&mut self, shape: &[usize]) -> ValueId {
        let n = shape.iter().product();
        let data: Vec<f32> = (0..n).map(|i: usize| (i * 7 % 11) as f32 / 8.0 - 0.5).collect();
        let name = self.g.fresh_name("w");
        self.g.add_const(name, Tensor::from_slice(shape, &data).unwrap())
    }

    fn push(&mut self, op: &str, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        let name = self.g.fresh_name(op);
        let mut node = Node::new(name.clone(), op, 13);
        node.inputs = inputs.iter().copied().map(Some).collect();
        attrs.iter().for_each(|(k, v)| node.attrs.set(*k, v.clone()));
        let y = self.g.add_value(format!("{name}_out"), TensorType::unranked(DataType::F32));
        node.outputs = vec![y];
        self.g.nodes.push(node);
        y
    }

    fn model(mut self, y: ValueId) -> Model {
        self.g.outputs = vec![y];
        ottava_graph::infer_types(&mut self.g).unwrap();
        Model {
            origin: "net.onnx".into(),
            graph: self.g,
            diagnostics: vec![],
            size_bytes: 0,
            plan: None,
            requant: None,
        }
    }
}

fn images() -> Model {
    let (mut net, x) = Net::new(&["N", "2", "6", "6"]);
    let w = net.weights(&[3, 2, 3, 3]);
    let c = net.push("Conv", &[x, w], &[]);
    let r = net.push("Relu", &[c], &[]);
    let p = net.push("GlobalAveragePool", &[r], &[]);
    let y = net.push("Flatten", &[p], &[]);
    net.model(y)
}

fn attention() -> Model {
    let (mut net, x) = Net::new(&["batch", "sequence", "4"]);
    let [q, k, v] = [(); 3].map(|()| {
        let w = net.weights(&[4, 4]);
        net.push("MatMul", &[x, w], &[])
    });
    let t = net.push("Transpose", &[k], &[("perm", Attr::Ints(vec![0, 2, 1]))]);
    let scores = net.push("MatMul", &[q, t], &[]);
    let weights = net.push("Softmax", &[scores], &[("axis", Attr::Int(-1))]);
    let y = net.push("MatMul", &[weights, v], &[]);
    net.model(y)
}

fn data(shape: &[usize], seed: usize) -> Tensor {
    let n = shape.iter().product();
    let values: Vec<f32> = (0..n).map(|i: usize| ((i * 13 + seed) % 17) as f32 / 8.0 - 1.0).collect();
    Tensor::from_slice(shape, &values).unwrap()
}

fn sessions(model: &Model) -> Sessions {
    Sessions::new(model, &Registry::new(), &SessionOptions::default()).unwrap()
}

#[test]
fn a_batch_gives_what_its_images_give_one_by_one() {
    let all = sessions(&images());
    let batch = data(&[3, 2, 6, 6], 5);
    let together = all.run_ordered(std::slice::from_ref(&batch), false).unwrap().0;
    assert_eq!(together[0].shape(), [3, 3]);
    for (i, row) in batch.bytes().chunks_exact(2 * 6 * 6 * 4).enumerate() {
        let one = Tensor::from_bytes(DataType::F32, &[1, 2, 6, 6], row).unwrap();
        let y = all.run(&[("x", one)]).unwrap().into_values().next().unwrap();
        assert_eq!(y.bytes(), &together[0].bytes()[i * 12..][..12]);
    }
    assert_eq!(all.kept().len(), 2);
}

#[test]
fn one_model_takes_any_batch_and_sequence() {
    let all = sessions(&attention());
    for shape in [[1, 3, 4], [2, 5, 4], [1, 3, 4], [4, 1, 4]] {
        let x = data(&shape, 1);
        let y = all.run_ordered(std::slice::from_ref(&x), false).unwrap().0;
        assert_eq!(y[0].shape(), shape);
        let dims = all.model.dims_of(std::slice::from_ref(&x)).unwrap();
        let own = SessionOptions { dims, ..SessionOptions::default() };
        let alone = Session::new(&all.model, &Registry::new(), &own).unwrap();
        assert_eq!(y, alone.run_ordered(&[x], false).unwrap().0);
    }
    assert_eq!(all.kept().len(), 3);
}

#[test]
fn a_session_is_compiled_once_and_the_oldest_is_dropped() {
    let all = sessions(&images()).with_limit(2);
    let session = |n: usize| all.session(&[data(&[n, 2, 6, 6], 0)]).unwrap();
    let (one, two) = (session(1), session(2));
    assert!(Arc::ptr_eq(&one, &session(1)));
    let three = session(3);
    let batches: Vec<usize> = all.kept().iter().map(|dims| dims["N"]).collect();
    assert_eq!(batches, [1, 3]);
    assert!(Arc::ptr_eq(&three, &session(3)) && !Arc::ptr_eq(&two, &session(2)));
}

#[test]
fn threads_with_one_new_size_share_one_compilation() {
    let all = sessions(&images());
    let make = || all.session(&[data(&[2, 2, 6, 6], 0)]).unwrap();
    let found: Vec<Arc<Session>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|t| t.join().unwrap()).collect()
    });
    assert!(found.iter().all(|s| Arc::ptr_eq(s, &found[0])));
}

#[test]
fn what_does_not_fit_is_refused_and_not_kept() {
    let all = sessions(&attention());
    assert!(all.run(&[("z", data(&[1, 1, 4], 0))]).unwrap_err().to_string().contains("no input `z`"));
    assert!(all.run(&[]).unwrap_err().to_string().contains("input `x` is not given"));
    assert!(all.session(&[data(&[0, 1, 4], 0)]).is_err());
    assert!(all.kept().is_empty());
    let state = SessionOptions { state: vec![("x".into(), "y".into())], ..SessionOptions::default() };
    assert!(Sessions::new(&attention(), &Registry::new(), &state).is_err());
}
