//! Variables and LSTMs of TFLite files, which the tests write themselves.

#[path = "common/flat.rs"]
mod flat;

use flat::Flat::{self, *};
use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, RequantMode, Tensor};
use ottava_import::{ImportError, TfliteOptions, import_tflite_bytes};

const F32_: i8 = 0;
const S32_: i8 = 2;
const S16_: i8 = 7;
const S8_: i8 = 9;
const RESOURCE: i8 = 13;

/// Tensors, buffers and operators of one subgraph after the other.
#[derive(Default)]
struct Net {
    buffers: Vec<Flat>,
    codes: Vec<i32>,
    subgraphs: Vec<Flat>,
    tensors: Vec<Flat>,
    operators: Vec<Flat>,
}

impl Net {
    fn new() -> Self {
        // Buffer 0 is the empty one.
        Self { buffers: vec![Table(vec![])], ..Self::default() }
    }

    /// A tensor with an optional scale and zero point; its index.
    fn tensor(&mut self, name: &str, element: i8, shape: &[i32], quant: Option<(f32, i64)>, data: &[u8]) -> i32 {
        let mut fields = vec![(0, I32s(shape.to_vec())), (1, I8(element)), (3, Text(name.into()))];
        if !data.is_empty() {
            self.buffers.push(Table(vec![(0, Bytes(data.to_vec()))]));
            fields.push((2, I32(self.buffers.len() as i32 - 1)));
        }
        if let Some((scale, zp)) = quant {
            fields.push((4, Table(vec![(2, F32s(vec![scale])), (3, I64s(vec![zp]))])));
        }
        self.tensors.push(Table(fields));
        self.tensors.len() as i32 - 1
    }

    /// Makes a tensor one that an operator keeps.
    fn variable(&mut self, t: i32) -> i32 {
        if let Table(fields) = &mut self.tensors[t as usize] {
            fields.push((5, I8(1)));
        }
        t
    }

    fn operator(&mut self, code: i32, inputs: &[i32], outputs: &[i32], options: Flat, intermediates: &[i32]) {
        self.codes.push(code);
        let index = self.codes.len() as i32 - 1;
        let ends = [(1, I32s(inputs.to_vec())), (2, I32s(outputs.to_vec()))];
        let mut fields = vec![(0, I32(index)), (4, options), (8, I32s(intermediates.to_vec()))];
        fields.extend(ends);
        self.operators.push(Table(fields));
    }

    fn subgraph(&mut self, inputs: &[i32], outputs: &[i32]) {
        let (tensors, operators) = (std::mem::take(&mut self.tensors), std::mem::take(&mut self.operators));
        let lists = [(0, Tables(tensors)), (3, Tables(operators))];
        let ends = [(1, I32s(inputs.to_vec())), (2, I32s(outputs.to_vec()))];
        self.subgraphs.push(Table(lists.into_iter().chain(ends).collect()));
    }

    fn import(self) -> Result<Graph, ImportError> {
        let code = |c: i32| Table(vec![(0, I8(c.min(127) as i8)), (3, I32(c))]);
        let codes = self.codes.into_iter().map(code).collect();
        let fields = vec![(0, I32(3)), (1, Tables(codes)), (2, Tables(self.subgraphs)), (4, Tables(self.buffers))];
        let bytes = flat::file(&Table(fields));
        import_tflite_bytes(&bytes, "n.tflite", &TfliteOptions::default()).map(|(graph, _)| graph)
    }
}

fn floats(v: &[f32]) -> Vec<u8> {
    v.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn handle(net: &mut Net, name: &str) -> i32 {
    let h = net.tensor(name, RESOURCE, &[], None, &[]);
    net.operator(142, &[], &[h], Table(vec![(1, Text(name.into()))]), &[]);
    h
}

/// What the main subgraph does, in order.
#[derive(Clone, Copy)]
enum Step {
    Read,
    Assign,
}

/// `y = x + s`; `s' = y`, and `s` begins as `initial`, assigned by subgraph 1.
fn running_sum(steps: &[Step], initial: &[f32], init: i32) -> Result<Graph, ImportError> {
    let mut net = Net::new();
    let x = net.tensor("x", F32_, &[1, 2], None, &[]);
    net.operator(129, &[], &[], Table(vec![(0, I32(init))]), &[]);
    let h = handle(&mut net, "total");
    let y = net.tensor("y", F32_, &[1, 2], None, &[]);
    let mut last = x;
    for step in steps {
        match step {
            Step::Read => {
                last = net.tensor("s", F32_, &[1, 2], None, &[]);
                net.operator(143, &[h], &[last], Table(vec![]), &[]);
            }
            Step::Assign => net.operator(144, &[h, x], &[], Table(vec![]), &[]),
        }
    }
    net.operator(0, &[x, last], &[y], Table(vec![]), &[]);
    net.operator(144, &[h, y], &[], Table(vec![]), &[]);
    net.subgraph(&[x], &[y]);
    let h = handle(&mut net, "total");
    let first = net.tensor("first", F32_, &[1, initial.len() as i32], None, &floats(initial));
    net.operator(144, &[h, first], &[], Table(vec![]), &[]);
    net.subgraph(&[], &[]);
    net.import()
}

fn message(result: Result<Graph, ImportError>) -> String {
    match result {
        Ok(_) => "accepted".into(),
        Err(ImportError::Refused { diagnostics, .. }) => diagnostics.iter().map(|d| d.message.clone() + "\n").collect(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn a_variable_is_a_state() {
    let g = running_sum(&[Step::Read], &[1.5, -2.0], 1).unwrap();
    let names = |ids: Vec<_>| ids.into_iter().map(|id| g.name_of(id).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (names(g.caller_inputs().collect()), names(g.caller_outputs().collect())),
        (vec!["x".into()], vec!["y".into()])
    );
    let [state] = &g.states[..] else { panic!("{:?}", g.states) };
    assert_eq!(state.name, "total");
    assert_eq!(state.initial, Tensor::from_slice(&[1, 2], &[1.5f32, -2.0]).unwrap());
    assert_eq!(g.name_of(g.outputs[state.output]), "y");
    let add = g.nodes.iter().find(|n| n.op == "Add").unwrap();
    assert!(add.inputs.contains(&Some(g.inputs[state.input])));
}

#[test]
fn a_variable_that_is_written_first_is_none() {
    let g = running_sum(&[Step::Assign, Step::Read], &[0.0, 0.0], 1).unwrap();
    assert!(g.states.is_empty() && g.inputs.len() == 1 && g.outputs.len() == 1);
}

#[test]
fn reading_twice_is_one_state() {
    assert_eq!(running_sum(&[Step::Read, Step::Read], &[0.0, 0.0], 1).unwrap().states.len(), 1);
}

#[test]
fn what_does_not_fit_is_told() {
    assert!(
        message(running_sum(&[Step::Read], &[1.0], 1)).contains("`total` is read as f32[1,2] and begins as f32[1,1]")
    );
    assert!(message(running_sum(&[Step::Read], &[1.0, 1.0], 7)).contains("init_subgraph_index is 7"));
    assert!(message(running_sum(&[Step::Read], &[1.0, 1.0], 0)).contains("init_subgraph_index is 0"));
    let mut net = Net::new();
    let x = net.tensor("x", F32_, &[1], None, &[]);
    let y = net.tensor("y", F32_, &[1], None, &[]);
    net.operator(143, &[x], &[y], Table(vec![]), &[]);
    net.subgraph(&[x], &[y]);
    assert!(message(net.import()).contains("`x` is not the handle of a variable"));
}

/// A variable of `shape` elements that nobody gave a value, read and written `n` times.
fn unset(shape: &[i32], n: usize, quant: Option<(f32, i64)>) -> Result<Graph, ImportError> {
    let mut net = Net::new();
    let element = if quant.is_some() { S8_ } else { F32_ };
    let (mut inputs, mut outputs) = (vec![], vec![]);
    for i in 0..n {
        let x = net.tensor(&format!("x{i}"), element, shape, quant, &[]);
        let (s, y) = (net.tensor("s", element, shape, quant, &[]), net.tensor("y", element, shape, quant, &[]));
        let h = handle(&mut net, &format!("v{i}"));
        net.operator(143, &[h], &[s], Table(vec![]), &[]);
        net.operator(0, &[x, s], &[y], Table(vec![]), &[]);
        net.operator(144, &[h, x], &[], Table(vec![]), &[]);
        inputs.push(x);
        outputs.push(y);
    }
    net.subgraph(&inputs, &outputs);
    net.import()
}

#[test]
fn states_of_nothing_but_a_shape_are_bounded() {
    for quant in [None, Some((0.5, 0)), Some((0.5, 7))] {
        assert_eq!(unset(&[1 << 20], 1, quant).unwrap().states.len(), 1);
        let text = message(unset(&[1 << 20, 2], 1, quant));
        assert!(text.contains("a state of the shape [1048576, 2]; 1048576 elements are the most"), "{text}");
        let text = message(unset(&[i32::MAX, i32::MAX, i32::MAX], 1, quant));
        assert!(text.contains("elements are the most"), "{text}");
    }
    assert_eq!(unset(&[1 << 20], 4, None).unwrap().states.len(), 4);
    let text = message(unset(&[1 << 20], 5, None));
    assert!(text.contains("more than 4194304 elements together"), "{text}");
}

/// What an LSTM of 2 inputs and 3 cells has.
#[derive(Clone, Copy, Default)]
struct Parts {
    quantized: bool,
    coupled: bool,
    projection: bool,
    norm: bool,
    peephole: bool,
    act: i8,
}

fn lstm(parts: Parts) -> Result<Graph, ImportError> {
    let (cells, state) = (3, if parts.projection { 2 } else { 3 });
    let q = |scale: f32, zp: i64| parts.quantized.then_some((scale, zp));
    let mut net = Net::new();
    let values = |n: i32| if parts.quantized { vec![1u8; n as usize] } else { floats(&vec![0.5; n as usize]) };
    let (small, wide) = if parts.quantized { (S8_, S16_) } else { (F32_, F32_) };
    let x = net.tensor("x", small, &[1, 4, 2], q(0.5, 3), &[]);
    let mut inputs = vec![x];
    for (rows, n) in [(cells, 2), (cells, state)] {
        for gate in 0..4 {
            let skip = gate == 0 && parts.coupled;
            let data = values(rows * n);
            inputs.push(if skip { -1 } else { net.tensor("w", small, &[rows, n], q(0.01, 0), &data) });
        }
    }
    let extra = |net: &mut Net, on: bool, n: i32| {
        if on { net.tensor("p", F32_, &[n], None, &floats(&vec![1.0; n as usize])) } else { -1 }
    };
    for gate in 0..3 {
        let id = extra(&mut net, parts.peephole && !(gate == 0 && parts.coupled), cells);
        inputs.push(id);
    }
    for gate in 0..4 {
        let (skip, data) = (gate == 0 && parts.coupled, if parts.quantized { vec![0; 12] } else { values(cells) });
        let element = if parts.quantized { S32_ } else { F32_ };
        inputs.push(if skip { -1 } else { net.tensor("b", element, &[cells], None, &data) });
    }
    let data = values(state * cells);
    inputs.push(if parts.projection { net.tensor("proj", small, &[state, cells], q(0.02, 0), &data) } else { -1 });
    inputs.push(-1);
    let h = net.tensor("h", small, &[1, state], q(0.25, -5), &[]);
    inputs.push(net.variable(h));
    let c = net.tensor("c", wide, &[1, cells], q(1.0 / 2048.0, 0), &[]);
    inputs.push(net.variable(c));
    for _ in 0..4 {
        let id = extra(&mut net, parts.norm, cells);
        inputs.push(id);
    }
    let y = net.tensor("y", small, &[1, 4, state], q(0.25, -5), &[]);
    let middle: Vec<i32> = (0..5).map(|i| net.tensor("m", S8_, &[0], (i == 4).then_some((0.125, 7)), &[])).collect();
    let options = Table(vec![(0, I8(parts.act)), (1, F32(10.0)), (2, F32(0.5))]);
    net.operator(44, &inputs, &[y], options, if parts.quantized { &middle } else { &[] });
    net.subgraph(&[x], &[y]);
    net.import()
}

const PLAIN: Parts =
    Parts { quantized: false, coupled: false, projection: false, norm: false, peephole: false, act: 4 };

#[test]
fn a_float_lstm_is_that_of_onnx() {
    for (parts, weights) in [(PLAIN, 0.5), (Parts { coupled: true, peephole: true, ..PLAIN }, -0.5)] {
        let g = lstm(parts).unwrap();
        let node = g.nodes.iter().find(|n| n.op == "LSTM").unwrap();
        let constant = |i: usize| g.constant(node.input(i).unwrap()).unwrap().clone();
        assert_eq!(
            (constant(1).shape(), constant(2).shape(), constant(3).shape()),
            (&[1, 12, 2][..], &[1, 12, 3][..], &[1, 24][..])
        );
        let w = constant(1).to_f32s().unwrap();
        assert_eq!((w[0], w[6], w[23]), (weights, 0.5, 0.5), "the coupled gate is the negated forget gate");
        assert_eq!(node.attrs.get("cell_clip"), Some(&Attr::Float(10.0)));
        assert_eq!(node.input(7).is_some(), parts.peephole);
        let names: Vec<&str> = g.states.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["h", "c"]);
        assert!(g.states.iter().all(|s| s.initial.to_f32s().unwrap().iter().all(|v| *v == 0.0)));
    }
}

#[test]
fn an_integer_lstm_is_ottavas_own() {
    for parts in [PLAIN, Parts { coupled: true, projection: true, ..PLAIN }] {
        let g = lstm(Parts { quantized: true, ..parts }).unwrap();
        let node = g.nodes.iter().find(|n| n.op == "LstmInteger").unwrap();
        assert_eq!((node.requant, node.outputs.len()), (Some(RequantMode::Q31Double), 3));
        let gates = if parts.coupled { 3 } else { 4 };
        let w = node.input(1).unwrap();
        assert_eq!(g.constant(w).unwrap().shape(), [gates, 3, 2]);
        assert_eq!(g.ty(w).quant.as_ref().unwrap().scales, vec![0.01; gates]);
        assert_eq!(node.input(6).is_some(), parts.projection);
        let attr = |name: &str| node.attrs.get(name).cloned();
        assert_eq!(attr("hidden_scale"), Some(Attr::Float(0.125)));
        assert_eq!((attr("hidden_zero_point"), attr("projection_clip")), (Some(Attr::Int(7)), Some(Attr::Float(0.5))));
        let first: Vec<(DataType, i64)> =
            g.states.iter().map(|s| (s.initial.dtype(), s.initial.to_ints().unwrap()[0])).collect();
        assert_eq!(first, [(DataType::S8, -5), (DataType::S16, 0)], "the real number 0");
    }
}

#[test]
fn an_lstm_that_is_not_known_is_refused_by_name() {
    let refused = |parts: Parts| message(lstm(parts));
    assert!(refused(Parts { norm: true, ..PLAIN }).contains("layer normalization"));
    assert!(refused(Parts { projection: true, ..PLAIN }).contains("projection"));
    assert!(refused(Parts { act: 1, ..PLAIN }).contains("fused activation 1"));
    assert!(refused(Parts { peephole: true, quantized: true, ..PLAIN }).contains("peepholes"));
}
