//! Running a chain: blocks of elements through all steps, compiled per instruction set.

use super::BLOCK;
use super::chain::{Arg, Body, Chain, Sink, Step, Unary};
use super::functions::{clip, erf, exp, gelu, log, sigmoid, sqrt, tanh};
use super::slots::SLOTS;
use crate::arith::{dequantize, rne_clamped};
use crate::elementwise::BinaryOp;
use crate::epilogue::{OutMut, Source, Store};
use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// An input of a chain.
#[derive(Clone, Copy, Debug)]
pub enum ChainInput<'a> {
    /// Bytes, dequantized as the chain says.
    Bytes(&'a [u8]),
    /// f32.
    Floats(&'a [f32]),
}

impl ChainInput<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Bytes(x) => x.len(),
            Self::Floats(x) => x.len(),
        }
    }
}

type Block = [f32; BLOCK];

impl Chain {
    /// Computes the chain over inputs and an output of one length.
    ///
    /// # Errors
    /// When a slice has another length or type than the chain wants, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, inputs: &[ChainInput<'_>], out: OutMut<'_>) -> Result<()> {
        check_len("the inputs", inputs.len(), self.n_inputs)?;
        self.check_types(inputs)?;
        match (out, self.sink) {
            (OutMut::F32(out), Sink::Floats) => self.spread(exec, inputs, out, &|at, out| {
                exec.isa.run(Run { chain: self, inputs, at, out: Part::Floats(out) });
            }),
            (OutMut::Bytes(out), Sink::Bytes(scale, store)) => self.spread(exec, inputs, out, &|at, out| {
                exec.isa.run(Run { chain: self, inputs, at, out: Part::Bytes(out, scale, store) });
            }),
            _ => Err(KernelError::Parameter { what: "the output slice is not of the chain's type".into() }),
        }
    }

    fn check_types(&self, inputs: &[ChainInput<'_>]) -> Result<()> {
        let fits = |step: &Step| match step.body {
            Body::Bytes(i, _) => matches!(inputs[i], ChainInput::Bytes(_)),
            Body::Floats(i) => matches!(inputs[i], ChainInput::Floats(_)),
            _ => true,
        };
        if self.steps.iter().all(fits) {
            return Ok(());
        }
        Err(KernelError::Parameter { what: "an input slice is not of the chain's type".into() })
    }

    /// Calls `f(first element, part of the output)` for parts of whole periods.
    fn spread<T: Send>(
        &self,
        exec: Exec<'_>,
        inputs: &[ChainInput<'_>],
        out: &mut [T],
        f: &(dyn Fn(usize, &mut [T]) + Sync),
    ) -> Result<()> {
        inputs.iter().try_for_each(|x| check_len("an input", x.len(), out.len()))?;
        let cost = out.len().saturating_mul(4 * self.steps.len());
        let (n, parts, out) = (out.len(), exec.parts(cost, usize::MAX), SharedOut::new(out));
        exec.split(n, self.period, parts, &|from, to| {
            // SAFETY: `split` hands out disjoint ranges.
            f(from, unsafe { out.part(from, to - from) });
        })
    }
}

enum Part<'a> {
    Floats(&'a mut [f32]),
    Bytes(&'a mut [u8], f32, Store),
}

/// One part of the output, which begins at element `at`, a multiple of the period.
struct Run<'a> {
    chain: &'a Chain,
    inputs: &'a [ChainInput<'a>],
    at: usize,
    out: Part<'a>,
}

impl Vectorize for Run<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let Self { chain, inputs, at, mut out } = self;
        let mut slots = [[0f32; BLOCK]; SLOTS];
        for (slot, value) in &chain.scalars {
            slots[*slot] = [*value; BLOCK];
        }
        let len = match &out {
            Part::Floats(out) => out.len(),
            Part::Bytes(out, ..) => out.len(),
        };
        let (mut from, mut phase) = (0, 0);
        while from < len {
            let n = chain.block.min(chain.period - phase).min(len - from);
            for step in &chain.steps {
                perform(chain, inputs, step, (at + from, n, phase), &mut slots);
            }
            let result = &slots[chain.result];
            match &mut out {
                Part::Floats(out) => out[from..from + n].copy_from_slice(&result[..n]),
                Part::Bytes(out, scale, store) => quantize(result, *scale, store, &mut out[from..from + n]),
            }
            from += n;
            phase += n;
            phase = if phase == chain.period { 0 } else { phase };
        }
    }
}

/// Computes one step for the `n` elements from `at` on. Elements of the block beyond them are computed too, from whatever is there.
#[inline(always)]
fn perform(
    chain: &Chain,
    inputs: &[ChainInput<'_>],
    step: &Step,
    (at, n, phase): (usize, usize, usize),
    slots: &mut [Block; SLOTS],
) {
    let row = |i: usize| -> &Block { chain.rows[i][phase..].first_chunk().expect("rows are followed by a block") };
    match step.body {
        Body::Bytes(i, source) => {
            if let ChainInput::Bytes(x) = inputs[i] {
                load_bytes(&x[at..at + n], &source, &mut slots[step.slot]);
            }
        }
        Body::Floats(i) => {
            if let ChainInput::Floats(x) = inputs[i] {
                slots[step.slot][..n].copy_from_slice(&x[at..at + n]);
            }
        }
        Body::Row(i) => slots[step.slot] = *row(i),
        Body::Unary(f, x) => {
            if let Ok([y, x]) = slots.get_disjoint_mut([step.slot, x]) {
                unary(f, x, y);
            }
        }
        Body::Binary(f, Arg::Slot(a), Arg::Slot(b)) if a == b => {
            if let Ok([y, x]) = slots.get_disjoint_mut([step.slot, a]) {
                binary(f, x, x, y);
            }
        }
        Body::Binary(f, Arg::Slot(a), Arg::Slot(b)) => {
            if let Ok([y, a, b]) = slots.get_disjoint_mut([step.slot, a, b]) {
                binary(f, a, b, y);
            }
        }
        Body::Binary(f, Arg::Slot(a), Arg::Row(b)) => {
            if let Ok([y, a]) = slots.get_disjoint_mut([step.slot, a]) {
                binary(f, a, row(b), y);
            }
        }
        Body::Binary(f, Arg::Row(a), Arg::Slot(b)) => {
            if let Ok([y, b]) = slots.get_disjoint_mut([step.slot, b]) {
                binary(f, row(a), b, y);
            }
        }
        Body::Binary(f, Arg::Row(a), Arg::Row(b)) => binary(f, row(a), row(b), &mut slots[step.slot]),
    }
}

/// Whole blocks are read at a constant length.
#[inline(always)]
fn load_bytes(x: &[u8], q: &Source, y: &mut Block) {
    if let Some(x) = x.first_chunk::<BLOCK>() {
        for (y, x) in y.iter_mut().zip(x) {
            *y = dequantize(*x, q.flip, q.zp, q.scale);
        }
    } else {
        for (y, x) in y.iter_mut().zip(x) {
            *y = dequantize(*x, q.flip, q.zp, q.scale);
        }
    }
}

#[inline(always)]
fn quantize(x: &Block, scale: f32, store: &Store, out: &mut [u8]) {
    let mut bytes = [0u8; BLOCK];
    for (y, x) in bytes.iter_mut().zip(x) {
        *y = (rne_clamped(*x / scale, store.lo, store.hi) + store.zp) as u8 ^ store.flip;
    }
    let n = out.len();
    match out.first_chunk_mut::<BLOCK>() {
        Some(whole) => *whole = bytes,
        None => out.copy_from_slice(&bytes[..n]),
    }
}

macro_rules! each {
    ($y:ident, $x:ident, |$v:ident| $f:expr) => {
        for (y, x) in $y.iter_mut().zip($x) {
            let $v = *x;
            *y = $f;
        }
    };
}

#[inline(always)]
fn unary(f: Unary, x: &Block, y: &mut Block) {
    match f {
        Unary::Relu => each!(y, x, |v| if v < 0.0 { 0.0 } else { v }),
        Unary::LeakyRelu(alpha) => each!(y, x, |v| if v < 0.0 { alpha * v } else { v }),
        Unary::HardSigmoid(alpha, beta) => each!(y, x, |v| clip(alpha * v + beta, 0.0, 1.0)),
        Unary::HardSwish => each!(y, x, |v| v * clip(1.0 / 6.0 * v + 0.5, 0.0, 1.0)),
        Unary::Sigmoid => each!(y, x, |v| sigmoid(v)),
        Unary::Tanh => each!(y, x, |v| tanh(v)),
        Unary::Exp => each!(y, x, |v| exp(v)),
        Unary::Erf => each!(y, x, |v| erf(v)),
        Unary::Sqrt => each!(y, x, |v| sqrt(v)),
        Unary::Log => each!(y, x, |v| log(v)),
        Unary::Abs => each!(y, x, |v| f32::from_bits(v.to_bits() & 0x7fff_ffff)),
        Unary::Neg => each!(y, x, |v| -v),
        Unary::Reciprocal => each!(y, x, |v| 1.0 / v),
        Unary::Swish(alpha) => each!(y, x, |v| v * sigmoid(alpha * v)),
        Unary::Gelu => each!(y, x, |v| gelu(v)),
        Unary::Clip(lo, hi) => each!(y, x, |v| clip(v, lo, hi)),
    }
}

#[inline(always)]
fn binary(f: BinaryOp, a: &Block, b: &Block, y: &mut Block) {
    macro_rules! each {
        ($op:tt) => {
            for ((y, a), b) in y.iter_mut().zip(a).zip(b) {
                *y = *a $op *b;
            }
        };
    }
    match f {
        BinaryOp::Add => each!(+),
        BinaryOp::Sub => each!(-),
        BinaryOp::Mul => each!(*),
        BinaryOp::Div => each!(/),
    }
}
