//! Dynamic quantization: integer weights now, activations at run time, row by row, without calibration (numerics, sections
//! 2 and 4).
//!
//! Each row of a matrix product's input is quantized to symmetric s8 with `scale = max|x| / 127` (a zero row takes 1), so
//! one sample never depends on the others of its batch. The product is one operator, `ottava::DynamicMatMul`; in a file it
//! is a call of a function of standard operators, which any runtime can follow.
//!
//! Where the recipe asks for weights in blocks, a product keeps its float activations and only its weights are stored as
//! integers; where it asks for 16-bit floats, nodes compute in them.
//!
//! Convolutions would need one scale for a whole sample or batch; they stay in float and are listed. A MatMul takes the Add
//! of a constant behind it as its bias. Tables of embeddings are stored in 8 bits ([`super::tables`]).

use ottava_graph::{Graph, Uses};
use ottava_hal::{DataType, Node, Tensor, ValueId};
use ottava_ops::OTTAVA;
use std::collections::BTreeSet;

use super::blocked::blocked;
use super::builder::Builder;
use super::emit::internal;
use super::half::{self, store_halves};
use super::kinds::{Kind, is_float, kind_of};
use super::plan::other_operand;
use super::products::{WeightShape, bias_values, code_tensor};
use super::report::{FloatNode, Report};
use super::tables::quantize_tables;
use super::{Quantized, unlearned};
use crate::channels::ChannelLayout;
use crate::corrections::Learned;
use crate::error::{Error, Result};
use crate::recipe::{Granularity, Recipe};
use crate::weights::{WeightMethod, quantize_weights};

/// Quantizes the weights of matrix products; activations are quantized at run time. Bias correction needs calibration data
/// and does nothing here.
pub fn quantize_dynamic(graph: &Graph, recipe: &Recipe) -> Result<Quantized> {
    let mut report = Report { recipe: recipe.to_ron(), ..Report::default() };
    let uses = Uses::of(graph);
    let mut writer = Writer { source: graph, builder: Builder::new(graph.clone()) };
    let mut replaced = vec![false; graph.nodes.len()];
    for (idx, node) in graph.nodes.iter().enumerate() {
        if replaced[idx] {
            report.quantized.push(node.name.clone());
            continue;
        }
        if let Some(blocked) = blocked(graph, recipe, node) {
            let weights = blocked.store(graph, &mut writer.builder)?;
            writer.builder.graph.nodes[idx].inputs[1] = Some(weights);
            let (name, op, reason) = (node.name.clone(), node.full_op(), blocked.reason());
            report.float.push(FloatNode { name, op, reason });
            continue;
        }
        if let Some(reason) = half::reason(graph, recipe, node) {
            report.float.push(FloatNode { name: node.name.clone(), op: node.full_op(), reason });
            continue;
        }
        match refusal(graph, recipe, node) {
            None => {
                let is_integer = |add: &usize| recipe.integers(&graph.nodes[*add].name).is_some();
                let added = added_bias(graph, &uses, node).filter(|(add, _)| is_integer(add));
                writer.product(node, recipe, added)?;
                replaced[idx] = true;
                added.iter().for_each(|(add, _)| replaced[*add] = true);
                report.quantized.push(node.name.clone());
            }
            Some(reason) if node.outputs.iter().any(|out| is_float(graph, *out)) => {
                report.float.push(FloatNode { name: node.name.clone(), op: node.full_op(), reason });
            }
            Some(_) => {}
        }
    }
    if recipe.integer_only {
        super::report::expect_integer_only(&report)?;
    }
    store_halves(graph, recipe, &mut writer.builder)?;
    let mut position = 0..;
    let is_replaced = |idx: usize| replaced.get(idx).copied().unwrap_or(false);
    writer.builder.graph.nodes.retain(|_| !position.next().is_some_and(is_replaced));
    let graph = quantize_tables(writer.builder.finish().map_err(internal)?, recipe, &mut report)?;
    Ok(Quantized { graph, report, diagnostics: unlearned(recipe, &Learned::default()), rescaled: BTreeSet::new() })
}

/// Why a node stays as it is; `None` if it becomes an integer product.
fn refusal(graph: &Graph, recipe: &Recipe, node: &Node) -> Option<String> {
    if !matches!(node.op.as_str(), "MatMul" | "Gemm") || !node.domain.is_empty() {
        let conv = matches!(node.op.as_str(), "Conv" | "ConvTranspose");
        let reason = match conv {
            true => "a convolution quantized at run time would share one scale among all its positions",
            false => "dynamic quantization covers matrix products",
        };
        return Some(reason.to_owned());
    }
    if let Kind::Float(reason) = kind_of(graph, node) {
        return Some(reason);
    }
    if recipe.for_node(&node.name).activations.is_none() {
        return Some("the recipe keeps it in float".to_owned());
    }
    let weights = node.input(1).and_then(|w| graph.constant(w));
    let computed = node.input(0).is_some_and(|x| graph.constant(x).is_none() && is_float(graph, x));
    match weights {
        Some(w) if w.shape().len() == 2 && w.dtype() == DataType::F32 && computed => None,
        _ => Some("its second operand is not a constant matrix".to_owned()),
    }
}

/// The Add of a constant along the last axis that alone reads a MatMul: the node and the constant.
fn added_bias(graph: &Graph, uses: &Uses, node: &Node) -> Option<(usize, ValueId)> {
    let out = node.outputs[0];
    let index = uses.only_reader(out).filter(|_| node.op == "MatMul")?;
    let add = &graph.nodes[index];
    let other = other_operand(add, out).filter(|_| add.op == "Add" && add.domain.is_empty())?;
    let bias = graph.constant(other).filter(|t| t.dtype() == DataType::F32)?;
    let columns = graph.ty(out).shape.0.last()?.known()?;
    let along_last = bias.elements() == columns && bias.shape().last() == Some(&columns);
    (along_last && bias.shape().len() <= graph.ty(out).shape.rank()).then_some((index, other))
}

struct Writer<'a> {
    source: &'a Graph,
    builder: Builder,
}

impl Writer<'_> {
    fn product(&mut self, node: &Node, recipe: &Recipe, added: Option<(usize, ValueId)>) -> Result<()> {
        let (Some(x), Some(w)) = (node.input(0), node.input(1)) else { return Ok(()) };
        let (matrix, columns) = self.weight_matrix(node, w)?;
        let choice = recipe.for_node(&node.name).weights;
        if choice.dtype != DataType::S8 {
            return Err(Error::Unsupported {
                what: format!("dynamic quantization of node `{}` with {} weights", node.name, choice.dtype),
                reason: "rows are multiplied as s8 by s8".to_owned(),
                help: "take S8 weights, or store them in blocks (granularity Blocked)".to_owned(),
            });
        }
        let per_channel = choice.granularity == Granularity::PerChannel;
        let channels = if per_channel { columns } else { 1 };
        let inner = if per_channel { 1 } else { matrix.len() };
        let grid = choice.grid();
        let name = self.source.name_of(w).to_owned();
        let layout = ChannelLayout { channels, inner };
        let q = quantize_weights(&name, &matrix, layout, grid, WeightMethod::MinMax)?;
        let codes = code_tensor(DataType::S8, &[matrix.len() / columns, columns], &q.codes).map_err(internal)?;
        let codes = self.builder.constant(format!("{name}/q"), codes);
        let scales = Tensor::from_slice(&[channels], &q.scales).map_err(internal)?;
        let scales = self.builder.constant(format!("{name}/scale"), scales);
        let mut inputs = vec![x, codes, scales];
        if let Some(bias) = added.map(|(_, bias)| bias).or(node.input(2)) {
            let values = bias_values(self.source, bias, columns)?;
            let bias = Tensor::from_slice(&[columns], &values).map_err(internal)?;
            inputs.push(self.builder.constant(format!("{}/bias", node.name), bias));
        }
        let out = added.map_or(node.outputs[0], |(add, _)| self.source.nodes[add].outputs[0]);
        let product = self.builder.node_into("DynamicMatMul", &node.name, &inputs, out);
        product.domain = OTTAVA.into();
        product.version = 1;
        Ok(())
    }

    /// The weights as a matrix with one output per column.
    fn weight_matrix(&self, node: &Node, w: ValueId) -> Result<(Vec<f32>, usize)> {
        let shape = WeightShape::of(self.source, node);
        let data = self.source.constant(w).and_then(|t| t.to_f32s().ok().zip(Some(t.shape().to_vec())));
        let (Some(shape), Some((data, dims))) = (shape, data) else {
            let tensor = self.source.name_of(w).to_owned();
            return Err(Error::BadWeights {
                tensor,
                found: "no float matrix".into(),
                expected: "a float matrix".into(),
            });
        };
        let columns = shape.out_channels;
        if shape.axis == 1 {
            return Ok((data, columns));
        }
        let inner = dims[1];
        let transposed = (0..data.len()).map(|idx| data[(idx % columns) * inner + idx / columns]).collect();
        Ok((transposed, columns))
    }
}
