//! Random float networks in the spellings of exporters: gates written as formulas, LayerNorm and Softmax of single
//! steps, batch norms and factors behind and biases beside products, Pads before them, Transposes around layers. Each
//! comes with the operators that a canonical form of it has. The same seed gives the same network everywhere.

use crate::random_graph::{Builder, ints};
use ottava_graph::Graph;
use ottava_hal::{Attrs, DataType, Tensor, TensorType, ValueId};
use std::collections::BTreeMap;

/// A network as an exporter writes it.
pub struct Spelled {
    /// The network.
    pub graph: Graph,
    /// How many of each fused operator its canonical form has; operators that are absent from the map are not in it.
    pub fused: BTreeMap<&'static str, usize>,
}

/// The operators that [`Spelled::fused`] counts.
pub const FUSED: &[&str] = &["Gelu", "HardSwish", "LayerNormalization", "Softmax", "Swish"];
/// What no canonical form of these networks has.
pub const SPELLED: &[&str] = &["BatchNormalization", "Pad", "Erf", "Tanh", "Sigmoid", "Exp", "Sqrt", "Transpose"];

/// A network of two to six parts.
pub fn random_float(seed: u64) -> Spelled {
    let mut net = Net { b: Builder::new(format!("float{seed}"), seed), fused: BTreeMap::new(), shape: [1, 3, 4, 5] };
    let mut x = net.b.g.add_input("x", TensorType::fixed(DataType::F32, &net.shape));
    for _ in 0..2 + net.b.rng.below(5) {
        x = net.part(x);
    }
    net.b.g.outputs.push(x);
    Spelled { graph: net.b.g, fused: net.fused }
}

struct Net {
    b: Builder,
    fused: BTreeMap<&'static str, usize>,
    /// Of the last value.
    shape: [usize; 4],
}

impl Net {
    fn plain(&mut self, op: &str, version: u32, inputs: &[ValueId]) -> ValueId {
        self.b.node(op, version, inputs, Attrs::default())
    }

    fn scalar(&mut self, v: f32) -> ValueId {
        self.b.constant(Tensor::scalar(v))
    }

    fn count(&mut self, op: &'static str) {
        *self.fused.entry(op).or_default() += 1;
    }

    /// Both operands in a random order.
    fn either(&mut self, op: &str, a: ValueId, b: ValueId) -> ValueId {
        let operands = if self.b.rng.chance(50) { [a, b] } else { [b, a] };
        self.plain(op, 14, &operands)
    }

    fn part(&mut self, x: ValueId) -> ValueId {
        match self.b.rng.below(8) {
            0 => self.gelu(x),
            1 => self.gelu_of_tanh(x),
            2 => self.silu(x),
            3 => self.hard_swish(x),
            4 => self.layer_norm(x),
            5 => self.softmax(x),
            6 => self.between_transposes(x),
            _ => self.conv(x),
        }
    }

    fn gelu(&mut self, x: ValueId) -> ValueId {
        self.count("Gelu");
        let (root, one, half) = (self.scalar(std::f32::consts::SQRT_2), self.scalar(1.0), self.scalar(0.5));
        let u = self.plain("Div", 14, &[x, root]);
        let t = self.plain("Erf", 13, &[u]);
        let t1 = self.either("Add", t, one);
        let product = self.either("Mul", x, t1);
        self.either("Mul", product, half)
    }

    fn gelu_of_tanh(&mut self, x: ValueId) -> ValueId {
        self.count("Gelu");
        let (c, root) = (self.scalar(0.044_715), self.scalar(0.797_884_6));
        let (three, one, half) = (self.scalar(3.0), self.scalar(1.0), self.scalar(0.5));
        let cube = self.plain("Pow", 15, &[x, three]);
        let small = self.either("Mul", cube, c);
        let sum = self.either("Add", x, small);
        let u = self.either("Mul", sum, root);
        let t = self.plain("Tanh", 13, &[u]);
        let t1 = self.either("Add", t, one);
        let gate = self.either("Mul", half, t1);
        self.either("Mul", x, gate)
    }

    fn silu(&mut self, x: ValueId) -> ValueId {
        self.count("Swish");
        let t = self.plain("Sigmoid", 13, &[x]);
        self.either("Mul", x, t)
    }

    fn hard_swish(&mut self, x: ValueId) -> ValueId {
        self.count("HardSwish");
        let (zero, three, six) = (self.scalar(0.0), self.scalar(3.0), self.scalar(6.0));
        let sum = self.either("Add", x, three);
        let t = self.plain("Clip", 13, &[sum, zero, six]);
        let product = self.either("Mul", x, t);
        self.plain("Div", 14, &[product, six])
    }

    fn axes(&mut self, axis: i64) -> ValueId {
        self.b.constant(Tensor::from_slice(&[1], &[axis]).expect("one axis"))
    }

    fn layer_norm(&mut self, x: ValueId) -> ValueId {
        self.count("LayerNormalization");
        let width = self.shape[3];
        let (axes, two, eps) = (self.axes(-1), self.scalar(2.0), self.scalar(1e-2));
        let (gamma, beta) = (self.b.floats(&[width], 1.0), self.b.floats(&[width], 0.5));
        let mean = self.plain("ReduceMean", 18, &[x, axes]);
        let d = self.plain("Sub", 14, &[x, mean]);
        let square = if self.b.rng.chance(50) { self.plain("Pow", 15, &[d, two]) } else { self.either("Mul", d, d) };
        let variance = self.plain("ReduceMean", 18, &[square, axes]);
        let sum = self.either("Add", variance, eps);
        let root = self.plain("Sqrt", 13, &[sum]);
        let unit = self.plain("Div", 14, &[d, root]);
        let scaled = self.either("Mul", unit, gamma);
        self.either("Add", scaled, beta)
    }

    fn softmax(&mut self, x: ValueId) -> ValueId {
        self.count("Softmax");
        let axis = 1 + self.b.rng.below(3) as i64;
        let axes = self.axes(axis);
        let largest = self.plain("ReduceMax", 18, &[x, axes]);
        let d = self.plain("Sub", 14, &[x, largest]);
        let e = self.plain("Exp", 13, &[d]);
        let sum = self.plain("ReduceSum", 13, &[e, axes]);
        self.plain("Div", 14, &[e, sum])
    }

    fn transpose(&mut self, x: ValueId, perm: &[i64]) -> ValueId {
        self.b.node("Transpose", 13, &[x], Attrs::default().with("perm", ints(perm)))
    }

    /// Elementwise work in the other layout.
    fn between_transposes(&mut self, x: ValueId) -> ValueId {
        let there = self.transpose(x, &[0, 2, 3, 1]);
        let bias = self.b.floats(&[self.shape[1]], 0.5);
        let sum = self.either("Add", there, bias);
        let y = if self.b.rng.chance(50) { self.plain("Relu", 14, &[sum]) } else { self.plain("Abs", 13, &[sum]) };
        self.transpose(y, &[0, 3, 1, 2])
    }

    /// A convolution of the same extent, now and then with a Pad before it, and a batch norm, factor or bias behind it.
    fn conv(&mut self, x: ValueId) -> ValueId {
        let (c_in, c_out) = (self.shape[1], 2 + self.b.rng.below(3));
        let w = self.b.floats(&[c_out, c_in, 3, 3], 0.3);
        let (x, pads) = if self.b.rng.chance(50) { (self.padded(x), [0; 4]) } else { (x, [1; 4]) };
        let y = self.b.node("Conv", 22, &[x, w], Attrs::default().with("pads", ints(&pads)));
        self.shape[1] = c_out;
        match self.b.rng.below(4) {
            0 => self.batch_norm(y, c_out),
            1 => {
                let factor = self.b.floats(&[c_out, 1, 1], 2.0);
                self.either("Mul", y, factor)
            }
            2 => {
                let bias = self.b.floats(&[1, c_out, 1, 1], 0.5);
                self.either("Add", y, bias)
            }
            _ => y,
        }
    }

    fn padded(&mut self, x: ValueId) -> ValueId {
        let pads = self.b.constant(Tensor::from_slice(&[8], &[0i64, 0, 1, 1, 0, 0, 1, 1]).expect("eight pads"));
        let zero = self.scalar(0.0);
        self.plain("Pad", 21, &[x, pads, zero])
    }

    fn batch_norm(&mut self, y: ValueId, n: usize) -> ValueId {
        let (gamma, beta, mean) = (self.b.floats(&[n], 2.0), self.b.floats(&[n], 0.5), self.b.floats(&[n], 0.5));
        let variances: Vec<f32> = (0..n).map(|_| self.b.rng.real(0.2, 2.0)).collect();
        let variance = self.b.constant(Tensor::from_slice(&[n], &variances).expect("one variance per channel"));
        self.plain("BatchNormalization", 15, &[y, gamma, beta, mean, variance])
    }
}
