//! Scan: a body that is run once for every slice of its inputs.
//!
//! * (C1) the body gets the states, one slice of each scanned input and the captured values; it returns the states and
//!   values that are stacked over the passes. (C2) direction 1 takes slices from the last to the first, and stacks the
//!   first value last.

use super::body::{Known, LENGTH_AXIS, infer_body, outside, run_body, symbols};
use super::budget::Running;
use super::repeat::{n_states, stack};
use super::settle::{Formals, settle};
use crate::elementwise::sample::{case, f32s};
use crate::movement::gather::take;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, InferInput, OTTAVA, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Program, Result, Tensor, TensorType, Value, ValueId};

/// The operator.
pub struct Scan;

static SPEC: OpSpec = OpSpec {
    name: "Scan",
    domain: OTTAVA,
    since: 1,
    inputs: (1, usize::MAX),
    outputs: (1, usize::MAX),
    attrs: &[
        AttrSpec::required("body", AttrKind::Program),
        AttrSpec::required("captures", AttrKind::Int),
        AttrSpec::required("num_scan_inputs", AttrKind::Int),
        AttrSpec::optional("scan_input_axes", AttrKind::Ints),
        AttrSpec::optional("scan_input_directions", AttrKind::Ints),
        AttrSpec::optional("scan_output_axes", AttrKind::Ints),
        AttrSpec::optional("scan_output_directions", AttrKind::Ints),
    ],
};

/// How the inputs of a node are divided, and along which axes.
struct Form<'a> {
    body: &'a Program,
    attrs: &'a Attrs,
    states: usize,
    scanned: usize,
}

impl<'a> Form<'a> {
    fn new(attrs: &'a Attrs, n_inputs: usize) -> Result<Self> {
        let scanned = usize::try_from(attrs.int("num_scan_inputs", 0)?).ok().filter(|n| *n > 0);
        let scanned = scanned.ok_or_else(|| Error::invalid("Scan: num_scan_inputs must be 1 or more"))?;
        let both = n_states(attrs, n_inputs, 0)?;
        let states = both.checked_sub(scanned);
        let states =
            states.ok_or_else(|| Error::invalid(format!("Scan: {scanned} scanned inputs, there are {both}")))?;
        Ok(Self { body: attrs.program("body")?, attrs, states, scanned })
    }

    fn number(&self, name: &str, i: usize) -> Result<i64> {
        Ok(self.attrs.ints_opt(name)?.and_then(|v| v.get(i).copied()).unwrap_or(0))
    }

    fn input_axis(&self, i: usize, rank: usize) -> Result<usize> {
        util::axis(self.number("scan_input_axes", i)?, rank)
    }

    /// The axis of stacked output `j`, whose values have one dimension less than `rank`.
    fn output_axis(&self, j: usize, rank: usize) -> Result<usize> {
        util::axis(self.number("scan_output_axes", j)?, rank)
    }
}

impl Op for Scan {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let form = Form::new(cx.attrs(), cx.inputs.len())?;
        let (mut slices, mut length) = (Vec::new(), None);
        for i in 0..form.scanned {
            let ty = cx.input(form.states + i)?.ty;
            let mut dims = ty.shape.0.clone();
            let n = dims.remove(form.input_axis(i, dims.len())?);
            length = length.filter(|known: &Dim| known.known().is_some()).or(Some(n));
            slices.push(cx.ty(ty.dtype, dims));
        }
        let slices: Vec<Known> = slices.iter().map(|ty| Some(InferInput { ty, constant: None })).collect();
        let captured = cx.inputs[form.states + form.scanned..].iter().copied();
        let tail = slices.iter().copied().chain(captured).collect();
        let formals = Formals { lead: vec![], states: cx.inputs[..form.states].to_vec(), tail };
        let (mut types, stacked) = settle(cx, form.body, &formals, 0)?;
        let own = symbols(cx);
        for (j, inner) in stacked.iter().enumerate() {
            let mut ty = outside(cx, inner, &own, types.len());
            if !ty.is_unranked() {
                let axis = form.output_axis(j, ty.shape.rank() + 1)?;
                ty.shape.0.insert(axis, length.clone().unwrap_or_else(|| cx.fresh(types.len(), LENGTH_AXIS)));
            }
            types.push(ty);
        }
        Ok(types)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let form = Form::new(cx.attrs(), cx.inputs.len())?;
        let n_stacks = form.body.outputs.len().checked_sub(form.states);
        let n_stacks = n_stacks.ok_or_else(|| Error::invalid("Scan: the body returns fewer values than states"))?;
        let mut stacks: Vec<Vec<Tensor>> = vec![Vec::new(); n_stacks];
        let mut states: Vec<Option<Tensor>> = cx.inputs[..form.states].iter().map(|t| t.cloned()).collect();
        let captured = &cx.inputs[form.states + form.scanned..];
        let running = Running::begin();
        for pass in 0..length(&form, cx)? {
            running.pass("Scan")?;
            let slices = (0..form.scanned).map(|i| slice(&form, cx, i, pass)).collect::<Result<Vec<_>>>()?;
            let behind = slices.into_iter().map(Some).chain(captured.iter().map(|t| t.cloned()));
            let inputs: Vec<Option<Tensor>> = states.drain(..).chain(behind).collect();
            let mut outputs = run_body(form.body, &inputs)?.into_iter();
            states.extend(outputs.by_ref().take(form.states).map(Some));
            stacks.iter_mut().zip(outputs).for_each(|(stack, tensor)| stack.push(tensor));
        }
        let stacked = stacks.into_iter().enumerate().map(|(j, parts)| stacked(&form, cx, j, parts));
        let stacked = stacked.collect::<Result<Vec<_>>>()?;
        let missing = || Error::invalid("Scan: a state has no first value");
        states.into_iter().map(|t| t.ok_or_else(missing)).chain(stacked.into_iter().map(Ok)).collect()
    }

    fn cases(&self) -> Vec<Case> {
        let ty = TensorType::fixed(DataType::F32, &[1]);
        let value = |name: &str| Value { name: name.into(), ty: ty.clone(), constant: None };
        let mut add = Node::new("add", "Add", 13);
        (add.inputs, add.outputs) = (vec![Some(ValueId(0)), Some(ValueId(1))], vec![ValueId(2)]);
        let body = Program {
            name: "body".into(),
            values: ["sum", "x", "next"].map(value).to_vec(),
            nodes: vec![add],
            inputs: vec![ValueId(0), ValueId(1)],
            outputs: vec![ValueId(2), ValueId(2)],
        };
        let mut node = Node::new("scan", "Scan", 1);
        node.domain = OTTAVA.into();
        let attrs = Attrs::default().with("body", Attr::Program(body.into())).with("captures", Attr::Int(0));
        node.attrs = attrs.with("num_scan_inputs", Attr::Int(1));
        let inputs = [f32s(&[1], &[0.0]), f32s(&[3, 1], &[1.0, 2.0, 3.0])];
        let run = |name, node, sums: &[f32]| case(name, node, &inputs, &[f32s(&[1], &[6.0]), f32s(&[3, 1], sums)]);
        let forwards = run("c1_running_sum", node.clone(), &[1.0, 3.0, 6.0]);
        node.attrs.set("scan_input_directions", Attr::Ints(vec![1]));
        node.attrs.set("scan_output_directions", Attr::Ints(vec![1]));
        vec![forwards, run("c2_backwards", node, &[6.0, 5.0, 3.0])]
    }
}

/// The number of slices, which all scanned inputs must have.
fn length(form: &Form, cx: &EvalCx) -> Result<usize> {
    let mut length = None;
    for i in 0..form.scanned {
        let shape = cx.input(form.states + i)?.shape();
        let n = shape[form.input_axis(i, shape.len())?];
        if *length.get_or_insert(n) != n {
            return Err(Error::invalid(format!(
                "Scan: scanned input {i} has {n} slices, the first has another number"
            )));
        }
    }
    Ok(length.unwrap_or(0))
}

/// (C2)
fn slice(form: &Form, cx: &EvalCx, i: usize, pass: usize) -> Result<Tensor> {
    let x = cx.input(form.states + i)?;
    let axis = form.input_axis(i, x.shape().len())?;
    let backwards = form.number("scan_input_directions", i)? != 0;
    take(x, axis, if backwards { x.shape()[axis] - 1 - pass } else { pass })
}

/// (C2); without a pass there are no elements, and extents that are not known are 0.
fn stacked(form: &Form, cx: &EvalCx, j: usize, mut parts: Vec<Tensor>) -> Result<Tensor> {
    if form.number("scan_output_directions", j)? != 0 {
        parts.reverse();
    }
    if let Some(first) = parts.first() {
        let axis = form.output_axis(j, first.shape().len() + 1)?;
        return stack(&parts, axis);
    }
    let mut types = Vec::with_capacity(cx.inputs.len());
    for (i, input) in cx.inputs.iter().enumerate() {
        let mut ty = input.map(Tensor::ty);
        if let Some(ty) = ty.as_mut().filter(|_| (form.states..form.states + form.scanned).contains(&i)) {
            let axis = form.input_axis(i - form.states, ty.shape.rank())?;
            ty.shape.0.remove(axis);
        }
        types.push(ty);
    }
    let known: Vec<Known> = types.iter().map(|ty| Some(InferInput { ty: ty.as_ref()?, constant: None })).collect();
    let ty = infer_body(form.body, &known)?.swap_remove(form.states + j);
    let mut shape: Vec<usize> = ty.shape.0.iter().map(|d| d.known().unwrap_or(0)).collect();
    let axis = form.output_axis(j, shape.len() + 1)?;
    shape.insert(axis, 0);
    util::output(ty.dtype, &shape)
}
