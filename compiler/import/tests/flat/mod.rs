//! Builds small TFLite files for the tests: a FlatBuffer writer of tables, and the tables of a model over it.
#![allow(dead_code, reason = "each test file uses its part")]

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{Tensor, TensorType};
use ottava_import::{ImportError, TfliteOptions, import_tflite_bytes};
use ottava_ops::{EvalCx, evaluate};

/// A field of a table.
#[derive(Clone)]
pub enum Field {
    /// Bytes inside the table.
    Inline(Vec<u8>),
    /// A vector of so many elements.
    Vector(usize, Vec<u8>),
    Table(Table),
    Tables(Vec<Table>),
}

/// A table: fields by their number.
#[derive(Clone, Default)]
pub struct Table(pub Vec<(u16, Field)>);

impl Table {
    pub fn with(mut self, number: u16, field: Field) -> Self {
        self.0.push((number, field));
        self
    }
}

pub fn i8(v: i8) -> Field {
    Field::Inline(v.to_le_bytes().to_vec())
}

pub fn i32(v: i32) -> Field {
    Field::Inline(v.to_le_bytes().to_vec())
}

pub fn f32(v: f32) -> Field {
    Field::Inline(v.to_le_bytes().to_vec())
}

pub fn text(v: &str) -> Field {
    Field::Vector(v.len(), v.as_bytes().to_vec())
}

pub fn i32s(v: &[i32]) -> Field {
    Field::Vector(v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect())
}

pub fn f32s(v: &[f32]) -> Field {
    Field::Vector(v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect())
}

pub fn i64s(v: &[i64]) -> Field {
    Field::Vector(v.len(), v.iter().flat_map(|v| v.to_le_bytes()).collect())
}

fn put(out: &mut [u8], at: usize, v: u32) {
    out[at..at + 4].copy_from_slice(&v.to_le_bytes());
}

/// Writes a table and what hangs on it; where it begins.
fn write(out: &mut Vec<u8>, table: &Table) -> usize {
    let slots = table.0.iter().map(|(n, _)| *n + 1).max().unwrap_or(0);
    let (vtable, mut entries) = (out.len(), vec![0u16; slots.into()]);
    let start = vtable + 4 + 2 * usize::from(slots);
    let (mut body, mut later) = (((start - vtable) as i32).to_le_bytes().to_vec(), Vec::new());
    for (n, field) in &table.0 {
        entries[usize::from(*n)] = body.len() as u16;
        match field {
            Field::Inline(bytes) => body.extend(bytes),
            other => {
                later.push((start + body.len(), other));
                body.extend([0; 4]);
            }
        }
    }
    out.extend((4 + 2 * slots).to_le_bytes());
    out.extend((body.len() as u16).to_le_bytes());
    out.extend(entries.iter().flat_map(|e| e.to_le_bytes()));
    out.extend(body);
    for (at, field) in later {
        let to = match field {
            Field::Inline(_) => continue,
            Field::Table(t) => write(out, t),
            Field::Vector(n, bytes) => {
                let to = out.len();
                out.extend((*n as u32).to_le_bytes());
                out.extend(bytes);
                to
            }
            Field::Tables(tables) => {
                let to = out.len();
                out.extend((tables.len() as u32).to_le_bytes());
                out.extend(vec![0; 4 * tables.len()]);
                for (i, t) in tables.iter().enumerate() {
                    let (slot, child) = (to + 4 + 4 * i, write(out, t));
                    put(out, slot, (child - slot) as u32);
                }
                to
            }
        };
        put(out, at, (to - at) as u32);
    }
    start
}

/// Element types by their numbers in the schema.
pub const FLOAT32: i8 = 0;
pub const INT32: i8 = 2;
pub const UINT8: i8 = 3;
pub const INT64: i8 = 4;
pub const BOOL: i8 = 6;
pub const INT16: i8 = 7;
pub const INT8: i8 = 9;

/// A model under construction.
#[derive(Clone, Default)]
pub struct Model {
    pub codes: Vec<Table>,
    pub buffers: Vec<Table>,
    pub tensors: Vec<Table>,
    pub operators: Vec<Table>,
    pub inputs: Vec<i32>,
    pub outputs: Vec<i32>,
}

impl Model {
    pub fn new() -> Self {
        Self { buffers: vec![Table::default()], ..Self::default() }
    }

    /// A tensor; its index.
    pub fn tensor(&mut self, name: &str, element: i8, shape: &[i32], quant: Option<(&[f32], i64, i32)>) -> i32 {
        let mut t = Table::default().with(0, i32s(shape)).with(1, i8(element)).with(3, text(name));
        if let Some((scales, zero, axis)) = quant {
            let zeros = vec![zero; scales.len()];
            let q = Table::default().with(2, f32s(scales)).with(3, i64s(&zeros)).with(6, i32(axis));
            t = t.with(4, Field::Table(q));
        }
        self.tensors.push(t);
        self.tensors.len() as i32 - 1
    }

    /// Gives a tensor data.
    pub fn data(&mut self, tensor: i32, bytes: &[u8]) -> i32 {
        self.buffers.push(Table::default().with(0, Field::Vector(bytes.len(), bytes.to_vec())));
        let index = i32(self.buffers.len() as i32 - 1);
        self.tensors[tensor as usize].0.push((2, index));
        tensor
    }

    /// An int8 tensor with one scale.
    pub fn s8(&mut self, name: &str, shape: &[i32], scale: f32, zero: i64) -> i32 {
        self.tensor(name, INT8, shape, Some((&[scale], zero, 0)))
    }

    /// A constant list of int32.
    pub fn ints(&mut self, name: &str, values: &[i32]) -> i32 {
        let t = self.tensor(name, INT32, &[values.len() as i32], None);
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.data(t, &bytes)
    }

    /// An operator.
    pub fn op(&mut self, code: i32, inputs: &[i32], outputs: &[i32], options: Option<Table>) {
        let short = i8(i8::try_from(code).unwrap_or(127));
        self.codes.push(Table::default().with(0, short).with(3, i32(code)));
        let index = i32(self.codes.len() as i32 - 1);
        let mut op = Table::default().with(0, index).with(1, i32s(inputs)).with(2, i32s(outputs));
        if let Some(options) = options {
            op = op.with(4, Field::Table(options));
        }
        self.operators.push(op);
    }

    /// The bytes of the file.
    pub fn bytes(&self) -> Vec<u8> {
        let sub = Table::default()
            .with(0, Field::Tables(self.tensors.clone()))
            .with(1, i32s(&self.inputs))
            .with(2, i32s(&self.outputs))
            .with(3, Field::Tables(self.operators.clone()))
            .with(4, text("main"));
        let model = Table::default()
            .with(0, i32(3))
            .with(1, Field::Tables(self.codes.clone()))
            .with(2, Field::Tables(vec![sub]))
            .with(4, Field::Tables(self.buffers.clone()));
        let mut out = vec![0; 8];
        out[4..8].copy_from_slice(b"TFL3");
        let root = write(&mut out, &model);
        put(&mut out, 0, root as u32);
        out
    }
}

/// Options of CONV_2D: padding SAME, strides, fused RELU.
pub fn conv_options(stride: i32) -> Table {
    Table::default().with(0, i8(0)).with(1, i32(stride)).with(2, i32(stride)).with(3, i8(1))
}

/// An int8 network: CONV_2D, DEPTHWISE_CONV_2D, ADD, AVERAGE_POOL_2D, RESHAPE, FULLY_CONNECTED, SOFTMAX.
pub fn network() -> Model {
    let mut m = Model::new();
    let x = m.s8("image", &[1, 8, 8, 2], 0.5, 3);
    let bytes = |n: usize| (0..n).map(|i| (i * 37 % 251) as u8).collect::<Vec<u8>>();
    let w = m.tensor("w", INT8, &[4, 3, 3, 2], Some((&[0.1, 0.2, 0.3, 0.4], 0, 0)));
    m.data(w, &bytes(72));
    let b = m.tensor("b", INT32, &[4], Some((&[0.05, 0.1, 0.15, 0.2], 0, 0)));
    m.data(b, &bytes(16));
    let conv = m.s8("conv", &[1, 8, 8, 4], 1.0, -128);
    m.op(3, &[x, w, b], &[conv], Some(conv_options(1)));
    let dw = m.tensor("dw", INT8, &[1, 3, 3, 4], Some((&[0.1, 0.2, 0.3, 0.4], 0, 3)));
    m.data(dw, &bytes(36));
    let deep = m.s8("deep", &[1, 8, 8, 4], 2.0, 0);
    let same = Table::default().with(0, i8(0)).with(1, i32(1)).with(2, i32(1)).with(3, i32(1)).with(4, i8(0));
    m.op(4, &[conv, dw, -1], &[deep], Some(same));
    let sum = m.s8("sum", &[1, 8, 8, 4], 2.5, 1);
    m.op(0, &[conv, deep], &[sum], Some(Table::default().with(0, i8(0))));
    let mean = m.s8("mean", &[1, 1, 1, 4], 2.5, 1);
    let window = Table::default().with(0, i8(1)).with(1, i32(8)).with(2, i32(8)).with(3, i32(8)).with(4, i32(8));
    m.op(1, &[sum], &[mean], Some(window));
    let (shape, flat) = (m.ints("shape", &[-1, 4]), m.s8("flat", &[1, 4], 2.5, 1));
    m.op(22, &[mean, shape], &[flat], None);
    let fw = m.tensor("fw", INT8, &[3, 4], Some((&[0.5], 0, 0)));
    m.data(fw, &bytes(12));
    let logits = m.s8("logits", &[1, 3], 4.0, 0);
    m.op(9, &[flat, fw, -1], &[logits], Some(Table::default()));
    let y = m.s8("answer", &[1, 3], 1.0 / 256.0, -128);
    m.op(25, &[logits], &[y], Some(Table::default().with(0, f32(1.0))));
    (m.inputs, m.outputs) = (vec![x], vec![y]);
    m
}

pub fn import(model: &Model) -> Result<(Graph, Vec<Diagnostic>), ImportError> {
    import_tflite_bytes(&model.bytes(), "test", &TfliteOptions::default())
}

/// The message of a refused model.
pub fn refusal(model: &Model) -> String {
    import(model).expect_err("refused").to_string()
}

/// The results of a graph, node by node.
pub fn execute(graph: &Graph, inputs: &[Tensor]) -> ottava_hal::Result<Vec<Tensor>> {
    let mut values: Vec<Option<Tensor>> = graph.values.iter().map(|v| v.constant.clone()).collect();
    for (id, tensor) in graph.inputs.iter().zip(inputs) {
        values[id.0] = Some(tensor.clone());
    }
    for node in &graph.nodes {
        let ins: Vec<Option<&Tensor>> = node.inputs.iter().map(|id| id.and_then(|id| values[id.0].as_ref())).collect();
        let in_types: Vec<Option<&TensorType>> = node.inputs.iter().map(|id| id.map(|id| graph.ty(id))).collect();
        let out_types: Vec<&TensorType> = node.outputs.iter().map(|id| graph.ty(*id)).collect();
        let cx = EvalCx { node, inputs: &ins, in_types: &in_types, out_types: &out_types };
        for (id, y) in node.outputs.iter().zip(evaluate(&cx)?) {
            values[id.0] = Some(y);
        }
    }
    Ok(graph.outputs.iter().filter_map(|id| values[id.0].clone()).collect())
}
