//! Loop: a body that is run again while a condition holds, at most as often as a count says.
//!
//! * (C1) the body gets the number of the pass, the condition, the states and the captured values; it returns the
//!   next condition, the states, and values that are stacked over the passes. (C2) without a single pass a stacked
//!   output has no elements; extents that are not known are 0. (C3) a loop of more passes than
//!   [`budget`](super::budget) has is an error.

use super::body::{Known, LENGTH_AXIS, always_continues, flag, infer_body, outside, run_body, symbols};
use super::budget::Running;
use super::settle::{Formals, settle};
use crate::elementwise::sample::{case, f32s, ints};
use crate::movement::concat::concat;
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, InferInput, OTTAVA, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, DataType, Dim, Error, Node, Program, Result, Tensor, TensorType, Value, ValueId};

/// The operator.
pub struct Loop;

static SPEC: OpSpec = OpSpec {
    name: "Loop",
    domain: OTTAVA,
    since: 1,
    inputs: (0, usize::MAX),
    outputs: (1, usize::MAX),
    attrs: &[AttrSpec::required("body", AttrKind::Program), AttrSpec::required("captures", AttrKind::Int)],
};

/// How many of `n` inputs are states: those between the `lead` first and the captured ones.
pub(super) fn n_states(attrs: &Attrs, n: usize, lead: usize) -> Result<usize> {
    let captures = usize::try_from(attrs.int("captures", 0)?).unwrap_or(usize::MAX);
    let rest = n.max(lead) - lead;
    rest.checked_sub(captures).ok_or_else(|| Error::invalid(format!("{captures} captured values in {n} inputs")))
}

impl Op for Loop {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infers_from_unranked(&self) -> bool {
        true
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let body = cx.attrs().program("body")?;
        let n = n_states(cx.attrs(), cx.inputs.len(), 2)?;
        let (number, truth) = (TensorType::fixed(DataType::S64, &[]), TensorType::fixed(DataType::Bool, &[]));
        let open = |ty| Some(InferInput { ty, constant: None });
        let behind: &[Known] = cx.inputs.get(2..).unwrap_or(&[]);
        let formals = Formals {
            lead: vec![open(&number), open(&truth)],
            states: behind[..n].to_vec(),
            tail: behind[n..].to_vec(),
        };
        let (mut types, stacked) = settle(cx, body, &formals, 1)?;
        let (own, trips) = (symbols(cx), trips(cx, body)?);
        for ty in &stacked {
            let output = types.len();
            let inner = outside(cx, ty, &own, output);
            let first = trips.map_or_else(|| cx.fresh(output, LENGTH_AXIS), Dim::Known);
            types.push(stacked_type(cx, &inner, first));
        }
        Ok(types)
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        Run::new(cx)?.run()
    }

    fn cases(&self) -> Vec<Case> {
        // The state doubles and grows by the captured value; each pass returns it, too.
        let value = |name: &str, ty| Value { name: name.into(), ty, constant: None };
        let ty = TensorType::fixed(DataType::F32, &[1]);
        let mut values = vec![value("i", TensorType::fixed(DataType::S64, &[])), value("go", flag_type())];
        values.extend(["s", "c", "double", "next"].map(|name| value(name, ty.clone())));
        let add = |name: &str, a, b, y| {
            let mut node = Node::new(name, "Add", 13);
            (node.inputs, node.outputs) = (vec![Some(ValueId(a)), Some(ValueId(b))], vec![ValueId(y)]);
            node
        };
        let nodes = vec![add("a", 2, 2, 4), add("b", 4, 3, 5)];
        let inputs = (0..4).map(ValueId).collect();
        let outputs = [1, 5, 5].map(ValueId).to_vec();
        let body = Program { name: "body".into(), values, nodes, inputs, outputs };
        let mut node = Node::new("loop", "Loop", 1);
        node.domain = OTTAVA.into();
        node.attrs = Attrs::default().with("body", Attr::Program(body.into())).with("captures", Attr::Int(1));
        let trips = ints(DataType::S64, &[], &[3]);
        let outputs = [f32s(&[1], &[15.0]), f32s(&[3, 1], &[3.0, 7.0, 15.0])];
        let go = crate::elementwise::sample::bools(&[], &[true]);
        vec![case("c1_states_and_stack", node, &[trips, go, f32s(&[1], &[1.0]), f32s(&[1], &[1.0])], &outputs)]
    }
}

fn flag_type() -> TensorType {
    TensorType::fixed(DataType::Bool, &[])
}

/// The number of passes, where constants decide it.
fn trips(cx: &InferCx, body: &Program) -> Result<Option<usize>> {
    let count = match cx.opt(0) {
        Some(count) => count.constant.map(Tensor::to_ints).transpose()?.and_then(|v| v.first().copied()),
        None => None,
    };
    let goes = match cx.opt(1) {
        Some(condition) => condition.constant.map(flag).transpose()?,
        None => Some(true),
    };
    match (count, goes) {
        (_, Some(false)) => Ok(Some(0)),
        (Some(n), Some(true)) if always_continues(body) => Ok(usize::try_from(n.max(0)).ok()),
        _ => Ok(None),
    }
}

fn stacked_type(cx: &InferCx, inner: &TensorType, first: Dim) -> TensorType {
    if inner.is_unranked() {
        return inner.clone();
    }
    cx.ty(inner.dtype, std::iter::once(first).chain(inner.shape.0.iter().cloned()).collect())
}

/// A loop as it runs.
struct Run<'a> {
    body: &'a Program,
    limit: i64,
    condition: bool,
    states: Vec<Option<Tensor>>,
    captured: Vec<Option<Tensor>>,
    stacks: Vec<Vec<Tensor>>,
}

impl<'a> Run<'a> {
    fn new(cx: &EvalCx<'a>) -> Result<Self> {
        let body = cx.attrs().program("body")?;
        let n = n_states(cx.attrs(), cx.inputs.len(), 2)?;
        let n_stacks = body.outputs.len().checked_sub(1 + n);
        let n_stacks = n_stacks.ok_or_else(|| Error::invalid(format!("the body returns fewer than {n} states")))?;
        let limit = cx.opt_ints(0)?.map(|v| v.first().copied().unwrap_or(0));
        let mut states: Vec<Option<Tensor>> = cx.inputs.iter().skip(2).map(|t| t.cloned()).collect();
        let captured = states.split_off(n);
        Ok(Self {
            body,
            limit: limit.unwrap_or(i64::MAX),
            condition: cx.opt(1).map(flag).transpose()?.unwrap_or(true),
            states,
            captured,
            stacks: vec![Vec::new(); n_stacks],
        })
    }

    fn run(mut self) -> Result<Vec<Tensor>> {
        let (mut pass, mut bytes) = (0, 0usize);
        let running = Running::begin();
        while self.condition && pass < self.limit {
            running.pass("Loop")?;
            bytes = self.pass(pass)?.saturating_add(bytes);
            if bytes > util::MAX_ELEMENTS {
                let most = util::MAX_ELEMENTS;
                return Err(Error::invalid(format!("Loop: the values of its passes have more than {most} bytes")));
            }
            pass += 1;
        }
        let stacks = (0..self.stacks.len()).map(|j| self.stacked(j)).collect::<Result<Vec<_>>>()?;
        let missing = || Error::invalid("Loop: a state has no first value");
        let states = self.states.into_iter().map(|t| t.ok_or_else(missing));
        states.chain(stacks.into_iter().map(Ok)).collect()
    }

    /// One pass of the body; the bytes that it adds to the stacks.
    fn pass(&mut self, pass: i64) -> Result<usize> {
        let lead = [Some(Tensor::scalar(pass)), Some(Tensor::from_bools(&[], &[self.condition])?)];
        let inputs: Vec<_> =
            lead.into_iter().chain(self.states.drain(..)).chain(self.captured.iter().cloned()).collect();
        let n = inputs.len() - 2 - self.captured.len();
        let mut outputs = run_body(self.body, &inputs)?.into_iter();
        self.condition = outputs.next().map(|t| flag(&t)).transpose()?.unwrap_or(false);
        self.states.extend(outputs.by_ref().take(n).map(Some));
        let mut bytes = 0;
        for (stack, tensor) in self.stacks.iter_mut().zip(outputs) {
            bytes += tensor.bytes().len();
            stack.push(tensor);
        }
        Ok(bytes)
    }

    /// (C2) for an empty stack.
    fn stacked(&self, j: usize) -> Result<Tensor> {
        if !self.stacks[j].is_empty() {
            return stack(&self.stacks[j], 0);
        }
        let (number, truth) = (TensorType::fixed(DataType::S64, &[]), flag_type());
        let data = self.states.iter().chain(&self.captured);
        let types: Vec<Option<TensorType>> = data.map(|t| t.as_ref().map(Tensor::ty)).collect();
        let known = [Some(&number), Some(&truth)].into_iter().chain(types.iter().map(Option::as_ref));
        let known: Vec<Known> = known.map(|ty| ty.map(|ty| InferInput { ty, constant: None })).collect();
        let ty = infer_body(self.body, &known)?.swap_remove(1 + self.states.len() + j);
        let inner = ty.shape.0.iter().map(|d| d.known().unwrap_or(0));
        let shape: Vec<usize> = std::iter::once(0).chain(inner.filter(|_| !ty.is_unranked())).collect();
        util::output(ty.dtype, &shape)
    }
}

/// Tensors of one shape joined along a new axis.
pub(super) fn stack(parts: &[Tensor], axis: usize) -> Result<Tensor> {
    let widen = |t: &Tensor| {
        let mut shape = t.shape().to_vec();
        shape.insert(axis.min(shape.len()), 1);
        t.reshaped(&shape)
    };
    let parts = parts.iter().map(widen).collect::<Result<Vec<_>>>()?;
    if let Some(other) = parts.iter().find(|t| t.ty() != parts[0].ty()) {
        let (a, b) = (parts[0].ty(), other.ty());
        return Err(Error::invalid(format!("passes return {a} and {b}, which cannot be stacked")));
    }
    concat(&parts.iter().collect::<Vec<_>>(), axis)
}
