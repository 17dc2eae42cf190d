//! Softmax of rows on the vector unit (numerics.md section 6, `softmax_lut`).

use super::walk::Stream;
use super::{At, Chip, Loc, Params, Room, Tiles, fits_u32, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg, flags};

/// Bytes of the table of exponentials.
const TABLE: usize = 4 * 256;

/// Softmax of each of `rows` rows of `len` bytes.
pub(crate) struct Softmax {
    x: (Loc, Params),
    /// The exponentials; TFLite's form has none.
    table: Option<Loc>,
    to: (Loc, Params),
    rows: usize,
    len: usize,
    /// Rows of a tile.
    tile: usize,
}

impl Softmax {
    /// Chooses tiles, or refuses: a row is never cut. The clamp is in `to`.
    pub(crate) fn new(
        chip: &Chip,
        x: (Loc, Params),
        table: Option<Loc>,
        to: (Loc, Params),
        (rows, len): (usize, usize),
    ) -> Result<Self> {
        fits_u32(&[rows, len])?;
        let mut softmax = Self { x, table, to, rows, len, tile: 0 };
        softmax.fit(&Room::whole(chip))?;
        Ok(softmax)
    }

    fn choose(&self, chip: &Chip) -> Result<usize> {
        let &Self { rows, len, table, .. } = self;
        let most = (chip.a / 4 / len.max(1)).min(rows);
        // Few rows at a time, so that loads and stores overlap with the work.
        let tile =
            most.min((Stream { passes: 3, stored: true }.tile(chip, rows * len, chip.a / 4) / len.max(1)).max(1));
        if tile == 0 {
            return Err(no_memory("the activations' scratchpad", 4 * len, chip.a));
        }
        if table.is_some() && chip.w < TABLE {
            return Err(no_memory("the weights' scratchpad", TABLE, chip.w));
        }
        Ok(tile)
    }

    fn work(&self, from: Local, to: Local, rows: usize) -> Op {
        let (x, y) = (&self.x.1, &self.to.1);
        Op::new(Opcode::Softmax, from.bits(), to.bits(), 0)
            .flag(if self.table.is_some() { 0 } else { flags::TFL })
            .float(Reg::Sa, x.scale)
            .int(Reg::Za, x.zp)
            .size(rows, self.len)
            .local(Reg::Lut, Local::w(0))
            .dtype(Reg::DtypeA, x.dtype)
            .dtype(Reg::DtypeO, y.dtype)
            .float(Reg::So, y.scale)
            .int(Reg::Zo, y.zp)
            .int(Reg::ClampLo, y.lo)
            .int(Reg::ClampHi, y.hi)
    }
}

impl Tiles for Softmax {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        self.tile = self.choose(room.chip)?;
        Ok(())
    }

    fn kernel(&self) -> String {
        format!("softmax {}x{}", self.tile, self.len)
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let slot = self.tile * self.len;
        for r in (0..self.rows).step_by(self.tile) {
            let (rows, parity) = (self.tile.min(self.rows - r), pipe.groups() % 2);
            let (input, output) = (Local::a((parity * slot) as u32), Local::a(((2 + parity) * slot) as u32));
            let mut group = Group::default();
            if let (Some(table), 0) = (self.table, r) {
                group.loads.push(Op::load(at(table), Local::w(0), Rows::dense(TABLE)));
            }
            let shape = Rows::dense(rows * self.len);
            group.loads.push(Op::load(at(self.x.0.plus(r * self.len)), input, shape));
            group.vector.push(self.work(input, output, rows));
            group.stores.push(Op::store(output, at(self.to.0.plus(r * self.len)), shape));
            pipe.group(group)?;
        }
        Ok(())
    }
}
