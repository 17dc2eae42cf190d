//! Elementwise kernels: quantize, dequantize, binary operations, clip, look-up tables, sign bridges.
//!
//! Each is a plain loop of single IEEE operations compiled per instruction set (see [`crate::vectorize`]); quantization divides, as the
//! numeric contract demands.

use alloc::format;

use crate::arith::{clip, dequantize as dequantize_byte, rne_clamped};
use crate::epilogue::{OtherQ, OutQ, Source, Store, check_scale};
use crate::error::{KernelError, Result, check_len};
use crate::exec::Exec;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// Elements per step of a task, so that splits fall on cache lines.
const UNIT: usize = 64;

/// A binary operation on f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`
    Div,
}

/// `out[i] = f(i, input parts)` over one range of elements, vectorised.
struct Map<'a, A, B, T, F> {
    a: &'a [A],
    b: &'a [B],
    out: &'a mut [T],
    f: F,
}

impl<A: Copy, B: Copy, T, F: ElementFn<A, B, T>> Vectorize for Map<'_, A, B, T, F> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        for ((out, a), b) in self.out.iter_mut().zip(self.a).zip(self.b) {
            *out = self.f.call(*a, *b);
        }
    }
}

/// The body of a loop. `call` must be `#[inline(always)]`, which closures cannot promise.
trait ElementFn<A, B, T>: Copy + Sync {
    fn call(self, a: A, b: B) -> T;
}

/// Runs `f` over equally long slices, in parallel.
fn map<A, B, T, F>(exec: Exec<'_>, a: &[A], b: &[B], out: &mut [T], f: F) -> Result<()>
where
    A: Copy + Sync,
    B: Copy + Sync,
    T: Send,
    F: ElementFn<A, B, T>,
{
    split(exec, a, b, out, &|a, b, out| exec.isa.run(Map { a, b, out, f }))
}

/// Runs `f` over parts of equally long slices, in parallel.
fn split<A, B, T, F>(exec: Exec<'_>, a: &[A], b: &[B], out: &mut [T], f: &F) -> Result<()>
where
    A: Sync,
    B: Sync,
    T: Send,
    F: Fn(&[A], &[B], &mut [T]) + Sync,
{
    check_len("the output", out.len(), a.len())?;
    check_len("the second operand", b.len(), a.len())?;
    let parts = exec.parts(out.len() * 4, usize::MAX);
    let shared = SharedOut::new(out);
    exec.split(a.len(), UNIT, parts, &|from, to| {
        // SAFETY: `split` hands out disjoint ranges.
        f(&a[from..to], &b[from..to], unsafe { shared.part(from, to - from) });
    })
}

#[derive(Clone, Copy)]
struct Quantize {
    scale: f32,
    store: Store,
}

impl ElementFn<f32, f32, u8> for Quantize {
    #[inline(always)]
    fn call(self, x: f32, _: f32) -> u8 {
        let store = self.store;
        (rne_clamped(x / self.scale, store.lo, store.hi) + store.zp) as u8 ^ store.flip
    }
}

/// `sat(rne(fl32(x / scale)) + zp)`; NaN gives the lower bound.
pub fn quantize(exec: Exec<'_>, x: &[f32], scale: f32, out_q: OutQ, out: &mut [u8]) -> Result<()> {
    check_scale("scale", scale)?;
    map(exec, x, x, out, Quantize { scale, store: Store::new(out_q)? })
}

#[derive(Clone, Copy)]
struct Dequantize(Source);

impl ElementFn<u8, u8, f32> for Dequantize {
    #[inline(always)]
    fn call(self, x: u8, _: u8) -> f32 {
        dequantize_byte(x, self.0.flip, self.0.zp, self.0.scale)
    }
}

/// `fl32((q - zp) * scale)`.
pub fn dequantize(exec: Exec<'_>, x: &[u8], q: OtherQ, out: &mut [f32]) -> Result<()> {
    map(exec, x, x, out, Dequantize(Source::new(q)?))
}

#[derive(Clone, Copy)]
struct Requantize {
    from: Source,
    to: Quantize,
}

impl ElementFn<u8, u8, u8> for Requantize {
    #[inline(always)]
    fn call(self, x: u8, _: u8) -> u8 {
        let t = dequantize_byte(x, self.from.flip, self.from.zp, self.from.scale);
        self.to.call(t, t)
    }
}

/// From one set of parameters to another: `sat(rne(fl32(fl32(xs * (x - zx)) / ys)) + zy)`.
pub fn requantize(exec: Exec<'_>, x: &[u8], from: OtherQ, y_scale: f32, out_q: OutQ, out: &mut [u8]) -> Result<()> {
    check_scale("output scale", y_scale)?;
    let to = Quantize { scale: y_scale, store: Store::new(out_q)? };
    map(exec, x, x, out, Requantize { from: Source::new(from)?, to })
}

/// Parameters of [`binary_q`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BinaryQ {
    /// First operand.
    pub a: OtherQ,
    /// Second operand.
    pub b: OtherQ,
    /// Lower activation bound in f32 (`-inf` for none).
    pub lo: f32,
    /// Upper activation bound in f32 (`inf` for none).
    pub hi: f32,
    /// Output scale.
    pub y_scale: f32,
    /// Output type and clamp.
    pub out: OutQ,
}

/// [`BinaryQ`], checked and ready for kernels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes {
    pub(crate) a: Source,
    pub(crate) b: Source,
    pub(crate) lo: f32,
    pub(crate) hi: f32,
    pub(crate) y_scale: f32,
    pub(crate) store: Store,
}

#[derive(Clone, Copy)]
struct BinaryBytes<const OP: usize>(Bytes);

impl<const OP: usize> ElementFn<u8, u8, u8> for BinaryBytes<OP> {
    #[inline(always)]
    fn call(self, a: u8, b: u8) -> u8 {
        let q = self.0;
        let a = dequantize_byte(a, q.a.flip, q.a.zp, q.a.scale);
        let b = dequantize_byte(b, q.b.flip, q.b.zp, q.b.scale);
        let t = clip(arithmetic::<OP>(a, b), q.lo, q.hi);
        Quantize { scale: q.y_scale, store: q.store }.call(t, t)
    }
}

const ADD: usize = 0;
const SUB: usize = 1;
const MUL: usize = 2;
const DIV: usize = 3;

#[inline(always)]
fn arithmetic<const OP: usize>(a: f32, b: f32) -> f32 {
    match OP {
        ADD => a + b,
        SUB => a - b,
        MUL => a * b,
        _ => a / b,
    }
}

/// The QDQ form of a binary operation: dequantize both, one f32 operation, clip, Quantize by division.
pub fn binary_q(exec: Exec<'_>, op: BinaryOp, q: &BinaryQ, a: &[u8], b: &[u8], out: &mut [u8]) -> Result<()> {
    check_scale("output scale", q.y_scale)?;
    let (lo, hi, y_scale) = (q.lo, q.hi, q.y_scale);
    let q = Bytes { a: Source::new(q.a)?, b: Source::new(q.b)?, lo, hi, y_scale, store: Store::new(q.out)? };
    if let Some(kernel) = exec.isa.binary_u8 {
        return split(exec, a, b, out, &|a, b, out| {
            // SAFETY: an `Isa` exists only where the features of its kernels were detected.
            unsafe { kernel(op, &q, a, b, out) }
        });
    }
    match op {
        BinaryOp::Add => map(exec, a, b, out, BinaryBytes::<ADD>(q)),
        BinaryOp::Sub => map(exec, a, b, out, BinaryBytes::<SUB>(q)),
        BinaryOp::Mul => map(exec, a, b, out, BinaryBytes::<MUL>(q)),
        BinaryOp::Div => map(exec, a, b, out, BinaryBytes::<DIV>(q)),
    }
}

#[derive(Clone, Copy)]
struct BinaryFloat<const OP: usize>;

impl<const OP: usize> ElementFn<f32, f32, f32> for BinaryFloat<OP> {
    #[inline(always)]
    fn call(self, a: f32, b: f32) -> f32 {
        arithmetic::<OP>(a, b)
    }
}

/// One f32 operation per element.
pub fn binary_f32(exec: Exec<'_>, op: BinaryOp, a: &[f32], b: &[f32], out: &mut [f32]) -> Result<()> {
    match op {
        BinaryOp::Add => map(exec, a, b, out, BinaryFloat::<ADD>),
        BinaryOp::Sub => map(exec, a, b, out, BinaryFloat::<SUB>),
        BinaryOp::Mul => map(exec, a, b, out, BinaryFloat::<MUL>),
        BinaryOp::Div => map(exec, a, b, out, BinaryFloat::<DIV>),
    }
}

#[derive(Clone, Copy)]
struct ClipFn {
    lo: f32,
    hi: f32,
}

impl ElementFn<f32, f32, f32> for ClipFn {
    #[inline(always)]
    fn call(self, x: f32, _: f32) -> f32 {
        clip(x, self.lo, self.hi)
    }
}

/// Clips to `lo..=hi`; NaN stays NaN. Relu is `0, inf`.
pub fn clip_f32(exec: Exec<'_>, x: &[f32], lo: f32, hi: f32, out: &mut [f32]) -> Result<()> {
    if lo.is_nan() || hi.is_nan() {
        return Err(KernelError::Parameter { what: format!("clip bounds {lo}, {hi}: expected numbers") });
    }
    map(exec, x, x, out, ClipFn { lo, hi })
}

/// `table[x]`, indexed by the stored byte (an s8 operator's table is indexed by the two's complement byte).
pub fn lut(exec: Exec<'_>, x: &[u8], table: &[u8; 256], out: &mut [u8]) -> Result<()> {
    split(exec, x, x, out, &|x, _, out| exec.isa.lut_u8(table, x, out))
}

#[derive(Clone, Copy)]
struct Flip;

impl ElementFn<u8, u8, u8> for Flip {
    #[inline(always)]
    fn call(self, x: u8, _: u8) -> u8 {
        x ^ 0x80
    }
}

/// The bridge between s8 and u8 with zero points 128 apart.
pub fn xor_sign(exec: Exec<'_>, x: &[u8], out: &mut [u8]) -> Result<()> {
    map(exec, x, x, out, Flip)
}
