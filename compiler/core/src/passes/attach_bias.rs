//! An Add of a constant that varies only along the output channel, directly after Conv, Gemm or MatMul, is its bias
//! (numerics.md section 4). MatMul of rank 2 with constant weights becomes Gemm, which has a place for a bias.
//!
//! The constant may be a float tensor or a `DequantizeLinear` of an s32 constant (as QAT exporters write it). Scalars
//! are expanded to one entry per channel.

use super::rules::{fresh, is, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Dim, Node, Tensor, ValueId};

/// What the pass does.
pub const ABOUT: About = About { what: "constant sums behind products became their bias", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "attach_bias", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let add = &graph.nodes[index];
    if !is(add, "Add") || add.fused != Default::default() {
        return Ok(None);
    }
    let (Some(a), Some(b)) = (add.input(0), add.input(1)) else { return Ok(None) };
    for (x, bias) in [(a, b), (b, a)] {
        let Some(product_index) = uses.producer(x).filter(|_| uses.only_reader(x) == Some(index)) else { continue };
        let product = &graph.nodes[product_index];
        let Some(channels) = free_channels(graph, product) else { continue };
        // Half-precision results are rounded between the product and the sum.
        if graph.ty(x).dtype != DataType::F32 || graph.ty(add.outputs[0]).shape != graph.ty(x).shape {
            continue;
        }
        if let Some(patch) = attach(graph, uses, (product_index, index), bias, channels)? {
            return Ok(Some(patch));
        }
    }
    Ok(None)
}

/// Axis (counted from the end) and extent of the output channel of a product.
pub struct Channels {
    from_end: usize,
    /// How many channels there are.
    pub extent: usize,
}

/// The channels of a product that has no bias yet.
fn free_channels(graph: &Graph, product: &Node) -> Option<Channels> {
    channels(graph, product).filter(|_| product.input(2).is_none())
}

/// The output channels of a product with nothing fused into it.
pub fn channels(graph: &Graph, product: &Node) -> Option<Channels> {
    let out = &graph.ty(*product.outputs.first()?).shape.0;
    let from_end = match product.op.as_str() {
        _ if !product.domain.is_empty() || product.fused != Default::default() => return None,
        "Conv" | "ConvTranspose" => out.len().checked_sub(2)?,
        "Gemm" if out.len() == 2 => 0,
        "MatMul" if [0, 1].iter().all(|i| product.input(*i).is_some_and(|x| graph.ty(x).shape.rank() == 2)) => 0,
        _ => return None,
    };
    match out.get(out.len() - 1 - from_end)? {
        Dim::Known(extent) => Some(Channels { from_end, extent: *extent }),
        Dim::Sym(_) => None,
    }
}

fn attach(
    graph: &Graph,
    uses: &Uses,
    nodes: (usize, usize),
    bias: ValueId,
    channels: Channels,
) -> Result<Option<Patch>> {
    let (product_index, add_index) = nodes;
    let mut patch = Patch::new(graph);
    let Some(bias) = bias_vector(graph, uses, &mut patch, bias, &channels)? else { return Ok(None) };
    let product = &graph.nodes[product_index];
    let mut node = product.clone();
    if is(product, "MatMul") {
        node.op = "Gemm".into();
        node.version = 13;
        node.attrs.set("transB", Attr::Int(0));
    }
    node.attrs.0.remove("beta");
    node.inputs.resize(2, None);
    node.inputs.push(Some(bias));
    node.outputs = graph.nodes[add_index].outputs.clone();
    patch.remove = vec![product_index, add_index];
    patch.insert.push(node);
    Ok(Some(patch))
}

/// The bias as a vector of one entry per channel: a new constant, or a `DequantizeLinear` of reshaped integers.
fn bias_vector(
    graph: &Graph,
    uses: &Uses,
    patch: &mut Patch,
    id: ValueId,
    channels: &Channels,
) -> Result<Option<ValueId>> {
    if let Some(data) = graph.constant(id) {
        if data.dtype() != DataType::F32 {
            return Ok(None);
        }
        let Some(vector) = as_vector(data, channels)? else { return Ok(None) };
        let name = fresh(graph, patch, &format!("{}_bias", graph.name_of(id)));
        return Ok(Some(patch_const(patch, name, vector)));
    }
    let Some(dq) = uses.producer(id).map(|i| &graph.nodes[i]).filter(|n| is(n, "DequantizeLinear")) else {
        return Ok(None);
    };
    let integers = dq.input(0).and_then(|q| graph.constant(q)).filter(|t| t.dtype() == DataType::S32);
    let Some(vector) = integers.map(|t| as_vector(t, channels)).transpose()?.flatten() else { return Ok(None) };
    let n_scales = dq.input(1).map_or(0, |s| graph.ty(s).shape.elements().unwrap_or(0));
    let blocked = dq.attrs.int("block_size", 0)? != 0 || dq.input(1).is_none_or(|s| graph.ty(s).shape.rank() > 1);
    if n_scales != 1 && n_scales != channels.extent || blocked {
        return Ok(None);
    }
    let name = fresh(graph, patch, &format!("{}_bias", graph.name_of(id)));
    let q = patch_const(patch, name, vector);
    let out_name = fresh(graph, patch, &format!("{}_vector", graph.name_of(id)));
    let mut ty = graph.ty(id).clone();
    ty.shape = ottava_hal::Shape::fixed(&[channels.extent]);
    let out = patch.value(ottava_hal::Value { name: out_name, ty, constant: None });
    let mut node = dq.clone();
    node.name = fresh(graph, patch, &format!("{}_vector", dq.name));
    node.attrs.set("axis", Attr::Int(0));
    node.inputs[0] = Some(q);
    node.outputs = vec![out];
    patch.insert.push(node);
    Ok(Some(out))
}

/// `data` as one entry per channel, if it varies along nothing else.
pub fn as_vector(data: &Tensor, channels: &Channels) -> Result<Option<Tensor>> {
    let shape = data.shape();
    let along = shape.len().checked_sub(1 + channels.from_end).map(|axis| shape[axis]);
    let others_are_one = data.elements() == along.unwrap_or(1);
    if !others_are_one || !matches!(along.unwrap_or(1), n if n == 1 || n == channels.extent) {
        return Ok(None);
    }
    if data.elements() == channels.extent {
        return data.reshaped(&[channels.extent]).map(Some);
    }
    match data.dtype() {
        DataType::F32 => Tensor::from_slice(&[channels.extent], &vec![data.to_f32s()?[0]; channels.extent]).map(Some),
        _ => Tensor::from_ints(data.dtype(), &[channels.extent], &vec![data.to_ints()?[0]; channels.extent]).map(Some),
    }
}
