//! Applying an epilogue to a tile of accumulators: plain loops over sixteen channels, compiled per instruction set.

use crate::arith::{clip, dequantize, q31_single, rdp, rne_clamped, srdhm};
use crate::epilogue::{Inner, Kind, Prepared, Source, Store};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::vectorize::Vectorize;

/// The output of a parallel region.
pub(crate) enum Out<'a> {
    Bytes(SharedOut<'a, u8>),
    F32(SharedOut<'a, f32>),
    I32(SharedOut<'a, i32>),
}

/// Where a tile goes: its first element, the row stride, its extent, and the channel of its first column.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) at: usize,
    pub(crate) stride: usize,
    pub(crate) rows: usize,
    pub(crate) cols: usize,
    pub(crate) channel: usize,
}

/// Stores one tile. Built by a task that owns the place's rectangle of `out` alone.
pub(crate) struct Finish<'a> {
    pub(crate) epilogue: &'a Prepared,
    pub(crate) tile: &'a [[i32; COLS]],
    pub(crate) place: Place,
    /// The other operand of the forms that add one, laid out like the output; empty otherwise.
    pub(crate) residual: &'a [u8],
    pub(crate) out: &'a Out<'a>,
}

impl Vectorize for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        match &self.epilogue.kind {
            Kind::Requant { m, store } => self.requant(self.lanes(m), store),
            Kind::Q31 { m, shift, double, store } => self.q31(self.lanes(m), self.lanes(shift), *double, store),
            Kind::Residual { xw, other, lo, hi, y_scale, store } => {
                self.residual(self.lanes(xw), other, [*lo, *hi], *y_scale, store);
            }
            Kind::RequantAdd { m, inner, other, y_scale, store } => {
                self.requant_add(self.lanes(m), inner, other, *y_scale, store);
            }
            Kind::Float { xw, lo, hi } => self.float(self.lanes(xw), [*lo, *hi]),
            Kind::Raw => self.raw(),
        }
    }
}

// The loops run over fixed arrays by index or `zip`: helpers such as `array::from_fn` are not always inlined and would then be compiled
// without the instance's features.
impl Finish<'_> {
    #[inline(always)]
    fn requant(&self, m: &[f32; COLS], store: &Store) {
        let bias = self.lanes(&self.epilogue.bias);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            self.bytes(r, &quantize(&scaled(acc, bias, m), store));
        }
    }

    #[inline(always)]
    fn q31(&self, m: &[i32; COLS], shift: &[i32; COLS], double: bool, store: &Store) {
        if double {
            return self.q31_double(m, shift, store);
        }
        let bias = self.lanes(&self.epilogue.bias);
        let (lo, hi) = (store.lo as i64, store.hi as i64);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let mut y = [0u8; COLS];
            for c in 0..COLS {
                let sum = acc[c].wrapping_add(bias[c]);
                y[c] = (q31_single(sum, m[c], shift[c]).clamp(lo, hi) as i32 + store.zp) as u8 ^ store.flip;
            }
            self.bytes(r, &y);
        }
    }

    /// `q31_double`, a loop per step: each is of one width of integers and becomes vectors. A left shift that overflows
    /// wraps; the compiler rejects such nodes.
    #[inline(always)]
    fn q31_double(&self, m: &[i32; COLS], shift: &[i32; COLS], store: &Store) {
        let bias = self.lanes(&self.epilogue.bias);
        let (lo, hi) = (store.lo as i32, store.hi as i32);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let (mut high, mut y) = ([0i32; COLS], [0u8; COLS]);
            for c in 0..COLS {
                let left = acc[c].wrapping_add(bias[c]).wrapping_shl(shift[c].max(0) as u32);
                high[c] = srdhm(left, m[c]);
            }
            for c in 0..COLS {
                high[c] = rdp(high[c], (-shift[c]).max(0) as u32).clamp(lo, hi) + store.zp;
            }
            for (y, high) in y.iter_mut().zip(high) {
                *y = high as u8 ^ store.flip;
            }
            self.bytes(r, &y);
        }
    }

    #[inline(always)]
    fn residual(&self, xw: &[f32; COLS], other: &Source, [lo, hi]: [f32; 2], y_scale: f32, store: &Store) {
        let bias = self.lanes(&self.epilogue.bias);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let at = self.place.at + r * self.place.stride;
            let bytes = widened(&self.residual[at..at + self.place.cols]);
            let mut t = scaled(acc, bias, xw);
            for (t, byte) in t.iter_mut().zip(&bytes) {
                *t = clip(*t + dequantize(*byte, other.flip, other.zp, other.scale), lo, hi) / y_scale;
            }
            self.bytes(r, &quantize(&t, store));
        }
    }

    #[inline(always)]
    fn requant_add(&self, m: &[f32; COLS], inner: &Inner, other: &Source, y_scale: f32, store: &Store) {
        let bias = self.lanes(&self.epilogue.bias);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let at = self.place.at + r * self.place.stride;
            let bytes = widened(&self.residual[at..at + self.place.cols]);
            let mut t = scaled(acc, bias, m);
            for (t, byte) in t.iter_mut().zip(&bytes) {
                let own = rne_clamped(*t, inner.lo, inner.hi) as f32 * inner.scale;
                *t = (own + dequantize(*byte, other.flip, other.zp, other.scale)) / y_scale;
            }
            self.bytes(r, &quantize(&t, store));
        }
    }

    #[inline(always)]
    fn float(&self, xw: &[f32; COLS], [lo, hi]: [f32; 2]) {
        let bias = self.lanes(&self.epilogue.bias);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let mut t = scaled(acc, bias, xw);
            for t in &mut t {
                *t = clip(*t, lo, hi);
            }
            let Out::F32(out) = self.out else { unreachable!("the plan matched output and epilogue") };
            self.store(r, out, &t);
        }
    }

    #[inline(always)]
    fn raw(&self) {
        let bias = self.lanes(&self.epilogue.bias);
        for (r, acc) in self.tile.iter().enumerate().take(self.place.rows) {
            let mut sums = *acc;
            for (sum, bias) in sums.iter_mut().zip(bias) {
                *sum = sum.wrapping_add(*bias);
            }
            let Out::I32(out) = self.out else { unreachable!("the plan matched output and epilogue") };
            self.store(r, out, &sums);
        }
    }

    #[inline(always)]
    fn bytes(&self, r: usize, values: &[u8; COLS]) {
        let Out::Bytes(out) = self.out else { unreachable!("the plan matched output and epilogue") };
        self.store(r, out, values);
    }

    /// Whole panels are copied at a constant width, which is one or two vector stores.
    #[inline(always)]
    fn store<T: Copy>(&self, r: usize, out: &SharedOut<'_, T>, values: &[T; COLS]) {
        // SAFETY: the task owns the place's rectangle of the output alone (contract of `Finish`) and holds one row at a time.
        let to = unsafe { out.part(self.place.at + r * self.place.stride, self.place.cols) };
        if let Some(whole) = to.first_chunk_mut::<COLS>() {
            *whole = *values;
        } else {
            store_some(to, values);
        }
    }

    /// The place's panel of per-channel values; vectors are padded by one panel.
    #[inline(always)]
    pub(crate) fn lanes<'v, T>(&self, values: &'v [T]) -> &'v [T; COLS] {
        lanes(values, self.place.channel)
    }
}

/// The values of the panel that begins at `channel`; vectors are padded by one panel.
#[inline(always)]
pub(crate) fn lanes<T>(values: &[T], channel: usize) -> &[T; COLS] {
    values[channel..].first_chunk().expect("per-channel vectors are padded by a panel")
}

/// The columns of a last, partial panel. Out of line: merged with the constant-width copy, both would become a call to `memcpy`.
#[cold]
#[inline(never)]
fn store_some<T: Copy>(to: &mut [T], values: &[T; COLS]) {
    let n = to.len();
    to.copy_from_slice(&values[..n]);
}

/// As [`store_some`], for a row of the residual; zero beyond its columns.
#[cold]
#[inline(never)]
fn load_some(row: &[u8]) -> [u8; COLS] {
    let mut out = [0u8; COLS];
    out[..row.len()].copy_from_slice(row);
    out
}

/// A row of the residual.
#[inline(always)]
fn widened(row: &[u8]) -> [u8; COLS] {
    if let Some(whole) = row.first_chunk::<COLS>() {
        return *whole;
    }
    load_some(row)
}

/// `fl32(f32(acc + bias) * m)`.
#[inline(always)]
fn scaled(acc: &[i32; COLS], bias: &[i32; COLS], m: &[f32; COLS]) -> [f32; COLS] {
    let mut t = [0f32; COLS];
    for c in 0..COLS {
        t[c] = acc[c].wrapping_add(bias[c]) as f32 * m[c];
    }
    t
}

#[inline(always)]
fn quantize(t: &[f32; COLS], store: &Store) -> [u8; COLS] {
    let mut y = [0u8; COLS];
    for (y, t) in y.iter_mut().zip(t) {
        *y = (rne_clamped(*t, store.lo, store.hi) + store.zp) as u8 ^ store.flip;
    }
    y
}
