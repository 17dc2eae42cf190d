//! Matrices of elements of 1, 2 or 4 bytes, transposed on the vector unit: `[batch][m][n]` becomes `[batch][n][m]`.

use super::walk::square_tile;
use super::{At, Chip, Loc, Room, Tiles, fits_u32, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::{DataType, Result};
use ottava_npu::isa::{Dtype, Local, Opcode, Reg};

/// Two slots of one byte on either side.
pub(crate) const LEAST_BYTES: usize = 4;

/// A batch of matrices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrices {
    pub batch: usize,
    pub m: usize,
    pub n: usize,
    /// Bytes of an element: 1, 2 or 4.
    pub size: usize,
}

/// A batch of transpositions.
pub(crate) struct Transpose {
    from: Loc,
    to: Loc,
    matrices: Matrices,
    /// A type that the chip has; only its width matters.
    dtype: Dtype,
    /// Rows and columns of a tile.
    tile: (usize, usize),
}

impl Transpose {
    /// Chooses tiles: squares where neither side is short. A chip has [`LEAST_BYTES`] at least.
    pub(crate) fn new(chip: &Chip, from: Loc, to: Loc, matrices: Matrices) -> Result<Self> {
        let Matrices { batch, m, n, size } = matrices;
        fits_u32(&[batch, m, n, m * n * size])?;
        let bytes = if chip.bytes().contains(&DataType::S8) { Dtype::S8 } else { Dtype::U8 };
        let dtype = [bytes, Dtype::S16, Dtype::F32][size.min(4) / 2];
        let mut transpose = Self { from, to, matrices, dtype, tile: (1, 1) };
        transpose.fit(&Room::whole(chip))?;
        Ok(transpose)
    }
}

impl Tiles for Transpose {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        let (Matrices { m, n, size, .. }, chip) = (self.matrices, room.chip);
        let most = chip.a / (LEAST_BYTES * size);
        if most == 0 {
            return Err(no_memory("the activations' scratchpad", LEAST_BYTES * size, chip.a));
        }
        self.tile = square_tile(chip, (m, n), most);
        Ok(())
    }

    fn kernel(&self) -> String {
        format!("transpose {}x{}", self.tile.0, self.tile.1)
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let (&Self { matrices: Matrices { batch, m, n, size }, tile: (mt, nt), .. }, slot) =
            (self, self.tile.0 * self.tile.1 * self.matrices.size);
        for image in 0..batch {
            for y in (0..m).step_by(mt) {
                for x in (0..n).step_by(nt) {
                    let (rows, columns, parity) = (mt.min(m - y), nt.min(n - x), pipe.groups() % 2);
                    let (input, output) = (Local::a((parity * slot) as u32), Local::a(((2 + parity) * slot) as u32));
                    let from = at(self.from.plus(((image * m + y) * n + x) * size));
                    let to = at(self.to.plus(((image * n + x) * m + y) * size));
                    let turn = Op::new(Opcode::Xpose, input.bits(), output.bits(), 0)
                        .size(rows, columns)
                        .dtype(Reg::DtypeA, self.dtype);
                    let (wide, high) = (columns * size, rows * size);
                    pipe.group(Group {
                        loads: vec![Op::load(from, input, Rows { rows, bytes: wide, pitch: n * size })],
                        vector: vec![turn],
                        stores: vec![Op::store(output, to, Rows { rows: columns, bytes: high, pitch: m * size })],
                        ..Group::default()
                    })?;
                }
            }
        }
        Ok(())
    }
}
