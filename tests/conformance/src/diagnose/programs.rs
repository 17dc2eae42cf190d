//! Defects that are the same as running another program, or the same program on other data.

use super::Hypothesis;
use crate::Repro;
use ottava_hal::{Attr, DataType, Node, Program, RequantMode, Shape, Tensor};
use ottava_reference::Interpreter;
use std::sync::Arc;

/// A change of one node; `None` where it changes nothing.
type Edit = (&'static str, fn(&Node) -> Option<Node>);

/// Only tried where both inputs have one shape: the product of a long row and a long column, swapped, fills any memory.
const SWAPPED: &str = "the first two inputs are swapped";

const EDITS: &[Edit] = &[
    ("the front and back padding are swapped", |n| with_pads(n, |front, back| (back, front))),
    ("all padding is at the back (right and bottom)", |n| with_pads(n, |front, back| (0, front + back))),
    ("all padding is at the front (left and top)", |n| with_pads(n, |front, back| (front + back, 0))),
    ("the fused clamp is not applied", |n| {
        n.fused.clamp.map(|_| Node { fused: ottava_hal::Fused { clamp: None, ..n.fused }, ..n.clone() })
    }),
    ("the fused activation is not applied", |n| {
        n.fused.act.map(|_| Node { fused: ottava_hal::Fused { act: None, ..n.fused }, ..n.clone() })
    }),
    ("the zero point is added on the other side of rounding", |n| {
        let fused = ottava_hal::Fused { zp_before_round: !n.fused.zp_before_round, ..n.fused };
        n.requant.map(|_| Node { fused, ..n.clone() })
    }),
    (SWAPPED, |n| {
        let mut other = n.clone();
        (n.inputs.len() > 1 && n.inputs[0] != n.inputs[1]).then(|| {
            other.inputs.swap(0, 1);
            other
        })
    }),
    ("there is no dilation", |n| without(n, "dilations")),
    ("alpha is missing", |n| without(n, "alpha")),
    ("epsilon is 0", |n| {
        let norm = n.op.ends_with("Normalization");
        norm.then(|| Node { attrs: n.attrs.clone().with("epsilon", Attr::Float(0.0)), ..n.clone() })
    }),
    ("the padding counts in the average", |n| with_int(n, "count_include_pad", 0, 1)),
    ("the padding does not count in the average", |n| with_int(n, "count_include_pad", 1, 0)),
];

fn without(node: &Node, name: &str) -> Option<Node> {
    let mut other = node.clone();
    other.attrs.0.remove(name).map(|_| other)
}

fn with_int(node: &Node, name: &str, from: i64, to: i64) -> Option<Node> {
    let is_pool = node.op == "AveragePool";
    (is_pool && node.attrs.int(name, 0).ok()? == from)
        .then(|| Node { attrs: node.attrs.clone().with(name, Attr::Int(to)), ..node.clone() })
}

fn with_pads(node: &Node, change: fn(i64, i64) -> (i64, i64)) -> Option<Node> {
    let pads = node.attrs.ints_opt("pads").ok()??;
    let rank = pads.len() / 2;
    let changed: Vec<(i64, i64)> = (0..rank).map(|i| change(pads[i], pads[i + rank])).collect();
    let new: Vec<i64> = changed.iter().map(|p| p.0).chain(changed.iter().map(|p| p.1)).collect();
    (new != pads).then(|| Node { attrs: node.attrs.clone().with("pads", Attr::Ints(new)), ..node.clone() })
}

/// Every defect of this file, with its outputs.
pub(super) fn hypotheses(repro: &Repro) -> impl Iterator<Item = Hypothesis> {
    let many = repro.program.nodes.len() > 1;
    let mut list = Vec::new();
    for i in 0..repro.program.nodes.len() {
        let node = &repro.program.nodes[i];
        let place = if many { format!(" (node `{}`)", node.name) } else { String::new() };
        let shape = |i: usize| node.input(i).map(|id| repro.program.ty(id).shape.clone());
        let alike = shape(0) == shape(1);
        let edits = EDITS.iter().filter(|(words, _)| alike || *words != SWAPPED);
        let edits = edits.filter_map(|(words, edit)| Some((format!("{words}{place}"), edit(node)?)));
        let axes = other_axes(node).into_iter().map(|(a, n)| (format!("the axis is {a}{place}"), n));
        let modes = other_modes(node).into_iter().map(|(m, n)| (format!("it is rescaled in the mode {m}{place}"), n));
        for (words, changed) in edits.chain(axes).chain(modes) {
            let mut program = repro.program.clone();
            program.nodes[i] = changed;
            list.extend(run(&program, &repro.inputs).map(|outputs| Hypothesis { words, outputs }));
        }
        list.extend(without_residual(repro, i).map(|outputs| {
            let words = format!("the residual is not added{place}");
            Hypothesis { words, outputs }
        }));
        list.extend(padded_with_zero_bytes(repro, i).map(|outputs| {
            let words = format!("the padding is zero bytes instead of the zero point{place}");
            Hypothesis { words, outputs }
        }));
    }
    list.extend(swapped_nibbles(repro).map(|outputs| Hypothesis {
        words: "the two values in a byte of 4-bit weights are swapped".to_owned(),
        outputs,
    }));
    list.into_iter()
}

/// The outputs for a residual of nothing: without one, the sum would be rescaled in another way.
fn without_residual(repro: &Repro, i: usize) -> Option<Vec<Tensor>> {
    let node = repro.program.nodes.get(i).filter(|n| n.fused.residual)?;
    let id = node.inputs.last().copied()??;
    let mut program = repro.program.clone();
    let quant = program.values[id.0].ty.quant.as_mut()?;
    Arc::make_mut(quant).scales.fill(1e-30);
    run(&program, &repro.inputs)
}

fn run(program: &Program, inputs: &[Tensor]) -> Option<Vec<Tensor>> {
    Interpreter::new(program).ok()?.run(inputs).ok()
}

/// The node with each other value of its axis.
fn other_axes(node: &Node) -> Vec<(i64, Node)> {
    let Ok(Some(axis)) = node.attrs.int_opt("axis") else { return Vec::new() };
    let others = (0..4).filter(|a| *a != axis);
    others.map(|a| (a, Node { attrs: node.attrs.clone().with("axis", Attr::Int(a)), ..node.clone() })).collect()
}

fn other_modes(node: &Node) -> Vec<(RequantMode, Node)> {
    let Some(own) = node.requant else { return Vec::new() };
    let others = RequantMode::ALL.into_iter().filter(|m| *m != own);
    others.map(|m| (m, Node { requant: Some(m), ..node.clone() })).collect()
}

/// The outputs if the first input of a node is padded with bytes that are zero, for inputs of the program itself.
fn padded_with_zero_bytes(repro: &Repro, i: usize) -> Option<Vec<Tensor>> {
    let node = repro.program.nodes.get(i)?;
    let pads = node.attrs.ints_opt("pads").ok()??.to_vec();
    let x = node.input(0)?;
    let at = repro.program.inputs.iter().position(|id| *id == x)?;
    let is_read_once = repro.program.nodes.iter().flat_map(|n| &n.inputs).filter(|id| **id == Some(x)).count() == 1;
    if !is_read_once || !repro.inputs[at].dtype().is_integer() || pads.iter().all(|p| *p == 0) {
        return None;
    }
    let (mut program, mut inputs) = (repro.program.clone(), repro.inputs.clone());
    inputs[at] = zero_padded(&repro.inputs[at], &pads)?;
    program.values[x.0].ty.shape = Shape::fixed(inputs[at].shape());
    program.nodes[i].attrs.set("pads", Attr::Ints(vec![0; pads.len()]));
    run(&program, &inputs)
}

/// A tensor with zeros around its last axes.
fn zero_padded(x: &Tensor, pads: &[i64]) -> Option<Tensor> {
    let rank = pads.len() / 2;
    let lead = x.shape().len().checked_sub(rank)?;
    let pads: Vec<usize> = pads.iter().map(|p| usize::try_from(*p).ok()).collect::<Option<_>>()?;
    let mut shape = x.shape().to_vec();
    for i in 0..rank {
        shape[lead + i] = shape[lead + i].checked_add(pads[i])?.checked_add(pads[i + rank])?;
    }
    let n = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= 1 << 26)?;
    let mut out = vec![0i64; n];
    for (flat, value) in x.to_ints().ok()?.into_iter().enumerate() {
        let mut at = super::coordinates(flat, x.shape());
        (0..rank).for_each(|i| at[lead + i] += pads[i]);
        let to = at.iter().zip(&shape).fold(0, |to, (a, d)| to * d + a);
        *out.get_mut(to)? = value;
    }
    Tensor::from_ints(x.dtype(), &shape, &out).ok()
}

/// The outputs if the 4-bit constants are read in the other order.
fn swapped_nibbles(repro: &Repro) -> Option<Vec<Tensor>> {
    let mut program = repro.program.clone();
    let is_s4 = |t: &Tensor| t.dtype() == DataType::S4 && t.elements().is_multiple_of(2);
    let packed: Vec<_> = program.values.iter_mut().filter_map(|v| v.constant.as_mut()).filter(|t| is_s4(t)).collect();
    if packed.is_empty() {
        return None;
    }
    packed.into_iter().flat_map(Tensor::bytes_mut).for_each(|b| *b = b.rotate_left(4));
    run(&program, &repro.inputs)
}
