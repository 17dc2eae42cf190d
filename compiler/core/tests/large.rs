//! Long chains: every pass does its work on each link, and deep graphs neither exhaust the stack nor come back unsorted.

use ottava_compiler::{Cx, canonicalize, integerize};
use ottava_graph::{Attr, Graph, Node, ValueId};
use ottava_hal::{CompileOptions, DataType, Device, Dim, Status, Tensor, TensorType};
use ottava_reference::ReferenceDevice;

/// Links of a chain.
const N: usize = 150;

struct Chain {
    g: Graph,
    at: ValueId,
}

impl Chain {
    fn new() -> Self {
        let mut g = Graph::new("chain");
        let at = g.add_input("x", TensorType::fixed(DataType::F32, &[2, 2]));
        Self { g, at }
    }

    fn constant(&mut self, data: Tensor) -> ValueId {
        let name = self.g.fresh_name("c");
        self.g.add_const(name, data)
    }

    fn push(&mut self, op: &str, others: &[ValueId]) -> &mut Node {
        let i = self.g.nodes.len();
        let mut node = Node::new(format!("n{i}"), op, 13);
        node.inputs = [self.at].iter().chain(others).copied().map(Some).collect();
        self.at = self.g.add_value(format!("v{i}"), TensorType::fixed(DataType::F32, &[2, 2]));
        node.outputs = vec![self.at];
        self.g.nodes.push(node);
        self.g.nodes.last_mut().expect("a node was pushed")
    }
}

#[test]
fn a_long_float_chain_becomes_canonical() {
    let mut chain = Chain::new();
    let w = chain.constant(Tensor::from_slice(&[2, 2], &[1.0f32, 0.0, 0.0, 1.0]).unwrap());
    let b = chain.constant(Tensor::from_slice(&[2], &[1.0f32, -1.0]).unwrap());
    for _ in 0..N {
        chain.push("Identity", &[]);
        chain.push("MatMul", &[w]);
        chain.push("Add", &[b]);
        chain.push("Transpose", &[]).attrs.set("perm", Attr::Ints(vec![1, 0]));
        chain.push("Transpose", &[]).attrs.set("perm", Attr::Ints(vec![1, 0]));
    }
    let mut graph = chain.g;
    graph.outputs = vec![chain.at];
    let device = ReferenceDevice::new();
    let canonical = canonicalize(&graph, &mut Cx::new(&device)).unwrap();
    assert_eq!(canonical.op_counts().into_iter().collect::<Vec<_>>(), [("Gemm".to_string(), N)]);
    assert_eq!(canonical.name_of(canonical.outputs[0]), graph.name_of(graph.outputs[0]));
}

/// A loop that was written out is full of them. One walk over the graph for each would make this test take minutes.
#[test]
fn thousands_of_nodes_that_change_nothing_go_at_once() {
    let mut chain = Chain::new();
    for _ in 0..20_000 {
        chain.push("Identity", &[]);
    }
    chain.push("Relu", &[]);
    chain.push("Identity", &[]);
    let mut graph = chain.g;
    graph.outputs = vec![chain.at];
    let device = ReferenceDevice::new();
    let canonical = canonicalize(&graph, &mut Cx::new(&device)).unwrap();
    assert_eq!(canonical.op_counts().into_iter().collect::<Vec<_>>(), [("Relu".to_string(), 1)]);
    assert_eq!(canonical.name_of(canonical.outputs[0]), graph.name_of(graph.outputs[0]));
}

/// `sum' = sum + x[i]`, over `n` slices.
fn scan(n: usize) -> Graph {
    let ty = || TensorType::fixed(DataType::F32, &[]);
    let mut body = Graph::new("body");
    let (sum, slice) = (body.add_input("sum", ty()), body.add_input("slice", ty()));
    let next = body.add_value("next", ty());
    let mut add = Node::new("add", "Add", 14);
    (add.inputs, add.outputs) = (vec![Some(sum), Some(slice)], vec![next]);
    body.nodes.push(add);
    body.outputs = vec![next];
    let mut g = Graph::new("scan");
    let first = g.add_input("first", ty());
    let x = g.add_input("x", TensorType::fixed(DataType::F32, &[n]));
    let y = g.add_value("y", ty());
    let mut node = Node { domain: "ottava".into(), ..Node::new("scan", "Scan", 1) };
    node.attrs.set("body", Attr::Program(std::sync::Arc::new(ottava_graph::to_program(&body))));
    node.attrs.set("num_scan_inputs", Attr::Int(1));
    (node.inputs, node.outputs) = (vec![Some(first), Some(x)], vec![y]);
    g.nodes.push(node);
    g.outputs = vec![y];
    g
}

#[test]
fn a_loop_is_written_out_up_to_a_bound() {
    let device = ReferenceDevice::new();
    let counts = |n| canonicalize(&scan(n), &mut Cx::new(&device)).unwrap().op_counts();
    assert_eq!(counts(1000)["Add"], 1000);
    // 330 bytes of a file that once asked for 11,000 nodes.
    assert_eq!(counts(2175).into_iter().collect::<Vec<_>>(), [("ottava::Scan".to_string(), 1)]);
}

#[test]
fn a_long_quantized_chain_becomes_integers() {
    let mut chain = Chain::new();
    let scale = chain.constant(Tensor::scalar(0.5f32));
    let zero = chain.constant(Tensor::scalar(3u8));
    for _ in 0..N {
        chain.push("Tanh", &[]);
        chain.push("QuantizeLinear", &[scale, zero]);
        chain.push("DequantizeLinear", &[scale, zero]);
    }
    let mut graph = chain.g;
    graph.outputs = vec![chain.at];
    let device = ReferenceDevice::new();
    let mut cx = Cx::new(&device);
    let canonical = canonicalize(&graph, &mut cx).unwrap();
    let counts = integerize(&canonical, &mut cx).unwrap().op_counts();
    // The first Tanh is one of a float; the tables of all others are one.
    assert_eq!(counts["ottava::Lut"], 1);
    assert_eq!((counts["Tanh"], counts["ottava::Quantize"], counts["ottava::Dequantize"]), (1, 1, 1));
}

/// A chain of `n` nodes that each double a constant of 1 KiB, then a node that reads the input too.
fn doubling(n: usize) -> Graph {
    let mut chain = Chain::new();
    chain.at = chain.constant(Tensor::zeros(DataType::F32, &[256, 1]).unwrap());
    for _ in 0..n {
        let twice = [chain.at];
        chain.push("Concat", &twice).attrs.set("axis", Attr::Int(0));
    }
    let x = chain.g.inputs[0];
    let reduced = chain.push("ReduceSum", &[]);
    reduced.attrs.set("keepdims", Attr::Int(1));
    chain.push("Add", &[x]);
    chain.g.outputs = vec![chain.at];
    chain.g
}

#[test]
fn folding_stops_where_a_small_file_would_become_a_large_program() {
    let device = ReferenceDevice::new();
    // 2, 4, .. 8192 KiB are 16 MiB together; the next results stay to be computed.
    let canonical = canonicalize(&doubling(20), &mut Cx::new(&device)).unwrap();
    assert_eq!(canonical.op_counts()["Concat"], 7);
    let held: usize = canonical.values.iter().filter_map(|v| v.constant.as_ref()).map(|t| t.bytes().len()).sum();
    assert!(held <= 16 << 20, "{held}");
}

#[test]
fn a_chain_that_no_machine_holds_is_refused() {
    let device = ReferenceDevice::new();
    let error = canonicalize(&doubling(40), &mut Cx::new(&device)).unwrap_err().to_string();
    assert!(error.contains("`n23` (Concat)") && error.contains("17179869184 bytes"), "{error}");
}

#[test]
fn the_size_of_what_no_memory_holds_is_not_folded() {
    let size = |n: usize| {
        let mut g = Graph::new("size");
        let x = g.add_input("x", TensorType::fixed(DataType::F32, &[6, n]));
        let y = g.add_value("y", TensorType::fixed(DataType::S64, &[]));
        let mut node = Node::new("size", "Size", 13);
        (node.inputs, node.outputs) = (vec![Some(x)], vec![y]);
        g.nodes.push(node);
        g.outputs = vec![y];
        let device = ReferenceDevice::new();
        canonicalize(&g, &mut Cx::new(&device)).map(|g| g.nodes.len()).map_err(|e| e.to_string())
    };
    assert_eq!(size(7), Ok(0));
    assert_eq!(size(1 << 62), Ok(1));
}

#[test]
fn a_scale_that_a_model_computes_as_0_is_refused() {
    let mut chain = Chain::new();
    let scale = chain.constant(Tensor::scalar(0f32));
    let zero = chain.constant(Tensor::scalar(3u8));
    chain.push("QuantizeLinear", &[scale, zero]);
    chain.push("DequantizeLinear", &[scale, zero]);
    chain.g.values.iter_mut().filter(|v| v.name == "v0").for_each(|v| v.ty.dtype = DataType::U8);
    chain.g.outputs = vec![chain.at];
    let device = ReferenceDevice::new();
    let error = canonicalize(&chain.g, &mut Cx::new(&device)).unwrap_err().to_string();
    assert!(error.contains("a scale is 0, expected finite numbers greater than 0"), "{error}");
}

#[test]
fn a_huge_fill_is_neither_folded_nor_made() {
    let mut chain = Chain::new();
    chain.at = chain.constant(Tensor::from_slice(&[3], &[1000i64, 1000, 1000]).unwrap());
    chain.push("ConstantOfShape", &[]);
    chain.push("ReduceSum", &[]).attrs.set("keepdims", Attr::Int(0));
    chain.g.outputs = vec![chain.at];
    let device = ReferenceDevice::new();
    let canonical = canonicalize(&chain.g, &mut Cx::new(&device)).unwrap();
    assert_eq!(canonical.op_counts()["ConstantOfShape"], 1);
    let program = ottava_graph::to_program(&canonical);
    let x = Tensor::zeros(DataType::F32, &[2, 2]).unwrap();
    let error = device.compile(&program, &CompileOptions::default()).unwrap().run_dynamic(&[x]).unwrap_err();
    assert_eq!(error.status(), Status::OutOfHostMemory, "{error}");
}

#[test]
fn bound_shapes_fold_to_constants() {
    let mut chain = Chain::new();
    let x = chain.g.inputs[0];
    chain.g.values[x.0].ty.shape.0[0] = Dim::Sym("N".into());
    let last = chain.constant(Tensor::from_slice(&[1], &[1i64]).unwrap());
    chain.push("Shape", &[]);
    chain.push("Concat", &[last]).attrs.set("axis", Attr::Int(0));
    let target = chain.at;
    chain.at = x;
    chain.push("Reshape", &[target]);
    chain.g.outputs = vec![chain.at];
    chain.g.nodes.iter().flat_map(|n| n.outputs.clone()).for_each(|id| {
        chain.g.values[id.0].ty = TensorType::unranked(DataType::F32);
    });
    let device = ReferenceDevice::new();
    let open = canonicalize(&chain.g, &mut Cx::new(&device)).unwrap();
    assert_eq!(open.ty(open.outputs[0]).shape.rank(), 3);
    let bound = ottava_graph::bind(&chain.g, &[("N".to_string(), 5)].into(), 1).unwrap();
    let canonical = canonicalize(&bound, &mut Cx::new(&device)).unwrap();
    assert_eq!(canonical.op_counts().into_iter().collect::<Vec<_>>(), [("Reshape".to_string(), 1)]);
    assert_eq!(canonical.ty(canonical.outputs[0]).to_string(), "f32[5,2,1]");
}
