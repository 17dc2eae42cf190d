//! [`MatMulU8`]: exact products of two 8-bit operands with a fused epilogue.
//!
//! Two phases, each shared among the threads: all matrices are packed, then all panels are multiplied. Centred operands have nine bits,
//! a pair of products stays below 2^17, and [`MatMulU8::MAX_K`] keeps every sum within i32.

use alloc::format;
use alloc::vec;

use super::pack::{Panel, Row, STEP};
use super::shape::{Distinct, MatMulShape, check_reach};
use super::words::{bytes_for, words};
use crate::epilogue::{Epilogue, Kind, OutMut, Prepared};
use crate::error::{KernelError, Result, check_len, product};
use crate::exec::Exec;
use crate::finish::{Finish, Out, Place};
use crate::gemm::COLS;
use crate::shared_out::SharedOut;
use crate::tile::{GEMM_ROWS, GemmRows, GemmTile, WORD_ROWS};

/// Rows of a unit of work.
const BAND: usize = 48;

/// A batch of products of u8 operands (s8 held as u8), both known only at run time.
pub struct MatMulU8 {
    shape: MatMulShape,
    lens: [usize; 3],
    zero_points: [i16; 2],
    epilogue: Prepared,
    a: Distinct,
    b: Distinct,
    /// Words of a packed left and a packed right matrix.
    packed: [usize; 2],
    scratch: usize,
}

impl MatMulU8 {
    /// The longest sum that fits i32 for any operands: `255 * 255 * MAX_K < 2^31`.
    pub const MAX_K: usize = 33_025;

    /// A plan; `zero_points` are those of the left and the right operand. Every epilogue but the residual form is possible.
    ///
    /// # Errors
    /// When extents, strides or the epilogue do not fit together, or sums might not fit i32.
    pub fn new(shape: MatMulShape, zero_points: [u8; 2], epilogue: Epilogue) -> Result<Self> {
        let lens = shape.check()?;
        if shape.k > Self::MAX_K {
            return Err(KernelError::Parameter { what: format!("sums of {} products may not fit i32", shape.k) });
        }
        let epilogue = Prepared::new(epilogue, &vec![0; shape.n])?;
        if epilogue.wants_residual() {
            return Err(KernelError::Parameter { what: "a product of activations has no residual form".into() });
        }
        let (a, b) = (shape.a.distinct(), shape.b.distinct());
        let pairs = shape.k.div_ceil(2);
        let packed = [
            product("the packed operand", &[shape.m, pairs, 2])?,
            product("the packed operand", &[shape.n.div_ceil(COLS), pairs, STEP])?,
        ];
        let scratch = total(packed, [a.first.len(), b.first.len()]).ok_or(KernelError::Overflow { what: "scratch" })?;
        Ok(Self { shape, lens, zero_points: zero_points.map(i16::from), epilogue, a, b, packed, scratch })
    }

    /// Scratch bytes that [`MatMulU8::run`] needs.
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
    /// When a slice is too short or of the wrong type, or a task panicked.
    pub fn run(&self, exec: Exec<'_>, a: &[u8], b: &[u8], out: OutMut<'_>, scratch: &mut [u8]) -> Result<()> {
        check_reach("the left operand", a.len(), self.lens[0])?;
        check_reach("the right operand", b.len(), self.lens[1])?;
        check_reach("the scratch space", scratch.len(), self.scratch)?;
        let out = self.check_out(out)?;
        let (left, right) = words::<i16>(scratch).split_at_mut(self.packed[0] * self.a.first.len());
        self.pack_left(exec, a, left)?;
        self.pack_right(exec, b, right)?;
        self.multiply(exec, left, right, &out)
    }

    fn check_out<'o>(&self, out: OutMut<'o>) -> Result<Out<'o>> {
        let (len, out) = match (&self.epilogue.kind, out) {
            (Kind::Requant { .. } | Kind::Q31 { .. }, OutMut::Bytes(o)) => (o.len(), Out::Bytes(SharedOut::new(o))),
            (Kind::Float { .. }, OutMut::F32(o)) => (o.len(), Out::F32(SharedOut::new(o))),
            (Kind::Raw, OutMut::I32(o)) => (o.len(), Out::I32(SharedOut::new(o))),
            _ => return Err(KernelError::Parameter { what: "the output slice is not of the epilogue's type".into() }),
        };
        check_len("the output", len, self.lens[2])?;
        Ok(out)
    }

    fn pack_left(&self, exec: Exec<'_>, a: &[u8], packed: &mut [i16]) -> Result<()> {
        let (s, zero) = (&self.shape, self.zero_points[0]);
        let width = self.packed[0] / s.m;
        let rows = self.a.first.len() * s.m;
        let packed = SharedOut::new(packed);
        exec.split(rows, 1, exec.parts(rows.saturating_mul(s.k), usize::MAX), &|from, to| {
            for row in from..to {
                let x = &a[self.a.first[row / s.m] + row % s.m * s.a.rows..];
                // SAFETY: `split` gives each row to one task.
                let out = unsafe { packed.part(row * width, width) };
                exec.isa.run(Row { x, stride: s.a.columns, k: s.k, zero, out });
            }
        })
    }

    fn pack_right(&self, exec: Exec<'_>, b: &[u8], packed: &mut [i16]) -> Result<()> {
        let (s, zero) = (&self.shape, self.zero_points[1]);
        let per_matrix = s.n.div_ceil(COLS);
        let len = self.packed[1] / per_matrix;
        let panels = self.b.first.len() * per_matrix;
        let packed = SharedOut::new(packed);
        exec.split(panels, 1, exec.parts(panels.saturating_mul(len), usize::MAX), &|from, to| {
            for panel in from..to {
                let column = panel % per_matrix * COLS;
                let x = &b[self.b.first[panel / per_matrix] + column * s.b.columns..];
                // SAFETY: `split` gives each panel to one task.
                let out = unsafe { packed.part(panel * len, len) };
                let (strides, cols) = ([s.b.rows, s.b.columns], COLS.min(s.n - column));
                exec.isa.run(Panel { x, strides, k: s.k, cols, zero, out });
            }
        })
    }

    /// Units of work are bands of rows of one panel of one product.
    fn multiply(&self, exec: Exec<'_>, left: &[i16], right: &[i16], out: &Out<'_>) -> Result<()> {
        let s = &self.shape;
        let (panels, bands) = (s.n.div_ceil(COLS), s.m.div_ceil(BAND));
        let units = s.products() * panels * bands;
        exec.split(units, 1, exec.parts(s.macs(), usize::MAX), &|from, to| {
            for unit in from..to {
                let (i, panel, band) = (unit / bands / panels, unit / bands % panels, unit % bands);
                let a = &left[self.a.of[i] * self.packed[0]..][..self.packed[0]];
                let len = self.packed[1] / panels;
                let b = &right[self.b.of[i] * self.packed[1] + panel * len..][..len];
                for row in (band * BAND..((band + 1) * BAND).min(s.m)).step_by(WORD_ROWS) {
                    self.tile(exec, (a, b), (i, row, panel * COLS), out);
                }
            }
        })
    }

    /// Tiles of different units are disjoint in products, rows or columns.
    fn tile(&self, exec: Exec<'_>, (a, b): (&[i16], &[i16]), (i, row, channel): (usize, usize, usize), out: &Out<'_>) {
        let s = &self.shape;
        let (n, width) = (WORD_ROWS.min(s.m - row).min(BAND - row % BAND), self.packed[0] / s.m);
        let mut rows = GemmRows { at: [0; GEMM_ROWS], n };
        rows.at.iter_mut().enumerate().for_each(|(r, at)| *at = (row + r.min(n - 1)) * width);
        let mut tile = GemmTile::ZERO;
        exec.isa.gemm_s16(a, &rows, b, &mut tile);
        let at = s.out_at(i, row) + channel;
        let place = Place { at, stride: s.out_stride(), rows: n, cols: COLS.min(s.n - channel), channel };
        exec.isa.finish(Finish { epilogue: &self.epilogue, tile: &tile.0[..n], place, residual: &[], out });
    }
}

/// Scratch bytes for so many packed matrices of these sizes.
fn total([left, right]: [usize; 2], [n_left, n_right]: [usize; 2]) -> Option<usize> {
    bytes_for::<i16>(left.checked_mul(n_left)?.checked_add(right.checked_mul(n_right)?)?)
}
