//! Means over all pixels of an image: sums on the vector unit, requantized once per channel.

use super::table::ENTRY;
use super::walk::Stream;
use super::{At, Chip, Epilogue, Loc, Params, Room, Tiles, fits_u32, further, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg};

/// A mean of each channel of `[batch][pixels][channels]`.
pub(crate) struct Mean {
    pub x: Loc,
    pub x_params: Params,
    pub to: Loc,
    pub epilogue: Epilogue,
    /// One entry for all channels.
    pub table: Loc,
    pub batch: usize,
    pub pixels: usize,
    pub channels: usize,
    /// Pixels and channels of a tile; chosen by [`Mean::plan`].
    pub tile: (usize, usize),
    /// Where the values lie on the chip, if they are read there.
    pub in_place: Option<Local>,
}

impl Mean {
    /// Chooses tiles, or refuses.
    pub(crate) fn plan(mut self, chip: &Chip) -> Result<Self> {
        self.fit(&Room::whole(chip))?;
        Ok(self)
    }

    fn choose(&self, chip: &Chip) -> Result<(usize, usize)> {
        fits_u32(&[self.batch, self.pixels, self.channels])?;
        if chip.w < ENTRY {
            return Err(no_memory("the weights' scratchpad", ENTRY, chip.w));
        }
        let channels = self.channels.min(chip.acc / 2).min(chip.a / 2);
        if channels == 0 {
            return Err(no_memory("accumulators", 8, chip.acc * 4));
        }
        // Few pixels at a time, so that loads overlap with sums.
        let pixels = (Stream::SUM.tile(chip, self.pixels * channels, chip.a / 2) / channels).max(1);
        let tiles = self.pixels.div_ceil(pixels).max(1);
        Ok((self.pixels.div_ceil(tiles).max(1), channels))
    }
}

impl Tiles for Mean {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        self.in_place = (room.kept)(self.x);
        self.tile = self.choose(room.chip)?;
        Ok(())
    }

    fn kernel(&self) -> String {
        format!("sum {}x{}", self.tile.0, self.tile.1)
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let (pt, ct) = self.tile;
        let table = Local::w(0);
        for image in 0..self.batch {
            for c in (0..self.channels).step_by(ct) {
                let channels = ct.min(self.channels - c);
                let acc = Local::acc((pipe.outputs() % 2 * ct) as u32);
                for p in (0..self.pixels).step_by(pt) {
                    let pixels = pt.min(self.pixels - p);
                    let first = (image * self.pixels + p) * self.channels + c;
                    let slot = Local::a((pipe.groups() % 2 * pt * ct) as u32);
                    let (bytes, pitch) = self.in_place.map_or((slot, 0), |at| (further(at, first), self.channels));
                    let mut group = Group::default();
                    if pipe.groups() == 0 {
                        group.loads.push(Op::load(at(self.table), table, Rows::dense(ENTRY)));
                    }
                    let rows = Rows { rows: pixels, bytes: channels, pitch: self.channels };
                    if self.in_place.is_none() {
                        group.loads.push(Op::load(at(self.x.plus(first)), bytes, rows));
                    }
                    let sum = Op::new(Opcode::Redsum, bytes.bits(), acc.bits(), 0).size(pixels, channels);
                    let sum = sum.set(Reg::PitchA, pitch);
                    let sum = sum.dtype(Reg::DtypeA, self.x_params.dtype).int(Reg::Za, self.x_params.zp);
                    group.vector.push(sum.accumulate(p > 0));
                    if p + pixels == self.pixels {
                        let to = at(self.to.plus(image * self.channels + c));
                        let store = Op::store_requantized(acc, to, Rows::dense(channels));
                        group.stores.push(self.epilogue.registers(store, table, false));
                    }
                    pipe.group(group)?;
                }
            }
        }
        Ok(())
    }
}
