//! Masks as transformers are written with them, found in a graph.
//!
//! A file says "this element does not count" with numbers: attention adds 0 or a very negative number to the scores before
//! Softmax, pooling multiplies by 0 or 1, sums, and divides by the sum of the mask. In integers such a number would spoil
//! the range of everything beside it; what is meant is one bit per element ([`Flag`]). The quantizer and the compiler look
//! for the same forms here.
//!
//! An integer mask is read as zero or not: that is what it says wherever its values are 0 and 1.

use crate::{Graph, Uses};
use ottava_hal::{DataType, Node, ValueId};

/// A number that excludes whatever it is added to before Softmax (numerics.md section 4).
const EXCLUDES: f32 = -1e4;
/// Nodes that a mask may be computed by.
const MAX_DEPTH: usize = 8;

/// One bit per element: whether a boolean or integer value is not zero, or the opposite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// The boolean or integer value.
    pub value: ValueId,
    /// Zero means yes.
    pub inverted: bool,
}

/// A Softmax over scores to which a mask is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedSoftmax {
    /// The Add before the Softmax.
    pub add: usize,
    /// The input of the Add that holds the scores.
    pub slot: usize,
    /// What counts.
    pub keep: Flag,
    /// Nodes that compute the mask out of the flag.
    pub mask_nodes: Vec<usize>,
}

/// A mean over the elements that count: the quotient of a masked sum and the sum of the mask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedMean {
    /// The Mul by the mask.
    pub mul: usize,
    /// The input of the Mul that holds the data.
    pub slot: usize,
    /// The ReduceSum behind the Mul.
    pub sum: usize,
    /// Axis of the mean, not negative.
    pub axis: usize,
    /// Whether the axis is kept with extent 1.
    pub keepdims: bool,
    /// What counts.
    pub keep: Flag,
    /// Nodes that compute the mask and the divisor.
    pub mask_nodes: Vec<usize>,
}

/// The masked form of the Softmax at `index`, if it has one.
pub fn masked_softmax(graph: &Graph, uses: &Uses, index: usize) -> Option<MaskedSoftmax> {
    let softmax = is(&graph.nodes[index], "Softmax")?;
    let x = softmax.input(0)?;
    let add = uses.producer(x).filter(|_| uses.only_reader(x) == Some(index))?;
    let node = is(&graph.nodes[add], "Add")?;
    [(0, 1), (1, 0)].into_iter().find_map(|(slot, other)| {
        let mut mask_nodes = Vec::new();
        let keep = additive(graph, uses, node.input(other)?, &mut mask_nodes)?;
        let same_shape = graph.ty(node.input(slot)?).shape == graph.ty(x).shape;
        same_shape.then_some(MaskedSoftmax { add, slot, keep, mask_nodes })
    })
}

/// The masked mean whose quotient the Div at `index` computes, if it does.
pub fn masked_mean(graph: &Graph, uses: &Uses, index: usize) -> Option<MaskedMean> {
    let div = is(&graph.nodes[index], "Div")?;
    let (sum_value, count_value) = (div.input(0)?, div.input(1)?);
    let sum = uses.producer(sum_value).filter(|_| uses.only_reader(sum_value) == Some(index))?;
    let (product, axis, keepdims) = sum_of(graph, sum)?;
    let mul = uses.producer(product).filter(|_| uses.only_reader(product) == Some(sum))?;
    let node = is(&graph.nodes[mul], "Mul")?;
    let mut mask_nodes = Vec::new();
    let counted = counted(graph, uses, count_value, &mut mask_nodes)?;
    let count = uses.producer(counted)?;
    let (mask, count_axis, count_keeps) = sum_of(graph, count)?;
    mask_nodes.push(count);
    let slot = [0, 1].into_iter().find(|slot| node.input(1 - slot) == Some(mask))?;
    let x = node.input(slot)?;
    let fits = count_axis == axis && count_keeps == keepdims && graph.ty(product).shape == graph.ty(x).shape;
    let same_rank = graph.ty(mask).shape.rank() == graph.ty(x).shape.rank();
    let keep = indicator(graph, uses, mask, &mut mask_nodes).filter(|_| fits && same_rank)?;
    Some(MaskedMean { mul, slot, sum, axis, keepdims, keep, mask_nodes })
}

fn is<'g>(node: &'g Node, op: &str) -> Option<&'g Node> {
    (node.domain.is_empty() && node.op == op && node.fused == Default::default()).then_some(node)
}

fn scalar(graph: &Graph, id: ValueId) -> Option<f32> {
    let data = graph.constant(id).filter(|t| t.dtype().is_float() && t.elements() == 1)?;
    data.to_f32s().ok()?.first().copied()
}

/// What a ReduceSum over one axis sums, the axis, and whether the axis is kept.
fn sum_of(graph: &Graph, index: usize) -> Option<(ValueId, usize, bool)> {
    let node = is(&graph.nodes[index], "ReduceSum")?;
    let x = node.input(0)?;
    let axes = match node.input(1) {
        Some(id) => graph.constant(id)?.to_ints().ok()?,
        None => node.attrs.ints_opt("axes").ok()??.to_vec(),
    };
    let [axis] = axes[..] else { return None };
    let rank = i64::try_from(graph.ty(x).shape.rank()).ok()?;
    let axis = if axis < 0 { axis.checked_add(rank)? } else { axis };
    let axis = usize::try_from(axis).ok().filter(|a| (*a as i64) < rank)?;
    Some((x, axis, node.attrs.int("keepdims", 1).ok()? != 0))
}

/// The sum of a mask behind the bound that keeps it off zero: a constant above 0 and at most 1.
fn counted(graph: &Graph, uses: &Uses, id: ValueId, nodes: &mut Vec<usize>) -> Option<ValueId> {
    let index = uses.producer(id)?;
    let node = &graph.nodes[index];
    let tiny = |id: Option<ValueId>| id.and_then(|id| scalar(graph, id)).is_some_and(|v| v > 0.0 && v <= 1.0);
    let inner = match node.op.as_str() {
        _ if !node.domain.is_empty() || node.fused != Default::default() => return None,
        "Clip" if tiny(node.input(1)) && node.input(2).is_none() => node.input(0)?,
        "Max" if node.inputs.len() == 2 && tiny(node.input(1)) => node.input(0)?,
        "Max" if node.inputs.len() == 2 && tiny(node.input(0)) => node.input(1)?,
        "ReduceSum" => return Some(id),
        _ => return None,
    };
    nodes.push(index);
    Some(inner)
}

/// The flag behind a mask of zeros and very negative numbers.
fn additive(graph: &Graph, uses: &Uses, id: ValueId, nodes: &mut Vec<usize>) -> Option<Flag> {
    let index = uses.producer(id)?;
    let node = &graph.nodes[index];
    if !node.domain.is_empty() {
        return None;
    }
    let excludes = |v: f32| v <= EXCLUDES;
    let keep = match node.op.as_str() {
        "Mul" => [(0, 1), (1, 0)].into_iter().find_map(|(flag, factor)| {
            scalar(graph, node.input(factor)?).filter(|v| excludes(*v))?;
            let masked = indicator(graph, uses, node.input(flag)?, nodes)?;
            Some(Flag { inverted: !masked.inverted, ..masked })
        })?,
        "Where" => {
            let value = node.input(0)?;
            match (scalar(graph, node.input(1)?)?, scalar(graph, node.input(2)?)?) {
                (yes, no) if excludes(yes) && no == 0.0 => Flag { value, inverted: true },
                (yes, no) if yes == 0.0 && excludes(no) => Flag { value, inverted: false },
                _ => return None,
            }
        }
        _ => return None,
    };
    nodes.push(index);
    Some(keep)
}

/// The flag behind a float that is 0 or 1.
fn indicator(graph: &Graph, uses: &Uses, id: ValueId, nodes: &mut Vec<usize>) -> Option<Flag> {
    let (mut id, mut inverted) = (id, false);
    for _ in 0..MAX_DEPTH {
        let index = uses.producer(id)?;
        let node = &graph.nodes[index];
        if !node.domain.is_empty() {
            return None;
        }
        nodes.push(index);
        match node.op.as_str() {
            "Cast" => {
                let source = node.input(0)?;
                let dtype = graph.ty(source).dtype;
                let whole = dtype == DataType::Bool || dtype.is_integer();
                if whole && graph.ty(source).quant.is_none() {
                    let value = unexpanded(graph, uses, source, nodes);
                    return Some(Flag { value, inverted });
                }
                id = Some(source).filter(|_| dtype.is_float())?;
            }
            "Sub" if scalar(graph, node.input(0)?) == Some(1.0) => {
                inverted = !inverted;
                id = node.input(1)?;
            }
            _ => return None,
        }
    }
    None
}

/// What an Expand repeats: a flag repeats by itself.
fn unexpanded(graph: &Graph, uses: &Uses, id: ValueId, nodes: &mut Vec<usize>) -> ValueId {
    let source = || {
        let index = uses.producer(id)?;
        let node = is(&graph.nodes[index], "Expand")?;
        let source = node.input(0)?;
        let same_rank = graph.ty(source).shape.rank() == graph.ty(id).shape.rank();
        same_rank.then_some((index, source))
    };
    match source() {
        Some((index, source)) => {
            nodes.push(index);
            source
        }
        None => id,
    }
}
