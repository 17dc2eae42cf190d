//! Mutations that know the message: bytes changed at random rarely stay a model, a node whose operator, edge, attribute
//! or shape is changed does.

use ottava_import::onnx::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};
use prost::Message;

/// Numbers that break arithmetic.
const INTS: &[i64] = &[
    0, 1, -1, 2, 3, 4, 7, 8, 16, 255, 256, 65_535, 65_536, 1 << 31, -(1 << 31), (1 << 31) - 1, 1 << 32, 1 << 62,
    i64::MAX, i64::MIN,
];
const FLOATS: &[f32] = &[0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, f32::MIN_POSITIVE, f32::INFINITY, f32::NAN];
/// Operators that a node may become.
const OPS: &[&str] = &[
    "Add", "AveragePool", "BatchNormalization", "Cast", "Clip", "Concat", "Constant", "ConstantOfShape", "Conv",
    "ConvTranspose", "DequantizeLinear", "Div", "Einsum", "Expand", "Flatten", "GRU", "Gather", "GatherND", "Gemm",
    "GlobalAveragePool", "If", "LSTM", "LayerNormalization", "Loop", "MatMul", "MaxPool", "Mul", "NonMaxSuppression",
    "OneHot", "Pad", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "Range", "ReduceMean", "Reshape", "Resize",
    "ScatterND", "Shape", "Slice", "Softmax", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
];

/// A small generator (xorshift): the fuzzer's seed decides everything.
pub struct Rng(u64);

impl Rng {
    /// A generator for a seed.
    pub fn new(seed: u32) -> Self {
        Self(u64::from(seed) ^ 0x9e37_79b9_7f4a_7c15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    fn pick<'a, T>(&mut self, list: &'a mut [T]) -> Option<&'a mut T> {
        let at = self.below(list.len());
        list.get_mut(at)
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }

    fn int(&mut self) -> i64 {
        if self.below(2) == 0 { self.of(INTS) } else { self.below(12) as i64 - 4 }
    }
}

/// One change in the model of `bytes`; `None` if they are no model.
pub fn model(bytes: &[u8], seed: u32) -> Option<Vec<u8>> {
    let mut model = ModelProto::decode(bytes).ok()?;
    let mut rng = Rng::new(seed);
    for _ in 0..=rng.below(3) {
        match rng.below(16) {
            0 => rng.pick(&mut model.opset_import)?.version = 7 + rng.below(22) as i64,
            1 => model.ir_version = rng.below(12) as i64,
            2 if !model.functions.is_empty() => {
                let mut function = rng.pick(&mut model.functions)?.clone();
                node(rng.pick(&mut function.node)?, &[], &mut rng);
                model.functions.push(function);
            }
            _ => graph(model.graph.as_mut()?, &mut rng),
        }
    }
    Some(model.encode_to_vec())
}

fn graph(graph: &mut GraphProto, rng: &mut Rng) {
    let values = values(graph);
    match rng.below(12) {
        0 if graph.node.len() < 48 => {
            let copy = rng.pick(&mut graph.node).cloned();
            graph.node.extend(copy.map(|mut n| {
                n.output.iter_mut().for_each(|o| o.push('_'));
                n
            }));
        }
        1 if graph.node.len() > 1 => drop(graph.node.remove(rng.below(graph.node.len()))),
        2 => {
            let Some(info) = rng.pick(&mut graph.input) else { return };
            shape_of(info, rng);
        }
        3 => {
            let Some(info) = rng.pick(&mut graph.output) else { return };
            info.name = values.get(rng.below(values.len())).cloned().unwrap_or_default();
        }
        4 | 5 => {
            let Some(data) = rng.pick(&mut graph.initializer) else { return };
            tensor(data, rng);
        }
        _ => {
            let Some(n) = rng.pick(&mut graph.node) else { return };
            node(n, &values, rng);
        }
    }
}

fn values(graph: &GraphProto) -> Vec<String> {
    let made = graph.node.iter().flat_map(|n| n.output.iter().cloned());
    let given = graph.input.iter().map(|i| i.name.clone());
    made.chain(given).chain(graph.initializer.iter().map(|t| t.name.clone())).collect()
}

fn shape_of(info: &mut ottava_import::onnx::proto::ValueInfoProto, rng: &mut Rng) {
    use ottava_import::onnx::proto::{tensor_shape_proto::dimension, type_proto};
    let Some(type_proto::Value::TensorType(ty)) = info.r#type.as_mut().and_then(|t| t.value.as_mut()) else { return };
    if rng.below(4) == 0 {
        ty.elem_type = rng.below(24) as i32;
        return;
    }
    let Some(dim) = ty.shape.as_mut().and_then(|s| rng.pick(&mut s.dim)) else { return };
    dim.value = Some(match rng.below(4) {
        0 => dimension::Value::DimParam("n".into()),
        _ => dimension::Value::DimValue(rng.int()),
    });
}

fn node(node: &mut NodeProto, values: &[String], rng: &mut Rng) {
    match rng.below(8) {
        0 => node.op_type = rng.of(OPS).to_owned(),
        1 => {
            let Some(input) = rng.pick(&mut node.input) else { return };
            *input = values.get(rng.below(values.len())).cloned().unwrap_or_default();
        }
        2 => node.input.push(values.get(rng.below(values.len())).cloned().unwrap_or_default()),
        3 => drop(node.input.pop()),
        4 => drop(node.attribute.pop()),
        _ => {
            let Some(attribute) = rng.pick(&mut node.attribute) else { return };
            attribute_value(attribute, rng);
        }
    }
}

fn attribute_value(attribute: &mut AttributeProto, rng: &mut Rng) {
    if let Some(i) = &mut attribute.i {
        *i = rng.int();
    }
    if let Some(f) = &mut attribute.f {
        *f = rng.of(FLOATS);
    }
    match rng.below(3) {
        0 => attribute.ints.push(rng.int()),
        1 => drop(attribute.ints.pop()),
        _ => {
            let int = rng.int();
            rng.pick(&mut attribute.ints).into_iter().for_each(|i| *i = int);
        }
    }
    if let Some(inner) = &mut attribute.t {
        tensor(inner, rng);
    }
    if let Some(inner) = &mut attribute.g {
        graph(inner, rng);
    }
}

fn tensor(data: &mut TensorProto, rng: &mut Rng) {
    let int = rng.int();
    match rng.below(6) {
        0 => data.data_type = rng.below(24) as i32,
        1 => data.dims.push(int),
        2 => drop(data.dims.pop()),
        3 => rng.pick(&mut data.dims).into_iter().for_each(|d| *d = int),
        4 => rng.pick(&mut data.int64_data).into_iter().for_each(|d| *d = int),
        _ => {
            let mut raw = data.raw_data.take().unwrap_or_default().to_vec();
            let wide = int.to_le_bytes();
            let at = rng.below(raw.len()) & !7;
            match raw.get_mut(at..at + 8) {
                Some(place) if data.data_type == 7 => place.copy_from_slice(&wide),
                _ => rng.pick(&mut raw).into_iter().for_each(|b| *b = wide[0]),
            }
            data.raw_data = Some(raw.into());
        }
    }
}
