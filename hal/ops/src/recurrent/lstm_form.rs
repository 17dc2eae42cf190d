//! The data of an `LstmInteger` node, checked, and its walk along time.

use crate::{EvalCx, eval::mode_of, util};
use ottava_hal::refmath::error::RefmathError;
use ottava_hal::refmath::fixed16::{logistic, tanh};
use ottava_hal::refmath::lstm::{LstmInt, LstmProjection, LstmScales};
use ottava_hal::refmath::requant::{Q31, RequantMode};
use ottava_hal::{DataType, Error, QuantParams, Reason, Result, Scheme, Tensor};

/// Extents of a node.
#[derive(Clone, Copy)]
struct Extents {
    batch: usize,
    time: usize,
    input: usize,
    cells: usize,
    state: usize,
    time_major: bool,
}

/// A matrix of weights with what is added to its products.
struct Matrix {
    weights: Vec<i32>,
    bias: Vec<i64>,
    columns: usize,
}

impl Matrix {
    /// The exact accumulator of a row, with the zero point of `x` subtracted.
    fn row(&self, row: usize, x: &[i32]) -> i64 {
        let weights = &self.weights[row * self.columns..][..self.columns];
        let products = weights.iter().zip(x).map(|(w, x)| i64::from(*w) * i64::from(*x));
        self.bias[row] + products.sum::<i64>()
    }
}

/// Everything that an `LstmInteger` node computes with.
pub struct LstmForm {
    extents: Extents,
    lstm: LstmInt,
    coupled: bool,
    input: Matrix,
    recurrent: Matrix,
    projection: Option<(LstmProjection, Matrix)>,
    /// The input without its zero point.
    x: Vec<i32>,
    state_zp: i32,
    state: Vec<i32>,
    cell: Vec<i16>,
}

impl LstmForm {
    /// Reads and checks a node.
    pub fn of(cx: &EvalCx) -> Result<Self> {
        let extents = extents(cx)?;
        let coupled = cx.attrs().int("input_forget", 0)? != 0;
        let mode = mode_of(cx.node);
        if mode == RequantMode::Fp32Rne {
            return Err(wrong(cx, "it has no fp32_rne form; expected q31_double or q31_single"));
        }
        let ((xs, input_zp), (hs, state_zp), (cs, _)) = (per_tensor(cx, 0)?, per_tensor(cx, 4)?, per_tensor(cx, 5)?);
        if cx.out_quant(0) != cx.in_quant(4) {
            return Err(wrong(cx, "output 0 does not have the parameters of the state"));
        }
        let hidden_scale = cx.attrs().float("hidden_scale", hs)?;
        let hidden_zp = zero_point(cx)?;
        let n_gates = if coupled { 3 } else { 4 };
        let scales = LstmScales {
            input: xs,
            state: hs,
            weights: gate_scales(cx, 1, n_gates)?,
            recurrent: gate_scales(cx, 2, n_gates)?,
            cell: cs,
            hidden: hidden_scale,
        };
        let lstm = LstmInt::new(mode, &scales, hidden_zp, cx.attrs().float("cell_clip", 0.0)?).map_err(model)?;
        let Extents { cells, input, state, .. } = extents;
        Ok(Self {
            lstm,
            coupled,
            input: matrix(cx, 1, Some(3), n_gates * cells, input)?,
            recurrent: matrix(cx, 2, None, n_gates * cells, state)?,
            projection: projection(cx, &extents, [hidden_scale, hs], state_zp)?,
            x: ints(cx, 0, DataType::S8)?.into_iter().map(|v| v - input_zp).collect(),
            state_zp,
            state: ints(cx, 4, DataType::S8)?,
            cell: ints(cx, 5, DataType::S16)?.into_iter().map(|v| v as i16).collect(),
            extents,
        })
    }

    /// Y and the states after the last step.
    pub fn run(mut self) -> Result<Vec<Tensor>> {
        let Extents { batch, time, input, cells, state, time_major } = self.extents;
        let x = std::mem::take(&mut self.x);
        let at = |b: usize, t: usize| if time_major { t * batch + b } else { b * time + t };
        let steps = if time_major { [time, batch, state] } else { [batch, time, state] };
        let mut out = util::output(DataType::S8, &steps)?;
        let y = out.as_slice_mut::<i8>()?;
        for b in 0..batch {
            let (mut h, mut c) = (self.state[b * state..][..state].to_vec(), self.cell[b * cells..][..cells].to_vec());
            for t in 0..time {
                self.step(&x[at(b, t) * input..][..input], &mut h, &mut c)?;
                y[at(b, t) * state..][..state].iter_mut().zip(&h).for_each(|(y, h)| *y = *h as i8);
            }
            self.state[b * state..][..state].copy_from_slice(&h);
            self.cell[b * cells..][..cells].copy_from_slice(&c);
        }
        let wide = |v: &[i32]| v.iter().map(|v| i64::from(*v)).collect::<Vec<i64>>();
        let cell: Vec<i64> = self.cell.iter().map(|v| i64::from(*v)).collect();
        Ok(vec![
            out,
            Tensor::from_ints(DataType::S8, &[batch, state], &wide(&self.state))?,
            Tensor::from_ints(DataType::S16, &[batch, cells], &cell)?,
        ])
    }

    /// One step of one batch entry; `x` is without its zero point.
    fn step(&self, x: &[i32], h: &mut [i32], c: &mut [i16]) -> Result<()> {
        let centred: Vec<i32> = h.iter().map(|v| v - self.state_zp).collect();
        let mut hidden = Vec::with_capacity(c.len());
        for (k, cell) in c.iter_mut().enumerate() {
            let gate = |gate: usize| self.argument(gate, k, x, &centred);
            let input = if self.coupled { None } else { Some(logistic(gate(0)?)) };
            let (forget, candidate) = (logistic(gate(1)?), tanh(gate(2)?, 3));
            *cell = self.lstm.cell(forget, *cell, input, candidate);
            hidden.push(i32::from(self.lstm.hidden(logistic(gate(3)?), *cell)));
        }
        match &self.projection {
            None => h.copy_from_slice(&hidden),
            Some((projection, matrix)) => {
                for (row, h) in h.iter_mut().enumerate() {
                    let acc = fits(matrix.row(row, &hidden), projection.multiplier, self.lstm.mode)?;
                    *h = projection.state(acc).into();
                }
            }
        }
        Ok(())
    }

    /// The argument of gate `gate` (i, f, g, o) of a cell.
    fn argument(&self, gate: usize, k: usize, x: &[i32], h: &[i32]) -> Result<i16> {
        let row = (gate - usize::from(self.coupled)) * self.extents.cells + k;
        let mode = self.lstm.mode;
        let input = fits(self.input.row(row, x), self.lstm.input[gate], mode)?;
        let state = fits(self.recurrent.row(row, h), self.lstm.recurrent[gate], mode)?;
        Ok(self.lstm.argument(gate, input, state))
    }
}

/// (C3) An accumulator in 32 bits that its multiplier may shift.
fn fits(acc: i64, q: Q31, mode: RequantMode) -> Result<i32> {
    let overflow = |what: String| Error::unsupported(Reason::AccOverflow, what);
    if mode == RequantMode::Q31Double {
        q.check_left_shift(acc, acc).map_err(|e| overflow(e.to_string()))?;
    }
    i32::try_from(acc).map_err(|_| overflow(format!("the accumulator {acc} of an LSTM leaves 32 bits")))
}

fn model(e: RefmathError) -> Error {
    Error::invalid(e.to_string())
}

fn wrong(cx: &EvalCx, what: &str) -> Error {
    Error::invalid(format!("{}: {what}", cx.node.full_op()))
}

fn extents(cx: &EvalCx) -> Result<Extents> {
    let time_major = cx.attrs().int("time_major", 0)? != 0;
    let (&[a, b, input], &[_, cells, _], &[_, state]) =
        (cx.input(0)?.shape(), cx.input(1)?.shape(), cx.input(4)?.shape())
    else {
        return Err(wrong(cx, "expected X and W of rank 3 and a state of rank 2"));
    };
    let (time, batch) = if time_major { (a, b) } else { (b, a) };
    let n_gates = if cx.attrs().int("input_forget", 0)? != 0 { 3 } else { 4 };
    let expected: [(usize, &[usize]); 7] = [
        (1, &[n_gates, cells, input]),
        (2, &[n_gates, cells, state]),
        (3, &[n_gates, cells]),
        (4, &[batch, state]),
        (5, &[batch, cells]),
        (6, &[state, cells]),
        (7, &[state]),
    ];
    for (i, expected) in expected {
        if let Some(found) = cx.opt(i).map(Tensor::shape).filter(|found| *found != expected) {
            return Err(wrong(cx, &format!("input {i} has shape {found:?}, expected {expected:?}")));
        }
    }
    if cx.opt(6).is_none() && cells != state {
        return Err(wrong(cx, &format!("{cells} cells and a state of {state} need a projection")));
    }
    Ok(Extents { batch, time, input, cells, state, time_major })
}

fn per_tensor(cx: &EvalCx, i: usize) -> Result<(f32, i32)> {
    let params = cx.in_quant(i).and_then(QuantParams::as_per_tensor);
    params.ok_or_else(|| wrong(cx, &format!("input {i} must be quantized per tensor")))
}

/// The scale of each gate in the order i, f, g, o; coupled gates repeat f for i.
fn gate_scales(cx: &EvalCx, i: usize, n_gates: usize) -> Result<[f32; 4]> {
    let fail = || wrong(cx, &format!("input {i} must have a scale per gate (axis 0) and zero points 0"));
    let params = cx.in_quant(i).ok_or_else(fail)?;
    let per_gate = params.scheme == Scheme::PerAxis { axis: 0 } && params.scales.len() == n_gates;
    if !per_gate || params.zero_points.iter().any(|z| *z != 0) {
        return Err(fail());
    }
    Ok(std::array::from_fn(|gate| params.scales[gate.saturating_sub(4 - n_gates)]))
}

fn zero_point(cx: &EvalCx) -> Result<i32> {
    let zp = cx.attrs().int("hidden_zero_point", 0)?;
    i8::try_from(zp).map(i32::from).map_err(|_| wrong(cx, &format!("hidden_zero_point is {zp}, expected an s8")))
}

fn ints(cx: &EvalCx, i: usize, dtype: DataType) -> Result<Vec<i32>> {
    let tensor = cx.input(i)?;
    if tensor.dtype() != dtype {
        return Err(wrong(cx, &format!("input {i} is {}, expected {dtype}", tensor.dtype())));
    }
    Ok(tensor.to_ints()?.into_iter().map(|v| v as i32).collect())
}

fn matrix(cx: &EvalCx, weights: usize, bias: Option<usize>, rows: usize, columns: usize) -> Result<Matrix> {
    let bias = match bias.filter(|i| cx.opt(*i).is_some()) {
        Some(i) => ints(cx, i, DataType::S32)?.into_iter().map(i64::from).collect(),
        None => vec![0; rows],
    };
    Ok(Matrix { weights: ints(cx, weights, DataType::S8)?, bias, columns })
}

/// The projection, with `zm * sum W` folded into its bias: the hidden value stands for `(m + zm) * ms`.
fn projection(
    cx: &EvalCx,
    extents: &Extents,
    [hidden, state]: [f32; 2],
    state_zp: i32,
) -> Result<Option<(LstmProjection, Matrix)>> {
    if cx.opt(6).is_none() {
        return Ok(None);
    }
    let (scale, zp) = per_tensor(cx, 6)?;
    if zp != 0 {
        return Err(wrong(cx, "the projection must have the zero point 0"));
    }
    let clip = cx.attrs().float("projection_clip", 0.0)?;
    let scalar = LstmProjection::new(mode_of(cx.node), [scale, hidden, state], state_zp, clip).map_err(model)?;
    let mut matrix = matrix(cx, 6, Some(7), extents.state, extents.cells)?;
    let zm = i64::from(zero_point(cx)?);
    for (bias, row) in matrix.bias.iter_mut().zip(matrix.weights.chunks(extents.cells.max(1))) {
        *bias += zm * row.iter().map(|w| i64::from(*w)).sum::<i64>();
    }
    Ok(Some((scalar, matrix)))
}
