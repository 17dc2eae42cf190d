//! Long chains: every pass does its work on each link, and deep graphs neither exhaust the stack nor come back unsorted.

use ottava_compiler::{Cx, canonicalize, integerize};
use ottava_graph::{Attr, Graph, Node, ValueId};
use ottava_hal::{DataType, Tensor, TensorType};
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
    // The first Tanh is one of a float.
    assert_eq!(counts["ottava::Lut"], N - 1);
    assert_eq!((counts["Tanh"], counts["ottava::Quantize"], counts["ottava::Dequantize"]), (1, 1, 1));
}
