//! Nodes that compute in f16 or bf16: their floats are stored in 16 bits, and each result is rounded once (numerics,
//! section 7).
//!
//! Where the recipe gives a node such activations, what it reads is cast (constants now, other values by a Cast), and it
//! writes its result in that type. A Cast back stands where a reader computes in another type, or where the network ends:
//! inputs and outputs keep their types. Nothing of it needs data.

use std::collections::BTreeMap;
use std::ops::Range;

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, Node, Tensor, TensorType, ValueId};

use super::builder::Builder;
use super::emit::internal;
use super::kinds::is_float;
use crate::error::Result;
use crate::recipe::Recipe;

/// The first operator set in which every operator of the lists has bf16.
const OPSET_BF16: u32 = 22;

/// Operators whose every float input has the type of the result.
const ALL_INPUTS: &[&str] = &[
    "Add",
    "BatchNormalization",
    "Clip",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Div",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "MatMul",
    "Max",
    "Mean",
    "Min",
    "Mul",
    "PRelu",
    "Pad",
    "Pow",
    "RMSNormalization",
    "Sub",
    "Sum",
    "Where",
];

/// Operators whose first input has the type of the result; the others are parameters.
const FIRST_INPUT: &[&str] = &[
    "Abs",
    "AveragePool",
    "DepthToSpace",
    "Elu",
    "Erf",
    "Exp",
    "Expand",
    "Flatten",
    "Gather",
    "Gelu",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "HardSigmoid",
    "HardSwish",
    "Identity",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "MaxPool",
    "Mish",
    "Neg",
    "Reciprocal",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceSum",
    "Relu",
    "Reshape",
    "Resize",
    "Sigmoid",
    "Slice",
    "Softmax",
    "Softplus",
    "SpaceToDepth",
    "Split",
    "Sqrt",
    "Squeeze",
    "Swish",
    "Tanh",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// The 16-bit float that the recipe wants of a node, if it wants one.
pub(crate) fn wanted(recipe: &Recipe, node: &Node) -> Option<DataType> {
    let dtype = recipe.for_node(&node.name).activations?.dtype;
    matches!(dtype, DataType::F16 | DataType::BF16).then_some(dtype)
}

/// The type that a node computes in by the recipe: `None` if it is no 16-bit float, or if the operator has none.
pub(crate) fn half(graph: &Graph, recipe: &Recipe, node: &Node) -> Option<DataType> {
    let dtype = wanted(recipe, node)?;
    let is_listed = ALL_INPUTS.iter().chain(FIRST_INPUT).any(|op| *op == node.op) && node.domain.is_empty();
    // Statistics beside a result (mean, deviation) stay in 32 bits by their operators' definition.
    let n_floats = node.outputs.iter().filter(|out| is_float(graph, **out)).count();
    let computes_floats = n_floats == 1 || n_floats > 1 && node.op == "Split";
    (is_listed && computes_floats && node.input(0).is_some()).then_some(dtype)
}

/// Why a node is no integer operator, where the recipe wants 16-bit floats of it.
pub(crate) fn reason(graph: &Graph, recipe: &Recipe, node: &Node) -> Option<String> {
    let dtype = wanted(recipe, node)?;
    Some(match half(graph, recipe, node) {
        Some(_) => format!("the recipe has it compute in {dtype}"),
        None => format!("{} does not compute in {dtype}", node.full_op()),
    })
}

fn slots(node: &Node) -> Range<usize> {
    if ALL_INPUTS.contains(&node.op.as_str()) { 0..node.inputs.len() } else { 0..node.inputs.len().min(1) }
}

/// Rewrites the nodes of `builder` that compute in 16-bit floats. Its first nodes are those of `graph`, in order.
pub(crate) fn store_halves(graph: &Graph, recipe: &Recipe, builder: &mut Builder) -> Result<()> {
    let types: Vec<Option<DataType>> = graph.nodes.iter().map(|node| half(graph, recipe, node)).collect();
    if types.contains(&Some(DataType::BF16)) {
        builder.require_opset(OPSET_BF16);
    }
    let mut halves = Halves(BTreeMap::new());
    for (idx, dtype) in types.iter().enumerate() {
        if let Some(dtype) = dtype {
            halves.write(builder, idx, *dtype)?;
        }
    }
    for (idx, dtype) in types.iter().enumerate() {
        if let Some(dtype) = dtype {
            halves.read(builder, idx, *dtype)?;
        }
    }
    Ok(())
}

/// Values in 16 bits that are there already.
struct Halves(BTreeMap<(ValueId, &'static str), ValueId>);

impl Halves {
    /// Lets node `idx` write 16-bit floats, and casts them back under the old names. A Cast that nobody reads goes with
    /// the dead nodes.
    fn write(&mut self, builder: &mut Builder, idx: usize, dtype: DataType) -> Result<()> {
        for slot in 0..builder.graph.nodes[idx].outputs.len() {
            let out = builder.graph.nodes[idx].outputs[slot];
            if !is_float(&builder.graph, out) {
                continue;
            }
            let name = builder.graph.name_of(out).to_owned();
            let half = half_value(builder, &name, out, dtype);
            builder.graph.nodes[idx].outputs[slot] = half;
            cast(builder, &name, half, out, DataType::F32);
            self.0.insert((out, dtype.name()), half);
        }
        Ok(())
    }

    /// Lets node `idx` read 16-bit floats.
    fn read(&mut self, builder: &mut Builder, idx: usize, dtype: DataType) -> Result<()> {
        for slot in slots(&builder.graph.nodes[idx]) {
            let Some(id) = builder.graph.nodes[idx].input(slot).filter(|id| is_float(&builder.graph, *id)) else {
                continue;
            };
            let half = match self.0.get(&(id, dtype.name())) {
                Some(half) => *half,
                None => self.convert(builder, id, dtype)?,
            };
            builder.graph.nodes[idx].inputs[slot] = Some(half);
        }
        Ok(())
    }

    fn convert(&mut self, builder: &mut Builder, id: ValueId, dtype: DataType) -> Result<ValueId> {
        let name = builder.graph.name_of(id).to_owned();
        let half = match builder.graph.constant(id).cloned() {
            Some(data) => {
                let values = data.to_f32s().map_err(internal)?;
                let data = Tensor::from_f32s(dtype, data.shape(), &values).map_err(internal)?;
                builder.constant(format!("{name}/{dtype}"), data)
            }
            None => {
                let half = half_value(builder, &name, id, dtype);
                cast(builder, &name, id, half, dtype);
                half
            }
        };
        self.0.insert((id, dtype.name()), half);
        Ok(half)
    }
}

fn half_value(builder: &mut Builder, name: &str, of: ValueId, dtype: DataType) -> ValueId {
    let ty = TensorType { dtype, ..builder.graph.ty(of).clone() };
    builder.value(format!("{name}/{dtype}"), ty)
}

fn cast(builder: &mut Builder, base: &str, from: ValueId, to: ValueId, dtype: DataType) {
    let node = builder.node_into("Cast", base, &[from], to);
    // The numbers of ONNX's element types.
    let code = match dtype {
        DataType::F16 => 10,
        DataType::BF16 => 16,
        _ => 1,
    };
    node.attrs.set("to", Attr::Int(code));
}
