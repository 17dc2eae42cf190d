//! One node of every operator of the device, between any two types of elements.

use crate::common::{Net, Rng, op, own_op};
use ottava_hal::{Attr, DataType, Node, Program, QuantParams, RequantMode, Shape, Tensor, TensorType, Value, ValueId};

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
        let ty = self.rng.typed(self.from, dims);
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
            let other = self.net.shape_of(&node, &inputs, &self.like.clone());
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
                let second = self.rng.typed(DataType::U8, &[2, 9, 4]);
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
                    "row" => self.rng.typed(self.from, &[6, 1, 1]),
                    "mixed" => self.rng.typed(DataType::S8, &image),
                    _ => self.rng.typed(self.from, &image),
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
pub fn program(
    rng: &mut Rng,
    operator: &str,
    (from, to): (DataType, DataType),
    behind: bool,
    mode: RequantMode,
) -> Program {
    let like = rng.typed(to, &[]);
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
    let last = case.rng.typed(from, &[]);
    let z = case.net.node(own_op("Requantize"), &[y], &last);
    case.net.output(z)
}
