//! Pools on the vector unit.

use super::image::{Geometry, Size, Tile};
use super::{At, Chip, Epilogue, Loc, Params, Room, Tiles, further, no_memory};
use crate::emit::{Group, Op, Pipeline};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg, flags};

/// What a window becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The greatest byte; equal parameters on both sides.
    Max,
    /// The mean over the taps inside the image, requantized.
    Average,
    /// The mean over the taps inside the padded image, requantized.
    AveragePadded,
    /// The mean of the stored values; equal parameters on both sides.
    AverageRaw,
}

/// A pool.
pub(crate) struct Pool {
    kind: Kind,
    geometry: Geometry,
    x: Loc,
    x_params: Params,
    to: Loc,
    epilogue: Epilogue,
    size: Size,
    /// Where the images lie on the chip, if they are read there.
    in_place: Option<Local>,
}

impl Pool {
    /// Chooses tiles, or refuses.
    pub(crate) fn new(
        chip: &Chip,
        kind: Kind,
        geometry: Geometry,
        (x, x_params): (Loc, Params),
        (to, epilogue): (Loc, Epilogue),
    ) -> Result<Self> {
        let size = Size { rows: 1, columns: 1, channels: 1 };
        let mut pool = Self { kind, geometry, x, x_params, to, epilogue, size, in_place: None };
        pool.fit(&Room::whole(chip))?;
        Ok(pool)
    }

    fn group(&self, tile: &Tile, group: usize, at: At<'_>) -> Group {
        let g = &self.geometry;
        let (input, output) = (g.input_bytes(self.size), g.output_elements(self.size));
        let (image, input, loads) = match self.in_place {
            Some(start) => (further(start, g.start(tile)), 0, Vec::new()),
            None => {
                let image = Local::a((group % 2 * input) as u32);
                (image, input, g.loads(self.x, tile, image, at))
            }
        };
        let bytes = Local::a((2 * input + group % 2 * output) as u32);
        // Bytes come in, bytes go out.
        let stores = g.stores((self.to, 1), tile, true, |inside, place, rows| {
            Op::store(Local { offset: bytes.offset + inside as u32, ..bytes }, at(place), rows)
        });
        let vector = vec![self.work(tile, image, bytes)];
        Group { loads, vector, stores, ..Group::default() }
    }

    fn work(&self, tile: &Tile, image: Local, bytes: Local) -> Op {
        let (g, out) = (&self.geometry, &self.epilogue.out);
        let op = Op::new(Opcode::Pool, image.bits(), bytes.bits(), 0);
        let op = g.h.part_registers(op, [Reg::Ih, Reg::Kh, Reg::Sh, Reg::Dh, Reg::Oh], Reg::Pt, &tile.h);
        let op =
            g.w.part_registers(op, [Reg::Iw, Reg::Kw, Reg::Sw, Reg::Dw, Reg::Ow], Reg::Pl, &tile.w)
                .set(Reg::PitchA, if self.in_place.is_some() { g.channels } else { 0 })
                .set(Reg::Ic, tile.channels.len())
                .dtype(Reg::DtypeA, self.x_params.dtype)
                .dtype(Reg::DtypeO, out.dtype)
                .int(Reg::ClampLo, out.lo)
                .int(Reg::ClampHi, out.hi)
                .int(Reg::Pb, g.h.part_after(&tile.h))
                .int(Reg::Pr, g.w.part_after(&tile.w));
        let op = match self.kind {
            Kind::Max => return op,
            Kind::Average => op.flag(flags::AVG),
            Kind::AveragePadded => op.flag(flags::AVG | flags::PAD),
            Kind::AverageRaw => op.flag(flags::AVG | flags::RAW),
        };
        op.float(Reg::Sa, self.x_params.scale)
            .int(Reg::Za, self.x_params.zp)
            .float(Reg::So, out.scale)
            .int(Reg::Zo, out.zp)
            .set(Reg::RqMode, self.epilogue.mode.as_u32() as usize)
    }
}

impl Tiles for Pool {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        let g = &self.geometry;
        let needs = |s: Size| 2 * (g.input_bytes(s) + g.output_elements(s));
        let least = needs(Size { rows: 1, columns: 1, channels: 1 });
        let in_place = (room.kept)(self.x).filter(|_| g.has_whole_rows());
        let size = in_place.and_then(|_| g.choose(|s| 2 * g.output_elements(s) <= room.chip.a));
        let size = size.filter(|s| s.columns == g.w.output);
        self.in_place = in_place.filter(|_| size.is_some());
        let size = size.or_else(|| g.choose(|s| needs(s) <= room.chip.a));
        self.size = size.ok_or_else(|| no_memory("the activations' scratchpad", least, room.chip.a))?;
        Ok(())
    }

    fn kernel(&self) -> String {
        let Size { rows, columns, channels } = self.size;
        let what = if self.kind == Kind::Max { "max" } else { "average" };
        format!("{what} pool {rows}x{columns}x{channels}")
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        for tile in self.geometry.tiles(self.size) {
            pipe.group(self.group(&tile, pipe.groups(), at))?;
        }
        Ok(())
    }
}
