//! Random nodes of the operators that are no products: odd extents, tails, broadcasting, extreme values, every
//! requantization mode. The same seed gives the same node everywhere.

mod data;
mod elementwise;
mod movement;
mod rows;

use crate::one_node::reference;
use crate::rng::Rng;
use ottava_hal::{Attr, DataType, Node, Program, QuantParams, Shape, Tensor, TensorType, Value, ValueId};

/// A program with data for its inputs.
pub struct Random {
    /// What is computed.
    pub program: Program,
    /// Data of the first node's inputs.
    pub data: Vec<Tensor>,
}

/// The families, by name.
pub const FAMILIES: &[(&str, fn(&mut Rng) -> Option<Random>)] = &[
    ("arithmetic", elementwise::arithmetic),
    ("bridges", elementwise::bridges),
    ("casts", elementwise::casts),
    ("floats", elementwise::floats),
    ("movements", movement::movements),
    ("norms", rows::norms),
    ("pools", rows::pools),
    ("reductions", rows::reductions),
    ("resizes", movement::resizes),
    ("selections", elementwise::selections),
    ("softmax", rows::softmax),
];

/// A node under construction.
struct Draft {
    node: Node,
    inputs: Vec<Option<(Tensor, Option<QuantParams>, bool)>>,
    /// Element type and quantization of the results.
    outputs: Vec<(DataType, Option<QuantParams>)>,
}

fn draft(op: &str, version: u32, y: (DataType, Option<QuantParams>)) -> Draft {
    Draft { node: Node::new("n", op, version), inputs: vec![], outputs: vec![y] }
}

impl Draft {
    fn input(mut self, x: (Tensor, Option<QuantParams>)) -> Self {
        self.inputs.push(Some((x.0, x.1, false)));
        self
    }

    fn constant(mut self, x: (Tensor, Option<QuantParams>)) -> Self {
        self.inputs.push(Some((x.0, x.1, true)));
        self
    }

    fn numbers(self, values: &[i64]) -> Self {
        let x = Tensor::from_ints(DataType::S64, &[values.len()], values).expect("numbers");
        self.constant((x, None))
    }

    fn absent(mut self) -> Self {
        self.inputs.push(None);
        self
    }

    fn attr(mut self, name: &str, value: Attr) -> Self {
        self.node.attrs.set(name, value);
        self
    }

    /// The program; with `images` its first input passes through a pool of one tap, so that its channels lie together.
    fn finish(self, images: bool) -> Option<Random> {
        let mut p = Program { name: "random".into(), ..Program::default() };
        let mut node = self.node;
        let mut data = Vec::new();
        for x in self.inputs {
            let Some((tensor, quant, constant)) = x else {
                node.inputs.push(None);
                continue;
            };
            let ty = typed(tensor.dtype(), tensor.shape(), quant);
            let id = push(&mut p, ty, constant.then(|| tensor.clone()));
            if !constant {
                p.inputs.push(id);
            }
            node.inputs.push(Some(id));
            data.push(tensor);
        }
        for (dtype, quant) in self.outputs {
            let ty = typed(dtype, &[], quant);
            node.outputs.push(push(&mut p, ty, None));
        }
        p.outputs = node.outputs.clone();
        p.nodes = vec![node];
        let results = reference(&p, &data).ok()?;
        for (id, y) in p.outputs.clone().into_iter().zip(results) {
            p.values[id.0].ty.shape = Shape::fixed(y.shape());
        }
        let first = p.nodes[0].input(0).filter(|id| p.value(*id).constant.is_none() && images);
        match first.filter(|id| (3..=5).contains(&p.ty(*id).shape.rank())) {
            Some(x) => behind_a_pool(p, x, data),
            None => Some(Random { program: p, data }),
        }
    }
}

fn push(p: &mut Program, ty: TensorType, constant: Option<Tensor>) -> ValueId {
    p.values.push(Value { name: format!("v{}", p.values.len()), ty, constant });
    ValueId(p.values.len() - 1)
}

fn behind_a_pool(mut p: Program, x: ValueId, data: Vec<Tensor>) -> Option<Random> {
    let ty = p.ty(x).clone();
    if ty.dtype == DataType::Bool || ty.dtype.bits() > 32 || ty.dtype == DataType::S32 {
        return Some(Random { program: p, data });
    }
    let lying = push(&mut p, ty.clone(), None);
    let mut pool = Node::new("pool", "MaxPool", 22);
    pool.attrs.set("kernel_shape", Attr::Ints(vec![1; ty.shape.rank() - 2]));
    // The pool reads all that the node reads, so that data is given to inputs in one order.
    pool.inputs = vec![Some(x)];
    pool.outputs = vec![lying];
    p.nodes[0].inputs.iter_mut().filter(|i| **i == Some(x)).for_each(|i| *i = Some(lying));
    p.nodes.insert(0, pool);
    // Further inputs become constants: the first node has one.
    let rest: Vec<ValueId> = p.nodes[1].inputs.iter().flatten().copied().filter(|id| *id != lying).collect();
    for (id, tensor) in rest.into_iter().zip(&data[1..]) {
        p.values[id.0].constant = Some(tensor.clone());
    }
    p.inputs = vec![x];
    Some(Random { program: p, data: data[..1].to_vec() })
}

fn typed(dtype: DataType, shape: &[usize], quant: Option<QuantParams>) -> TensorType {
    let ty = TensorType::new(dtype, Shape::fixed(shape));
    match quant {
        Some(q) => ty.quantized(q),
        None => ty,
    }
}
