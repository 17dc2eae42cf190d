//! What RNN, GRU and LSTM share: shapes, directions, lengths, initial states, layouts, and the walk along time.
//!
//! * (C1) a gate is one accumulator: `W·x` in ascending index, then `R·h`, one fused multiply-add per step; then Wb is
//!   added, then Rb (numerics.md section 7).
//! * (C2) after a sequence's length Y is 0, and Y_h is the state of its last step; `reverse` starts at that step.
//! * (C3) f16 and bf16 are computed in f32 and rounded at the outputs.

use super::real::{Gate, Real, clamp};
use crate::elementwise::cast::cast;
use crate::movement::transpose::permute;
use crate::{AttrKind, AttrSpec, EvalCx, InferCx, OpSpec, util};
use ottava_hal::{Attrs, DataType, Dim, Element, Error, Result, Tensor, TensorType};

/// The attributes that all three have.
pub const ATTRS: [AttrSpec; 7] = [
    AttrSpec::optional("activation_alpha", AttrKind::Floats),
    AttrSpec::optional("activation_beta", AttrKind::Floats),
    AttrSpec::optional("activations", AttrKind::Strs),
    AttrSpec::optional("clip", AttrKind::Float),
    AttrSpec::optional("direction", AttrKind::Str),
    AttrSpec::optional("hidden_size", AttrKind::Int),
    AttrSpec::optional("layout", AttrKind::Int),
];

/// A cell: how one time step changes the states of one batch entry.
pub trait Cell<R: Real> {
    /// One step; `c` is the cell state of an LSTM and empty otherwise.
    fn step(&self, weights: &Weights<R>, x: &[R], h: &mut [R], c: &mut [R]);
}

/// The parameters of one direction.
pub struct Weights<'a, R> {
    /// `[gates * hidden, input]`.
    w: &'a [R],
    /// `[gates * hidden, hidden]`.
    r: &'a [R],
    /// `[2 * gates * hidden]`: Wb, then Rb; empty if there is none.
    bias: &'a [R],
    /// `[hidden.saturating_mul(3)]` of an LSTM; empty if there is none.
    pub peephole: &'a [R],
    /// Activations of this direction.
    pub gates: Vec<Gate<R>>,
    /// Bound of the activations' arguments.
    clip: Option<R>,
    n_rows: usize,
}

impl<R: Real> Weights<'_, R> {
    /// (C1) row `row` without the biases: `W·x`, then `R·h`.
    pub fn product(&self, row: usize, x: &[R], h: &[R]) -> R {
        let input = dot(R::ZERO, &self.w[row * x.len()..], x);
        dot(input, &self.r[row * h.len()..], h)
    }

    /// The parts of row `row` alone: `W·x` and `R·h`.
    pub fn products(&self, row: usize, x: &[R], h: &[R]) -> (R, R) {
        (dot(R::ZERO, &self.w[row * x.len()..], x), dot(R::ZERO, &self.r[row * h.len()..], h))
    }

    /// Wb of a row.
    pub fn input_bias(&self, row: usize) -> R {
        self.bias.get(row).copied().unwrap_or(R::ZERO)
    }

    /// Rb of a row.
    pub fn state_bias(&self, row: usize) -> R {
        self.bias.get(self.n_rows + row).copied().unwrap_or(R::ZERO)
    }

    /// (C1) row `row` with both biases.
    pub fn gate(&self, row: usize, x: &[R], h: &[R]) -> R {
        self.product(row, x, h).add(self.input_bias(row)).add(self.state_bias(row))
    }

    /// Activation `i` of an argument that `clip` bounds.
    pub fn activate(&self, i: usize, v: R) -> R {
        let v = self.clip.map_or(v, |c| clamp(v, R::ZERO.sub(c), c));
        self.gates[i].apply(v)
    }
}

fn dot<R: Real>(acc: R, weights: &[R], x: &[R]) -> R {
    weights.iter().zip(x).fold(acc, |acc, (w, x)| x.mul_add(*w, acc))
}

/// Extents of a node.
struct Extents {
    seq: usize,
    batch: usize,
    input: usize,
    hidden: usize,
    directions: usize,
}

/// What distinguishes the three operators here.
pub struct Form {
    /// Gates in W and R.
    pub n_gates: usize,
    /// Default activations of one direction.
    pub activations: &'static [&'static str],
    /// Whether there is a cell state (inputs 6 and 7, output 2).
    pub has_cell: bool,
}

/// A schema with the shared inputs and attributes.
pub const fn spec(name: &'static str, n_inputs: usize, n_outputs: usize, attrs: &'static [AttrSpec]) -> OpSpec {
    OpSpec { name, domain: "", since: 1, inputs: (3, n_inputs), outputs: (0, n_outputs), attrs }
}

/// Types of Y, Y_h and Y_c.
pub fn infer_sequence(cx: &InferCx) -> Result<Vec<TensorType>> {
    let (x, r, w) = (cx.shape(0)?, cx.shape(2)?, cx.shape(1)?);
    let ([a, b, _], [directions, _, hidden], 3) = (x, r, w.len()) else {
        return Err(Error::invalid(format!("{}: expected X, W and R of rank 3", cx.node.full_op())));
    };
    let batch_first = is_batch_first(cx.attrs())?;
    let (y, state) = if batch_first {
        let (batch, seq) = (a, b);
        (vec![batch, seq, directions, hidden], vec![batch, directions, hidden])
    } else {
        let (seq, batch) = (a, b);
        (vec![seq, directions, batch, hidden], vec![directions, batch, hidden])
    };
    let ty = |dims: &[&Dim]| Ok(cx.ty(cx.dtype(0)?, dims.iter().map(|d| (*d).clone()).collect()));
    [ty(&y), ty(&state), ty(&state)].into_iter().take(cx.n_outputs()).collect()
}

fn is_batch_first(attrs: &Attrs) -> Result<bool> {
    match attrs.int("layout", 0)? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::invalid(format!("layout is {other}, expected 0 or 1"))),
    }
}

/// Multiply-accumulates from known shapes.
pub fn sequence_macs(inputs: &[Option<&TensorType>]) -> u64 {
    let shape = |i: usize| inputs.get(i).copied().flatten().and_then(|t| t.shape.known());
    let (Some(x), Some(w), Some(r)) = (shape(0), shape(1), shape(2)) else { return 0 };
    let count = |s: &[usize]| s.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64));
    let steps = x.first().zip(x.get(1)).map_or(0, |(&a, &b)| (a as u64).saturating_mul(b as u64));
    steps.saturating_mul(count(&w).saturating_add(count(&r)))
}

/// Runs a cell over all directions, batch entries and steps; Y, Y_h and, with a cell state, Y_c.
pub fn run<'a>(cx: &EvalCx<'a>, form: &Form, cell: &(impl Cell<f32> + Cell<f64>)) -> Result<Vec<Tensor>> {
    let dtype = cx.input(0)?.dtype();
    match dtype {
        DataType::F64 => run_in::<f64>(cx, form, cell),
        t if t.is_float() => run_in::<f32>(cx, form, cell),
        other => Err(crate::elementwise::number::wrong_dtype(&cx.node.full_op(), other)),
    }
}

fn run_in<R: Real + Element>(cx: &EvalCx, form: &Form, cell: &impl Cell<R>) -> Result<Vec<Tensor>> {
    let batch_first = is_batch_first(cx.attrs())?;
    let wide = |i: usize| cx.opt(i).map(|t| cast(t, R::TYPE)).transpose();
    let states_first = |t: Option<Tensor>| match t {
        Some(t) if batch_first && t.shape().len() == 3 => permute(&t, &[1, 0, 2]).map(Some),
        t => Ok(t),
    };
    let mut inputs = (0..8).map(wide).collect::<Result<Vec<_>>>()?;
    for i in [0, 5, 6] {
        inputs[i] = states_first(inputs[i].take())?;
    }
    let extents = check(cx, form, &inputs)?;
    let lens = lengths(cx, &extents)?;
    let outputs = walk::<R>(cx, form, cell, &inputs, &extents, &lens)?;
    let order: [&[usize]; 3] = [&[2, 0, 1, 3], &[1, 0, 2], &[1, 0, 2]];
    let finish = |(y, order): (Tensor, &&[usize])| {
        let y = if batch_first { permute(&y, order)? } else { y };
        cast(&y, cx.input(0)?.dtype())
    };
    outputs.into_iter().zip(&order).map(finish).collect()
}

/// Checks every input's shape; the error names it.
fn check(cx: &EvalCx, form: &Form, inputs: &[Option<Tensor>]) -> Result<Extents> {
    let shape = |i: usize| inputs[i].as_ref().map(Tensor::shape);
    let (Some(&[seq, batch, input]), Some(&[directions, _, hidden])) = (shape(0), shape(2)) else {
        return Err(Error::invalid(format!("{}: expected X, W and R of rank 3", cx.node.full_op())));
    };
    let expected_directions = match cx.attrs().str("direction", "forward")? {
        "forward" | "reverse" => 1,
        "bidirectional" => 2,
        other => return Err(Error::invalid(format!("{}: unknown direction `{other}`", cx.node.full_op()))),
    };
    let given = cx.attrs().int("hidden_size", hidden as i64)?;
    if directions != expected_directions || given != hidden as i64 {
        let op = cx.node.full_op();
        return Err(Error::invalid(format!(
            "{op}: R is {:?}, hidden_size {given}, direction count {expected_directions}",
            shape(2)
        )));
    }
    if inputs[1].is_none() {
        return Err(Error::invalid(format!("{}: W is missing", cx.node.full_op())));
    }
    let rows = hidden.saturating_mul(form.n_gates);
    let states = [directions, batch, hidden];
    let expected: [(usize, &[usize]); 6] = [
        (1, &[directions, rows, input]),
        (2, &[directions, rows, hidden]),
        (3, &[directions, rows.saturating_mul(2)]),
        (5, &states),
        (6, &states),
        (7, &[directions, hidden.saturating_mul(3)]),
    ];
    for (i, expected) in expected {
        if shape(i).is_some_and(|found| found != expected) {
            let (op, found) = (cx.node.full_op(), shape(i));
            return Err(Error::invalid(format!("{op}: input {i} has shape {found:?}, expected {expected:?}")));
        }
    }
    Ok(Extents { seq, batch, input, hidden, directions })
}

fn lengths(cx: &EvalCx, extents: &Extents) -> Result<Vec<usize>> {
    let Some(lens) = cx.opt_ints(4)? else { return Ok(vec![extents.seq; extents.batch]) };
    let lens: Vec<usize> = lens.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
    if lens.len() != extents.batch || lens.iter().any(|&n| n > extents.seq) {
        let (op, seq, batch) = (cx.node.full_op(), extents.seq, extents.batch);
        return Err(Error::invalid(format!("{op}: sequence_lens {lens:?} do not fit {batch} sequences of {seq}")));
    }
    Ok(lens)
}

fn walk<R: Real + Element>(
    cx: &EvalCx,
    form: &Form,
    cell: &impl Cell<R>,
    inputs: &[Option<Tensor>],
    extents: &Extents,
    lens: &[usize],
) -> Result<Vec<Tensor>> {
    let &Extents { seq, batch, input, hidden, directions } = extents;
    let data = |i: usize| inputs[i].as_ref().map_or(Ok(&[][..]), |t| t.as_slice::<R>());
    let x = data(0)?;
    let mut y = util::output(R::TYPE, &[seq, directions, batch, hidden])?;
    let state = |i: usize| match &inputs[i] {
        Some(t) => Ok(t.clone()),
        None => util::output(R::TYPE, &[directions, batch, hidden]),
    };
    let (mut h, mut c) = (state(5)?, state(6)?);
    let mut no_cell = [];
    for direction in 0..directions {
        let weights = weights(cx, form, [data(1)?, data(2)?, data(3)?, data(7)?], direction, extents)?;
        let reverse = direction == 1 || cx.attrs().str("direction", "forward")? == "reverse";
        for (b, &len) in lens.iter().enumerate() {
            let at = (direction * batch + b) * hidden;
            let h = &mut h.as_slice_mut::<R>()?[at..at + hidden];
            let c = if form.has_cell { &mut c.as_slice_mut::<R>()?[at..at + hidden] } else { &mut no_cell[..] };
            for step in 0..len {
                let t = if reverse { len - 1 - step } else { step };
                cell.step(&weights, &x[(t * batch + b) * input..][..input], h, c);
                let to = ((t * directions + direction) * batch + b) * hidden;
                y.as_slice_mut::<R>()?[to..to + hidden].copy_from_slice(h);
            }
        }
    }
    Ok(if form.has_cell { vec![y, h, c] } else { vec![y, h] })
}

/// The parameters of a direction from W, R, B and P.
fn weights<'a, R: Real>(
    cx: &EvalCx,
    form: &Form,
    [w, r, bias, peephole]: [&'a [R]; 4],
    direction: usize,
    extents: &Extents,
) -> Result<Weights<'a, R>> {
    let part = |data: &'a [R]| {
        let n = data.len() / extents.directions;
        &data[direction * n..(direction + 1) * n]
    };
    Ok(Weights {
        w: part(w),
        r: part(r),
        bias: part(bias),
        peephole: part(peephole),
        gates: gates(cx.attrs(), form, direction, extents.directions)?,
        clip: cx.attrs().float_opt("clip")?.map(R::from_f32),
        n_rows: form.n_gates * extents.hidden,
    })
}

/// The activations of a direction. All directions share the lists of parameters.
fn gates<R: Real>(attrs: &Attrs, form: &Form, direction: usize, directions: usize) -> Result<Vec<Gate<R>>> {
    let n = form.activations.len();
    let given = attrs.strs_opt("activations")?;
    if given.is_some_and(|names| names.len() != n * directions) {
        return Err(Error::invalid(format!("expected {n} activations for each of {directions} directions")));
    }
    let mut alphas = attrs.floats_opt("activation_alpha")?.unwrap_or(&[]).iter();
    let mut betas = attrs.floats_opt("activation_beta")?.unwrap_or(&[]).iter();
    let name = |i: usize| given.map_or(form.activations[i % n], |names| names[i].as_str());
    let mut all = Vec::with_capacity(n * directions);
    for i in 0..n * directions {
        all.push(Gate::new(name(i), &mut alphas, &mut betas)?);
    }
    Ok(all.drain(direction * n..(direction + 1) * n).collect())
}
