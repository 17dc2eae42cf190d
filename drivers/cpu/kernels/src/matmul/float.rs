//! [`MatMulF32`]: deterministic f32 products of two run-time operands.
//!
//! As [`super::MatMulU8`] in two phases. The left operand is read in place where its rows are contiguous.

use alloc::vec::Vec;

use super::pack::FloatPanel;
use super::shape::{Distinct, MatMulShape, check_reach};
use super::words::{bytes_for, words};
use crate::error::{KernelError, Result, check_len, product};
use crate::exec::Exec;
use crate::float::{Line, ROWS, RowsF32, Runs, TileF32};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;

/// Rows of a unit of work.
const BAND: usize = 16 * ROWS;

/// A batch of f32 products, one accumulator per output and ascending k (numeric contract, section 7).
pub struct MatMulF32 {
    shape: MatMulShape,
    lens: [usize; 3],
    b: Distinct,
    /// The left matrices to be packed as rows of k; `None` if they are read in place.
    packed: Option<Distinct>,
    /// Where the left matrix of each product begins, and the elements between its rows, as they are multiplied.
    left: (Vec<usize>, usize),
    scratch: usize,
}

impl MatMulF32 {
    /// A plan.
    ///
    /// # Errors
    /// When extents and strides do not fit together.
    pub fn new(shape: MatMulShape) -> Result<Self> {
        let lens = shape.check()?;
        let b = shape.b.distinct();
        let packed = (shape.a.columns != 1).then(|| shape.a.distinct());
        let lines = product("scratch", &[b.first.len(), shape.n.div_ceil(COLS), shape.k])?;
        let matrices = packed.as_ref().map_or(0, |a| a.first.len());
        let floats = product("scratch", &[matrices, shape.m, shape.k])?;
        let bytes = bytes_for::<Line>(lines).zip(bytes_for::<f32>(floats)).and_then(|(b, a)| b.checked_add(a));
        let scratch = bytes.ok_or(KernelError::Overflow { what: "scratch" })?;
        let left = match &packed {
            Some(a) => (a.of.iter().map(|i| i * shape.m * shape.k).collect(), shape.k),
            None => (shape.a.first.clone(), shape.a.rows),
        };
        Ok(Self { shape, lens, b, packed, left, scratch })
    }

    /// Scratch bytes that [`MatMulF32::run`] needs.
    pub fn scratch_len(&self) -> usize {
        self.scratch
    }

    /// Multiply-adds of a run.
    pub fn macs(&self) -> usize {
        self.shape.macs()
    }

    /// Computes the batch.
    ///
    /// # Errors
    /// When a slice is too short, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, a: &[f32], b: &[f32], out: &mut [f32], scratch: &mut [u8]) -> Result<()> {
        check_reach("the left operand", a.len(), self.lens[0])?;
        check_reach("the right operand", b.len(), self.lens[1])?;
        check_reach("the scratch space", scratch.len(), self.scratch)?;
        check_len("the output", out.len(), self.lens[2])?;
        let s = &self.shape;
        let n_lines = self.b.first.len() * s.n.div_ceil(COLS) * s.k;
        let (lines, floats) = scratch.split_at_mut((n_lines + 1) * size_of::<Line>());
        let lines = &mut words::<Line>(lines)[..n_lines];
        self.pack_right(exec, b, lines)?;
        let Some(distinct) = &self.packed else { return self.multiply(exec, a, lines, out) };
        let floats = words::<f32>(floats);
        self.pack_left(exec, &distinct.first, a, floats)?;
        self.multiply(exec, floats, lines, out)
    }

    fn pack_left(&self, exec: Exec<'_>, first: &[usize], a: &[f32], packed: &mut [f32]) -> Result<()> {
        let s = &self.shape;
        let rows = first.len() * s.m;
        let packed = SharedOut::new(packed);
        exec.split(rows, 1, exec.parts(rows.saturating_mul(s.k * 4), usize::MAX), &|from, to| {
            for row in from..to {
                let x = a[first[row / s.m] + row % s.m * s.a.rows..].iter().step_by(s.a.columns.max(1));
                // SAFETY: `split` gives each row to one task.
                let out = unsafe { packed.part(row * s.k, s.k) };
                out.iter_mut().zip(x).for_each(|(y, x)| *y = *x);
            }
        })
    }

    fn pack_right(&self, exec: Exec<'_>, b: &[f32], packed: &mut [Line]) -> Result<()> {
        let s = &self.shape;
        let per_matrix = s.n.div_ceil(COLS);
        let panels = self.b.first.len() * per_matrix;
        let packed = SharedOut::new(packed);
        exec.split(panels, 1, exec.parts(panels.saturating_mul(s.k * COLS * 4), usize::MAX), &|from, to| {
            for panel in from..to {
                let column = panel % per_matrix * COLS;
                let x = &b[self.b.first[panel / per_matrix] + column * s.b.columns..];
                // SAFETY: `split` gives each panel to one task.
                let out = unsafe { packed.part(panel * s.k, s.k) };
                exec.isa.run(FloatPanel { x, strides: [s.b.rows, s.b.columns], cols: COLS.min(s.n - column), out });
            }
        })
    }

    /// Units of work are bands of rows of one panel of one product.
    fn multiply(&self, exec: Exec<'_>, left: &[f32], right: &[Line], out: &mut [f32]) -> Result<()> {
        let s = &self.shape;
        let (panels, bands) = (s.n.div_ceil(COLS), s.m.div_ceil(BAND));
        let out = SharedOut::new(out);
        let units = s.products() * panels * bands;
        exec.split(units, 1, exec.parts(s.macs(), usize::MAX), &|from, to| {
            for unit in from..to {
                let (i, panel, band) = (unit / bands / panels, unit / bands % panels, unit % bands);
                let b = &right[(self.b.of[i] * panels + panel) * s.k..][..s.k];
                for row in (band * BAND..((band + 1) * BAND).min(s.m)).step_by(ROWS) {
                    self.tile(exec, left, b, (i, row, panel * COLS), &out);
                }
            }
        })
    }

    /// Tiles of different units are disjoint in products, rows or columns.
    fn tile(
        &self,
        exec: Exec<'_>,
        left: &[f32],
        b: &[Line],
        (i, row, column): (usize, usize, usize),
        out: &SharedOut<'_, f32>,
    ) {
        let s = &self.shape;
        let (n, (first, stride)) = (ROWS.min(s.m - row), &self.left);
        let mut rows = RowsF32 { at: [0; ROWS], n };
        rows.at.iter_mut().enumerate().for_each(|(r, at)| *at = first[i] + (row + r.min(n - 1)) * stride);
        let runs =
            Runs { n_outer: 1, n_inner: 1, len: s.k, a: 0, a_outer: 0, a_inner: 0, b: 0, b_outer: 0, b_inner: 0 };
        let mut tile = TileF32::ZERO;
        exec.isa.gemm_f32(left, &rows, &runs, b, &mut tile);
        for (r, sums) in tile.0.iter().enumerate().take(n) {
            let cols = COLS.min(s.n - column);
            // SAFETY: no other unit has this row of this product in these columns.
            let to = unsafe { out.part(s.out_at(i, row + r) + column, cols) };
            match to.first_chunk_mut::<COLS>() {
                Some(whole) => *whole = *sums,
                None => to.copy_from_slice(&sums[..cols]),
            }
        }
    }
}
