//! What a recipe asks of the devices beyond 8 bits with one scale, and what becomes of it where they lack it.
//!
//! | asked | where no chosen device has it |
//! |---|---|
//! | a scale per output channel | one scale for the tensor, with a warning |
//! | 4-bit weights | 8-bit weights, with a warning |
//! | 16-bit activations, the requantization `fp32_rne` | the reference computes them, with a warning ([`crate::storage`]) |
//! | f16 or bf16 activations | an error |
//!
//! With `strict`, and where the configuration has no fallback, each of these is an error that names operator and device.
//! The answers are the devices' own rows. u8 and s8 turn into each other, so either counts as 8 bits.

use crate::error::{Error, Result, codes};
use crate::storage::Devices;
use ottava_graph::{Diagnostic, Graph};
use ottava_hal::capability::{Operand, QuantKind};
use ottava_hal::{DataType, Node, OpRow};
use ottava_quantize::recipe::{ActivationRule, Granularity, WeightRule, Weights};
use ottava_quantize::{Recipe, has_no_block};
use std::collections::BTreeMap;

/// Operators with weights.
const PRODUCTS: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// What a node's weights are to be instead.
type Change = (DataType, Granularity);

impl Devices {
    /// The recipe with weights that one of the devices has, and what was changed. An operator that none of them knows as
    /// an integer one is left: what it is stored in does not matter to them.
    pub(crate) fn adapt(&self, graph: &Graph, recipe: &Recipe, strict: bool) -> Result<(Recipe, Vec<Diagnostic>)> {
        let mut changes: BTreeMap<(String, &'static str), Vec<(String, Change)>> = BTreeMap::new();
        for node in graph.nodes.iter().filter(|node| is_product(graph, node)) {
            let mut wanted = recipe.for_node(&node.name).weights;
            // It becomes an integer operator with a scale per channel.
            if has_no_block(graph, recipe, node) {
                wanted.granularity = Granularity::PerChannel;
            }
            let is_integer = recipe.integers(&node.name).is_some();
            let Some((lacks, change)) = self.instead(node, wanted).filter(|_| is_integer) else { continue };
            changes.entry((node.op.clone(), lacks)).or_default().push((node.name.clone(), change));
        }
        let mut adapted = recipe.clone();
        let mut said = Vec::new();
        for ((op, lacks), nodes) in changes {
            let text = format!("{op} with {lacks} ({} nodes): {}", nodes.len(), none_has_it(&self.ids()));
            if strict {
                return Err(Error::unsupported(codes::QUANTIZE, text).help("quantize without `strict`, or take others"));
            }
            let instead = format!("{text}; {}", describe(nodes[0].1));
            said.push(Diagnostic::warning(codes::STORAGE, "", instead).with_help("name a device that has it"));
            for (name, (dtype, granularity)) in nodes {
                let (dtype, granularity) = (Some(dtype), Some(granularity));
                adapted.change_weights(&name, WeightRule { dtype, granularity, observer: None, zero_point: None });
            }
        }
        Ok((adapted, said))
    }

    /// What the weights of a node become, and what the devices lack; `None` where they have what is wanted, or nothing
    /// that is near it.
    fn instead(&self, node: &Node, wanted: Weights) -> Option<(&'static str, Change)> {
        if matches!(wanted.granularity, Granularity::Blocked(_)) {
            return None;
        }
        let per_channel = wanted.granularity == Granularity::PerChannel;
        let has = |dtype, per_channel| self.has_weights(node, dtype, per_channel);
        if has(wanted.dtype, per_channel) {
            return None;
        }
        let four = matches!(wanted.dtype, DataType::S4 | DataType::U4);
        let lacks = if four { "4-bit weights" } else { "a weight scale per channel" };
        let eight = if four { DataType::S8 } else { wanted.dtype };
        let candidates =
            [(eight, wanted.granularity), (wanted.dtype, Granularity::PerTensor), (eight, Granularity::PerTensor)];
        let fits = |(dtype, granularity): &Change| has(*dtype, *granularity == Granularity::PerChannel);
        candidates.into_iter().find(fits).map(|change| (lacks, change))
    }

    /// Whether one of the devices multiplies 8-bit activations with such weights.
    fn has_weights(&self, node: &Node, dtype: DataType, per_channel: bool) -> bool {
        let kind = if per_channel { QuantKind::PerAxis } else { QuantKind::PerTensor };
        self.rows_of(node).any(|row| {
            let weights = row.inputs.get(1).or(row.inputs.last());
            let has_kind = |o: &Operand| o.quant.is_empty() || o.quant.contains(&kind);
            row.inputs.first().is_some_and(is_byte) && weights.is_some_and(|w| has_dtype(w, dtype) && has_kind(w))
        })
    }

    /// Whether one of the devices has the operator with a requantization.
    pub(crate) fn has_mode(&self, node: &Node, mode: ottava_hal::RequantMode) -> bool {
        self.rows_of(node).any(|row| row.requant.contains(&mode))
    }

    /// Whether an operator that one of the devices knows lacks the requantization of quantized files.
    pub(crate) fn lacks_a_mode(&self, graph: &Graph) -> bool {
        let mode = ottava_hal::RequantMode::Fp32Rne;
        graph.nodes.iter().any(|node| self.rows_of(node).next().is_some() && !self.has_mode(node, mode))
    }

    fn rows_of<'a>(&'a self, node: &'a Node) -> impl Iterator<Item = &'a OpRow> {
        self.rows().filter(|row| row.op == node.op && row.domain == node.domain)
    }
}

/// Whether a recipe wants floats of 16 bits anywhere.
pub(crate) fn wants_halves(recipe: &Recipe) -> bool {
    let of_rules = recipe.nodes.iter().filter_map(|rule| match rule.activations {
        Some(ActivationRule::Change { dtype, .. }) => dtype,
        _ => None,
    });
    std::iter::once(recipe.activations.dtype).chain(of_rules).any(|t| is_half(&t))
}

/// Whether a type is a float of 16 bits.
pub(crate) fn is_half(dtype: &DataType) -> bool {
    matches!(dtype, DataType::F16 | DataType::BF16)
}

/// "no device but the fallback: `npu` does not know it".
pub(crate) fn none_has_it(ids: &[String]) -> String {
    match ids {
        [id] => format!("no device but the fallback: {id} does not know it"),
        _ => format!("no device but the fallback: {} do not know it", ids.join(", ")),
    }
}

fn is_product(graph: &Graph, node: &Node) -> bool {
    let constant = node.input(1).is_some_and(|w| graph.constant(w).is_some());
    node.domain.is_empty() && PRODUCTS.contains(&node.op.as_str()) && constant
}

fn is_byte(operand: &Operand) -> bool {
    has_dtype(operand, DataType::U8)
}

/// Either 8-bit type stands for both.
fn has_dtype(operand: &Operand, dtype: DataType) -> bool {
    let same = |t: &DataType| *t == dtype || t.bits() == 8 && dtype.bits() == 8;
    operand.dtypes.is_empty() || operand.dtypes.iter().any(same)
}

fn describe((dtype, granularity): Change) -> String {
    let scales = if granularity == Granularity::PerTensor { "with one scale" } else { "with a scale per channel" };
    format!("its weights are {dtype} {scales} instead")
}
