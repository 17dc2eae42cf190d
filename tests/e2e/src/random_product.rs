//! Random programs of one product each: shapes with odd channels and tails, zero points at the ends, weights at full
//! scale, every requantization mode, scales per channel, biases, residuals and activations. The same seed gives the same
//! program everywhere.

use crate::rng::Rng;
use ottava_hal::program::{Activation, Fused};
use ottava_hal::{Attr, DataType, Node, Program, QuantParams, RequantMode, Scheme, Tensor, TensorType, Value, ValueId};
use std::sync::Arc;

/// A program, inputs for it, and what its results may be off by.
pub struct Case {
    /// The program.
    pub program: Program,
    /// Inputs.
    pub inputs: Vec<Tensor>,
    /// What it is, for messages.
    pub what: String,
    /// Absolute and relative; `None`: not at all.
    pub tolerance: Option<(f32, f32)>,
}

/// The shapes of a product.
struct Shapes {
    op: &'static str,
    attrs: Vec<(&'static str, Attr)>,
    x: Vec<usize>,
    w: Vec<usize>,
    y: Vec<usize>,
    /// Axis of the weights' scales, and how many there are.
    axis: (usize, usize),
    channels: usize,
    /// Terms of a sum.
    k: usize,
    /// The second factor may be computed.
    free: bool,
}

/// A product of bytes, or of floats.
pub fn random_product(seed: u64, typed: bool) -> Case {
    let mut rng = Rng::new(seed * 2 + u64::from(typed));
    let shapes = match seed % 8 {
        0..=2 => conv(&mut rng),
        3 => depthwise(&mut rng),
        4 => conv_transpose(&mut rng),
        5 => gemm(&mut rng),
        _ => matmul(&mut rng),
    };
    let mut make = Maker { rng, program: Program::default(), inputs: Vec::new(), node: Node::new("p", shapes.op, 13) };
    for (name, value) in &shapes.attrs {
        make.node.attrs.set(*name, value.clone());
    }
    let tolerance = if typed { make.typed(&shapes) } else { make.floats(&shapes) };
    make.program.name = format!("product{seed}");
    let ty = |id: &ValueId| make.program.ty(*id).to_string();
    let ins: Vec<String> = make.node.inputs.iter().flatten().map(ty).collect();
    let out = make.node.outputs.iter().map(ty).collect::<Vec<_>>().join(", ");
    let n = &make.node;
    let what = format!("{}({}) -> {out} {:?} {:?} {:?}", n.op, ins.join(", "), n.attrs, n.requant, n.fused);
    make.program.nodes.push(make.node);
    Case { program: make.program, inputs: make.inputs, what, tolerance }
}

fn ints(values: &[usize]) -> Attr {
    Attr::Ints(values.iter().map(|&v| v as i64).collect())
}

fn conv(rng: &mut Rng) -> Shapes {
    let groups = [1, 1, 1, 2, 3][rng.below(5)];
    let (depth, per_group) = (1 + rng.below(9), 1 + rng.below(9));
    windowed(rng, (groups, depth, per_group))
}

fn depthwise(rng: &mut Rng) -> Shapes {
    let shape = (2 + rng.below(12), 1, 1 + rng.below(5) / 4);
    windowed(rng, shape)
}

fn windowed(rng: &mut Rng, (groups, depth, per_group): (usize, usize, usize)) -> Shapes {
    let rank = 1 + usize::from(rng.chance(80));
    let (mut x, mut w) = (vec![1 + rng.below(2), groups * depth], vec![groups * per_group, depth]);
    let mut y = vec![x[0], w[0]];
    let (mut strides, mut dilations) = (vec![], vec![]);
    let (mut front, mut back) = (vec![], vec![]);
    for _ in 0..rank {
        let (kernel, stride, dilation) = (1 + rng.below(4), 1 + rng.below(3), 1 + rng.below(2));
        let (before, after) = (rng.below(3), rng.below(3));
        let seen = (kernel - 1) * dilation + 1;
        let input = seen + rng.below(9);
        let input = input.saturating_sub(before + after).max(1);
        let after = after.max(seen.saturating_sub(input + before));
        x.push(input);
        w.push(kernel);
        y.push((input + before + after - seen) / stride + 1);
        strides.push(stride);
        dilations.push(dilation);
        front.push(before);
        back.push(after);
    }
    front.extend(back);
    let attrs = vec![
        ("group", Attr::Int(groups as i64)),
        ("strides", ints(&strides)),
        ("dilations", ints(&dilations)),
        ("pads", ints(&front)),
    ];
    let (channels, k) = (w[0], w[1..].iter().product());
    Shapes { op: "Conv", attrs, axis: (0, channels), channels, k, free: false, x, w, y }
}

fn conv_transpose(rng: &mut Rng) -> Shapes {
    let (groups, depth, per_group) = (1 + rng.below(2), 1 + rng.below(6), 1 + rng.below(6));
    let rank = 1 + usize::from(rng.chance(80));
    let (mut x, mut w) = (vec![1 + rng.below(2), groups * depth], vec![groups * depth, per_group]);
    let mut y = vec![x[0], groups * per_group];
    let (mut strides, mut front, mut back, mut extra) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rank {
        let (input, kernel, stride) = (1 + rng.below(5), 1 + rng.below(4), 1 + rng.below(3));
        let full = (input - 1) * stride + kernel;
        let before = rng.below(2).min((full - 1) / 2);
        let after = rng.below(2).min((full - 1) / 2);
        let more = rng.below(stride);
        x.push(input);
        w.push(kernel);
        y.push(full + more - before - after);
        strides.push(stride);
        front.push(before);
        back.push(after);
        extra.push(more);
    }
    front.extend(back);
    let attrs = vec![
        ("group", Attr::Int(groups as i64)),
        ("strides", ints(&strides)),
        ("pads", ints(&front)),
        ("output_padding", ints(&extra)),
    ];
    let k = depth * w[2..].iter().product::<usize>();
    Shapes { op: "ConvTranspose", attrs, axis: (1, per_group), channels: y[1], k, free: false, x, w, y }
}

fn gemm(rng: &mut Rng) -> Shapes {
    let (m, k, n) = (1 + rng.below(20), 1 + rng.below(70), 1 + rng.below(30));
    let (ta, tb) = (rng.chance(25), rng.chance(50));
    let x = if ta { vec![k, m] } else { vec![m, k] };
    let w = if tb { vec![n, k] } else { vec![k, n] };
    let attrs = vec![
        ("transA", Attr::Int(ta.into())),
        ("transB", Attr::Int(tb.into())),
        ("alpha", Attr::Float([1.0, 1.0, 0.5, 1.7][rng.below(4)])),
    ];
    Shapes { op: "Gemm", attrs, x, w, y: vec![m, n], axis: (usize::from(!tb), n), channels: n, k, free: true }
}

fn matmul(rng: &mut Rng) -> Shapes {
    let (m, k, n) = (1 + rng.below(14), 1 + rng.below(70), 1 + rng.below(20));
    let (b, c) = (1 + rng.below(3), 1 + rng.below(3));
    let (x, w, y) = match rng.below(7) {
        0 => (vec![k], vec![k, n], vec![n]),
        1 => (vec![b, m, k], vec![k], vec![b, m]),
        2 => (vec![b, m, k], vec![b, k, n], vec![b, m, n]),
        3 => (vec![b, 1, m, k], vec![c, k, n], vec![b, c, m, n]),
        4 => (vec![m, k], vec![c, k, n], vec![c, m, n]),
        _ => (vec![b, m, k], vec![k, n], vec![b, m, n]),
    };
    let vector = w.len() == 1;
    let axis = (w.len() - 1, if vector { 1 } else { n });
    Shapes { op: "MatMul", attrs: vec![], channels: if vector { 1 } else { n }, x, w, y, axis, k, free: true }
}

struct Maker {
    rng: Rng,
    program: Program,
    inputs: Vec<Tensor>,
    node: Node,
}

impl Maker {
    fn value(&mut self, ty: TensorType, constant: Option<Tensor>) -> ValueId {
        let name = format!("v{}", self.program.values.len());
        self.program.values.push(Value { name, ty, constant });
        ValueId(self.program.values.len() - 1)
    }

    fn operand(&mut self, data: Tensor, quant: Option<QuantParams>, constant: bool) {
        let ty = TensorType { quant: quant.map(Arc::new), ..data.ty() };
        let id = self.value(ty, constant.then(|| data.clone()));
        if !constant {
            self.program.inputs.push(id);
            self.inputs.push(data);
        }
        self.node.inputs.push(Some(id));
    }

    fn result(&mut self, dtype: DataType, shape: &[usize], quant: Option<QuantParams>) {
        let id = self.value(TensorType { quant: quant.map(Arc::new), ..TensorType::fixed(dtype, shape) }, None);
        self.program.outputs.push(id);
        self.node.outputs.push(id);
    }

    /// Integers of a type, at its ends as often as not.
    fn ints(&mut self, dtype: DataType, shape: &[usize]) -> Tensor {
        let (lo, hi) = dtype.int_range().expect("an integer type");
        let extreme = self.rng.chance(25);
        let n = shape.iter().product::<usize>();
        let one = |rng: &mut Rng| if extreme { [lo, hi][rng.below(2)] } else { rng.int(lo, hi) };
        let values: Vec<i64> = (0..n).map(|_| one(&mut self.rng)).collect();
        Tensor::from_ints(dtype, shape, &values).expect("values of the type")
    }

    fn reals(&mut self, dtype: DataType, shape: &[usize]) -> Tensor {
        let values: Vec<f32> = (0..shape.iter().product()).map(|_| self.rng.real(-1.0, 1.0)).collect();
        Tensor::from_f32s(dtype, shape, &values).expect("a float type")
    }

    fn zero_point(&mut self, dtype: DataType) -> i32 {
        let (lo, hi) = dtype.storage_range().expect("an integer type");
        match self.rng.below(4) {
            0 => lo,
            1 => hi,
            2 => (lo + hi + 1) / 2,
            _ => self.rng.int(lo.into(), hi.into()) as i32,
        }
    }

    fn params(&mut self, dtype: DataType, scale: f32) -> QuantParams {
        let scale = scale * self.rng.real(0.5, 1.5);
        let zp = self.zero_point(dtype);
        QuantParams::per_tensor(scale, zp)
    }

    fn typed(&mut self, s: &Shapes) -> Option<(f32, f32)> {
        let byte = [DataType::S8, DataType::U8];
        let x_type = byte[self.rng.below(2)];
        let computed = s.free && self.rng.chance(50);
        let w_type = if computed {
            byte[self.rng.below(2)]
        } else {
            [DataType::S8, DataType::S8, DataType::U8, DataType::S4][self.rng.below(4)]
        };
        let (x, w) = (self.ints(x_type, &s.x), self.ints(w_type, &s.w));
        let x_params = self.params(x_type, 0.02);
        let w_params = self.weight_params(w_type, s, computed);
        let sum_scale = x_params.scales[0] * w_params.scales[0];
        self.operand(x, Some(x_params), false);
        self.operand(w, Some(w_params), !computed);
        let y_type =
            [DataType::S8, DataType::U8, DataType::S8, DataType::U8, DataType::S16, DataType::F32, DataType::F16]
                [self.rng.below(7)];
        let quantized = y_type.is_integer();
        let residual = self.rng.chance(25) && s.y.len() > 1;
        self.typed_bias(s, quantized);
        if residual {
            let r_type = [DataType::S8, DataType::U8, DataType::S16, DataType::F32][self.rng.below(4)];
            if r_type == DataType::F32 {
                let data = self.reals(r_type, &s.y);
                self.operand(data, None, false);
            } else {
                let (data, params) = (self.ints(r_type, &s.y), self.params(r_type, 0.02));
                self.operand(data, Some(params), false);
            }
        }
        self.node.requant = quantized.then(|| RequantMode::ALL[self.rng.below(3)]);
        let act = (residual || y_type == DataType::F32) && self.rng.chance(40);
        let clamp = quantized && self.rng.chance(30);
        let relu = [Activation::Relu, Activation::Clip { lo: -0.5, hi: 0.75 }][self.rng.below(2)];
        self.node.fused = Fused {
            residual,
            act: act.then_some(relu),
            clamp: clamp.then_some(if y_type == DataType::U8 { (17, 200) } else { (-50, 77) }),
            zp_before_round: false,
        };
        let spread = (s.k as f32).sqrt() * 5000.0 * sum_scale;
        let steps = if y_type == DataType::S16 { 10000.0 } else { 80.0 };
        let y_params = quantized.then(|| self.params(y_type, spread / steps));
        self.result(y_type, &s.y, y_params);
        None
    }

    fn weight_params(&mut self, dtype: DataType, s: &Shapes, computed: bool) -> QuantParams {
        let symmetric = self.rng.chance(40);
        let zp = |m: &mut Self| if symmetric { 0 } else { m.zero_point(dtype) };
        if computed || self.rng.chance(40) {
            let zero = zp(self);
            return QuantParams { zero_points: vec![zero], ..self.params(dtype, 0.01) };
        }
        let (axis, n) = s.axis;
        let scales = (0..n).map(|_| self.rng.real(0.005, 0.02)).collect();
        let zero_points = (0..n).map(|_| zp(self)).collect();
        QuantParams { scheme: Scheme::PerAxis { axis }, scales, zero_points }
    }

    fn typed_bias(&mut self, s: &Shapes, quantized: bool) {
        if s.op == "MatMul" && s.w.len() == 1 {
            return;
        }
        match self.rng.below(3) {
            0 => {
                let values: Vec<i64> = (0..s.channels).map(|_| self.rng.int(-100_000, 100_000)).collect();
                let data = Tensor::from_ints(DataType::S32, &[s.channels], &values).expect("s32");
                self.operand(data, None, true);
            }
            1 if quantized || self.rng.chance(50) => {
                let data = self.reals(DataType::F32, &[s.channels]);
                self.operand(data, None, true);
            }
            _ => {}
        }
    }

    fn floats(&mut self, s: &Shapes) -> Option<(f32, f32)> {
        let dtype = [DataType::F32, DataType::F32, DataType::F16, DataType::BF16][self.rng.below(4)];
        let constant = !s.free || self.rng.chance(50);
        let (x, w) = (self.reals(dtype, &s.x), self.reals(dtype, &s.w));
        self.operand(x, None, false);
        self.operand(w, None, constant);
        if self.rng.chance(50) && s.w.len() > 1 {
            let data = self.reals(dtype, &[s.channels]);
            self.operand(data, None, true);
        }
        let residual = self.rng.chance(25) && s.y.len() > 1;
        if residual {
            let data = self.reals(dtype, &s.y);
            self.operand(data, None, false);
        }
        let act = (residual || dtype == DataType::F32) && self.rng.chance(40);
        self.node.fused = Fused { residual, act: act.then_some(Activation::Relu), ..Fused::default() };
        self.result(dtype, &s.y, None);
        let relative = match dtype {
            DataType::F16 => 1.0 / 1024.0,
            DataType::BF16 => 1.0 / 128.0,
            _ => 0.0,
        };
        // 2 K 2^-24 of the sum of magnitudes, which is below 2 K; subnormal halves have steps of 2^-24.
        let k = s.k as f32;
        Some((4.0 * (k + 4.0) * (k + 4.0) / 16_777_216.0, relative))
    }
}
