//! Sums, differences and products of two values.

use super::walk::Stream;
use super::{At, Chip, Loc, Params, Room, Tiles, fits_u32, further, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::{RequantMode, Result};
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
    /// The mode of TFLite's fixed-point form.
    pub fixed: Option<RequantMode>,
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
    /// Where the operands lie on the chip, if they are read there.
    pub in_place: [Option<Local>; 2],
}

impl Binary {
    /// Chooses tiles, or refuses.
    pub(crate) fn plan(mut self, chip: &Chip) -> Result<Self> {
        self.fit(&Room::whole(chip))?;
        Ok(self)
    }

    /// Rows and columns of a tile.
    fn choose(&mut self, chip: &Chip) -> Result<(usize, usize)> {
        if self.second != Second::Row {
            (self.rows, self.columns) = (1, self.rows * self.columns);
        }
        fits_u32(&[self.batch, self.rows, self.columns])?;
        let [x, w, y] = self.sizes();
        // Operands that are read where they lie take no room.
        let room = |i: usize, bytes: usize| if self.in_place[i].is_some() { 0 } else { bytes };
        let slots = 2 * (room(0, x) + y + if self.second == Second::Same { room(1, w) } else { 0 });
        // A second operand that is loaded too gives the bus half as much again to do, which changes the choice little.
        let most = (chip.a / slots).min(Stream::MAP.tile(chip, self.rows * self.columns, chip.a / slots));
        let columns = match self.second {
            Second::Row => self.columns.min(most).min(chip.w / (2 * w)),
            _ => self.columns.min(most),
        };
        if columns == 0 || chip.w < 2 * w {
            return Err(no_memory("scratchpad", slots, chip.a.min(chip.w)));
        }
        Ok(((most / columns).clamp(1, self.rows.max(1)), columns))
    }

    /// Bytes of an element of the operands and the result.
    fn sizes(&self) -> [usize; 3] {
        [self.operands[0].1.bytes(), self.operands[1].1.bytes(), self.out.bytes()]
    }

    fn group(&self, at: At<'_>, tile: &Tile, group: usize) -> Group {
        let (slot, parity, [x, w, y]) = (self.tile.0 * self.tile.1, group % 2, self.sizes());
        let area = |before: usize, bytes: usize| Local::a((slot * (2 * before + parity * bytes)) as u32);
        let before = if self.in_place[0].is_some() { 0 } else { x };
        let a = self.in_place[0].map_or(area(0, x), |start| further(start, tile.a * x));
        let c = area(before, y);
        let b = match (self.second, self.in_place[1]) {
            (Second::Same, None) => area(before + y, w),
            (Second::Same, Some(start)) => further(start, tile.b * w),
            _ => Local::w((tile.block % 2 * w * if self.second == Second::Row { self.tile.1 } else { 1 }) as u32),
        };
        let rows = |bytes: usize| Rows { rows: tile.rows, bytes: tile.columns * bytes, pitch: self.columns * bytes };
        let mut out = Group::default();
        if self.in_place[0].is_none() {
            out.loads.push(Op::load(at(self.operands[0].0.plus(tile.a * x)), a, rows(x)));
        }
        if self.in_place[1].is_none() && (self.second == Second::Same || tile.load_b) {
            let shape = match self.second {
                Second::Same => rows(w),
                Second::Row => Rows::dense(tile.columns * w),
                Second::Scalar => Rows::dense(w),
            };
            out.loads.push(Op::load(at(self.operands[1].0.plus(tile.b * w)), b, shape));
        }
        out.vector.push(self.work([a, b, c], tile.rows, tile.columns));
        out.stores.push(Op::store(c, at(self.to.plus(tile.a * y)), rows(y)));
        out
    }

    fn work(&self, [a, b, c]: [Local; 3], rows: usize, columns: usize) -> Op {
        let [(_, x), (_, w)] = &self.operands;
        let repeat = match self.second {
            Second::Same => 0,
            Second::Row => flags::BROW,
            Second::Scalar => flags::BROW | flags::BELEM,
        };
        let form = match self.fixed {
            Some(_) => flags::TFL,
            None if self.zp_before_round => flags::QLIN,
            None => 0,
        };
        Op::new(self.opcode, a.bits(), b.bits(), c.bits())
            .flag(repeat | form)
            .set(Reg::RqMode, self.fixed.map_or(1, |mode| mode.as_u32() as usize))
            .size(rows, columns)
            .set(Reg::PitchA, if self.in_place[0].is_some() && rows > 1 { self.columns * x.bytes() } else { 0 })
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
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        self.in_place = self.operands.map(|(at, _)| (room.kept)(at));
        if self.second != Second::Same {
            self.in_place[1] = None;
        }
        self.tile = self.choose(room.chip)?;
        Ok(())
    }

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
