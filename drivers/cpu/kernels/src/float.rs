//! Types of the deterministic f32 products: packed panels, runs of taps, register tile.
//!
//! Contract (numerics, section 7): one accumulator per output element, starting at +0, ascending k = (kh, kw, cin), one fused
//! multiply-add per step. Kernels vectorise over output channels, never over k, so every instruction set gives the same bits. Taps in
//! the padding are skipped, not multiplied by zero: pixels are grouped by the window of taps they see.

use alloc::vec::Vec;

use crate::error::{Result, product};
use crate::gemm::COLS;
use crate::stored::{Stored, put_f32s};

/// Pixels of a tile.
pub(crate) const ROWS: usize = 6;

/// Sixteen columns of one k.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; COLS]);

/// Weights as `[panel][k][16]`; columns beyond `n` are zero.
pub(crate) struct PackedF32 {
    lines: Vec<Line>,
    k: usize,
}

impl PackedF32 {
    pub(crate) fn pack(k: usize, n: usize, weight: &dyn Fn(usize, usize) -> f32) -> Result<Self> {
        let panels = n.div_ceil(COLS);
        let mut lines = Vec::with_capacity(product("the packed weights", &[panels, k])?);
        for first in (0..n).step_by(COLS) {
            lines.extend(
                (0..k).map(|k| Line(core::array::from_fn(|c| if first + c < n { weight(k, first + c) } else { 0.0 }))),
            );
        }
        Ok(Self { lines, k })
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        out.reserve(self.bytes());
        self.lines.iter().for_each(|line| put_f32s(out, &line.0));
    }

    /// Reads the weights of `n` columns back.
    pub(crate) fn restore(k: usize, n: usize, from: &mut Stored<'_>) -> Result<Self> {
        let floats = from.f32s(product("the packed weights", &[n.div_ceil(COLS), k, COLS])?)?;
        Ok(Self { lines: floats.as_chunks().0.iter().map(|line| Line(*line)).collect(), k })
    }

    pub(crate) fn panel(&self, index: usize) -> &[Line] {
        &self.lines[index * self.k..][..self.k]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lines.len() * size_of::<Line>()
    }
}

/// The k's of a window as `n_outer x n_inner` runs of `len` contiguous activations and weight lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) n_outer: usize,
    pub(crate) n_inner: usize,
    pub(crate) len: usize,
    /// Where the first run begins, relative to a pixel's row, and how far the next ones are.
    pub(crate) a: usize,
    pub(crate) a_outer: usize,
    pub(crate) a_inner: usize,
    /// The same for weight lines.
    pub(crate) b: usize,
    pub(crate) b_outer: usize,
    pub(crate) b_inner: usize,
}

impl Runs {
    /// Calls `f(activation offset, weight line)` for the start of each run, in ascending k.
    #[inline(always)]
    pub(crate) fn for_each(&self, mut f: impl FnMut(usize, usize)) {
        for y in 0..self.n_outer {
            for x in 0..self.n_inner {
                f(self.a + y * self.a_outer + x * self.a_inner, self.b + y * self.b_outer + x * self.b_inner);
            }
        }
    }

    /// Whether the window holds no tap.
    pub(crate) fn is_empty(&self) -> bool {
        self.n_outer == 0 || self.n_inner == 0 || self.len == 0
    }
}

/// Rows of a tile. A pixel's row is where its window's tap (0, 0) would lie, which may be before the image: offsets are added with
/// wrap-around and checked as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsF32 {
    pub(crate) at: [usize; ROWS],
    pub(crate) n: usize,
}

impl RowsF32 {
    /// Start of row `r` moved to `offset`.
    #[inline(always)]
    pub(crate) fn start(&self, r: usize, offset: usize) -> usize {
        self.at[r].wrapping_add(offset)
    }

    /// Panics unless all runs of all rows lie within `len` activations and `lines` weight lines: the check that unsafe loads rest on.
    pub(crate) fn check(&self, runs: &Runs, len: usize, lines: usize) {
        assert!((1..=ROWS).contains(&self.n), "a tile of {} rows", self.n);
        runs.for_each(|a, b| {
            assert!(b <= lines && runs.len <= lines - b, "weight lines {b}+{} leave {lines}", runs.len);
            for r in 0..ROWS {
                let at = self.start(r, a);
                assert!(at <= len && runs.len <= len - at, "activations {at}+{} leave {len}", runs.len);
            }
        });
    }
}

/// Accumulators `[pixel][channel]`.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct TileF32(pub(crate) [[f32; COLS]; ROWS]);

impl TileF32 {
    /// All +0.
    pub(crate) const ZERO: Self = Self([[0.0; COLS]; ROWS]);
}
