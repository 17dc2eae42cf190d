//! Fewer requantizations: what brings bytes from one scale to another is joined with what stands beside it, where no
//! integer of any result changes.
//!
//! * A requantization to the parameters that are there already goes; of two equal ones of one value, one stays.
//! * Two that follow each other become the second one alone, if that gives the same integer for every integer that the
//!   first one can be given; otherwise, between bytes, one table.
//! * One beside a table goes into the table; so do two tables of one byte.
//! * In front of a Concat it goes: a Concat brings every input to its own parameters by the same formula (numerics.md,
//!   section 4).
//!
//! Equality is not argued but tried: both ways are evaluated for each of the 256 or 65536 integers.

use super::rules::{fresh, is, is_ottava, made_by, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Fused, Node, QuantParams, RequantMode, Tensor, TensorType, ValueId};
use ottava_ops::{EvalCx, OTTAVA, evaluate};

/// What the pass does.
pub const ABOUT: About = About {
    what: "requantizations were joined with each other, with tables and with concatenations",
    effect: Effect::Exact,
};

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "join_requantizations", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let node = &graph.nodes[index];
    if is(node, "Concat") {
        return Ok(concat(graph, uses, index));
    }
    if !is_step(graph, node) {
        return Ok(None);
    }
    if let Some(patch) = needless(graph, uses, index) {
        return Ok(Some(patch));
    }
    let Some((first_index, first)) = node.input(0).and_then(|x| step_before(graph, uses, x)) else { return Ok(None) };
    let Some(all) = all_integers(graph, first)? else { return Ok(None) };
    let both = apply(graph, node, &apply(graph, first, &all)?)?;
    let alone = uses.only_reader(first.outputs[0]) == Some(index);
    if is_ottava(node, "Requantize") && is_ottava(first, "Requantize") {
        let mut direct = node.clone();
        direct.inputs[0] = first.inputs[0];
        if apply(graph, &direct, &all)?.bytes() == both.bytes() {
            return Ok(Some(replaced(graph, index, direct)));
        }
    }
    // A table takes the place of both; where others read what lies between, there would be two tables.
    let is_table = all.elements() == 256 && both.dtype().bits() == 8;
    Ok((alone && is_table).then(|| table(graph, (first_index, index), both)))
}

/// Requantize and Lut of one scale: functions of one integer.
fn is_step(graph: &Graph, node: &Node) -> bool {
    let one_scale = |id: &ValueId| graph.ty(*id).quant.as_deref().and_then(QuantParams::as_per_tensor).is_some();
    let ids = node.inputs.iter().take(1).flatten().chain(&node.outputs);
    let constant_table = !is_ottava(node, "Lut") || node.input(1).is_some_and(|t| graph.constant(t).is_some());
    (is_ottava(node, "Requantize") || is_ottava(node, "Lut")) && constant_table && ids.into_iter().all(one_scale)
}

/// The step that computes a value.
fn step_before<'g>(graph: &'g Graph, uses: &Uses, id: ValueId) -> Option<(usize, &'g Node)> {
    let found = made_by(graph, uses, id, "Requantize").or_else(|| made_by(graph, uses, id, "Lut"))?;
    is_step(graph, found.1).then_some(found)
}

/// A requantization that changes nothing, or that another one of the same value has done.
fn needless(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let (x, out) = (node.input(0)?, node.outputs[0]);
    let twin = uses.readers(x).iter().map(|(i, _)| *i).filter(|i| *i < index).find(|i| {
        let other = &graph.nodes[*i];
        let same_node = other.op == node.op && other.domain == node.domain && other.fused == node.fused;
        same_node
            && other.requant == node.requant
            && other.inputs.iter().skip(1).eq(node.inputs.iter().skip(1))
            && graph.ty(other.outputs[0]) == graph.ty(out)
    });
    let same = graph.ty(x).dtype == graph.ty(out).dtype && graph.ty(x).quant == graph.ty(out).quant;
    let idle = is_ottava(node, "Requantize") && same && node.fused == Fused::default();
    let by = twin.map(|i| graph.nodes[i].outputs[0]).or(idle.then_some(x))?;
    Patch::can_bypass(graph, uses, index, by).then(|| Patch::bypass(graph, index, by))
}

/// Every integer that the input of a step can hold; `None` for storage of more than 16 bits.
fn all_integers(graph: &Graph, node: &Node) -> Result<Option<Tensor>> {
    let dtype = node.input(0).map_or(DataType::F32, |id| graph.ty(id).dtype);
    let Some((lo, hi)) = dtype.storage_range().filter(|_| matches!(dtype.bits(), 8 | 16)) else { return Ok(None) };
    // In the order of a table: entry `i` belongs to the byte `i`.
    let all: Vec<i64> = match dtype {
        DataType::S8 => (0..=255u8).map(|b| i64::from(b as i8)).collect(),
        _ => (i64::from(lo)..=i64::from(hi)).collect(),
    };
    Tensor::from_ints(dtype, &[all.len()], &all).map(Some)
}

/// What a step makes of integers, by the reference's own evaluation.
fn apply(graph: &Graph, node: &Node, x: &Tensor) -> Result<Tensor> {
    let ids: Vec<ValueId> = node.inputs.iter().flatten().copied().collect();
    let inputs: Vec<Option<&Tensor>> =
        ids.iter().enumerate().map(|(i, id)| if i == 0 { Some(x) } else { graph.constant(*id) }).collect();
    let in_types: Vec<Option<&TensorType>> = ids.iter().map(|id| Some(graph.ty(*id))).collect();
    let cx = EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &[graph.ty(node.outputs[0])] };
    let missing = || ottava_hal::Error::invalid(format!("{} gave nothing", node.full_op()));
    evaluate(&cx)?.into_iter().next().ok_or_else(missing)
}

fn replaced(graph: &Graph, index: usize, node: Node) -> Patch {
    let mut patch = Patch::new(graph);
    patch.remove.push(index);
    patch.insert.push(node);
    patch
}

/// One table in the place of two steps.
fn table(graph: &Graph, (first, second): (usize, usize), entries: Tensor) -> Patch {
    let mut patch = Patch::new(graph);
    let mut lut = graph.nodes[second].clone();
    let name = fresh(graph, &patch, &format!("{}_table", lut.name));
    let entries = patch_const(&mut patch, name, entries);
    (lut.op, lut.domain, lut.version) = ("Lut".into(), OTTAVA.into(), 1);
    lut.inputs = vec![graph.nodes[first].inputs[0], Some(entries)];
    (lut.fused, lut.requant) = (Fused::default(), None);
    patch.remove = vec![first, second];
    patch.insert.push(lut);
    patch
}

/// A Concat that reads what its inputs are requantized from.
fn concat(graph: &Graph, uses: &Uses, index: usize) -> Option<Patch> {
    let node = &graph.nodes[index];
    let to = graph.ty(*node.outputs.first()?);
    let source = |id: ValueId| {
        let (_, step) = made_by(graph, uses, id, "Requantize").filter(|(_, n)| is_step(graph, n))?;
        let from = step.input(0)?;
        let plain = step.fused == Fused::default() && step.requant.is_none_or(|m| m == RequantMode::Fp32Rne);
        let arrives = graph.ty(id).dtype == to.dtype && graph.ty(id).quant == to.quant;
        (plain && arrives && graph.ty(from).dtype.bits() == 8 && to.dtype.bits() == 8).then_some(from)
    };
    let mut joined = node.clone();
    for slot in joined.inputs.iter_mut().flatten() {
        *slot = source(*slot).filter(|_| uses.only_reader(*slot) == Some(index)).unwrap_or(*slot);
    }
    (joined.inputs != node.inputs).then(|| replaced(graph, index, joined))
}
