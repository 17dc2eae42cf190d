//! Random quantized networks: small graphs of convolutions, products, sums, pools, movers and activations, with Q/DQ
//! pairs in random legal positions, per-channel weights, shared values, several readers, odd outputs. The same seed
//! gives the same graph everywhere.
//!
//! Every value carries a bound on its magnitude, from which scales are drawn, so that integers neither saturate all the
//! time nor vanish.

use crate::rng::Rng;
use ottava_graph::{Graph, infer_node};
use ottava_hal::{Attr, Attrs, DataType, Node, Shape, Tensor, TensorType, ValueId};

/// A graph in the form that an importer would give.
pub fn random_graph(seed: u64) -> Graph {
    let mut builder = Builder::new(format!("random{seed}"), seed);
    builder.inputs();
    for _ in 0..3 + builder.rng.below(6) {
        builder.step();
    }
    builder.finish()
}

/// A float value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Real {
    id: ValueId,
    /// Bound on the magnitude, roughly.
    largest: f32,
    /// Scale of the integers that it was dequantized from.
    scale: Option<f32>,
}

pub(crate) struct Builder {
    pub(crate) g: Graph,
    pub(crate) rng: Rng,
    /// Numbers names.
    n: usize,
    /// Values that the next steps may read.
    open: Vec<Real>,
}

pub(crate) fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

impl Builder {
    pub(crate) fn new(name: String, seed: u64) -> Self {
        Self { g: Graph::new(name), rng: Rng::new(seed), n: 0, open: Vec::new() }
    }

    fn name(&mut self, base: &str) -> String {
        self.n += 1;
        format!("{base}{}", self.n)
    }

    fn shape(&self, x: Real) -> Vec<usize> {
        self.g.ty(x.id).shape.known().expect("random graphs have fixed shapes")
    }

    /// Adds a node with one output, whose type follows.
    pub(crate) fn node(&mut self, op: &str, version: u32, inputs: &[ValueId], attrs: Attrs) -> ValueId {
        let mut node = Node::new(self.name(&op.to_lowercase()), op, version);
        node.inputs = inputs.iter().copied().map(Some).collect();
        node.attrs = attrs;
        let out = self.name("v");
        let out = self.g.add_value(out, TensorType::new(DataType::F32, Shape::default()));
        node.outputs = vec![out];
        self.g.values[out.0].ty = infer_node(&self.g, &node).expect("a random node is legal").remove(0);
        self.g.nodes.push(node);
        out
    }

    pub(crate) fn constant(&mut self, data: Tensor) -> ValueId {
        let name = self.name("c");
        self.g.add_const(name, data)
    }

    pub(crate) fn floats(&mut self, shape: &[usize], largest: f32) -> ValueId {
        let n = shape.iter().product();
        let data: Vec<f32> = (0..n).map(|_| self.rng.real(-largest, largest)).collect();
        self.constant(Tensor::from_slice(shape, &data).expect("as many floats as the shape says"))
    }

    fn integers(&mut self, dtype: DataType, shape: &[usize], (lo, hi): (i64, i64)) -> ValueId {
        let n = shape.iter().product();
        let data: Vec<i64> = (0..n).map(|_| self.rng.int(lo, hi)).collect();
        self.constant(Tensor::from_ints(dtype, shape, &data).expect("integers of the type's range"))
    }

    fn scalar(&mut self, dtype: DataType, value: i64) -> ValueId {
        self.constant(Tensor::from_ints(dtype, &[], &[value]).expect("a zero point of the type's range"))
    }

    fn inputs(&mut self) {
        let shape = [1 + self.rng.below(2), 2 + self.rng.below(3), 4, 4];
        let x = self.g.add_input("x", TensorType::fixed(DataType::F32, &shape));
        let real = Real { id: x, largest: 3.0, scale: None };
        let quantized = self.quantize(real);
        self.open.push(quantized);
        if self.rng.chance(30) {
            self.open.push(real);
        }
        if self.rng.chance(30) {
            let i = self.g.add_input("i", TensorType::fixed(DataType::S8, &shape));
            let (scale, zero) = (self.constant(Tensor::scalar(0.02f32)), self.scalar(DataType::S8, 5));
            let id = self.node("DequantizeLinear", 21, &[i, scale, zero], Attrs::default());
            self.open.push(Real { id, largest: 2.5, scale: Some(0.02) });
        }
    }

    /// A Q/DQ pair behind a value: now and then with a mover between, a second DQ, or the integers as an output.
    fn quantize(&mut self, x: Real) -> Real {
        let (dtype, middle, steps) = match self.rng.below(20) {
            0 => (DataType::S16, 0, 32767.0),
            1 => (DataType::U16, 32768, 32767.0),
            2..=8 => (DataType::S8, 0, 127.0),
            _ => (DataType::U8, 128, 127.0),
        };
        let value = x.largest * self.rng.real(0.6, 1.2) / steps;
        let zero = middle + self.rng.int(-20, 20);
        let (scale, zero) = (self.constant(Tensor::scalar(value)), self.scalar(dtype, zero));
        let mut q = self.node("QuantizeLinear", 21, &[x.id, scale, zero], Attrs::default());
        if self.rng.chance(10) {
            self.g.outputs.push(q);
        }
        match self.rng.below(10) {
            0 => q = self.node("Identity", 21, &[q], Attrs::default()),
            1 => q = self.swap_last(q),
            _ => {}
        }
        let real = |id| Real { id, largest: x.largest, scale: Some(value) };
        if self.rng.chance(15) {
            let second = self.node("DequantizeLinear", 21, &[q, scale, zero], Attrs::default());
            self.open.push(real(second));
        }
        real(self.node("DequantizeLinear", 21, &[q, scale, zero], Attrs::default()))
    }

    /// Weights as DequantizeLinear of a constant, per tensor or along `axis`; the scales come with it.
    fn weights(&mut self, shape: &[usize], axis: usize) -> (ValueId, Vec<f32>) {
        let per_channel = self.rng.chance(60);
        let n = if per_channel { shape[axis] } else { 1 };
        let scales: Vec<f32> = (0..n).map(|_| self.rng.real(0.002, 0.01)).collect();
        let asymmetric = !per_channel && self.rng.chance(30);
        let (dtype, range) = match self.rng.below(6) {
            _ if asymmetric => (DataType::U8, (0, 255)),
            0 => (DataType::S4, (-8, 7)),
            _ => (DataType::S8, (-127, 127)),
        };
        let q = self.integers(dtype, shape, range);
        let scale_shape: &[usize] = if per_channel { &[n] } else { &[] };
        let scale = self.constant(Tensor::from_slice(scale_shape, &scales).expect("one scale per channel"));
        let mut inputs = vec![q, scale];
        if asymmetric {
            inputs.push(self.scalar(dtype, 120));
        }
        let attrs = Attrs::default().with("axis", Attr::Int(axis as i64));
        (self.node("DequantizeLinear", 21, &inputs, attrs), scales)
    }

    /// A bias of `n` channels: float, integers at the product's scale, or at another one. None now and then.
    fn bias(&mut self, n: usize, xs: Option<f32>, ws: &[f32]) -> Option<ValueId> {
        let scales: Vec<f32> = match (self.rng.below(4), xs) {
            (0, _) => return None,
            (1, _) | (_, None) => return Some(self.floats(&[n], 0.5)),
            (2, Some(xs)) => (0..n).map(|c| xs * ws[c % ws.len()]).collect(),
            (_, Some(_)) => vec![0.0007],
        };
        let q = self.integers(DataType::S32, &[n], (-400, 400));
        let shape: &[usize] = if scales.len() == 1 { &[] } else { &[n] };
        let scale = self.constant(Tensor::from_slice(shape, &scales).expect("one scale per channel"));
        Some(self.node("DequantizeLinear", 21, &[q, scale], Attrs::default().with("axis", Attr::Int(0))))
    }

    fn step(&mut self) {
        let x = self.open[self.rng.below(self.open.len())];
        let shape = self.shape(x);
        let y = match (shape.len(), self.rng.below(10)) {
            (4, 0..=2) => self.conv(x, &shape),
            (4, 3) => self.pool(x, &shape),
            (4, 4) => self.flatten(x, &shape),
            (4, 7) => self.conv_transpose(x, &shape),
            (3, 4) => self.self_product(x, &shape),
            (_, 8) => self.slice_or_mean(x, &shape),
            (2, 0..=2) => self.gemm(x, &shape),
            (2, 3) => Real { id: self.node("Softmax", 13, &[x.id], Attrs::default()), largest: 1.0, scale: None },
            (3, 0..=3) => self.matmul(x, &shape),
            (_, 5) => self.unary(x),
            (_, 6) => self.mover(x),
            _ => self.pair(x, &shape),
        };
        let y = if self.rng.chance(50) { self.activation(y) } else { y };
        let y = if self.rng.chance(85) { self.quantize(y) } else { y };
        self.open.push(y);
    }

    fn conv(&mut self, x: Real, shape: &[usize]) -> Real {
        let depthwise = self.rng.chance(30);
        let c_out = if depthwise || self.rng.chance(40) { shape[1] } else { 2 + self.rng.below(3) };
        let (k, group) = (1 + 2 * self.rng.below(2), if depthwise { shape[1] } else { 1 });
        let c_in = shape[1] / group;
        let (w, ws) = self.weights(&[c_out, c_in, k, k], 0);
        let bias = self.bias(c_out, x.scale, &ws);
        let pad = (k / 2) as i64;
        let attrs = Attrs::default().with("group", Attr::Int(group as i64)).with("pads", ints(&[pad; 4]));
        let inputs: Vec<ValueId> = [x.id, w].into_iter().chain(bias).collect();
        let mut id = self.node("Conv", 22, &inputs, attrs);
        if bias.is_none() && self.rng.chance(30) {
            let b = self.floats(&[1, c_out, 1, 1], 0.5);
            id = self.node("Add", 14, &[id, b], Attrs::default());
        }
        self.residual(Real { id, largest: x.largest * ((c_in * k * k) as f32).sqrt(), scale: None })
    }

    fn conv_transpose(&mut self, x: Real, shape: &[usize]) -> Real {
        let group = if shape[1].is_multiple_of(2) && self.rng.chance(50) { 2 } else { 1 };
        let (w, ws) = self.weights(&[shape[1], 2, 2, 2], 1);
        let bias = self.bias(2 * group, x.scale, &ws);
        let attrs = Attrs::default().with("group", Attr::Int(group as i64)).with("pads", ints(&[1, 0, 0, 0]));
        let inputs: Vec<ValueId> = [x.id, w].into_iter().chain(bias).collect();
        let id = self.node("ConvTranspose", 22, &inputs, attrs);
        Real { id, largest: x.largest * ((shape[1] * 2) as f32).sqrt(), scale: None }
    }

    /// The product of two activations.
    fn self_product(&mut self, x: Real, shape: &[usize]) -> Real {
        let other = self.swap_last(x.id);
        let id = self.node("MatMul", 13, &[x.id, other], Attrs::default());
        Real { id, largest: x.largest * x.largest * (shape[2] as f32).sqrt(), scale: None }
    }

    fn slice_or_mean(&mut self, x: Real, shape: &[usize]) -> Real {
        let axis = shape.len() as i64 - 1;
        let axes = self.constant(Tensor::from_slice(&[1], &[axis]).expect("one axis"));
        if self.rng.chance(50) {
            let id = self.node("ReduceMean", 18, &[x.id, axes], Attrs::default());
            return Real { id, scale: None, ..x };
        }
        let (from, to) = (Tensor::from_slice(&[1], &[0i64]), Tensor::from_slice(&[1], &[2i64]));
        let (from, to) = (self.constant(from.expect("one start")), self.constant(to.expect("one end")));
        Real { id: self.node("Slice", 13, &[x.id, from, to, axes], Attrs::default()), ..x }
    }

    fn swap_last(&mut self, x: ValueId) -> ValueId {
        let rank = self.g.ty(x).shape.rank();
        let mut perm: Vec<i64> = (0..rank as i64).collect();
        perm.swap(rank - 1, rank - 2);
        self.node("Transpose", 21, &[x], Attrs::default().with("perm", Attr::Ints(perm)))
    }

    fn gemm(&mut self, x: Real, shape: &[usize]) -> Real {
        let (n, trans) = (2 + self.rng.below(4), self.rng.chance(50));
        let (w_shape, axis) = if trans { ([n, shape[1]], 0) } else { ([shape[1], n], 1) };
        let (w, ws) = self.weights(&w_shape, axis);
        let largest = x.largest * (shape[1] as f32).sqrt();
        if !trans && self.rng.chance(40) {
            let mut id = self.node("MatMul", 13, &[x.id, w], Attrs::default());
            if self.rng.chance(60) {
                let b = self.floats(&[n], 0.5);
                id = self.node("Add", 14, &[b, id], Attrs::default());
            }
            return self.residual(Real { id, largest, scale: None });
        }
        let bias = self.bias(n, x.scale, &ws);
        let alpha = if self.rng.chance(30) { 0.5 } else { 1.0 };
        let attrs = Attrs::default().with("transB", Attr::Int(trans.into())).with("alpha", Attr::Float(alpha));
        let inputs: Vec<ValueId> = [x.id, w].into_iter().chain(bias).collect();
        let id = self.node("Gemm", 13, &inputs, attrs);
        self.residual(Real { id, largest, scale: None })
    }

    /// A product of rank 3, with an Add of a constant behind it that may or may not be a bias.
    fn matmul(&mut self, x: Real, shape: &[usize]) -> Real {
        let n = if self.rng.chance(50) { shape[2] } else { 3 };
        let (w, _) = self.weights(&[shape[2], n], 1);
        let mut id = self.node("MatMul", 13, &[x.id, w], Attrs::default());
        if self.rng.chance(60) {
            let b_shape: &[usize] = if self.rng.chance(75) { &[n] } else { &[shape[1], 1] };
            let b = self.floats(b_shape, 0.5);
            id = self.node("Add", 14, &[id, b], Attrs::default());
        }
        self.residual(Real { id, largest: x.largest * (shape[2] as f32).sqrt(), scale: None })
    }

    /// Adds another value of the same shape, if there is one.
    fn residual(&mut self, y: Real) -> Real {
        let other = self.partner(&self.shape(y), y.id).filter(|_| self.rng.chance(50));
        let Some(other) = other else { return y };
        let both = if self.rng.chance(50) { [y.id, other.id] } else { [other.id, y.id] };
        Real { id: self.node("Add", 14, &both, Attrs::default()), largest: y.largest + other.largest, scale: None }
    }

    fn partner(&self, shape: &[usize], except: ValueId) -> Option<Real> {
        self.open.iter().rev().copied().find(|o| o.id != except && self.shape(*o) == shape)
    }

    fn pair(&mut self, x: Real, shape: &[usize]) -> Real {
        let other = self.partner(shape, x.id).unwrap_or(x);
        let (sum, product) = (x.largest + other.largest, x.largest * other.largest);
        let both = [x.id, other.id];
        let (id, largest) = match self.rng.below(5) {
            0 => (self.node("Add", 14, &both, Attrs::default()), sum),
            1 => (self.node("Sub", 14, &both, Attrs::default()), sum),
            2 => (self.node("Mul", 14, &both, Attrs::default()), product),
            3 => (self.node("Max", 13, &both, Attrs::default()), sum),
            _ => (self.node("Concat", 13, &both, Attrs::default().with("axis", Attr::Int(1))), sum),
        };
        Real { id, largest, scale: None }
    }

    fn pool(&mut self, x: Real, shape: &[usize]) -> Real {
        let k = if shape[2] > 1 && shape[3] > 1 { 2 } else { 1 };
        let attrs = Attrs::default().with("kernel_shape", ints(&[k; 2])).with("strides", ints(&[k; 2]));
        let id = match self.rng.below(3) {
            0 => self.node("MaxPool", 22, &[x.id], attrs),
            1 => self.node("AveragePool", 22, &[x.id], attrs),
            _ => self.node("GlobalAveragePool", 22, &[x.id], Attrs::default()),
        };
        Real { id, ..x }
    }

    /// To a matrix, or to a sequence of vectors.
    fn flatten(&mut self, x: Real, shape: &[usize]) -> Real {
        if self.rng.chance(50) {
            return Real { id: self.node("Flatten", 21, &[x.id], Attrs::default()), ..x };
        }
        // 0 copies the batch, which may be a symbol.
        let target = [0, shape[1] as i64, -1];
        let target = self.constant(Tensor::from_slice(&[3], &target).expect("three extents"));
        let rows = self.node("Reshape", 21, &[x.id, target], Attrs::default());
        let id = self.node("Transpose", 21, &[rows], Attrs::default().with("perm", ints(&[0, 2, 1])));
        Real { id, ..x }
    }

    fn mover(&mut self, x: Real) -> Real {
        let id = match self.rng.below(3) {
            0 => self.node("Identity", 21, &[x.id], Attrs::default()),
            1 => self.swap_last(x.id),
            _ => {
                let there = self.swap_last(x.id);
                self.swap_last(there)
            }
        };
        Real { id, ..x }
    }

    fn unary(&mut self, x: Real) -> Real {
        let op = ["Sigmoid", "Tanh", "HardSwish", "LeakyRelu"][self.rng.below(4)];
        Real { id: self.node(op, 16, &[x.id], Attrs::default()), largest: x.largest.max(1.0), scale: None }
    }

    fn activation(&mut self, x: Real) -> Real {
        if self.rng.chance(50) {
            return Real { id: self.node("Relu", 14, &[x.id], Attrs::default()), ..x };
        }
        let (lo, hi) = (self.constant(Tensor::scalar(-0.5f32)), self.constant(Tensor::scalar(1.75f32)));
        Real { id: self.node("Clip", 13, &[x.id, lo, hi], Attrs::default()), largest: x.largest.min(1.75), scale: None }
    }

    /// What nobody reads is an output; now and then something else is too, or an output is listed twice.
    fn finish(mut self) -> Graph {
        let read: Vec<ValueId> = self.g.nodes.iter().flat_map(|n| n.inputs.iter().flatten().copied()).collect();
        let unread = self.g.nodes.iter().flat_map(|n| n.outputs.clone()).filter(|id| !read.contains(id));
        let unread: Vec<ValueId> = unread.filter(|id| !self.g.outputs.contains(id)).collect();
        self.g.outputs.extend(unread);
        if self.rng.chance(30) {
            let node = self.rng.below(self.g.nodes.len());
            self.g.outputs.push(self.g.nodes[node].outputs[0]);
        }
        self.g
    }
}
