//! Sums, differences and products of two values.

use super::walk::Stream;
use super::{At, Chip, Loc, Params, Tiles, fits_u32, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg, flags};

/// How the second operand repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Second {
    /// It does not.
    Same,
    /// One row for all rows.
    Row,
    /// One element for all.
    Scalar,
}

/// `rows` rows of `columns` elements, `batch` times; every batch has its own row or element where `per_batch`.
pub(crate) struct Binary {
    pub opcode: Opcode,
    /// The zero point is added before rounding.
    pub zp_before_round: bool,
    pub operands: [(Loc, Params); 2],
    pub second: Second,
    pub to: Loc,
    /// Holds the clamp.
    pub out: Params,
    pub batch: usize,
    pub rows: usize,
    pub columns: usize,
    pub per_batch: bool,
    /// Chosen by [`Binary::plan`].
    pub tile: (usize, usize),
}

impl Binary {
    /// Chooses tiles, or refuses.
    pub(crate) fn plan(mut self, chip: &Chip) -> Result<Self> {
        if self.second != Second::Row {
            (self.rows, self.columns) = (1, self.rows * self.columns);
        }
        fits_u32(&[self.batch, self.rows, self.columns])?;
        let slots = if self.second == Second::Same { 6 } else { 4 };
        // A second operand that is loaded too gives the bus half as much again to do, which changes the choice little.
        let most = (chip.a / slots).min(Stream::MAP.tile(chip, self.rows * self.columns, chip.a / slots));
        let columns = match self.second {
            Second::Row => self.columns.min(most).min(chip.w / 2),
            _ => self.columns.min(most),
        };
        if columns == 0 || chip.w < 2 {
            return Err(no_memory("scratchpad", slots, chip.a.min(chip.w)));
        }
        self.tile = ((most / columns).clamp(1, self.rows.max(1)), columns);
        Ok(self)
    }

    fn group(&self, at: At<'_>, tile: &Tile, group: usize) -> Group {
        let slot = self.tile.0 * self.tile.1;
        let area = |i: usize| Local::a(((2 * i + group % 2) * slot) as u32);
        let (a, c) = (area(0), area(1));
        let b = match self.second {
            Second::Same => area(2),
            _ => Local::w((tile.block % 2 * if self.second == Second::Row { self.tile.1 } else { 1 }) as u32),
        };
        let rows = Rows { rows: tile.rows, bytes: tile.columns, pitch: self.columns };
        let mut out = Group::default();
        out.loads.push(Op::load(at(self.operands[0].0.plus(tile.a)), a, rows));
        if self.second == Second::Same || tile.load_b {
            let shape = match self.second {
                Second::Same => rows,
                Second::Row => Rows::dense(tile.columns),
                Second::Scalar => Rows::dense(1),
            };
            out.loads.push(Op::load(at(self.operands[1].0.plus(tile.b)), b, shape));
        }
        out.vector.push(self.work([a, b, c], tile.rows, tile.columns));
        out.stores.push(Op::store(c, at(self.to.plus(tile.a)), rows));
        out
    }

    fn work(&self, [a, b, c]: [Local; 3], rows: usize, columns: usize) -> Op {
        let [(_, x), (_, w)] = &self.operands;
        let repeat = match self.second {
            Second::Same => 0,
            Second::Row => flags::BROW,
            Second::Scalar => flags::BROW | flags::BELEM,
        };
        Op::new(self.opcode, a.bits(), b.bits(), c.bits())
            .flag(repeat | if self.zp_before_round { flags::QLIN } else { 0 })
            .size(rows, columns)
            .dtype(Reg::DtypeA, x.dtype)
            .float(Reg::Sa, x.scale)
            .int(Reg::Za, x.zp)
            .dtype(Reg::DtypeW, w.dtype)
            .float(Reg::Sb, w.scale)
            .int(Reg::Zb, w.zp)
            .dtype(Reg::DtypeO, self.out.dtype)
            .float(Reg::So, self.out.scale)
            .int(Reg::Zo, self.out.zp)
            .int(Reg::ClampLo, self.out.lo)
            .int(Reg::ClampHi, self.out.hi)
    }
}

/// One tile: extents, offsets of the operands, and which load of the second operand it belongs to.
struct Tile {
    rows: usize,
    columns: usize,
    a: usize,
    b: usize,
    block: usize,
    load_b: bool,
}

impl Tiles for Binary {
    fn kernel(&self) -> String {
        format!("{} {}x{}", self.opcode.info().name.to_lowercase(), self.tile.0, self.tile.1)
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let (rt, ct) = self.tile;
        let image = self.rows * self.columns;
        let row = if self.second == Second::Row { self.columns } else { 1 };
        let mut block = 0;
        for n in 0..self.batch {
            for x in (0..self.columns).step_by(ct) {
                for y in (0..self.rows).step_by(rt) {
                    let a = n * image + y * self.columns + x;
                    let own = if self.per_batch { n * row } else { 0 };
                    let b = match self.second {
                        Second::Same => a,
                        Second::Row => own + x,
                        Second::Scalar => own,
                    };
                    let load_b = match self.second {
                        Second::Scalar => x == 0 && (n == 0 || self.per_batch),
                        _ => y == 0,
                    };
                    block += usize::from(load_b);
                    let (rows, columns) = (rt.min(self.rows - y), ct.min(self.columns - x));
                    let tile = Tile { rows, columns, a, b, block, load_b };
                    pipe.group(self.group(at, &tile, pipe.groups()))?;
                }
            }
        }
        Ok(())
    }
}
