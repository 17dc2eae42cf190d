//! UNIDIRECTIONAL_SEQUENCE_LSTM: on floats the LSTM of ONNX, on 8 bits `ottava::LstmInteger` (`lstm_integer`).
//!
//! TFLite has one tensor per gate in the order i, f, c, o; ONNX one for all, in the order i, o, f, c. Coupled gates
//! (no i) are `i = 1 - f` in TFLite and `f = 1 - i` in ONNX: with the weights of f negated both say the same.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::Operator;
use super::lstm_integer;
use super::product::options;
use super::state;
use crate::onnx::raw::Refusal;
use ottava_graph::Attr;
use ottava_hal::{DataType, Dim, Shape, Tensor, TensorType, ValueId};

/// Inputs of the operator.
pub(crate) const WEIGHTS: [usize; 4] = [1, 2, 3, 4];
pub(crate) const RECURRENT: [usize; 4] = [5, 6, 7, 8];
const PEEPHOLES: [usize; 3] = [9, 10, 11];
pub(crate) const BIASES: [usize; 4] = [12, 13, 14, 15];
pub(crate) const PROJECTION: usize = 16;
pub(crate) const PROJECTION_BIAS: usize = 17;
const STATE: usize = 18;
const CELL: usize = 19;
const NORMS: [usize; 4] = [20, 21, 22, 23];
/// Gates of ONNX in the order of TFLite.
const ONNX_ORDER: [usize; 4] = [0, 3, 1, 2];
/// TANH among the fused activations.
const TANH: i8 = 4;

/// What both forms read.
pub(crate) struct Lstm {
    /// The input.
    pub x: usize,
    /// The result.
    pub t: usize,
    /// Tensors of hidden state and cell.
    pub states: [usize; 2],
    pub cell_clip: f32,
    pub projection_clip: f32,
    pub time_major: bool,
    /// There is no input gate.
    pub coupled: bool,
}

/// UNIDIRECTIONAL_SEQUENCE_LSTM.
pub(crate) fn unidirectional_sequence_lstm(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let options = options(op)?;
    let lstm = Lstm {
        x: cx.input(op, 0)?,
        t: cx.output(op, 0)?,
        states: [cx.input(op, STATE)?, cx.input(op, CELL)?],
        cell_clip: options.f32(Field(1, "cell_clip"), 0.0)?,
        projection_clip: options.f32(Field(2, "proj_clip"), 0.0)?,
        time_major: options.bool(Field(3, "time_major"))?,
        coupled: cx.optional(op, WEIGHTS[0])?.is_none(),
    };
    let act = options.i8(Field(0, "fused_activation_function"), 0)?;
    if act != TANH {
        return Refusal::unsupported(format!("the fused activation {act}; 4 (TANH) is supported"));
    }
    for i in NORMS {
        if cx.optional(op, i)?.is_some() {
            return Refusal::unsupported("layer normalization (inputs 20 to 23); an LSTM without it is supported");
        }
    }
    if cx.extents(lstm.x)?.len() != 3 {
        return Refusal::invalid(format!("the input has the shape {:?}; 3 axes are expected", cx.def(lstm.x).shape));
    }
    match cx.ty(lstm.x, Layout::File)?.dtype {
        DataType::F32 => float(cx, op, &lstm),
        DataType::S8 => {
            if has_peephole(cx, op)? {
                return Refusal::unsupported(
                    "peepholes (inputs 9 to 11) on integers; an LSTM without them is supported",
                );
            }
            lstm_integer::build(cx, op, &lstm)
        }
        other => Refusal::unsupported(format!("an input of {other}; float32 and int8 are supported")),
    }
}

fn has_peephole(cx: &Cx<'_>, op: &Operator<'_>) -> Built<bool> {
    PEEPHOLES.iter().try_fold(false, |any, i| Ok(any || cx.optional(op, *i)?.is_some()))
}

/// Constants of all gates in f32, in the order of ONNX.
struct Parameters<'c, 'm> {
    cx: &'c Cx<'m>,
    op: &'c Operator<'m>,
    coupled: bool,
    /// Weights of 8 bits under a float input are used as the reals that they stand for.
    was_quantized: bool,
}

impl Parameters<'_, '_> {
    /// The data of one input; `expected` is its shape.
    fn real(&mut self, i: usize, expected: &[usize]) -> Built<Vec<f32>> {
        let t = self.cx.input(self.op, i)?;
        let mut data = self.cx.constant(t)?;
        if let Some(params) = self.cx.params(t)? {
            self.was_quantized = true;
            data = ottava_ops::dequantize(&data, &params)?;
        }
        if data.shape() != expected {
            let (name, found) = (&self.cx.def(t).name, data.shape());
            return Refusal::invalid(format!("`{name}` has the shape {found:?}, expected {expected:?}"));
        }
        Ok(data.to_f32s()?)
    }

    /// The inputs of all gates, one after the other; zeros where `optional` ones are missing.
    fn gates(&mut self, inputs: [usize; 4], shape: &[usize], optional: bool) -> Built<Vec<f32>> {
        let mut all = Vec::new();
        for gate in ONNX_ORDER {
            let negated = gate == 0 && self.coupled;
            let i = if negated { inputs[1] } else { inputs[gate] };
            if optional && self.cx.optional(self.op, i)?.is_none() {
                all.resize(all.len() + shape.iter().product::<usize>(), 0.0);
                continue;
            }
            let part = self.real(i, shape)?;
            all.extend(part.into_iter().map(|v| if negated { -v } else { v }));
        }
        Ok(all)
    }
}

fn float(cx: &mut Cx<'_>, op: &Operator<'_>, lstm: &Lstm) -> Built {
    if cx.optional(op, PROJECTION)?.is_some() {
        return Refusal::unsupported("a projection (input 16) on floats; an LSTM without one is supported");
    }
    let dims = cx.extents(lstm.x)?;
    let r = cx.input(op, RECURRENT[1])?;
    let [cells, state] = cx.extents(r)?[..] else {
        return Refusal::invalid("the recurrent weights do not have 2 axes");
    };
    if cells != state {
        return Refusal::invalid(format!("{cells} cells and a state of {state} without a projection"));
    }
    let (time, batch) = if lstm.time_major { (dims[0], dims[1]) } else { (dims[1], dims[0]) };
    let name = cx.def(lstm.t).name.clone();
    let mut p = Parameters { cx: &*cx, op, coupled: lstm.coupled, was_quantized: false };
    let w = p.gates(WEIGHTS, &[cells, dims[2]], false)?;
    let r = p.gates(RECURRENT, &[cells, state], false)?;
    let mut b = p.gates(BIASES, &[cells], true)?;
    b.resize(8 * cells, 0.0);
    let peepholes = if has_peephole(p.cx, op)? { Some(peepholes(&mut p, cells)?) } else { None };
    if p.was_quantized {
        let what = "its weights of 8 bits are used as floats; TFLite rounds the input to 8 bits as well";
        cx.note("Q0406", lstm.t, what.to_owned());
    }
    let mut add = |part: &str, shape: &[usize], data: Vec<f32>| -> Built<Option<ValueId>> {
        Ok(Some(cx.add_constant(&format!("{name}/{part}"), Tensor::from_slice(shape, &data)?, None)))
    };
    let w = add("W", &[1, 4 * cells, dims[2]], w)?;
    let r = add("R", &[1, 4 * cells, state], r)?;
    let b = add("B", &[1, 8 * cells], b)?;
    let p = peepholes.map(|p| add("P", &[1, 3 * cells], p)).transpose()?.flatten();
    let mut node = cx.node("LSTM", 22, lstm.t);
    node.attrs.set("hidden_size", Attr::Int(cells as i64));
    if lstm.coupled {
        node.attrs.set("input_forget", Attr::Int(1));
    }
    if lstm.cell_clip > 0.0 {
        node.attrs.set("cell_clip", Attr::Float(lstm.cell_clip));
    }
    let walk = Walk { t: lstm.t, time, batch, cells };
    let x = cx.value(lstm.x, Layout::File)?;
    let x = if lstm.time_major { x } else { walk.swapped(cx, x, "steps", [time, batch, dims[2]])? };
    let [h, c] = lstm.states;
    let held = [state::held(cx, h)?, state::held(cx, c)?];
    let rank3 = [walk.axis(cx, "Unsqueeze", held[0], "h")?, walk.axis(cx, "Unsqueeze", held[1], "c")?];
    node.inputs = vec![Some(x), w, r, b, None, Some(rank3[0]), Some(rank3[1])];
    if p.is_some() {
        node.inputs.push(p);
    }
    let steps = walk.ty(&[time, 1, batch, cells]);
    let next = walk.ty(&[1, batch, cells]);
    let outputs = [("y", steps), ("h_next", next.clone()), ("c_next", next)];
    node.outputs = outputs.into_iter().map(|(part, ty)| cx.add_inner(lstm.t, part, ty)).collect();
    let [y, h_next, c_next] = node.outputs[..] else { return Ok(()) };
    cx.graph.nodes.push(node);
    for (t, held, next, part) in [(h, held[0], h_next, "h_out"), (c, held[1], c_next, "c_out")] {
        let out = walk.axis(cx, "Squeeze", next, part)?;
        state::keep(cx, t, held, out)?;
    }
    walk.result(cx, y, lstm.time_major)
}

/// ONNX has the peepholes in the order i, o, f.
fn peepholes(p: &mut Parameters<'_, '_>, cells: usize) -> Built<Vec<f32>> {
    let [i, f, o] = PEEPHOLES;
    let input = if p.coupled { p.real(f, &[cells])?.into_iter().map(|v| -v).collect() } else { p.real(i, &[cells])? };
    Ok([input, p.real(o, &[cells])?, p.real(f, &[cells])?].concat())
}

/// Nodes around the LSTM, named after its result.
struct Walk {
    t: usize,
    time: usize,
    batch: usize,
    cells: usize,
}

impl Walk {
    fn ty(&self, dims: &[usize]) -> TensorType {
        TensorType::new(DataType::F32, Shape(dims.iter().map(|d| Dim::Known(*d)).collect()))
    }

    /// Batch and time exchanged.
    fn swapped(&self, cx: &mut Cx<'_>, x: ValueId, part: &str, dims: [usize; 3]) -> Built<ValueId> {
        let mut node = cx.node("Transpose", 13, self.t);
        node.attrs.set("perm", Attr::Ints(vec![1, 0, 2]));
        node.inputs = vec![Some(x)];
        Ok(cx.push_inner(node, self.t, part, self.ty(&dims)))
    }

    /// A state with or without the axis of directions.
    fn axis(&self, cx: &mut Cx<'_>, op: &str, x: ValueId, part: &str) -> Built<ValueId> {
        let axes = cx.add_ints(self.t, "axes", &[0])?;
        let mut node = cx.node(op, 13, self.t);
        node.inputs = vec![Some(x), Some(axes)];
        let dims: &[usize] = if op == "Squeeze" { &[self.batch, self.cells] } else { &[1, self.batch, self.cells] };
        Ok(cx.push_inner(node, self.t, part, self.ty(dims)))
    }

    /// The steps as the file's result has them.
    fn result(&self, cx: &mut Cx<'_>, y: ValueId, time_major: bool) -> Built {
        let axes = cx.add_ints(self.t, "axes", &[1])?;
        let mut node = cx.node("Squeeze", 13, self.t);
        node.inputs = vec![Some(y), Some(axes)];
        if time_major {
            return cx.push(node, &[self.t], Layout::File);
        }
        let steps = cx.push_inner(node, self.t, "time_major", self.ty(&[self.time, self.batch, self.cells]));
        let mut node = cx.node("Transpose", 13, self.t);
        node.attrs.set("perm", Attr::Ints(vec![1, 0, 2]));
        node.inputs = vec![Some(steps)];
        cx.push(node, &[self.t], Layout::File)
    }
}
