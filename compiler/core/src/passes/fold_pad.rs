//! A Pad in front of Conv, AveragePool or MaxPool becomes pads of that operator.
//!
//! Legal where the added elements are what the operator's own pads mean: zeros for Conv, zeros that are counted for
//! AveragePool (`count_include_pad`, which the fold sets where the pool had no pads of its own), minus infinity for
//! MaxPool. No bit changes: a zero that is added to a sum changes nothing, weights that are no numbers apart.

use super::pattern::{View, is_plain};
use super::rules::{const_scalar, is, is_any};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{Node, ValueId};

/// What the pass does.
pub const ABOUT: About = About { what: "Pads went into the windows behind them", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fold_pad", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    if !is_any(node, &["Conv", "AveragePool", "MaxPool"]) || node.outputs.len() != 1 || !is_plain(node) {
        return Ok(None);
    }
    let Some(padded) = node.input(0).filter(|x| view.is_f32(*x)) else { return Ok(None) };
    let Some((pad_index, pad)) = view.op(padded, "Pad") else { return Ok(None) };
    let (Some(x), Some(added)) = (pad.input(0), spatial_pads(graph, pad, padded)?) else { return Ok(None) };
    let own = node.attrs.ints_opt("pads")?.map_or_else(|| vec![0; added.len()], <[i64]>::to_vec);
    if !takes_value(graph, node, pad, &own)? || own.len() != added.len() || !weights_are_numbers(graph, node)? {
        return Ok(None);
    }
    let sum: Option<Vec<i64>> = own.iter().zip(&added).map(|(a, b)| a.checked_add(*b)).collect();
    let Some(pads) = sum.filter(|p| p.iter().all(|v| *v >= 0)) else { return Ok(None) };
    let mut fused = node.clone();
    fused.inputs[0] = Some(x);
    fused.attrs.set("pads", Attr::Ints(pads));
    if is(node, "AveragePool") {
        fused.attrs.set("count_include_pad", Attr::Int(1));
    }
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    // Other readers keep the Pad.
    if uses.only_reader(padded) == Some(index) {
        patch.remove.push(pad_index);
    }
    patch.insert.push(fused);
    Ok(Some(patch))
}

/// The constant pads of a Pad over the axes of a window, begins first; `None` where others are padded or one is cut.
fn spatial_pads(graph: &Graph, pad: &Node, padded: ValueId) -> Result<Option<Vec<i64>>> {
    let rank = graph.ty(padded).shape.rank();
    let constant = pad.attrs.str("mode", "constant")? == "constant" && pad.input(3).is_none();
    let Some(pads) = pad.input(1).and_then(|id| graph.constant(id)).filter(|_| constant) else { return Ok(None) };
    let pads = pads.to_ints()?;
    if rank < 3 || pads.len() != 2 * rank || pads.iter().any(|p| *p < 0) {
        return Ok(None);
    }
    let outside = [pads[0], pads[1], pads[rank], pads[rank + 1]];
    let inside = pads[2..rank].iter().chain(&pads[rank + 2..]).copied().collect();
    Ok((outside == [0; 4]).then_some(inside))
}

/// Whether the operator's own pads mean the value that the Pad adds.
fn takes_value(graph: &Graph, node: &Node, pad: &Node, own: &[i64]) -> Result<bool> {
    let value = match pad.input(2) {
        Some(id) => const_scalar(graph, id),
        None => Some(0.0),
    };
    let explicit = node.attrs.str("auto_pad", "NOTSET")? == "NOTSET";
    let floors = node.attrs.int("ceil_mode", 0)? == 0;
    Ok(explicit
        && match node.op.as_str() {
            "Conv" => value == Some(0.0),
            "MaxPool" => value == Some(f32::NEG_INFINITY) && floors,
            _ => {
                let counts = node.attrs.int("count_include_pad", 0)? != 0 || own.iter().all(|p| *p == 0);
                value == Some(0.0) && floors && counts
            }
        })
}

/// Zero times infinity would be no zero.
fn weights_are_numbers(graph: &Graph, node: &Node) -> Result<bool> {
    if !is(node, "Conv") {
        return Ok(true);
    }
    match node.input(1).and_then(|id| graph.constant(id)) {
        Some(w) => Ok(w.to_f32s()?.iter().all(|v| v.is_finite())),
        // Computed or dequantized weights are finite numbers where the network works at all.
        None => Ok(true),
    }
}
