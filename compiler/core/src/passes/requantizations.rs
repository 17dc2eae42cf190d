//! How often a graph brings integers from one scale to another without computing anything with them.

use super::rules::{is, is_ottava, moves_integers};
use ottava_graph::{Graph, Uses};
use ottava_hal::{Node, ValueId};

/// Counts them, in any phase: Requantize nodes, Quantize directly behind Dequantize, and inputs of a Concat or of another
/// operator that only moves elements whose parameters are not those of its output.
pub fn count_requantizations(graph: &Graph) -> usize {
    let uses = Uses::of(graph);
    graph.nodes.iter().map(|node| of_node(graph, &uses, node)).sum()
}

fn of_node(graph: &Graph, uses: &Uses, node: &Node) -> usize {
    let quantizes = is(node, "QuantizeLinear") || is_ottava(node, "Quantize");
    let is_dequantized = |id: ValueId| {
        let producer = uses.producer(id).map(|i| &graph.nodes[i]);
        let dequantize = producer.filter(|n| is(n, "DequantizeLinear") || is_ottava(n, "Dequantize"));
        dequantize.and_then(|n| n.input(0)).is_some_and(|q| graph.constant(q).is_none())
    };
    match node.input(0) {
        _ if is_ottava(node, "Requantize") => 1,
        Some(x) if quantizes && is_dequantized(x) => 1,
        _ if is(node, "Concat") => of_mover(graph, node, node.inputs.len()),
        _ if moves_integers(node) => of_mover(graph, node, 1),
        _ => 0,
    }
}

fn of_mover(graph: &Graph, node: &Node, n_data: usize) -> usize {
    let Some(to) = node.outputs.first().map(|out| graph.ty(*out)).filter(|ty| ty.quant.is_some()) else { return 0 };
    let differs = |id: &&ValueId| graph.ty(**id).dtype != to.dtype || graph.ty(**id).quant != to.quant;
    node.inputs.iter().take(n_data).flatten().filter(differs).count()
}
