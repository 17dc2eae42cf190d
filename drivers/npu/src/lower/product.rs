//! Products on the array: convolutions as matrices, and matrices.
//!
//! Per group of channels: `M x K` rows (pixels) times `K x N` weights. Tiles of `mt x kt` activations and `kt x nt`
//! weights alternate between two slots each; `mt x nt` accumulators between two. Sums that are cut accumulate on the
//! chip. Accumulators leave through the requantizer in the read path of the store.

use super::plan::{Extents, Plan, RESIDUAL_SLOTS, TABLE_SLOTS};
use super::slices::Slice;
use super::table::ENTRY;
use super::walk::Rows;
use super::window::Axis;
use super::{At, Chip, Constants, Loc, Params, Room, Tiles, fits_u32, further, no_memory};
use crate::emit::{self, Group, Op, Pipeline};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Opcode, Reg};

/// Where the rows of the left operand come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Rows of a matrix, this many bytes apart.
    Rows { pitch: usize },
    /// Windows of images with `channels` channels in all.
    Image { h: Axis, w: Axis, channels: usize },
}

impl Source {
    /// Bytes of rows that are fetched, as a share of those that arrive: about a pixel for each step of the windows.
    fn share(&self) -> f64 {
        match self {
            Self::Rows { .. } => 1.0,
            Self::Image { h, w, .. } => ((h.stride * w.stride) as f64 / (h.kernel * w.kernel).max(1) as f64).min(1.0),
        }
    }
}

/// Products that are like one another but for where their operands lie.
#[derive(Debug, Clone)]
pub(crate) enum Batch {
    /// Groups of channels: columns of the rows, of the weights' blocks and of the result.
    Groups(usize),
    /// For each result, which matrix of either operand makes it. One table for all.
    Pairs(Vec<(usize, usize)>),
}

/// A product to be cut into tiles.
pub(crate) struct Product {
    pub source: Source,
    pub x: Loc,
    pub x_params: Params,
    pub constants: Constants,
    pub to: Loc,
    /// Added to the result in f32.
    pub residual: Option<(Loc, Params)>,
    pub batch: Batch,
    /// Rows, columns and length of the sums of one group.
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Chosen by [`Product::plan`].
    pub tiles: Plan,
    pub in_place: InPlace,
}

/// Operands that are kept on the chip and read where they lie.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct InPlace {
    rows: Option<Local>,
    residual: Option<Local>,
}

/// One tile of rows, columns and sums.
struct Tile<'t> {
    group: usize,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
    slice: &'t Slice,
    /// Which parts are new on the chip.
    load_rows: bool,
    load_weights: bool,
    load_table: bool,
}

impl Product {
    /// Chooses tiles, or refuses.
    pub(crate) fn plan(mut self, chip: &Chip) -> Result<Self> {
        self.fit(&Room::whole(chip))?;
        Ok(self)
    }

    fn choose(&self, room: &Room<'_>) -> Result<Plan> {
        let chip = room.chip;
        fits_u32(&[self.m, self.wide(), self.k, self.wide().saturating_mul(self.out().bytes())])?;
        let sums = match &self.source {
            Source::Rows { .. } => [1, 1, self.k],
            Source::Image { h, w, .. } => [h.kernel, w.kernel, self.k / (h.kernel * w.kernel)],
        };
        let bytes = self.out().bytes();
        let behind = self.residual.map_or(0, |(_, other)| self.residual_slots() * other.bytes() + 2 * bytes);
        let (x, accumulators) = (self.x_params.bytes(), self.constants.epilogue.sums.accumulators() as usize);
        let rows = match (self.in_place.rows, (room.kept)(self.x)) {
            (Some(_), _) => Rows::InPlace,
            (None, Some(_)) if room.moves => Rows::Moved { share: self.source.share() },
            (None, _) => Rows::Memory,
        };
        let keeps = room.moves && (room.kept)(self.to).is_some();
        let extents = Extents { m: self.m, n: self.n, sums, behind, bytes: [x, bytes], accumulators, rows, keeps };
        let least_w = 2 + TABLE_SLOTS * ENTRY;
        let least_a = 2 * x + behind;
        extents.choose(chip)?.ok_or_else(|| match (chip.w < least_w, chip.a < least_a) {
            (true, _) => no_memory("the weights' scratchpad", least_w, chip.w),
            (_, true) => no_memory("the activations' scratchpad", least_a, chip.a),
            _ => no_memory("the accumulators", 8 * accumulators, chip.acc * 4),
        })
    }

    /// Slots of residuals; none for one that is read where it lies.
    fn residual_slots(&self) -> usize {
        if self.in_place.residual.is_some() { 0 } else { RESIDUAL_SLOTS }
    }

    /// The rows of a tile: where they are loaded to, or where they lie already with their pitch.
    fn rows_at(&self, tile: &Tile<'_>, slots: &Slots) -> (Local, usize) {
        let (Plan { mt, kt, .. }, x) = (&self.tiles, self.x_params.bytes());
        match (&self.source, self.in_place.rows) {
            (Source::Rows { pitch }, Some(start)) => {
                let first = self.starts(tile.group)[0] + tile.rows.start * pitch + tile.slice.start;
                (further(start, first * x), pitch * x)
            }
            _ => (Local::a((slots.rows % 2 * mt * kt * x) as u32), 0),
        }
    }

    /// Parameters of the result.
    fn out(&self) -> &Params {
        &self.constants.epilogue.out
    }

    /// Columns of the result from row to row.
    fn wide(&self) -> usize {
        match &self.batch {
            Batch::Groups(groups) => self.n * groups,
            Batch::Pairs(_) => self.n,
        }
    }

    /// Number of products.
    fn count(&self) -> usize {
        match &self.batch {
            Batch::Groups(groups) => *groups,
            Batch::Pairs(pairs) => pairs.len(),
        }
    }

    /// First elements of a product's rows, weights, table and result.
    fn starts(&self, product: usize) -> [usize; 4] {
        let Self { m, n, k, .. } = *self;
        match &self.batch {
            Batch::Groups(_) => {
                let channels =
                    if let Source::Image { h, w, .. } = &self.source { k / (h.kernel * w.kernel) } else { k };
                [product * channels, product * k * n, product * n, product * n]
            }
            Batch::Pairs(pairs) => [pairs[product].0 * m * k, pairs[product].1 * k * n, 0, product * m * n],
        }
    }

    fn tile_group(&self, tile: &Tile<'_>, slots: &Slots, at: At<'_>, last: bool) -> Group {
        let Plan { mt, nt, kt, .. } = self.tiles;
        let pair = self.constants.epilogue.sums.accumulators() as usize;
        let (a, pitch) = self.rows_at(tile, slots);
        let w = Local::w((slots.weights % 2 * kt * nt) as u32);
        let table = Local::w((2 * kt * nt + slots.table % TABLE_SLOTS * ENTRY * nt) as u32);
        let acc = Local::acc((slots.output % 2 * mt * nt * pair) as u32);
        let (rows, columns, slice) = (tile.rows.len(), tile.columns.len(), tile.slice);
        let first = self.starts(tile.group)[2];
        let mut group = Group::default();
        if tile.load_table {
            let from = self.constants.table.plus((first + tile.columns.start) * ENTRY);
            group.loads.push(Op::load(at(from), table, emit::Rows::dense(columns * ENTRY)));
        }
        if tile.load_weights {
            self.load_weights(&mut group, tile, w, at);
        }
        if tile.load_rows && self.in_place.rows.is_none() {
            group.loads.push(self.load_rows(tile, a, at));
        }
        let gemm = Op::new(Opcode::Gemm, a.bits(), acc.bits(), 0)
            .size(rows, columns)
            .set(Reg::K, slice.len())
            .set(Reg::PitchA, pitch)
            .dtype(Reg::DtypeA, self.x_params.dtype)
            .int(Reg::Za, self.x_params.zp);
        group.array.push(gemm.accumulate(slice.start > 0));
        if last {
            self.finish(&mut group, tile, [acc, table], slots.output, at);
        }
        group
    }

    /// Brings the weights of a tile to `to` and makes them the second factor.
    fn load_weights(&self, group: &mut Group, tile: &Tile<'_>, to: Local, at: At<'_>) {
        let (start, slice, columns) = (self.starts(tile.group)[1], tile.slice, tile.columns.len());
        let from = self.constants.weights.plus(start + slice.start * self.n + tile.columns.start);
        let shape = emit::Rows { rows: slice.len(), bytes: columns, pitch: self.n };
        group.loads.push(Op::load(at(from), to, shape));
        let preload = Op::new(Opcode::Preload, to.bits(), 0, 0).set(Reg::K, slice.len()).set(Reg::N, columns);
        // A residual that is read where it lies has a pitch in the same register.
        let preload = preload.set(Reg::PitchW, 0);
        group.array.push(preload.dtype(Reg::DtypeW, self.constants.dtype).int(Reg::Zw, self.constants.zp));
    }

    /// The way of an output tile to memory: through the requantizer, or with the residual through the vector unit.
    fn finish(&self, group: &mut Group, tile: &Tile<'_>, [acc, table]: [Local; 2], output: usize, at: At<'_>) {
        let (wide, (rows, columns)) = (self.wide(), (tile.rows.len(), tile.columns.len()));
        let place = self.starts(tile.group)[3] + tile.rows.start * wide + tile.columns.start;
        let shape = |bytes: usize| emit::Rows { rows, bytes: columns * bytes, pitch: wide * bytes };
        let bytes = self.out().bytes();
        let (to, stored) = (at(self.to.plus(place * bytes)), shape(bytes));
        let Some((other, params)) = &self.residual else {
            let store = Op::store_requantized(acc, to, stored);
            group.stores.push(self.constants.epilogue.registers(store, table, true));
            return;
        };
        let Plan { mt, nt, kt, .. } = self.tiles;
        let own = params.bytes();
        let rows_end = if self.in_place.rows.is_some() { 0 } else { 2 * mt * kt * self.x_params.bytes() };
        let slot = |bytes: usize| Local::a((rows_end + bytes * mt * nt) as u32);
        let sum = slot(self.residual_slots() * own + output % 2 * bytes);
        let (residual, pitch) = match self.in_place.residual {
            Some(start) => (further(start, place * own), wide * own),
            None => (slot(output % RESIDUAL_SLOTS * own), 0),
        };
        if self.in_place.residual.is_none() {
            group.loads.push(Op::load(at(other.plus(place * own)), residual, shape(own)));
        }
        let add = Op::new(Opcode::Residual, acc.bits(), residual.bits(), sum.bits())
            .size(rows, columns)
            .set(Reg::PitchA, 0)
            .set(Reg::PitchW, pitch)
            .dtype(Reg::DtypeW, params.dtype)
            .float(Reg::Sb, params.scale)
            .int(Reg::Zb, params.zp)
            .float(Reg::So, self.out().scale);
        group.vector.push(self.constants.epilogue.registers(add, table, true));
        group.stores.push(Op::store(sum, to, stored));
    }

    fn load_rows(&self, tile: &Tile<'_>, to: Local, at: At<'_>) -> Op {
        let (rows, slice, first) = (tile.rows.len(), tile.slice, self.starts(tile.group)[0]);
        let x = self.x_params.bytes();
        match &self.source {
            Source::Rows { pitch } => {
                let from = self.x.plus((first + tile.rows.start * pitch + slice.start) * x);
                Op::load(at(from), to, emit::Rows { rows, bytes: slice.len() * x, pitch: pitch * x })
            }
            Source::Image { h, w, channels } => {
                let from = at(self.x.plus((first + slice.c.start) * x));
                let op = Op::from_dram(Opcode::LdIm2col, from, to.bits(), tile.rows.start as u32);
                let op = h.registers(op, [Reg::Ih, Reg::Kh, Reg::Sh, Reg::Dh, Reg::Oh], Reg::Pt, &slice.kh);
                w.registers(op, [Reg::Iw, Reg::Kw, Reg::Sw, Reg::Dw, Reg::Ow], Reg::Pl, &slice.kw)
                    .set(Reg::Ic, slice.c.len() * x)
                    .set(Reg::Dstride, channels * x)
                    .set(Reg::Rows, rows)
                    .set(Reg::Lstride, 0)
                    .int(Reg::Padv, self.x_params.zero_byte())
            }
        }
    }

    /// Visits the tiles in order; `f` also learns whether the tile is the last of its output.
    fn each(&self, mut f: impl FnMut(Tile<'_>, bool) -> Result<()>) -> Result<()> {
        let Plan { mt, nt, slices, keep_rows, .. } = &self.tiles;
        let (outer, inner) = if *keep_rows { ((self.m, *mt), (self.n, *nt)) } else { ((self.n, *nt), (self.m, *mt)) };
        let range = |at: usize, (extent, step): (usize, usize)| at..extent.min(at + step);
        let cut = slices.len() > 1;
        for group in 0..self.count() {
            for o in (0..outer.0).step_by(outer.1) {
                for i in (0..inner.0).step_by(inner.1) {
                    let (far, near) = (range(o, outer), range(i, inner));
                    let (rows, columns) = if *keep_rows { (far, near) } else { (near, far) };
                    for (s, slice) in slices.iter().enumerate() {
                        let new_far = i == 0 || cut;
                        let tile = Tile {
                            group,
                            rows: rows.clone(),
                            columns: columns.clone(),
                            slice,
                            load_rows: !keep_rows || new_far,
                            load_weights: *keep_rows || new_far,
                            load_table: s == 0 && (*keep_rows || i == 0),
                        };
                        f(tile, s + 1 == slices.len())?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Numbers of loads so far: their remainders are the slots in use.
#[derive(Debug, Default)]
struct Slots {
    rows: usize,
    weights: usize,
    table: usize,
    output: usize,
}

impl Tiles for Product {
    fn fit(&mut self, room: &Room<'_>) -> Result<()> {
        let matrix = matches!(self.source, Source::Rows { .. });
        self.in_place = InPlace {
            rows: (room.kept)(self.x).filter(|_| matrix),
            residual: self.residual.and_then(|(at, _)| (room.kept)(at)),
        };
        self.tiles = self.choose(room)?;
        Ok(())
    }

    fn knows_moves(&self) -> bool {
        true
    }

    fn kernel(&self) -> String {
        let what = if matches!(self.source, Source::Image { .. }) { "im2col gemm" } else { "gemm" };
        let Plan { mt, nt, kt, .. } = self.tiles;
        let behind = if self.residual.is_some() { " + residual" } else { "" };
        format!("{what} {mt}x{nt}x{kt}{behind}")
    }

    fn emit(&self, pipe: &mut Pipeline<'_>, at: At<'_>) -> Result<()> {
        let mut slots = Slots::default();
        self.each(|tile, last| {
            slots.rows += usize::from(tile.load_rows);
            slots.weights += usize::from(tile.load_weights);
            slots.table += usize::from(tile.load_table);
            slots.output = pipe.outputs();
            pipe.group(self.tile_group(&tile, &slots, at, last))
        })
    }
}
