//! The banks of the scratchpads over time: words that each bank serves per cycle, and the share of cycles that conflict.
//!
//! Words of `port_bytes` go round the banks. What a step reads or writes is spread evenly over the time in which it is at
//! work: a transfer while its data are on the bus, anything else from its start to its end. A product streams its operands
//! as often as its folds need them. The accumulators are as wide as the array and have no track.

use crate::NpuConfig;
use crate::analytic::{ArrayShape, Gemm, sram_accesses};
use crate::config::Scratchpad;
use crate::isa::Space;
use crate::program::{Access, Place, Step, Tile, Work};
use crate::timing::Timed;
use std::collections::BTreeMap;

/// Tracks of one scratchpad; where there are more banks, neighbours share one.
const MAX_TRACKS: u32 = 32;

/// Changes of a counter.
type Edges = Vec<(u64, f64)>;

/// One scratchpad's banks.
struct Banks<'c> {
    space: Space,
    name: &'static str,
    pad: &'c Scratchpad,
    /// Banks of a track.
    per_track: u32,
    edges: Vec<Edges>,
}

impl<'c> Banks<'c> {
    fn new(space: Space, name: &'static str, pad: &'c Scratchpad) -> Self {
        let per_track = pad.banks.div_ceil(MAX_TRACKS).max(1);
        let tracks = pad.banks.div_ceil(per_track) as usize;
        Self { space, name, pad, per_track, edges: vec![Vec::new(); tracks] }
    }

    /// Accesses of each track in one pass over a tile.
    fn words(&self, tile: &Tile) -> Vec<u64> {
        let mut words = vec![0; self.edges.len()];
        let dense = tile.pitch == tile.len;
        let (rows, len) = if dense { (1, tile.units()) } else { (tile.rows, u64::from(tile.len)) };
        let (port, banks) = (u64::from(self.pad.port_bytes.max(1)), u64::from(self.pad.banks.max(1)));
        for row in 0..rows {
            let at = u64::from(tile.offset) + u64::from(row) * u64::from(tile.pitch);
            let (first, last) = (at / port, (at + len.max(1) - 1) / port);
            for bank in 0..banks.min(last - first + 1) {
                // The word of this row that is the first in its bank, and those a round later each.
                let word = first + bank;
                let track = (word % banks) / u64::from(self.per_track);
                words[track as usize] += (last - word) / banks + 1;
            }
        }
        words
    }

    fn add(&mut self, tile: &Tile, passes: f64, (start, end): (u64, u64)) {
        let cycles = (end - start) as f64;
        for (track, words) in self.words(tile).into_iter().enumerate().filter(|(_, words)| *words > 0) {
            let rate = words as f64 * passes / cycles;
            self.edges[track].extend([(start, rate), (end, -rate)]);
        }
    }

    fn label(&self, track: usize) -> String {
        let first = track as u32 * self.per_track;
        let last = (first + self.per_track).min(self.pad.banks) - 1;
        let banks = if first == last { format!("bank {first}") } else { format!("banks {first}-{last}") };
        format!("{} {banks} words per cycle", self.name)
    }
}

/// Every counter with its name.
pub(super) fn counters(config: &NpuConfig, timed: &Timed) -> Vec<(String, Edges)> {
    let mut pads = [Banks::new(Space::A, "sram a", &config.sram.a), Banks::new(Space::W, "sram w", &config.sram.w)];
    let on_bus: BTreeMap<u32, (u64, u64)> = timed.timing.transfers.iter().map(|t| (t.step, (t.start, t.end))).collect();
    let mut conflicts = Edges::new();
    for span in &timed.timing.spans {
        let at = span.step as usize;
        let (step, cost) = (&timed.steps[at], &timed.costs[at]);
        let (start, end) = on_bus.get(&span.step).copied().unwrap_or((span.start, span.end));
        if end <= start {
            continue;
        }
        for access in step.accesses() {
            let Place::Local(tile) = access.place else { continue };
            if let Some(pad) = pads.iter_mut().find(|pad| pad.space == tile.space) {
                pad.add(&tile, passes(config, step, &access, &tile), (start, end));
            }
        }
        if cost.bank > 0 {
            let share = cost.bank as f64 / (end - start) as f64;
            conflicts.extend([(start, share), (end, -share)]);
        }
    }
    let tracks = pads.into_iter().flat_map(|mut pad| {
        let edges = std::mem::take(&mut pad.edges);
        edges.into_iter().enumerate().map(|(i, edges)| (pad.label(i), edges)).collect::<Vec<_>>()
    });
    tracks.chain([("bank conflicts".to_owned(), conflicts)]).collect()
}

/// How often a step goes over a tile.
fn passes(config: &NpuConfig, step: &Step, access: &Access, tile: &Tile) -> f64 {
    let Work::Gemm(g) = &step.work else { return 1.0 };
    let gemm = Gemm::new(g.a.rows.into(), g.w.n.into(), g.w.k.into());
    let Ok(n) = sram_accesses(&ArrayShape::from(&config.array), &gemm) else { return 1.0 };
    let bytes = if access.write {
        return 1.0;
    } else if *tile == g.a {
        n.a.saturating_mul(g.input.dtype.bytes())
    } else {
        n.w
    };
    bytes as f64 / tile.units().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_go_round_the_banks() {
        let pad = Scratchpad { bytes: 4096, banks: 4, ports: 1, port_bytes: 16 };
        let banks = Banks::new(Space::A, "a", &pad);
        let tile = |offset, rows, len, pitch| Tile { space: Space::A, offset, rows, len, pitch };
        // Ten words from the third on.
        assert_eq!(banks.words(&tile(32, 1, 160, 160)), [2, 2, 3, 3]);
        // Rows whose pitch is a whole round lie in one bank; one that crosses a word needs both.
        assert_eq!(banks.words(&tile(16, 5, 16, 64)), [0, 5, 0, 0]);
        assert_eq!(banks.words(&tile(8, 1, 16, 16)), [1, 1, 0, 0]);
        // What is dense is one row, also where its rows are shorter than a word.
        assert_eq!(banks.words(&tile(0, 16, 4, 4)), [1, 1, 1, 1]);
        let many = Scratchpad { banks: 64, ..pad };
        let many = Banks::new(Space::W, "w", &many);
        assert_eq!(many.edges.len(), 32);
        assert_eq!(
            (many.label(0), many.label(31)),
            ("w banks 0-1 words per cycle".into(), "w banks 62-63 words per cycle".into())
        );
    }
}
