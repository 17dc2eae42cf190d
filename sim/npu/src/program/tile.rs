//! Rectangles of memory, and windows over images.

use crate::isa::{Region, Space};
use std::ops::Range;

/// Rows of a local memory; bytes in the scratchpads, elements in the accumulators.
///
/// Invariant (kept by `resolve`): rows and length are positive, rows do not overlap, the last one ends inside the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tile {
    /// The memory.
    pub space: Space,
    /// Start of row 0.
    pub offset: u32,
    /// Rows.
    pub rows: u32,
    /// Length of a row.
    pub len: u32,
    /// Distance between rows.
    pub pitch: u32,
}

impl Tile {
    /// Where row `i` lies.
    pub fn row(&self, i: u32) -> Range<usize> {
        let start = self.offset as usize + i as usize * self.pitch as usize;
        start..start + self.len as usize
    }

    /// The end of the last row.
    pub fn end(&self) -> u64 {
        u64::from(self.offset) + u64::from(self.rows.saturating_sub(1)) * u64::from(self.pitch) + u64::from(self.len)
    }

    /// Units in all rows.
    pub fn units(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.len)
    }
}

/// Rows of a DRAM region, or of a scratchpad as the outer end of a transfer, in bytes. A pitch of 0 reads the same row again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DramTile {
    /// The region.
    pub region: Region,
    /// Start of row 0.
    pub offset: u64,
    /// Rows.
    pub rows: u32,
    /// Bytes of a row.
    pub len: u32,
    /// Distance between rows.
    pub pitch: u64,
}

impl DramTile {
    /// The tile on the chip, where the region is a scratchpad; a row that is read again and again is one.
    pub fn local(&self) -> Option<Tile> {
        let space = self.region.space()?;
        let rows = if self.pitch == 0 { 1 } else { self.rows };
        let pitch = if rows == 1 { self.len } else { self.pitch as u32 };
        // `resolve` has checked the tile against the scratchpad, whose offsets have 24 bits.
        Some(Tile { space, offset: self.offset as u32, rows, len: self.len, pitch })
    }

    /// Start of row `i`.
    pub fn start(&self, i: u64) -> u64 {
        self.offset.saturating_add(i.saturating_mul(self.pitch))
    }

    /// The end of the last row.
    pub fn end(&self) -> u64 {
        self.start(u64::from(self.rows.saturating_sub(1))).saturating_add(self.len.into())
    }

    /// Where row `i` lies.
    pub fn row(&self, i: u64) -> Range<usize> {
        let start = usize::try_from(self.start(i)).unwrap_or(usize::MAX);
        start..start.saturating_add(self.len as usize)
    }
}

/// A sliding window over an image: sizes, steps, distances of taps, padding, output size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the registers of the same names")]
pub struct Window {
    pub ih: u32,
    pub iw: u32,
    pub kh: u32,
    pub kw: u32,
    pub sh: u32,
    pub sw: u32,
    pub dh: u32,
    pub dw: u32,
    pub pt: i32,
    pub pl: i32,
    pub pb: i32,
    pub pr: i32,
    pub oh: u32,
    pub ow: u32,
}

/// One axis of a window at one output position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    start: i64,
    step: i64,
    taps: i64,
}

impl Axis {
    /// The taps whose position lies in `lo..hi`.
    fn taps_in(&self, lo: i64, hi: i64) -> Range<u32> {
        // start + t * step >= lo and start + t * step < hi; step is positive.
        let first = (lo - self.start).max(0).div_ceil_positive(self.step);
        let last = (hi - self.start).max(0).div_ceil_positive(self.step).min(self.taps);
        first.min(last) as u32..last as u32
    }
}

/// Division of a non-negative number, rounded up.
trait DivCeil {
    fn div_ceil_positive(self, by: i64) -> i64;
}

impl DivCeil for i64 {
    fn div_ceil_positive(self, by: i64) -> i64 {
        (self + by - 1) / by
    }
}

impl Window {
    fn vertical(&self, oh: u32) -> Axis {
        let start = i64::from(oh) * i64::from(self.sh) - i64::from(self.pt);
        Axis { start, step: self.dh.into(), taps: self.kh.into() }
    }

    fn horizontal(&self, ow: u32) -> Axis {
        let start = i64::from(ow) * i64::from(self.sw) - i64::from(self.pl);
        Axis { start, step: self.dw.into(), taps: self.kw.into() }
    }

    /// The taps (rows, columns of the window) inside the image at output position (oh, ow).
    pub fn taps_inside(&self, oh: u32, ow: u32) -> (Range<u32>, Range<u32>) {
        let rows = self.vertical(oh).taps_in(0, self.ih.into());
        let columns = self.horizontal(ow).taps_in(0, self.iw.into());
        (rows, columns)
    }

    /// Taps inside the padded image.
    pub fn taps_padded(&self, oh: u32, ow: u32) -> u64 {
        let bottom = i64::from(self.ih) + i64::from(self.pb);
        let right = i64::from(self.iw) + i64::from(self.pr);
        let rows = self.vertical(oh).taps_in(-i64::from(self.pt), bottom);
        let columns = self.horizontal(ow).taps_in(-i64::from(self.pl), right);
        rows.len() as u64 * columns.len() as u64
    }

    /// The input pixel under tap (i, j), which must be one of [`Window::taps_inside`].
    pub fn pixel(&self, oh: u32, ow: u32, i: u32, j: u32) -> u32 {
        let (v, h) = (self.vertical(oh), self.horizontal(ow));
        let y = v.start + i64::from(i) * v.step;
        let x = h.start + i64::from(j) * h.step;
        (y * i64::from(self.iw) + x) as u32
    }

    /// Output pixels.
    pub fn pixels_out(&self) -> u64 {
        u64::from(self.oh) * u64::from(self.ow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taps_match_a_direct_count() {
        let axes =
            [(5_u32, 3_u32, 1_u32, 1_u32, 1_i32, 1_i32), (7, 3, 2, 2, -1, 0), (4, 5, 3, 1, 2, 3), (1, 1, 1, 1, 0, 0)];
        for (size, taps, step, distance, before, behind) in axes {
            let w = Window {
                ih: size,
                iw: size,
                kh: taps,
                kw: taps,
                sh: step,
                sw: step,
                dh: distance,
                dw: distance,
                pt: before,
                pl: before,
                pb: behind,
                pr: behind,
                oh: 4,
                ow: 4,
            };
            for o in 0..4_u32 {
                let at = |t: u32| i64::from(o * step) - i64::from(before) + i64::from(t * distance);
                let inside: Vec<u32> = (0..taps).filter(|&t| (0..i64::from(size)).contains(&at(t))).collect();
                assert_eq!(w.taps_inside(o, 0).0.collect::<Vec<_>>(), inside);
                let padded = -i64::from(before)..i64::from(size) + i64::from(behind);
                let n = (0..taps).filter(|&t| padded.contains(&at(t))).count() as u64;
                assert_eq!(w.taps_padded(o, o), n * n);
                for t in inside {
                    assert_eq!(i64::from(w.pixel(o, o, t, t)), at(t) * i64::from(size) + at(t));
                }
            }
        }
    }
}
