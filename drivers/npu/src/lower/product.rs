//! Products on the array: convolutions as matrices, and matrices.
//!
//! Per group of channels: `M x K` rows (pixels) times `K x N` weights. Tiles of `mt x kt` activations and `kt x nt`
//! weights alternate between two slots each; `mt x nt` accumulators between two. Sums that are cut accumulate on the
//! chip. Accumulators leave through the requantizer in the read path of the store.

use super::slices::{Slice, slices};
use super::table::ENTRY;
use super::window::Axis;
use super::{At, Chip, Constants, Loc, Params, Tiles, fits_u32, no_memory};
use crate::emit::{Group, Op, Pipeline, Rows};
use ottava_hal::Result;
use ottava_npu::analytic::{Gemm, compute_cycles};
use ottava_npu::isa::{Local, Opcode, Reg};

/// Slots of requantization tables: the stores (or VEC) read them.
const TABLE_SLOTS: usize = 4;
/// Slots of residuals, which VEC reads.
const RESIDUAL_SLOTS: usize = 4;

/// Tiles are not made flatter than this where they need not be.
const LEAST_HEIGHT: usize = 16;

/// Where the rows of the left operand come from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// Rows of a matrix, this many bytes apart.
    Rows { pitch: usize },
    /// Windows of images with `channels` channels in all.
    Image { h: Axis, w: Axis, channels: usize },
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
    /// Groups of channels.
    pub groups: usize,
    /// Rows, columns and length of the sums of one group.
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Chosen by [`Product::plan`].
    pub tiles: Plan,
}

/// The sizes of tiles.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    mt: usize,
    nt: usize,
    kt: usize,
    slices: Vec<Slice>,
    /// Keep activations and go over the weights, not the other way round.
    keep_rows: bool,
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
        fits_u32(&[self.m, self.n * self.groups, self.k])?;
        let (kh, kw, c) = match &self.source {
            Source::Rows { .. } => (1, 1, self.k),
            Source::Image { h, w, .. } => (h.kernel, w.kernel, self.k / (h.kernel * w.kernel)),
        };
        let mut best: Option<(f64, Plan)> = None;
        for nt in halves(self.n) {
            for most in halves(self.k) {
                for plan in self.candidates(chip, nt, slices(kh, kw, c, most)) {
                    let cost = self.cost(chip, &plan)?;
                    if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                        best = Some((cost, plan));
                    }
                }
            }
        }
        let least_w = 2 + TABLE_SLOTS * ENTRY;
        let what = if chip.w < least_w { "the weights' scratchpad" } else { "the accumulators" };
        let (_, plan) = best.ok_or_else(|| no_memory(what, least_w, chip.w.min(chip.acc * 4)))?;
        self.tiles = plan;
        Ok(self)
    }

    /// Tiles of a width and a cut of the sums, from the tallest that fits down; none if not even one row fits.
    fn candidates(&self, chip: &Chip, nt: usize, slices: Vec<Slice>) -> Vec<Plan> {
        let kt = slices.iter().map(Slice::len).max().unwrap_or(1);
        let weights = 2 * kt * nt + TABLE_SLOTS * ENTRY * nt;
        let behind = if self.residual.is_some() { (RESIDUAL_SLOTS + 2) * nt } else { 0 };
        let most = (chip.a / (2 * kt + behind)).min(chip.acc / (2 * nt)).min(self.m);
        if weights > chip.w || most == 0 {
            return Vec::new();
        }
        let cut = slices.len() > 1;
        let heights = halves(most).filter(|&mt| mt == most || mt >= LEAST_HEIGHT);
        // Tiles of equal height, as many as the height asks for.
        let even = heights.map(|mt| self.m.div_ceil(self.m.div_ceil(mt)));
        even.flat_map(|mt| [false, true].map(|keep| (mt, keep && !cut)))
            .map(|(mt, keep_rows)| Plan { mt, nt, kt, slices: slices.clone(), keep_rows })
            .collect()
    }

    /// Cycles that a plan takes, roughly: groups follow one another as fast as the array, the bus, or the two slots
    /// between them allow, behind the time to fill and drain.
    fn cost(&self, chip: &Chip, plan: &Plan) -> Result<f64> {
        let (tiles_m, tiles_n) = (self.m.div_ceil(plan.mt) as f64, self.n.div_ceil(plan.nt) as f64);
        let (m, n, k, slices) = (self.m as f64, self.n as f64, self.k as f64, plan.slices.len() as f64);
        let gemm = Gemm::new(plan.mt as u64, plan.nt as u64, plan.kt as u64);
        let overflow = |e: ottava_npu::analytic::Error| ottava_hal::Error::invalid(e.to_string());
        let array = compute_cycles(&chip.array, &gemm).map_err(overflow)? as f64;
        let groups = tiles_m * tiles_n * slices;
        let cut = plan.slices.len() > 1;
        let rows = if cut || !plan.keep_rows { m * k * tiles_n } else { m * k };
        let weights = if cut || plan.keep_rows { k * n * tiles_m } else { k * n };
        let load = (rows + weights) / chip.bandwidth / groups;
        let store = m * n / chip.bandwidth / groups;
        let slots = (chip.latency + load + array) / 2.0;
        let fill = 2.0 * chip.latency + load + array + store * slices;
        Ok(array.max(load + store).max(slots) * groups + fill)
    }

    fn tile_group(&self, tile: &Tile<'_>, slots: &Slots, at: At<'_>, last: bool) -> Group {
        let Plan { mt, nt, kt, .. } = self.tiles;
        let a = Local::a((slots.rows % 2 * mt * kt) as u32);
        let w = Local::w((slots.weights % 2 * kt * nt) as u32);
        let table = Local::w((2 * kt * nt + slots.table % TABLE_SLOTS * ENTRY * nt) as u32);
        let acc = Local::acc((slots.output % 2 * mt * nt) as u32);
        let (rows, columns, slice) = (tile.rows.len(), tile.columns.len(), tile.slice);
        let mut group = Group::default();
        if tile.load_table {
            let from = self.constants.table.plus((tile.group * self.n + tile.columns.start) * ENTRY);
            group.loads.push(Op::load(at(from), table, Rows::dense(columns * ENTRY)));
        }
        if tile.load_weights {
            let from = self.constants.weights.plus((tile.group * self.k + slice.start) * self.n + tile.columns.start);
            let shape = Rows { rows: slice.len(), bytes: columns, pitch: self.n };
            group.loads.push(Op::load(at(from), w, shape));
            let preload = Op::new(Opcode::Preload, w.bits(), 0, 0).set(Reg::K, slice.len()).set(Reg::N, columns);
            group.array.push(preload.dtype(Reg::DtypeW, self.constants.dtype).int(Reg::Zw, self.constants.zp));
        }
        if tile.load_rows {
            group.loads.push(self.load_rows(tile, a, at));
        }
        let gemm = Op::new(Opcode::Gemm, a.bits(), acc.bits(), 0)
            .size(rows, columns)
            .set(Reg::K, slice.len())
            .dtype(Reg::DtypeA, self.x_params.dtype)
            .int(Reg::Za, self.x_params.zp);
        group.array.push(gemm.accumulate(slice.start > 0));
        if last {
            self.finish(&mut group, tile, [acc, table], slots.output, at);
        }
        group
    }

    /// The way of an output tile to memory: through the requantizer, or with the residual through the vector unit.
    fn finish(&self, group: &mut Group, tile: &Tile<'_>, [acc, table]: [Local; 2], output: usize, at: At<'_>) {
        let (wide, (rows, columns)) = (self.n * self.groups, (tile.rows.len(), tile.columns.len()));
        let place = tile.rows.start * wide + tile.group * self.n + tile.columns.start;
        let (to, shape) = (at(self.to.plus(place)), Rows { rows, bytes: columns, pitch: wide });
        let Some((other, params)) = &self.residual else {
            let store = Op::store_requantized(acc, to, shape);
            group.stores.push(self.constants.epilogue.registers(store, table, true));
            return;
        };
        let Plan { mt, nt, kt, .. } = self.tiles;
        let slot = |i: usize| Local::a((2 * mt * kt + i * mt * nt) as u32);
        let (bytes, sum) = (slot(output % RESIDUAL_SLOTS), slot(RESIDUAL_SLOTS + output % 2));
        group.loads.push(Op::load(at(other.plus(place)), bytes, shape));
        let add = Op::new(Opcode::Residual, acc.bits(), bytes.bits(), sum.bits())
            .size(rows, columns)
            .dtype(Reg::DtypeW, params.dtype)
            .float(Reg::Sb, params.scale)
            .int(Reg::Zb, params.zp)
            .float(Reg::So, self.constants.epilogue.out.scale);
        group.vector.push(self.constants.epilogue.registers(add, table, true));
        group.stores.push(Op::store(sum, to, shape));
    }

    fn load_rows(&self, tile: &Tile<'_>, to: Local, at: At<'_>) -> Op {
        let (rows, slice) = (tile.rows.len(), tile.slice);
        match &self.source {
            Source::Rows { pitch } => {
                let from = self.x.plus(tile.rows.start * pitch + tile.group * self.k + slice.start);
                Op::load(at(from), to, Rows { rows, bytes: slice.len(), pitch: *pitch })
            }
            Source::Image { h, w, channels } => {
                let group_channels = self.k / (h.kernel * w.kernel);
                let from = at(self.x.plus(tile.group * group_channels + slice.c.start));
                let op = Op::from_dram(Opcode::LdIm2col, from, to.bits(), tile.rows.start as u32);
                let op = h.registers(op, [Reg::Ih, Reg::Kh, Reg::Sh, Reg::Dh, Reg::Oh], Reg::Pt, &slice.kh);
                w.registers(op, [Reg::Iw, Reg::Kw, Reg::Sw, Reg::Dw, Reg::Ow], Reg::Pl, &slice.kw)
                    .set(Reg::Ic, slice.c.len())
                    .set(Reg::Dstride, *channels)
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
        for group in 0..self.groups {
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

/// `n`, and its halves down to 1, rounded up.
fn halves(n: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(n.max(1)), |&n| (n > 1).then(|| n.div_ceil(2)))
}
