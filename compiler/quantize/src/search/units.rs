//! The tensors whose precision can be chosen, and what each choice costs.

use std::collections::BTreeMap;

use ottava_graph::Graph;
use ottava_hal::{Node, ValueId};

use crate::apply::{Placement, quantize_alone};
use crate::calibration::Calibration;
use crate::corrections::Learned;
use crate::error::Result;
use crate::recipe::Recipe;

/// A tensor with its copies under movers, and the nodes that must stay in float so that it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unit {
    /// Name of the tensor: the first value of those that share its parameters.
    pub value: String,
    /// The integer operator that decides how it is stored, if one computes it.
    pub writer: Option<String>,
    /// Names of the nodes that read it, in the graph's order.
    pub nodes: Vec<String>,
    /// Multiply-accumulates of these nodes.
    pub macs: u64,
    /// Elements of the tensor, where its shape is known.
    pub elements: u64,
}

/// The tensors that the recipe quantizes, in the graph's order. `dims` binds symbolic dimensions for the counts.
pub fn units(
    graph: &Graph,
    calibration: &Calibration,
    recipe: &Recipe,
    dims: &BTreeMap<String, usize>,
) -> Result<Vec<Unit>> {
    let placement = Placement::new(graph, calibration, recipe)?;
    let bound = bound(graph, dims);
    let mut found: BTreeMap<usize, Unit> = BTreeMap::new();
    for id in (0..graph.values.len()).map(ValueId) {
        let Some(root) = placement.group(graph, id) else { continue };
        let unit = found.entry(root).or_insert_with(|| Unit {
            value: graph.name_of(id).to_owned(),
            writer: placement.writer(id).map(|idx| graph.nodes[idx].name.clone()),
            nodes: Vec::new(),
            macs: 0,
            elements: bound.ty(id).shape.elements().unwrap_or(0) as u64,
        });
        for idx in placement.readers(graph, id) {
            let name = &graph.nodes[idx].name;
            if !unit.nodes.contains(name) {
                unit.nodes.push(name.clone());
                unit.macs = unit.macs.saturating_add(macs(&bound, &bound.nodes[idx]));
            }
        }
    }
    Ok(found.into_values().filter(|unit| !unit.nodes.is_empty()).collect())
}

/// The float graph with one unit alone in the recipe's integers: its values, and the weights of the products that read it.
pub fn alone(
    graph: &Graph,
    calibration: &Calibration,
    recipe: &Recipe,
    learned: &Learned,
    unit: &Unit,
) -> Result<Graph> {
    match graph.find_value(&unit.value) {
        Some(value) => quantize_alone(graph, calibration, recipe, learned, value),
        None => Ok(graph.clone()),
    }
}

/// Multiply-accumulates of every node by name, with symbolic dimensions bound by `dims`, others to 1.
pub fn node_macs(graph: &Graph, dims: &BTreeMap<String, usize>) -> BTreeMap<String, u64> {
    let bound = bound(graph, dims);
    bound.nodes.iter().map(|node| (node.name.clone(), macs(&bound, node))).collect()
}

/// Binding leaves the order of nodes and values alone.
fn bound(graph: &Graph, dims: &BTreeMap<String, usize>) -> Graph {
    ottava_graph::bind(graph, dims, 1).unwrap_or_else(|_| graph.clone())
}

fn macs(graph: &Graph, node: &Node) -> u64 {
    let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|id| graph.ty(id))).collect();
    let outputs: Vec<_> = node.outputs.iter().map(|id| graph.ty(*id)).collect();
    let known = inputs.iter().flatten().chain(&outputs).all(|ty| ty.shape.elements().is_some());
    if !known {
        return 0;
    }
    ottava_ops::lookup(&node.domain, &node.op).map_or(0, |op| op.macs(node, &inputs, &outputs))
}
