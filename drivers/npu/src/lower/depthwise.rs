//! Depthwise convolutions: each output channel sees one input channel.

use super::image::{Geometry, Size, Tile};
use super::table::ENTRY;
use super::{At, Chip, Constants, Loc, Params, Room, Tiles, further, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg};

/// Slots of requantization tables: the stores read them.
const TABLE_SLOTS: usize = 4;

/// A depthwise convolution.
pub(crate) struct Depthwise {
    pub geometry: Geometry,
    pub x: Loc,
    pub x_params: Params,
    /// The weights are `[kh * kw][output channels]`.
    pub constants: Constants,
    pub to: Loc,
    on_vector: bool,
    size: Size,
    /// Where the images lie on the chip, if they are read there.
    in_place: Option<Local>,
}

impl Depthwise {
    /// Chooses tiles, or refuses.
    pub(crate) fn new(
        chip: &Chip,
        geometry: Geometry,
        (x, x_params): (Loc, Params),
        constants: Constants,
        to: Loc,
    ) -> Result<Self> {
        let size = Size { rows: 1, columns: 1, channels: 1 };
        let mut step = Self { geometry, x, x_params, constants, to, on_vector: false, size, in_place: None };
        step.fit(&Room::whole(chip))?;
        Ok(step)
    }

    /// The tile that fits; without one, the convolution may still be a product of groups.
    pub(crate) fn size(chip: &Chip, geometry: &Geometry) -> Option<Size> {
        Self::size_of(chip, geometry, false)
    }

    /// The same; images that are read `in_place` take no room.
    fn size_of(chip: &Chip, geometry: &Geometry, in_place: bool) -> Option<Size> {
        let taps = geometry.h.kernel * geometry.w.kernel;
        geometry.choose(|s| {
            let weights = (2 * taps + TABLE_SLOTS * ENTRY) * s.channels * geometry.multiplier;
            let (image, sums) = (2 * geometry.input_bytes(s), 2 * geometry.output_elements(s));
            (in_place || image <= chip.a) && sums <= chip.acc && weights <= chip.w
        })
    }

    fn taps(&self) -> usize {
        self.geometry.h.kernel * self.geometry.w.kernel
    }

    fn group(&self, tile: &Tile, group: usize, blocks: usize, at: At<'_>) -> Group {
        let g = &self.geometry;
        let wide = self.size.channels * g.multiplier;
        let image = match self.in_place {
            Some(start) => further(start, g.start(tile)),
            None => Local::a((group % 2 * g.input_bytes(self.size)) as u32),
        };
        let weights = Local::w((blocks % 2 * self.taps() * wide) as u32);
        let table = Local::w((2 * self.taps() * wide + blocks % TABLE_SLOTS * ENTRY * wide) as u32);
        let acc = Local::acc((group % 2 * g.output_elements(self.size)) as u32);
        let loads = if self.in_place.is_some() { Vec::new() } else { g.loads(self.x, tile, image, at) };
        let mut out = Group { loads, ..Group::default() };
        if tile.first {
            out.loads.extend(self.load_constants(tile, weights, table, at));
        }
        let work = self.work(tile, [image, weights, acc]);
        if self.on_vector {
            out.vector.push(work)
        } else {
            out.array.push(work)
        }
        let to = (self.to, self.constants.epilogue.out.bytes());
        out.stores = g.stores(to, tile, false, |inside, place, rows| {
            let from = Local { offset: acc.offset + inside as u32, ..acc };
            self.constants.epilogue.registers(Op::store_requantized(from, at(place), rows), table, true)
        });
        out
    }

    fn load_constants(&self, tile: &Tile, weights: Local, table: Local, at: At<'_>) -> [Op; 2] {
        let (m, c) = (self.geometry.multiplier, &tile.channels);
        let (first, n) = (c.start * m, c.len() * m);
        let rows = Rows { rows: self.taps(), bytes: n, pitch: self.geometry.channels * m };
        let entries = at(self.constants.table.plus(first * ENTRY));
        [
            Op::load(at(self.constants.weights.plus(first)), weights, rows),
            Op::load(entries, table, Rows::dense(n * ENTRY)),
        ]
    }

    fn work(&self, tile: &Tile, [image, weights, acc]: [Local; 3]) -> Op {
        let g = &self.geometry;
        let op = Op::new(Opcode::Dwconv, image.bits(), weights.bits(), acc.bits());
        let op = g.h.part_registers(op, [Reg::Ih, Reg::Kh, Reg::Sh, Reg::Dh, Reg::Oh], Reg::Pt, &tile.h);
        g.w.part_registers(op, [Reg::Iw, Reg::Kw, Reg::Sw, Reg::Dw, Reg::Ow], Reg::Pl, &tile.w)
            .set(Reg::PitchA, if self.in_place.is_some() { g.channels } else { 0 })
            .set(Reg::Groups, tile.channels.len())
            .set(Reg::N, tile.channels.len() * g.multiplier)
            .dtype(Reg::DtypeA, self.x_params.dtype)
            .int(Reg::Za, self.x_params.zp)
            .dtype(Reg::DtypeW, self.constants.dtype)
            .int(Reg::Zw, self.constants.zp)
    }
}

impl Tiles for Depthwise {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        let (chip, geometry) = (room.chip, &self.geometry);
        let least = 2 * geometry.input_bytes(Size { rows: 1, columns: 1, channels: 1 });
        let in_place = (room.kept)(self.x).filter(|_| geometry.has_whole_rows());
        let whole = |size: &Size| size.columns == geometry.w.output;
        let size = in_place.and_then(|_| Self::size_of(chip, geometry, true)).filter(whole);
        self.in_place = in_place.filter(|_| size.is_some());
        let size = size.or_else(|| Self::size(chip, geometry));
        let size = size.ok_or_else(|| no_memory("the activations' scratchpad", least, chip.a))?;
        let channels = size.channels * geometry.multiplier;
        self.on_vector = chip.depthwise_on_vector(size.rows * size.columns, self.taps(), channels);
        self.size = size;
        Ok(())
    }

    fn kernel(&self) -> String {
        let Size { rows, columns, channels } = self.size;
        format!("dwconv {rows}x{columns}x{channels}")
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let mut blocks = 0;
        for tile in self.geometry.tiles(self.size) {
            blocks += usize::from(tile.first);
            pipe.group(self.group(&tile, pipe.groups(), blocks, at))?;
        }
        Ok(())
    }
}
