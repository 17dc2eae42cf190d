//! How long tiles take, tile by tile: the engine's rules for the streams that lowering writes, without the instructions.

use super::Chip;
use super::slices::Slice;
use super::table::ENTRY;
use ottava_hal::{Error, Result};
use ottava_npu::analytic::{Gemm, compute_cycles};
use ottava_npu::timing::hold;

/// Longer walks are not worth their time.
const MAX_GROUPS: usize = 1 << 14;
/// Streams go on as they begin: tiles beyond this are not walked.
const MAX_TILES: usize = 256;

/// Where the rows of a product come from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Rows {
    /// Memory.
    Memory,
    /// Another place of the chip, in moves that fetch this share of what they write: windows overlap.
    Moved { share: f64 },
    /// They are read where they lie.
    InPlace,
}

/// The tiles of a product in one of the orders that [`super::Product`] writes.
pub(super) struct Walk<'w> {
    pub chip: &'w Chip,
    pub m: usize,
    pub n: usize,
    pub mt: usize,
    pub nt: usize,
    pub slices: &'w [Slice],
    pub keep_rows: bool,
    pub rows: Rows,
    /// The result stays on the chip.
    pub keeps: bool,
}

/// The units at work: what each is free for, and what frees the slots.
#[derive(Default)]
struct Units {
    bus: f64,
    /// Ends of the last moves to and from the tiles.
    moves: [f64; 2],
    array: f64,
    /// Ends of the last two products and of the last two stores.
    products: [f64; 2],
    stores: [f64; 2],
    /// A store behind the last product: its bytes.
    pending: Option<f64>,
}

impl Units {
    /// A transfer that may start at `start`: latencies overlap, data do not.
    fn transfer(&mut self, chip: &Chip, start: f64, bytes: f64) -> f64 {
        self.bus = (start + chip.latency).max(self.bus) + bytes / chip.bandwidth;
        self.bus
    }

    /// A move that may start at `start`, behind the one before of its direction.
    fn move_on_chip(&mut self, chip: &Chip, direction: usize, start: f64, bytes: f64) -> f64 {
        self.moves[direction] = self.moves[direction].max(start) + bytes / chip.moves;
        self.moves[direction]
    }

    /// The store of the output before that stays on the chip.
    fn keep(&mut self, chip: &Chip) {
        if let Some(bytes) = self.pending.take() {
            let end = self.move_on_chip(chip, 1, self.products[1], bytes);
            self.stores = [self.stores[1], end];
        }
    }

    /// The store of the output before, which the loads of the next group have overtaken.
    fn store(&mut self, chip: &Chip) {
        if let Some(bytes) = self.pending.take() {
            let end = self.transfer(chip, self.products[1], bytes);
            self.stores = [self.stores[1], end];
        }
    }

    fn product(&mut self, load_end: f64, first: bool, (cycles, hold): (f64, f64)) {
        let free = if first { self.stores[0] } else { 0.0 };
        let start = self.array.max(load_end).max(free);
        self.array = start + hold;
        self.products = [self.products[1], (start + cycles).max(self.products[1])];
    }
}

impl Walk<'_> {
    /// Cycles until the last store has ended; `None` for walks that are too long.
    pub(super) fn time(&self) -> Result<Option<f64>> {
        let &Self { m, n, mt, nt, keep_rows, .. } = self;
        let tiles = m.div_ceil(mt).saturating_mul(n.div_ceil(nt)).saturating_mul(self.slices.len());
        if tiles > MAX_GROUPS {
            return Ok(None);
        }
        let costs = self.costs()?;
        let mut units = Units::default();
        let (outer, inner) = if keep_rows { ((m, mt), (n, nt)) } else { ((n, nt), (m, mt)) };
        for o in (0..outer.0).step_by(outer.1) {
            for i in (0..inner.0).step_by(inner.1) {
                let (far, near) = (outer.1.min(outer.0 - o), inner.1.min(inner.0 - i));
                let (rows, columns) = if keep_rows { (far, near) } else { (near, far) };
                self.output(&mut units, (rows, columns), i == 0, &costs);
            }
        }
        self.store(&mut units);
        Ok(Some(units.bus.max(units.moves[1]).max(units.products[1])))
    }

    fn store(&self, units: &mut Units) {
        if self.keeps { units.keep(self.chip) } else { units.store(self.chip) }
    }

    /// One output tile: its slices, and its store.
    fn output(&self, units: &mut Units, (rows, columns): (usize, usize), new_far: bool, costs: &[Costs]) {
        let cut = self.slices.len() > 1;
        for (s, slice) in self.slices.iter().enumerate() {
            let new_far = new_far || cut;
            let (mut bytes, mut moved) = (0, 0.0);
            if !self.keep_rows || new_far {
                match self.rows {
                    Rows::Memory => bytes += rows * slice.len(),
                    Rows::Moved { share } => moved = (rows * slice.len()) as f64 * share,
                    Rows::InPlace => {}
                }
            }
            if self.keep_rows || new_far {
                bytes += slice.len() * columns;
            }
            if s == 0 && (self.keep_rows || new_far) {
                bytes += columns * ENTRY;
            }
            let mut load_end = units.products[0];
            if bytes > 0 {
                load_end = units.transfer(self.chip, load_end, bytes as f64);
            }
            if moved > 0.0 {
                load_end = load_end.max(units.move_on_chip(self.chip, 0, units.products[0], moved));
            }
            self.store(units);
            let cost = costs[s][usize::from(rows < self.mt)][usize::from(columns < self.nt)];
            units.product(load_end, s == 0, cost);
        }
        units.pending = Some((rows * columns) as f64);
    }

    /// Cycles and hold per slice, for full and last heights and widths.
    fn costs(&self) -> Result<Vec<Costs>> {
        let last = |extent: usize, tile: usize| if extent.is_multiple_of(tile) { tile } else { extent % tile };
        let (heights, widths) = ([self.mt, last(self.m, self.mt)], [self.nt, last(self.n, self.nt)]);
        let overflow = |e: ottava_npu::analytic::Error| Error::invalid(e.to_string());
        let one = |slice: &Slice| {
            let mut costs = Costs::default();
            for (h, height) in heights.into_iter().enumerate() {
                for (w, width) in widths.into_iter().enumerate() {
                    let gemm = Gemm::new(height as u64, width as u64, slice.len() as u64);
                    let cycles = compute_cycles(&self.chip.array, &gemm).map_err(overflow)?;
                    let hold = hold(&self.chip.array, &gemm, cycles).map_err(overflow)?;
                    costs[h][w] = (cycles as f64, hold as f64);
                }
            }
            Ok(costs)
        };
        self.slices.iter().map(one).collect()
    }
}

/// Cycles and hold by height (full, last) and width (full, last).
type Costs = [[(f64, f64); 2]; 2];

/// Heights of tiles of (almost) equal height, by their number: few tiles one by one, then in steps of an eighth; at the
/// end tiles of 1.
pub(super) fn even(extent: usize) -> impl Iterator<Item = usize> {
    let counts = std::iter::successors(Some(1), |&n| Some(n + (n / 8).max(1))).take_while(move |&n| n < extent);
    counts.map(move |n| extent.div_ceil(n)).chain([1])
}

/// What happens to a byte of a stream on the chip.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    /// How often the vector unit goes over it.
    pub passes: usize,
    /// Whether a byte is stored for it.
    pub stored: bool,
}

impl Stream {
    /// One operation, and back to memory.
    pub(super) const MAP: Self = Self { passes: 1, stored: true };
    /// Sums, of which next to nothing is stored.
    pub(super) const SUM: Self = Self { passes: 1, stored: false };

    /// Bytes of the tiles in which `bytes` bytes stream the fastest; at most `most`, and at least 1.
    pub(super) fn tile(self, chip: &Chip, bytes: usize, most: usize) -> usize {
        let time = |tile: usize| self.time(chip, bytes.div_ceil(tile), tile);
        even(bytes.max(1)).filter(|&tile| tile <= most).min_by(|&a, &b| time(a).total_cmp(&time(b))).unwrap_or(1)
    }

    /// Cycles of a stream in tiles. A load starts when the one before has ended, because the unit between passes its
    /// tokens on in order, and when its slot is free.
    fn time(self, chip: &Chip, tiles: usize, tile: usize) -> f64 {
        let walked = tiles.min(MAX_TILES);
        let work = (tile.saturating_mul(self.passes) as f64 / chip.lanes() as f64).ceil();
        let mut units = Units::default();
        let mut load_end = 0.0f64;
        for _ in 0..walked {
            load_end = units.transfer(chip, load_end.max(units.products[0]), tile as f64);
            units.store(chip);
            units.product(load_end, true, (work, work));
            units.pending = self.stored.then_some(tile as f64);
        }
        units.store(chip);
        units.bus.max(units.products[1]) * tiles as f64 / walked.max(1) as f64
    }
}

/// Rows and columns of the tiles in which a matrix is transposed the fastest; at most `most` bytes, and at least 1.
pub(super) fn square_tile(chip: &Chip, (m, n): (usize, usize), most: usize) -> (usize, usize) {
    let sides = |bytes: usize| {
        let side = bytes.isqrt().max(1);
        let (rows, columns) = match (m <= side, n <= side) {
            (true, _) => (m.max(1), bytes / m.max(1)),
            (false, true) => (bytes / n.max(1), n.max(1)),
            (false, false) => (side, side),
        };
        // Tiles of almost equal sides, as many as these sides ask for.
        let equal = |extent: usize, side: usize| extent.div_ceil(extent.div_ceil(side.max(1)).max(1)).max(1);
        (equal(m, rows), equal(n, columns))
    };
    let tiles = |rows: usize, columns: usize| m.div_ceil(rows).saturating_mul(n.div_ceil(columns));
    let time = |(rows, columns)| Stream::MAP.time(chip, tiles(rows, columns), rows * columns);
    let fitting = even((m * n).max(1)).filter(|&bytes| bytes <= most).map(sides);
    fitting.min_by(|a, b| time(*a).total_cmp(&time(*b))).unwrap_or((1, 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_npu::NpuConfig;

    #[test]
    fn heights_end_at_one_and_begin_with_the_whole() {
        assert_eq!(even(1).collect::<Vec<_>>(), [1]);
        assert_eq!(even(5).collect::<Vec<_>>(), [5, 3, 2, 2, 1]);
        assert_eq!((even(12_544).next(), even(12_544).last()), (Some(12_544), Some(1)));
    }

    #[test]
    fn one_tile_is_load_product_and_store() {
        let text = "Npu(dram: Simple(bytes_per_cycle: 16.0, latency: 100))";
        let chip = Chip::new(&NpuConfig::parse(text).unwrap());
        let slices = super::super::slices::slices(1, 1, 16, 16);
        let walk = Walk {
            chip: &chip,
            m: 32,
            n: 16,
            mt: 32,
            nt: 16,
            slices: &slices,
            keep_rows: false,
            rows: Rows::Memory,
            keeps: false,
        };
        let cycles = compute_cycles(&chip.array, &Gemm::new(32, 16, 16)).unwrap() as f64;
        let load = (32 * 16 + 16 * 16 + 16 * ENTRY) as f64 / 16.0;
        assert_eq!(walk.time().unwrap(), Some(100.0 + load + cycles + 100.0 + 32.0));
    }

    #[test]
    fn streamed_tiles_fit_and_overlap() {
        let chip = Chip::new(&NpuConfig::default());
        assert_eq!(Stream::MAP.tile(&chip, 0, 10), 1);
        assert!((1..=3).contains(&Stream::MAP.tile(&chip, 1 << 20, 3)));
        assert_eq!(square_tile(&chip, (784, 256), 65_536), (196, 128));
        assert_eq!(square_tile(&chip, (784, 256), 1), (1, 1));
        // Two tiles overlap as well as many: the vector unit is as fast as the bus. One does not overlap at all.
        assert_eq!(Stream::MAP.tile(&chip, 1 << 18, 1 << 18), 1 << 17);
        assert_eq!(Stream::MAP.time(&chip, 2, 1 << 17), 3.0 * 100.0 + 4.0 * f64::from(1 << 13));
        assert_eq!(Stream::MAP.time(&chip, 1, 1 << 18), 2.0 * 100.0 + 3.0 * f64::from(1 << 14));
    }
}
