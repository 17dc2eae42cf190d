//! Every operator between elements of 8 and of 16 bits, in both directions: it has the reference's bytes, or the device
//! says why it does not run it. Sizes and places of a result follow from the result's type.

use crate::common::{CHIPS, Net, Rng, data, describe, npu, op, own_op, reference, run};
use ottava_hal::{
    Attr, CompileOptions, DataType, Device, Node, Program, QuantParams, Reason, RequantMode, Shape, Tensor, TensorType,
    Value, ValueId, Verdict,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// From what to what.
const WIDTHS: [(DataType, DataType); 8] = [
    (DataType::U8, DataType::S16),
    (DataType::S8, DataType::S16),
    (DataType::S16, DataType::U8),
    (DataType::S16, DataType::S8),
    (DataType::S16, DataType::S16),
    (DataType::U8, DataType::S8),
    (DataType::U8, DataType::F32),
    (DataType::S16, DataType::F32),
];

/// Every operator of the device, some in several shapes, which the word behind them says.
const OPERATORS: [&str; 47] = [
    "Conv",
    "Conv 1x1",
    "Conv 1d",
    "Conv grouped",
    "Conv residual",
    "Conv depthwise",
    "Conv depthwise-1x1",
    "Conv depthwise-stride",
    "Conv depthwise-1d",
    "Conv depthwise-multiplier",
    "Conv depthwise-large",
    "Conv depthwise-residual",
    "Gemm",
    "MatMul",
    "MatMul computed",
    "Add",
    "Add row",
    "Add mixed",
    "Sub",
    "Mul",
    "Max",
    "Min",
    "MaxPool",
    "GlobalMaxPool",
    "AveragePool",
    "AveragePool padded",
    "GlobalAveragePool",
    "ReduceMean",
    "ReduceMean channels",
    "ReduceSum",
    "Gather",
    "Resize",
    "Pad",
    "Concat",
    "Concat mixed",
    "Slice",
    "Split",
    "Relu",
    "Clip",
    "Softmax",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Transpose",
    "Requantize",
];

/// In turn alone and with a node behind.
const MODES: [RequantMode; 4] =
    [RequantMode::Fp32Rne, RequantMode::Fp32Rne, RequantMode::Q31Double, RequantMode::Q31Single];

fn typed(rng: &mut Rng, dtype: DataType, dims: &[usize]) -> TensorType {
    let bare = TensorType::fixed(dtype, dims);
    match dtype {
        DataType::F32 => bare,
        DataType::S16 => bare.quantized(QuantParams::per_tensor(rng.scale() / 100.0, 0)),
        _ => {
            let (lo, hi) = dtype.int_range().unwrap();
            bare.quantized(QuantParams::per_tensor(rng.scale(), rng.range(lo, hi) as i32))
        }
    }
}

fn with(mut node: Node, attrs: &[(&str, &[i64])]) -> Node {
    for (name, values) in attrs {
        node.attrs.set(*name, Attr::Ints(values.to_vec()));
    }
    node
}

/// One node under construction: its first operand has `dims`.
struct Case<'r> {
    net: Net,
    rng: &'r mut Rng,
    from: DataType,
    like: TensorType,
}

impl Case<'_> {
    fn input(&mut self, dims: &[usize]) -> ValueId {
        let ty = typed(self.rng, self.from, dims);
        self.net.input(ty)
    }

    /// Constant weights of 8 bits, one scale a channel.
    fn weights(&mut self, shape: &[usize], axis: usize) -> ValueId {
        let scales = (0..shape[axis]).map(|_| self.rng.scale() / 10.0).collect();
        let ty = TensorType::fixed(DataType::S8, shape).quantized(QuantParams::per_axis_symmetric(axis, scales));
        self.net.random(ty, self.rng)
    }

    fn floats(&mut self, dims: &[usize], values: &[f32]) -> ValueId {
        let data = Tensor::from_slice(dims, values).unwrap();
        self.net.constant(data.ty(), data)
    }

    /// Where nothing is converted the result has the operand's parameters, if it can.
    fn moved(&mut self, x: ValueId) {
        if self.net.ty(x).dtype == self.like.dtype {
            self.like = self.net.ty(x);
        }
    }

    fn conv(&mut self, shape: &str) -> (Node, Vec<ValueId>) {
        let (dims, weights, group): (&[usize], &[usize], i64) = match shape {
            "1x1" => (&[1, 5, 6, 7], &[4, 5, 1, 1], 1),
            "1d" => (&[2, 5, 9], &[4, 5, 3], 1),
            "grouped" => (&[1, 6, 7, 5], &[4, 3, 3, 3], 2),
            "depthwise-1x1" => (&[1, 16, 6, 6], &[16, 1, 1, 1], 16),
            "depthwise-1d" => (&[2, 7, 11], &[7, 1, 3], 7),
            "depthwise-multiplier" => (&[1, 5, 7, 6], &[15, 1, 3, 2], 5),
            "depthwise-large" => (&[1, 40, 30, 13], &[40, 1, 3, 3], 40),
            "depthwise-residual" | "depthwise" | "depthwise-stride" => (&[2, 6, 7, 9], &[6, 1, 3, 3], 6),
            _ => (&[2, 5, 7, 6], &[4, 5, 3, 3], 1),
        };
        let mut node = op("Conv");
        node.attrs.set("group", Attr::Int(group));
        if shape.starts_with("depthwise-") && shape.ends_with('e') || shape == "depthwise-1x1" {
            node = with(node, &[("strides", &[2, 2])]);
        } else if dims.len() == 4 && !shape.ends_with("1x1") {
            node = with(node, &[("pads", &[1, 0, 1, 1])]);
        }
        let mut inputs = vec![self.input(dims), self.weights(weights, 0)];
        if shape.ends_with("residual") {
            let bare = self.net.node(node.clone(), &inputs, &self.like.clone());
            let other = self.net.dims(bare);
            self.net.program.nodes.pop();
            self.net.program.values.pop();
            inputs.push(self.input(&other));
            node.fused.residual = true;
        }
        (node, inputs)
    }

    /// The node and its operands.
    fn node(&mut self, name: &str, shape: &str) -> (Node, Vec<ValueId>) {
        let image = [2, 6, 5, 7];
        match name {
            "Conv" => return self.conv(shape),
            "Gemm" => return (op(name), vec![self.input(&[5, 21]), self.weights(&[21, 9], 1)]),
            "MatMul" if shape == "computed" => {
                let second = typed(self.rng, DataType::U8, &[2, 9, 4]);
                return (op(name), vec![self.input(&[2, 5, 9]), self.net.input(second)]);
            }
            "MatMul" => return (op(name), vec![self.input(&[3, 5, 9]), self.weights(&[9, 4], 1)]),
            "Add" | "Sub" | "Mul" | "Max" | "Min" | "Concat" => {
                let x = self.input(&image);
                let integers = matches!(name, "Max" | "Min") || name == "Concat" && shape.is_empty();
                if integers {
                    self.moved(x);
                }
                let other = match shape {
                    _ if integers => self.net.ty(x),
                    "row" => typed(self.rng, self.from, &[6, 1, 1]),
                    "mixed" => typed(self.rng, DataType::S8, &image),
                    _ => typed(self.rng, self.from, &image),
                };
                let mut node = op(name);
                if name == "Concat" {
                    node.attrs.set("axis", Attr::Int(1));
                }
                return (node, vec![x, self.net.input(other)]);
            }
            "Squeeze" => {
                let x = self.input(&[2, 1, 5, 3]);
                return (op(name), vec![x, self.net.ints(&[1])]);
            }
            _ => {}
        }
        let x = self.input(&image);
        let pool = [("kernel_shape", [3, 2].as_slice()), ("strides", &[1, 2])];
        match name {
            "MaxPool" => {
                self.moved(x);
                (with(op(name), &pool), vec![x])
            }
            "AveragePool" => {
                let mut node = with(op(name), &pool);
                if shape == "padded" {
                    node = with(node, &[("pads", &[1, 0, 1, 1])]);
                    node.attrs.set("count_include_pad", Attr::Int(1));
                }
                (node, vec![x])
            }
            "ReduceMean" if shape == "channels" => (op(name), vec![x, self.net.ints(&[1])]),
            "ReduceMean" | "ReduceSum" => (op(name), vec![x, self.net.ints(&[2, 3])]),
            "Softmax" | "GlobalAveragePool" | "Relu" | "Flatten" => (op(name), vec![x]),
            "Identity" => (op(name), vec![x]),
            "Reshape" => (op(name), vec![x, self.net.ints(&[2, 5, 42])]),
            "Unsqueeze" => (op(name), vec![x, self.net.ints(&[1])]),
            "Requantize" => (own_op(name), vec![x]),
            "Clip" => (op(name), vec![x, self.floats(&[], &[-0.5]), self.floats(&[], &[0.3])]),
            "Gather" => {
                self.moved(x);
                let mut node = op(name);
                node.attrs.set("axis", Attr::Int(1));
                (node, vec![x, self.net.ints(&[3, 0, 4])])
            }
            "Resize" => {
                self.moved(x);
                let mut node = op(name);
                node.attrs.set("coordinate_transformation_mode", Attr::Str("asymmetric".into()));
                node.attrs.set("nearest_mode", Attr::Str("floor".into()));
                (node, vec![x, self.floats(&[0], &[]), self.floats(&[4], &[1.0, 1.0, 2.0, 3.0])])
            }
            "Pad" => {
                self.moved(x);
                (op(name), vec![x, self.net.ints(&[0, 0, 1, 1, 0, 0, 2, 0])])
            }
            "Slice" => {
                self.moved(x);
                (op(name), vec![x, self.net.ints(&[1]), self.net.ints(&[5]), self.net.ints(&[1])])
            }
            "Transpose" => {
                self.moved(x);
                (with(op(name), &[("perm", &[0, 2, 3, 1])]), vec![x])
            }
            _ => {
                self.moved(x);
                (op(name), vec![x])
            }
        }
    }

    fn split(mut self) -> Program {
        let x = self.input(&[2, 6, 5, 7]);
        self.moved(x);
        let sizes = self.net.ints(&[2, 4]);
        let mut node = Node { name: "split".into(), inputs: vec![Some(x), Some(sizes)], ..op("Split") };
        node.attrs.set("axis", Attr::Int(1));
        for channels in [2, 4] {
            node.outputs.push(ValueId(self.net.program.values.len()));
            let ty = TensorType { shape: Shape::fixed(&[2, channels, 5, 7]), ..self.like.clone() };
            self.net.program.values.push(Value { name: format!("part{channels}"), ty, constant: None });
        }
        self.net.program.outputs.clone_from(&node.outputs);
        self.net.program.nodes.push(node);
        self.net.program
    }
}

/// The operator alone; with `behind` its result is requantized where it lies.
fn program(
    rng: &mut Rng,
    operator: &str,
    (from, to): (DataType, DataType),
    behind: bool,
    mode: RequantMode,
) -> Program {
    let like = typed(rng, to, &[]);
    let mut case = Case { net: Net::default(), rng, from, like };
    let (name, shape) = operator.split_once(' ').unwrap_or((operator, ""));
    if name == "Split" {
        return case.split();
    }
    let (mut node, inputs) = case.node(name, shape);
    node.requant = Some(mode);
    let y = case.net.node(node, &inputs, &case.like.clone());
    if !behind || to == DataType::F32 {
        return case.net.output(y);
    }
    let last = typed(case.rng, from, &[]);
    let z = case.net.node(own_op("Requantize"), &[y], &last);
    case.net.output(z)
}

/// Sums go through the requantizer, elements through the vector unit: both take every width.
const WIDE: [&str; 16] = [
    "Conv",
    "Gemm",
    "MatMul",
    "Add",
    "Sub",
    "Mul",
    "Concat mixed",
    "Relu",
    "Clip",
    "Identity",
    "Reshape",
    "Flatten",
    "Squeeze",
    "Unsqueeze",
    "Requantize",
    "Add row",
];

#[test]
fn results_of_another_width_equal_the_reference_or_are_refused_with_a_reason() {
    let chips: Vec<_> = CHIPS.iter().map(|text| npu(text)).collect();
    let (mut runs, mut refused) = (BTreeSet::new(), BTreeSet::new());
    for (i, operator) in OPERATORS.iter().enumerate() {
        for (j, &(from, to)) in WIDTHS.iter().enumerate() {
            for (k, mode) in MODES.into_iter().enumerate() {
                let mut rng = Rng::new((i * 100 + j * 10 + k) as u64);
                let program = program(&mut rng, operator, (from, to), k % 2 == 1, mode);
                let inputs = data(&program, &mut rng);
                for device in &chips {
                    match on(device, &program, &inputs) {
                        None => runs.insert((*operator, from, to)),
                        Some(reason) => refused.insert((*operator, from, to, reason.code())),
                    };
                }
            }
        }
    }
    println!("{} of {} run; {} refusals", runs.len(), OPERATORS.len() * WIDTHS.len(), refused.len());
    for operator in OPERATORS.iter().filter(|o| WIDE.contains(o) || o.starts_with("Conv")) {
        for &(from, to) in WIDTHS.iter().filter(|w| w.1 != DataType::F32) {
            assert!(runs.contains(&(*operator, from, to)), "{operator} {from} -> {to} runs nowhere");
        }
    }
}

/// Runs the program where the chip takes it, and compares; else the reason.
fn on(device: &Arc<ottava_driver_npu::NpuDevice>, program: &Program, inputs: &[Tensor]) -> Option<Reason> {
    let verdicts = device.assess(program).unwrap();
    let rejected = verdicts.iter().find_map(|v| match v {
        Verdict::Rejected { reason, detail } => Some((*reason, detail)),
        Verdict::Supported { .. } => None,
    });
    if let Some((reason, detail)) = rejected {
        assert!(!detail.is_empty() && reason != Reason::Other, "{}: {reason:?} {detail}", describe(program));
        return Some(reason);
    }
    let exe = device.compile(program, &CompileOptions::default());
    let exe = exe.unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
    let found = run(device.as_ref(), &exe, inputs).unwrap_or_else(|e| panic!("{}: {e}", describe(program)));
    assert_eq!(found, reference(program, inputs), "{}: {:?}", describe(program), exe.kernels());
    None
}
