//! Random graphs, node by node. Every value has the symbol `N` as its first extent, as imported graphs have. The same seed
//! gives the same graph everywhere.

use ottava_graph::{Graph, infer_node};
use ottava_hal::{Attr, Attrs, DataType, Dim, Node, Shape, Tensor, TensorType, ValueId};

/// Channels, height and width of the input.
pub const EXTENT: usize = 4;

/// A graph under construction.
pub struct Net {
    pub graph: Graph,
    state: u64,
    names: usize,
}

impl Net {
    /// A graph with the input `x` of shape `[N, 4, 4, 4]`.
    pub fn new(seed: u64) -> (Self, ValueId) {
        let mut graph = Graph::new("random");
        let known = [EXTENT; 3].map(Dim::Known);
        let shape = Shape(std::iter::once(Dim::Sym("N".into())).chain(known).collect());
        let x = graph.add_input("x", TensorType::new(DataType::F32, shape));
        (Self { graph, state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), names: 0 }, x)
    }

    fn name(&mut self, base: &str) -> String {
        self.names += 1;
        format!("{base}{}", self.names)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) as usize % n.max(1)
    }

    /// One of several things.
    pub fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// A multiple of 1/64 in `lo..=hi`.
    pub fn real(&mut self, lo: i64, hi: i64) -> f32 {
        (lo * 64 + self.below(((hi - lo) * 64 + 1) as usize) as i64) as f32 / 64.0
    }

    pub fn constant(&mut self, data: Tensor) -> ValueId {
        let name = self.name("c");
        self.graph.add_const(name, data)
    }

    pub fn scalar(&mut self, v: f32) -> ValueId {
        self.constant(Tensor::scalar(v))
    }

    /// Random floats of `lo..=hi`.
    pub fn floats(&mut self, shape: &[usize], (lo, hi): (i64, i64)) -> ValueId {
        let data: Vec<f32> = (0..shape.iter().product()).map(|_| self.real(lo, hi)).collect();
        self.constant(Tensor::from_slice(shape, &data).unwrap())
    }

    pub fn ints(&mut self, values: &[i64]) -> ValueId {
        self.constant(Tensor::from_slice(&[values.len()], values).unwrap())
    }

    /// Random integers of `lo..=hi`.
    pub fn integers(&mut self, dtype: DataType, shape: &[usize], (lo, hi): (i64, i64)) -> ValueId {
        let n = shape.iter().product();
        let data: Vec<i64> = (0..n).map(|_| lo + self.below((hi - lo + 1) as usize) as i64).collect();
        self.constant(Tensor::from_ints(dtype, shape, &data).unwrap())
    }

    /// A node with one output, whose type follows.
    pub fn node(&mut self, op: &str, version: u32, inputs: &[ValueId], attrs: &[(&str, Attr)]) -> ValueId {
        self.node_in("", op, version, inputs, attrs)
    }

    /// The same in another domain than ONNX's own.
    pub fn node_in(
        &mut self,
        domain: &str,
        op: &str,
        version: u32,
        inputs: &[ValueId],
        attrs: &[(&str, Attr)],
    ) -> ValueId {
        let mut node = Node::new(self.name(&op.to_lowercase()), op, version);
        node.domain = domain.into();
        node.inputs = inputs.iter().copied().map(Some).collect();
        node.attrs = attrs.iter().fold(Attrs::default(), |all, (key, value)| all.with(*key, value.clone()));
        let name = self.name("v");
        let out = self.graph.add_value(name, TensorType::new(DataType::F32, Shape::default()));
        node.outputs = vec![out];
        self.graph.values[out.0].ty = infer_node(&self.graph, &node).expect("the node is legal").remove(0);
        self.graph.nodes.push(node);
        out
    }

    /// The two halves of a value along its channels.
    pub fn split(&mut self, x: ValueId) -> [ValueId; 2] {
        let mut ty = self.graph.ty(x).clone();
        ty.shape.0[1] = Dim::Known(EXTENT / 2);
        let outs = [0, 1].map(|_| {
            let name = self.name("v");
            self.graph.add_value(name, ty.clone())
        });
        let mut node = Node::new(self.name("split"), "Split", 18);
        node.inputs = vec![Some(x)];
        node.outputs = outs.to_vec();
        node.attrs = Attrs::default().with("axis", Attr::Int(1)).with("num_outputs", Attr::Int(2));
        self.graph.nodes.push(node);
        outs
    }

    /// `a op b` or `b op a`.
    pub fn either(&mut self, op: &str, a: ValueId, b: ValueId) -> ValueId {
        let operands = if self.below(2) == 0 { [a, b] } else { [b, a] };
        self.node(op, 14, &operands, &[])
    }

    pub fn transpose(&mut self, x: ValueId, perm: &[i64]) -> ValueId {
        self.node("Transpose", 13, &[x], &[("perm", Attr::Ints(perm.to_vec()))])
    }

    /// A convolution of 3 by 3 that keeps the extents, or of 1 by 1.
    pub fn conv(&mut self, x: ValueId) -> ValueId {
        let k = self.one_of(&[1usize, 3]);
        let w = self.floats(&[EXTENT, EXTENT, k, k], (-1, 1));
        let pads = Attr::Ints(vec![(k / 2) as i64; 4]);
        self.node("Conv", 22, &[x, w], &[("pads", pads)])
    }

    /// Scale, bias, mean and variance of a batch norm.
    pub fn statistics(&mut self, shifts: bool) -> [ValueId; 4] {
        let n = [EXTENT];
        let around = if shifts { (-1, 1) } else { (0, 0) };
        [self.floats(&n, (1, 3)), self.floats(&n, around), self.floats(&n, around), self.floats(&n, (1, 2))]
    }

    pub fn batch_norm(&mut self, x: ValueId, shifts: bool) -> ValueId {
        let [gamma, beta, mean, variance] = self.statistics(shifts);
        self.node("BatchNormalization", 15, &[x, gamma, beta, mean, variance], &[])
    }
}
