//! The choice of a product's tiles: sizes that fit are priced roughly, the cheapest of them are walked tile by tile, the
//! fastest is taken.
//!
//! The sizes on offer do not depend on the memories: a larger memory offers all that a smaller one does, at the same
//! price, so that its choice is as good (law S7).

use super::Chip;
use super::slices::{Slice, slices};
use super::table::ENTRY;
use super::walk::{Rows, Walk, even};
use ottava_hal::{Error, Result};
use ottava_npu::analytic::{Gemm, compute_cycles};

/// Slots of requantization tables: the stores (or VEC) read them.
pub(super) const TABLE_SLOTS: usize = 4;
/// Slots of residuals, which VEC reads.
pub(super) const RESIDUAL_SLOTS: usize = 4;
/// Sums are not cut into more slices than this where they need not be.
const ENOUGH_SLICES: usize = 64;
/// As many of the cheapest sizes are walked.
const WALKS: usize = 12;

/// The sizes of tiles.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    pub(super) mt: usize,
    pub(super) nt: usize,
    pub(super) kt: usize,
    pub(super) slices: Vec<Slice>,
    /// Keep activations and go over the weights, not the other way round.
    pub(super) keep_rows: bool,
}

/// The extents of one group's product.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extents {
    pub m: usize,
    pub n: usize,
    /// Kernel rows, kernel columns and channels of the sums.
    pub sums: [usize; 3],
    /// Bytes in the activations' scratchpad behind each sum: slots of residuals and of their results.
    pub behind: usize,
    /// Bytes of an element of the rows, and of the output.
    pub bytes: [usize; 2],
    /// Accumulators of a sum.
    pub accumulators: usize,
    /// Where the rows come from.
    pub rows: Rows,
    /// Whether the result stays on the chip.
    pub keeps: bool,
}

/// One size that fits.
#[derive(Debug, Clone, Copy)]
struct Size {
    mt: usize,
    nt: usize,
    kt: usize,
    n_slices: usize,
    keep_rows: bool,
}

impl Extents {
    /// The fastest tiles; `None` if not even one element fits.
    pub(super) fn choose(&self, chip: &Chip) -> Result<Option<Plan>> {
        let [kh, kw, c] = self.sums;
        let (mut cuts, mut sizes) = (Vec::new(), Vec::new());
        for most in halves(kh * kw * c) {
            let slices = slices(kh, kw, c, most);
            if !sizes.is_empty() && slices.len() > ENOUGH_SLICES {
                break;
            }
            for size in halves(self.n).flat_map(|nt| self.sizes(chip, nt, &slices)) {
                sizes.push((self.cost(chip, size)?, size, cuts.len()));
            }
            cuts.push(slices);
        }
        sizes.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        let mut best: Option<(f64, Size, usize)> = None;
        for &(cost, size, cut) in sizes.iter().take(WALKS) {
            let Size { mt, nt, keep_rows, .. } = size;
            let slices: &[Slice] = &cuts[cut];
            let (rows, keeps) = (self.rows, self.keeps);
            let walk = Walk { chip, m: self.m, n: self.n, mt, nt, slices, keep_rows, rows, keeps };
            let time = walk.time()?.unwrap_or(cost);
            if best.is_none_or(|(least, ..)| time < least) {
                best = Some((time, size, cut));
            }
        }
        Ok(best.map(|(_, Size { mt, nt, kt, keep_rows, .. }, cut)| {
            let slices = cuts.swap_remove(cut);
            Plan { mt, nt, kt, slices, keep_rows }
        }))
    }

    /// Tiles of a width and a cut of the sums that fit, from the tallest down; none if not even one row fits.
    fn sizes(&self, chip: &Chip, nt: usize, slices: &[Slice]) -> Vec<Size> {
        let kt = slices.iter().map(Slice::len).max().unwrap_or(1);
        let weights = 2 * kt * nt + TABLE_SLOTS * ENTRY * nt;
        let behind = self.behind * nt;
        // Rows that are read where they lie take no room.
        let x = if self.rows == Rows::InPlace { 0 } else { self.bytes[0] };
        let most = chip
            .a
            .checked_div(2 * kt * x + behind)
            .unwrap_or(self.m)
            .min(chip.acc / (2 * nt * self.accumulators))
            .min(self.m);
        if weights > chip.w || most == 0 {
            return Vec::new();
        }
        let n_slices = slices.len();
        let orders = |mt| [false, true].map(|keep| Size { mt, nt, kt, n_slices, keep_rows: keep && n_slices == 1 });
        even(self.m).skip_while(|mt| *mt > most).flat_map(orders).collect()
    }

    /// Cycles that a size takes, roughly: groups follow one another as fast as the array, the bus, or the two slots
    /// between them allow, behind the time to fill and drain.
    fn cost(&self, chip: &Chip, size: Size) -> Result<f64> {
        let Size { mt, nt, kt, n_slices, keep_rows } = size;
        let (tiles_m, tiles_n) = (self.m.div_ceil(mt) as f64, self.n.div_ceil(nt) as f64);
        let (m, n, k) = (self.m as f64, self.n as f64, self.sums.iter().product::<usize>() as f64);
        let gemm = Gemm::new(mt as u64, nt as u64, kt as u64);
        let overflow = |e: ottava_npu::analytic::Error| Error::invalid(e.to_string());
        let array = compute_cycles(&chip.array, &gemm).map_err(overflow)? as f64;
        let (groups, cut) = (tiles_m * tiles_n * n_slices as f64, n_slices > 1);
        let [x, y] = self.bytes.map(|b| b as f64);
        let [x, y] = [if self.rows == Rows::Memory { x } else { 0.0 }, if self.keeps { 0.0 } else { y }];
        let rows = x * if cut || !keep_rows { m * k * tiles_n } else { m * k };
        let weights = if cut || keep_rows { k * n * tiles_m } else { k * n };
        let load = (rows + weights) / chip.bandwidth / groups;
        let store = m * n * y / chip.bandwidth / groups;
        let slots = (chip.latency + load + array) / 2.0;
        let fill = 2.0 * chip.latency + load + array + store * n_slices as f64;
        Ok(array.max(load + store).max(slots) * groups + fill)
    }
}

/// `n`, and its halves down to 1, rounded up.
fn halves(n: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(n.max(1)), |&n| (n > 1).then(|| n.div_ceil(2)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_npu::NpuConfig;

    #[test]
    fn every_choice_fits_and_nothing_that_fits_is_refused() {
        for (a, w, acc) in [(262_144, 262_144, 65_536), (64, 64, 16), (2, 50, 8), (4096, 50, 4096)] {
            let ram = format!("a: (bytes: {a}, banks: 1), w: (bytes: {w}, banks: 1), acc: (bytes: {acc}, banks: 1)");
            let chip = Chip::new(&NpuConfig::parse(&format!("Npu(sram: ({ram}))")).unwrap());
            for (m, n, sums) in [(1, 1, [1, 1, 1]), (900, 70, [3, 3, 40]), (7, 300, [1, 1, 5000])] {
                let extents =
                    Extents { m, n, sums, behind: 0, bytes: [1, 1], accumulators: 1, rows: Rows::Memory, keeps: false };
                let plan = extents.choose(&chip).unwrap().expect("one element of each fits");
                let Plan { mt, nt, kt, .. } = plan;
                assert!(2 * mt * kt <= a && 2 * mt * nt * 4 <= acc, "{plan:?}");
                assert!(2 * kt * nt + TABLE_SLOTS * ENTRY * nt <= w, "{plan:?}");
                assert_eq!(plan.slices.iter().map(Slice::len).sum::<usize>(), sums.iter().product::<usize>());
            }
        }
        let chip = Chip::new(&NpuConfig::parse("Npu(sram: (w: (bytes: 49, banks: 1)))").unwrap());
        let extents = Extents {
            m: 1,
            n: 1,
            sums: [1, 1, 1],
            behind: 0,
            bytes: [1, 1],
            accumulators: 1,
            rows: Rows::Memory,
            keeps: false,
        };
        assert_eq!(extents.choose(&chip).unwrap(), None, "two weights and four entries need 50 bytes");
    }
}
