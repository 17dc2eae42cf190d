//! What a quantized network's file can go without, because a neighbour or the format already says it. Every runtime
//! computes the same numbers without it.

use ottava_graph::{Graph, Uses, ValueId};
use ottava_hal::{DataType, Node};
use std::collections::BTreeSet;

/// Drops each Relu and Clip that only a QuantizeLinear reads which saturates at the same ends or before: rounding keeps
/// order, so what the clamp would move lands on the same integer.
pub(super) fn drop_clamps(graph: &mut Graph) {
    let uses = Uses::of(graph);
    let mut dropped = BTreeSet::new();
    for idx in 0..graph.nodes.len() {
        let Some((quantize, x)) = implied_clamp(graph, &uses, idx) else { continue };
        graph.nodes[quantize].inputs[0] = Some(x);
        dropped.insert(idx);
    }
    remove(graph, &dropped);
}

/// The QuantizeLinear behind a clamp that it makes superfluous, and what the clamp reads.
fn implied_clamp(graph: &Graph, uses: &Uses, idx: usize) -> Option<(usize, ValueId)> {
    let node = &graph.nodes[idx];
    let (lo, hi) = bounds(graph, node)?;
    let reader = uses.only_reader(*node.outputs.first()?)?;
    let quantize = &graph.nodes[reader];
    let (scale, zero, (qmin, qmax)) = parameters(graph, quantize)?;
    let code = |bound: f32| f64::from((bound / scale).round_ties_even()) + zero as f64;
    let implied = code(lo) <= qmin as f64 && code(hi) >= qmax as f64;
    implied.then_some((reader, node.input(0)?))
}

/// The ends of a Relu, or of a Clip with constant bounds.
fn bounds(graph: &Graph, node: &Node) -> Option<(f32, f32)> {
    let bound = |slot: usize, absent: f32| match node.input(slot) {
        Some(id) => graph.constant(id)?.to_f32s().ok()?.first().copied(),
        None => Some(absent),
    };
    match node.op.as_str() {
        _ if !node.domain.is_empty() => None,
        "Relu" => Some((0.0, f32::INFINITY)),
        "Clip" => Some((bound(1, f32::NEG_INFINITY)?, bound(2, f32::INFINITY)?)),
        _ => None,
    }
}

/// Scale, zero point and ends of a QuantizeLinear with one scale.
fn parameters(graph: &Graph, node: &Node) -> Option<(f32, i64, (i64, i64))> {
    let out = graph.ty(*node.outputs.first().filter(|_| node.op == "QuantizeLinear")?).dtype;
    let ends = match out {
        DataType::U8 => (0, 255),
        DataType::S8 => (-128, 127),
        DataType::U16 => (0, 65535),
        DataType::S16 => (-32768, 32767),
        _ => return None,
    };
    let scale = graph.constant(node.input(1)?).filter(|scale| scale.elements() == 1)?;
    let zero = match node.input(2) {
        Some(id) => *graph.constant(id)?.to_ints().ok()?.first()?,
        None => 0,
    };
    Some((*scale.to_f32s().ok()?.first()?, zero, ends))
}

/// Drops attributes that say what the format assumes without them.
pub(super) fn drop_attributes(graph: &mut Graph) {
    for idx in 0..graph.nodes.len() {
        let node = &graph.nodes[idx];
        let weights = node.input(1).map_or(0, |w| graph.ty(w).shape.rank());
        let rank = node.input(0).map_or(0, |x| graph.ty(x).shape.rank());
        let attribute = match node.op.as_str() {
            _ if !node.domain.is_empty() => continue,
            // The shape of the weights says it.
            "Conv" if weights > 2 => "kernel_shape",
            "Softmax" if node.version >= 13 && node.attrs.int("axis", -1).is_ok_and(|a| a + 1 == rank as i64) => "axis",
            _ => continue,
        };
        graph.nodes[idx].attrs.0.remove(attribute);
    }
}

fn remove(graph: &mut Graph, dropped: &BTreeSet<usize>) {
    let mut idx = 0..;
    graph.nodes.retain(|_| idx.next().is_none_or(|idx| !dropped.contains(&idx)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{Attr, Attrs, Tensor, TensorType};

    /// `x -> op -> QuantizeLinear -> DequantizeLinear`, the operator with these constants behind its data.
    fn network(op: &str, constants: &[f32], (scale, zero): (f32, u8)) -> Graph {
        let mut graph = Graph::new("g");
        let x = graph.add_input("x", TensorType::fixed(DataType::F32, &[1, 4]));
        let scale = graph.add_const("scale", Tensor::scalar(scale));
        let zero = graph.add_const("zero", Tensor::scalar(zero));
        let mut at = x;
        for (op, dtype) in [(op, DataType::F32), ("QuantizeLinear", DataType::U8), ("DequantizeLinear", DataType::F32)]
        {
            let mut node = Node::new(op, op, 13);
            node.inputs = vec![Some(at)];
            match op {
                "QuantizeLinear" | "DequantizeLinear" => node.inputs.extend([Some(scale), Some(zero)]),
                _ => {
                    let add = |(i, &c): (usize, &f32)| Some(graph.add_const(format!("c{i}"), Tensor::scalar(c)));
                    node.inputs.extend(constants.iter().enumerate().map(add).collect::<Vec<_>>());
                }
            }
            at = graph.add_value(format!("{op}:0"), TensorType::fixed(dtype, &[1, 4]));
            node.outputs = vec![at];
            graph.nodes.push(node);
        }
        graph.outputs = vec![at];
        graph
    }

    fn ops(graph: &Graph) -> Vec<&str> {
        graph.nodes.iter().map(|node| node.op.as_str()).collect()
    }

    #[test]
    fn a_clamp_goes_where_quantization_saturates_no_later() {
        let left = |op: &str, constants: &[f32], parameters: (f32, u8)| {
            let mut graph = network(op, constants, parameters);
            drop_clamps(&mut graph);
            ottava_graph::verify(&graph).expect("a graph");
            ops(&graph).contains(&op)
        };
        assert!(!left("Relu", &[], (0.1, 0)));
        assert!(left("Relu", &[], (0.1, 1)));
        assert!(!left("Clip", &[0.0, 6.0], (6.0 / 255.0, 0)));
        assert!(!left("Clip", &[0.0, 6.0], (0.02, 0)));
        assert!(left("Clip", &[0.0, 6.0], (0.03, 0)));
        assert!(!left("Clip", &[-1.0, 1.55], (0.01, 100)));
    }

    #[test]
    fn attributes_that_are_assumed_go() {
        let mut graph = network("Softmax", &[], (0.1, 0));
        graph.nodes[0].attrs = Attrs::default().with("axis", Attr::Int(1));
        drop_attributes(&mut graph);
        assert!(graph.nodes[0].attrs.0.is_empty());
        graph.nodes[0].attrs = Attrs::default().with("axis", Attr::Int(0));
        drop_attributes(&mut graph);
        assert!(graph.nodes[0].attrs.get("axis").is_some());
    }
}
