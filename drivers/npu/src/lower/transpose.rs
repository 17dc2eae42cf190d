//! Matrices of bytes, transposed on the vector unit: `[batch][m][n]` becomes `[batch][n][m]`.

use super::walk::square_tile;
use super::{At, Chip, Loc, Tiles, fits_u32};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::{DataType, Result};
use ottava_npu::isa::{Dtype, Local, Opcode, Reg};

/// Two slots of one byte on either side.
pub(crate) const LEAST_BYTES: usize = 4;

/// A batch of transpositions.
pub(crate) struct Transpose {
    from: Loc,
    to: Loc,
    batch: usize,
    m: usize,
    n: usize,
    /// A type that the chip has; only its width matters.
    dtype: Dtype,
    /// Rows and columns of a tile.
    tile: (usize, usize),
}

impl Transpose {
    /// Chooses tiles: squares where neither side is short. A chip has [`LEAST_BYTES`] at least.
    pub(crate) fn new(chip: &Chip, from: Loc, to: Loc, (batch, m, n): (usize, usize, usize)) -> Result<Self> {
        fits_u32(&[batch, m, n, m * n])?;
        let tile = square_tile(chip, (m, n), chip.a / LEAST_BYTES);
        let dtype = if chip.bytes().contains(&DataType::S8) { Dtype::S8 } else { Dtype::U8 };
        Ok(Self { from, to, batch, m, n, dtype, tile })
    }
}

impl Tiles for Transpose {
    fn kernel(&self) -> String {
        format!("transpose {}x{}", self.tile.0, self.tile.1)
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let (&Self { batch, m, n, tile: (mt, nt), .. }, slot) = (self, self.tile.0 * self.tile.1);
        for image in 0..batch {
            for y in (0..m).step_by(mt) {
                for x in (0..n).step_by(nt) {
                    let (rows, columns, parity) = (mt.min(m - y), nt.min(n - x), pipe.groups() % 2);
                    let (input, output) = (Local::a((parity * slot) as u32), Local::a(((2 + parity) * slot) as u32));
                    let from = at(self.from.plus((image * m + y) * n + x));
                    let to = at(self.to.plus((image * n + x) * m + y));
                    let turn = Op::new(Opcode::Xpose, input.bits(), output.bits(), 0)
                        .size(rows, columns)
                        .dtype(Reg::DtypeA, self.dtype);
                    pipe.group(Group {
                        loads: vec![Op::load(from, input, Rows { rows, bytes: columns, pitch: n })],
                        vector: vec![turn],
                        stores: vec![Op::store(output, to, Rows { rows: columns, bytes: rows, pitch: m })],
                        ..Group::default()
                    })?;
                }
            }
        }
        Ok(())
    }
}
