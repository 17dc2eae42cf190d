//! Values that live from run to run: VAR_HANDLE, READ_VARIABLE, ASSIGN_VARIABLE, CALL_ONCE, and the variable tensors of
//! recurrent operators.
//!
//! A variable that is read before it is written becomes a state of the graph: an input for what it held after the run
//! before and an output for what it holds after this one. Every other variable is only another name of the value that was
//! assigned. Four axes are kept as an image, like what convolutions compute; nobody outside sees a state.

use super::super::cx::{Built, Cx, Layout};
use super::super::flatbuffer::Field;
use super::super::schema::{Model, Operator, SubGraph};
use super::super::tensor;
use super::quantize::requantized;
use crate::onnx::raw::Refusal;
use ottava_graph::State;
use ottava_hal::{DataType, QuantParams, Tensor, ValueId};
use std::collections::HashMap;

/// The variables of a model under import.
#[derive(Default)]
pub(crate) struct Variables {
    list: Vec<Variable>,
    /// The variable that a handle stands for, by tensor.
    handles: HashMap<usize, usize>,
    /// States of operators: name, input, output, first value.
    kept: Vec<(String, ValueId, ValueId, Tensor)>,
    /// Elements of all first values that are made of nothing but a shape.
    made: usize,
}

/// A named variable.
struct Variable {
    container: String,
    name: String,
    /// What it holds before the first run.
    initial: Option<Tensor>,
    /// The tensor that read it before anything was assigned, and the input for it.
    read: Option<(usize, ValueId)>,
    /// The tensor that was assigned last.
    now: Option<usize>,
}

const CALL_ONCE: i32 = 129;
const VAR_HANDLE: i32 = 142;
const ASSIGN_VARIABLE: i32 = 144;

fn code(model: &Model<'_>, op: &Operator<'_>) -> Option<i32> {
    usize::try_from(op.code).ok().and_then(|i| model.codes.get(i)).map(|c| c.builtin)
}

/// Whether runs of a subgraph depend on each other. The first values of states have the shapes of the file.
pub(crate) fn is_stateful(model: &Model<'_>, sub: &SubGraph<'_>) -> bool {
    let handle = |op: &Operator<'_>| matches!(code(model, op), Some(VAR_HANDLE | CALL_ONCE));
    sub.tensors.iter().any(|t| t.is_variable) || sub.operators.iter().any(handle)
}

/// Container and name of the variable that VAR_HANDLE stands for.
fn key(op: &Operator<'_>) -> Built<(String, String)> {
    let Some(options) = &op.options else { return Ok(Default::default()) };
    Ok((options.text(Field(0, "container"))?, options.text(Field(1, "shared_name"))?))
}

impl Variables {
    fn of(&mut self, (container, name): (String, String)) -> usize {
        let found = self.list.iter().position(|v| v.container == container && v.name == name);
        found.unwrap_or_else(|| {
            self.list.push(Variable { container, name, initial: None, read: None, now: None });
            self.list.len() - 1
        })
    }
}

/// The variable of input 0.
fn variable(cx: &Cx<'_>, op: &Operator<'_>) -> Built<usize> {
    let handle = cx.input(op, 0)?;
    let name = &cx.def(handle).name;
    let found = cx.variables.handles.get(&handle).copied();
    found.ok_or_else(|| Refusal::Invalid(format!("`{name}` is not the handle of a variable")))
}

/// VAR_HANDLE.
pub(crate) fn var_handle(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (t, key) = (cx.output(op, 0)?, key(op)?);
    let variable = cx.variables.of(key);
    cx.variables.handles.insert(t, variable);
    Ok(())
}

/// READ_VARIABLE.
pub(crate) fn read_variable(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (variable, t) = (variable(cx, op)?, cx.output(op, 0)?);
    let layout = layout(cx, t);
    let Variable { read, now, .. } = cx.variables.list[variable];
    let id = match (now, read) {
        (Some(assigned), _) => requantized(cx, assigned, t, layout)?,
        (None, Some((first, _))) => requantized(cx, first, t, layout)?,
        (None, None) => {
            let ty = cx.ty(t, layout)?;
            let id = cx.add_inner(t, "state", ty);
            cx.variables.list[variable].read = Some((t, id));
            id
        }
    };
    cx.alias(t, id, layout);
    Ok(())
}

/// ASSIGN_VARIABLE.
pub(crate) fn assign_variable(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let (variable, x) = (variable(cx, op)?, cx.input(op, 1)?);
    cx.variables.list[variable].now = Some(x);
    Ok(())
}

/// CALL_ONCE: the subgraph assigns constants to variables.
pub(crate) fn call_once(cx: &mut Cx<'_>, op: &Operator<'_>) -> Built {
    let index = op.options.map_or(Ok(0), |o| o.i32(Field(0, "init_subgraph_index"), 0))?;
    let sub = usize::try_from(index).ok().filter(|i| *i > 0).and_then(|i| cx.model.subgraphs.get(i));
    let Some(sub) = sub else {
        let n = cx.model.subgraphs.len();
        return Refusal::invalid(format!("init_subgraph_index is {index}; the model has {n} subgraphs"));
    };
    let mut handles = HashMap::new();
    for op in &sub.operators {
        match (code(cx.model, op), &op.inputs[..], &op.outputs[..]) {
            (Some(VAR_HANDLE), _, [handle, ..]) => {
                let variable = cx.variables.of(key(op)?);
                handles.insert(*handle, variable);
            }
            (Some(ASSIGN_VARIABLE), [handle, x, ..], _) => {
                let data = constant_of(cx, sub, *x)?;
                let Some(variable) = handles.get(handle) else {
                    return Refusal::invalid(format!("tensor {handle} of `{}` is no handle", sub.name));
                };
                cx.variables.list[*variable].initial = Some(data);
            }
            _ => {
                let what = "an initialising subgraph that computes; VAR_HANDLE and ASSIGN_VARIABLE of constants are \
                            supported";
                return Refusal::unsupported(what);
            }
        }
    }
    Ok(())
}

/// The data of a constant of another subgraph.
fn constant_of(cx: &Cx<'_>, sub: &SubGraph<'_>, index: i32) -> Built<Tensor> {
    let def = usize::try_from(index).ok().and_then(|i| sub.tensors.get(i));
    match def {
        Some(def) if !def.data.is_empty() => tensor::data(def, cx.budget),
        _ => Refusal::unsupported(format!("tensor {index} of `{}` is no constant; a constant is supported", sub.name)),
    }
}

/// The input for what a variable tensor of an operator holds; any other tensor is itself. [`keep`] must follow.
pub(crate) fn held(cx: &mut Cx<'_>, t: usize) -> Built<ValueId> {
    let def = cx.def(t);
    if !def.is_variable {
        return cx.value(t, Layout::File);
    }
    let ty = cx.ty(t, Layout::File)?;
    Ok(cx.add_inner(t, "state", ty))
}

/// Makes a state of a variable tensor from its input ([`held`]) to its new value. It begins as the real number 0.
pub(crate) fn keep(cx: &mut Cx<'_>, t: usize, input: ValueId, output: ValueId) -> Built {
    let def = cx.def(t);
    if def.is_variable {
        let (extents, ty) = (cx.extents(t)?, cx.ty(t, Layout::File)?);
        let initial = zeros(cx, &extents, ty.dtype, cx.params(t)?)?;
        cx.variables.kept.push((def.name.clone(), input, output, initial));
    }
    Ok(())
}

/// A tensor of zeros, of zero points if it is quantized.
fn zeros(cx: &mut Cx<'_>, shape: &[usize], dtype: DataType, params: Option<QuantParams>) -> Built<Tensor> {
    let zero_point = params.and_then(|p| p.as_per_tensor()).map_or(0, |(_, zp)| zp);
    let n = shape.iter().try_fold(1usize, |n, d| n.checked_mul(*d)).filter(|n| *n <= MAX_STATE);
    let Some(n) = n else {
        return Refusal::unsupported(format!("a state of the shape {shape:?}; {MAX_STATE} elements are the most"));
    };
    cx.variables.made = cx.variables.made.saturating_add(n);
    if cx.variables.made > MAX_STATES {
        return Refusal::unsupported(format!("states without a first value of more than {MAX_STATES} elements together"));
    }
    match zero_point {
        0 => Ok(Tensor::zeros(dtype, shape)?),
        zp => Ok(Tensor::from_ints(dtype, shape, &vec![i64::from(zp); n])?),
    }
}

/// Elements of a state that is made of nothing but its shape.
const MAX_STATE: usize = 1 << 20;
/// Elements of all such states of a model.
const MAX_STATES: usize = 1 << 22;

/// Makes the states of the graph, after its own outputs.
pub(crate) fn finish(cx: &mut Cx<'_>) -> Built {
    for (name, input, output, initial) in std::mem::take(&mut cx.variables.kept) {
        add(cx, name, input, output, initial);
    }
    for variable in std::mem::take(&mut cx.variables.list) {
        let Variable { name, initial, read: Some((t, input)), now, .. } = variable else { continue };
        let (layout, extents, ty) = (layout(cx, t), cx.extents(t)?, cx.ty(t, Layout::File)?);
        let output = match now {
            None => input,
            Some(x) if cx.extents(x)? == extents => requantized(cx, x, t, layout)?,
            Some(x) => {
                let found = cx.extents(x)?;
                return Refusal::invalid(format!("variable `{name}` is read as {extents:?} and assigned {found:?}"));
            }
        };
        let mut first = match initial {
            Some(data) if data.shape() == extents && data.dtype() == ty.dtype => data,
            Some(data) => {
                let found = data.ty();
                return Refusal::invalid(format!("variable `{name}` is read as {ty} and begins as {found}"));
            }
            None => zeros(cx, &extents, ty.dtype, cx.params(t)?)?,
        };
        if layout == Layout::Image {
            first = tensor::transpose(&first, &[0, 3, 1, 2])?;
        }
        add(cx, name, input, output, first);
    }
    Ok(())
}

fn add(cx: &mut Cx<'_>, name: String, input: ValueId, output: ValueId, initial: Tensor) {
    let taken = |n: &str, states: &[State]| states.iter().any(|s| s.name == n);
    let mut unique = name.clone();
    for i in 1.. {
        if !taken(&unique, &cx.graph.states) {
            break;
        }
        unique = format!("{name}_{i}");
    }
    cx.graph.add_state(unique, input, output, initial);
}

/// The layout in which a state of a tensor is kept.
fn layout(cx: &Cx<'_>, t: usize) -> Layout {
    if cx.def(t).shape.len() == 4 { Layout::Image } else { Layout::File }
}
