//! The LSTM of 8-bit values with a 16-bit cell state (numerics.md section 11).

use super::super::cx::{Built, Cx, Layout};
use super::super::schema::Operator;
use super::lstm::{BIASES, Lstm, PROJECTION, PROJECTION_BIAS, RECURRENT, WEIGHTS};
use super::state;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Node, QuantParams, RequantMode, Tensor, ValueId};

/// The tensor among the intermediates that has the parameters of the hidden value.
const HIDDEN: usize = 4;

/// Builds `ottava::LstmInteger`. Under `fp32_rne`, for which it has no form, it is `q31_double` all the same.
pub(crate) fn build(cx: &mut Cx<'_>, op: &Operator<'_>, lstm: &Lstm) -> Built {
    if op.intermediates.len() != HIDDEN + 1 {
        let n = op.intermediates.len();
        return Refusal::unsupported(format!("{n} intermediate tensors; 5 (a cell state of 16 bits) are supported"));
    }
    let hidden = cx.tensor(op.intermediates[HIDDEN])?;
    let [h, c] = lstm.states;
    let mut node = cx.own_node("LstmInteger", lstm.t);
    node.requant = Some(cx.q31().unwrap_or(RequantMode::Q31Double));
    let held = [state::held(cx, h)?, state::held(cx, c)?];
    node.inputs = vec![
        Some(cx.value(lstm.x, Layout::File)?),
        Some(matrices(cx, op, lstm, WEIGHTS, "W")?),
        Some(matrices(cx, op, lstm, RECURRENT, "R")?),
        Some(biases(cx, op, lstm)?),
        Some(held[0]),
        Some(held[1]),
    ];
    for i in [PROJECTION, PROJECTION_BIAS] {
        if let Some(t) = cx.optional(op, i)? {
            let id = cx.value(t, Layout::File)?;
            node.inputs.resize(6 + i - PROJECTION, None);
            node.inputs.push(Some(id));
        }
    }
    if let Some((scale, zp)) = cx.per_tensor(hidden)? {
        node.attrs.set("hidden_scale", Attr::Float(scale));
        node.attrs.set("hidden_zero_point", Attr::Int(zp.into()));
    }
    for (name, clip) in [("cell_clip", lstm.cell_clip), ("projection_clip", lstm.projection_clip)] {
        if clip > 0.0 {
            node.attrs.set(name, Attr::Float(clip));
        }
    }
    for (name, flag) in [("input_forget", lstm.coupled), ("time_major", lstm.time_major)] {
        if flag {
            node.attrs.set(name, Attr::Int(1));
        }
    }
    finish(cx, node, lstm, held)
}

/// Adds the node with its states. The result is a copy of the state, so it has its parameters.
fn finish(cx: &mut Cx<'_>, node: Node, lstm: &Lstm, held: [ValueId; 2]) -> Built {
    let [h, c] = lstm.states;
    if cx.params(h)? != cx.params(lstm.t)? {
        return Refusal::unsupported("a result with other parameters than the hidden state; equal ones are supported");
    }
    let types = [cx.ty(h, Layout::File)?, cx.ty(c, Layout::File)?];
    cx.push(node, &[lstm.t], Layout::File)?;
    let [h_type, c_type] = types;
    let next = [cx.add_inner(lstm.t, "h_next", h_type), cx.add_inner(lstm.t, "c_next", c_type)];
    if let Some(last) = cx.graph.nodes.last_mut() {
        last.outputs.extend(next);
    }
    state::keep(cx, h, held[0], next[0])?;
    state::keep(cx, c, held[1], next[1])
}

/// The tensors of all gates in the order i, f, g, o; without i where the gates are coupled.
fn gates(cx: &Cx<'_>, op: &Operator<'_>, lstm: &Lstm, inputs: [usize; 4]) -> Built<Vec<usize>> {
    inputs[usize::from(lstm.coupled)..].iter().map(|i| cx.input(op, *i)).collect()
}

/// The constants of some tensors of one shape in one with a new first axis.
fn stacked(cx: &Cx<'_>, tensors: &[usize], dtype: DataType) -> Built<Tensor> {
    let (mut shape, mut ints) = (vec![], vec![]);
    for &t in tensors {
        let data = cx.constant(t)?;
        if data.dtype() != dtype || (!shape.is_empty() && data.shape() != shape) {
            let (name, found) = (&cx.def(t).name, data.ty());
            return Refusal::invalid(format!("`{name}` is {found}; {dtype} like the other gates' is expected"));
        }
        shape = data.shape().to_vec();
        ints.extend(data.to_ints()?);
    }
    shape.insert(0, tensors.len());
    Ok(Tensor::from_ints(dtype, &shape, &ints)?)
}

/// Weights of all gates with a scale for each.
fn matrices(cx: &mut Cx<'_>, op: &Operator<'_>, lstm: &Lstm, inputs: [usize; 4], part: &str) -> Built<ValueId> {
    let tensors = gates(cx, op, lstm, inputs)?;
    let mut scales = Vec::with_capacity(tensors.len());
    for &t in &tensors {
        match cx.per_tensor(t)? {
            Some((scale, 0)) => scales.push(scale),
            found => {
                let name = &cx.def(t).name;
                return Refusal::invalid(format!(
                    "`{name}` has the scale and zero point {found:?}; the zero point is 0"
                ));
            }
        }
    }
    let data = stacked(cx, &tensors, DataType::S8)?;
    let name = format!("{}/{part}", cx.def(lstm.t).name);
    Ok(cx.add_constant(&name, data, Some(QuantParams::per_axis_symmetric(0, scales))))
}

/// Biases of all gates, at the scales of their accumulators.
fn biases(cx: &mut Cx<'_>, op: &Operator<'_>, lstm: &Lstm) -> Built<ValueId> {
    let tensors = gates(cx, op, lstm, BIASES)?;
    let data = stacked(cx, &tensors, DataType::S32)?;
    let name = format!("{}/B", cx.def(lstm.t).name);
    Ok(cx.add_constant(&name, data, None))
}
