//! Applying an epilogue to a tile of accumulators: plain loops over sixteen channels, compiled per instruction set.

use crate::arith::{clip, dequantize, q31_double, q31_single, rne_clamped};
use crate::epilogue::{Kind, Prepared, Store};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::tile::Tile;
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
    pub(crate) tile: &'a Tile,
    pub(crate) place: Place,
    /// The other operand of the residual form, laid out like the output; empty otherwise.
    pub(crate) residual: &'a [u8],
    pub(crate) out: &'a Out<'a>,
}

impl Vectorize for Finish<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let p = self.place;
        for (r, acc) in self.tile.0.iter().enumerate().take(p.rows) {
            let acc = add_bias(acc, lanes(&self.epilogue.bias, p.channel));
            let at = p.at + r * p.stride;
            match &self.epilogue.kind {
                Kind::Requant { m, store } => self.bytes(at, requant(&acc, lanes(m, p.channel), store)),
                Kind::Q31 { m, shift, double, store } => {
                    self.bytes(at, q31(&acc, lanes(m, p.channel), lanes(shift, p.channel), *double, store));
                }
                Kind::Residual { xw, other, lo, hi, y_scale, store } => {
                    let mut bytes = [0u8; COLS];
                    bytes[..p.cols].copy_from_slice(&self.residual[at..at + p.cols]);
                    let xw = lanes(xw, p.channel);
                    let sums: [f32; COLS] = core::array::from_fn(|c| {
                        let other = dequantize(bytes[c], other.flip, other.zp, other.scale);
                        clip(acc[c] as f32 * xw[c] + other, *lo, *hi) / *y_scale
                    });
                    self.bytes(at, quantize(&sums, store));
                }
                Kind::Float { xw, lo, hi } => {
                    let xw = lanes(xw, p.channel);
                    self.floats(at, core::array::from_fn(|c| clip(acc[c] as f32 * xw[c], *lo, *hi)));
                }
                Kind::Raw => self.integers(at, acc),
            }
        }
    }
}

impl Finish<'_> {
    #[inline(always)]
    fn bytes(&self, at: usize, values: [u8; COLS]) {
        let Out::Bytes(out) = self.out else { unreachable!("the plan matched output and epilogue") };
        // SAFETY: the task owns the place's rectangle of the output alone (contract of `Finish`), one row at a time.
        copy(unsafe { out.part(at, self.place.cols) }, &values);
    }

    #[inline(always)]
    fn floats(&self, at: usize, values: [f32; COLS]) {
        let Out::F32(out) = self.out else { unreachable!("the plan matched output and epilogue") };
        // SAFETY: as in `bytes`.
        copy(unsafe { out.part(at, self.place.cols) }, &values);
    }

    #[inline(always)]
    fn integers(&self, at: usize, values: [i32; COLS]) {
        let Out::I32(out) = self.out else { unreachable!("the plan matched output and epilogue") };
        // SAFETY: as in `bytes`.
        copy(unsafe { out.part(at, self.place.cols) }, &values);
    }
}

/// Whole panels are copied at a constant width, which is two vector stores.
#[inline(always)]
fn copy<T: Copy>(out: &mut [T], values: &[T; COLS]) {
    if let Some(whole) = out.first_chunk_mut::<COLS>() {
        *whole = *values;
    } else {
        let n = out.len();
        out.copy_from_slice(&values[..n]);
    }
}

/// The panel of per-channel values that begins at `channel`; vectors are padded by one panel.
#[inline(always)]
fn lanes<T>(values: &[T], channel: usize) -> &[T; COLS] {
    values[channel..].first_chunk().expect("per-channel vectors are padded by a panel")
}

#[inline(always)]
fn add_bias(acc: &[i32; COLS], bias: &[i32; COLS]) -> [i32; COLS] {
    core::array::from_fn(|c| acc[c].wrapping_add(bias[c]))
}

#[inline(always)]
fn quantize(t: &[f32; COLS], store: &Store) -> [u8; COLS] {
    core::array::from_fn(|c| (rne_clamped(t[c], store.lo, store.hi) + store.zp) as u8 ^ store.flip)
}

#[inline(always)]
fn requant(acc: &[i32; COLS], m: &[f32; COLS], store: &Store) -> [u8; COLS] {
    let t: [f32; COLS] = core::array::from_fn(|c| acc[c] as f32 * m[c]);
    quantize(&t, store)
}

#[inline(always)]
fn q31(acc: &[i32; COLS], m: &[i32; COLS], shift: &[i32; COLS], double: bool, store: &Store) -> [u8; COLS] {
    let (lo, hi) = (store.lo as i64, store.hi as i64);
    core::array::from_fn(|c| {
        let y = if double { i64::from(q31_double(acc[c], m[c], shift[c])) } else { q31_single(acc[c], m[c], shift[c]) };
        (y.clamp(lo, hi) as i32 + store.zp) as u8 ^ store.flip
    })
}
