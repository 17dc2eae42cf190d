//! A shadow of every memory: who wrote each piece last and who has read it since.
//!
//! A piece is a maximal range that was always accessed together; pieces are split where accesses begin and end. Regions
//! `in` and `const` are never written and have no shadow. The number of pieces visited is limited, so that a hostile
//! stream of scattered accesses costs bounded time and memory.

use super::clocks::Clock;
use crate::error::Fault;
use crate::isa::{Queue, Space};
use crate::program::{Access, Place, Tile};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pieces that may be visited in one verification.
const MAX_VISITS: usize = 1 << 25;
/// Pieces that may exist at a time.
const MAX_PIECES: usize = 1 << 20;

/// A step, as the shadow remembers it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp {
    pub queue: Queue,
    /// Its position in the queue, from 1.
    pub position: u32,
    /// Its index in the stream.
    pub index: usize,
}

impl Stamp {
    /// Whether the step ends before one with this clock starts, or is of the same queue.
    fn is_before(&self, later: Stamp, clock: &Clock) -> bool {
        self.queue == later.queue || clock[self.queue.index()] >= self.position
    }
}

#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    writer: Stamp,
    readers: [Option<Stamp>; 4],
    /// Bound of the accumulators in the piece.
    bound: u64,
}

/// The shadows by memory: A, W, accumulators, out, scratch.
#[derive(Default)]
pub(super) struct Shadow {
    maps: [BTreeMap<u64, Piece>; 5],
    visits: usize,
    pieces: usize,
}

impl Shadow {
    /// Whether a limit was reached; [`Shadow::access`] has reported it.
    pub fn is_exhausted(&self) -> bool {
        self.visits > MAX_VISITS || self.pieces > MAX_PIECES
    }

    /// Records an access; the first conflict is the error. `bound` goes to what it writes.
    pub fn access(&mut self, access: &Access, stamp: Stamp, clock: &Clock, bound: u64) -> Result<(), Fault> {
        let (map, space, rows) = match access.place {
            Place::Local(tile) => (local_map(tile.space), tile.space.name(), local_rows(&tile)),
            Place::Dram(tile) => {
                let Some(map) = [None, Some(3), Some(4), None][tile.region.index()] else { return Ok(()) };
                let pitch = if tile.rows == 1 { tile.len.into() } else { tile.pitch };
                (map, tile.region.name(), rows(tile.offset, tile.rows.into(), tile.len.into(), pitch))
            }
        };
        let mut result = Ok(());
        for i in 0..rows.n {
            let start = rows.start + i * rows.pitch;
            let range = start..start + rows.len;
            let row = if access.write {
                self.write(map, range, stamp, clock, bound)
            } else {
                self.read(map, range, stamp, clock)
            };
            if self.is_exhausted() {
                return Err(Fault::Fragmented { limit: MAX_PIECES });
            }
            result = result.and(row.map_err(|conflict| conflict.fault(access.what, space)));
        }
        result
    }

    /// (V5) The greatest bound in a tile.
    pub fn bound(&self, tile: &Tile) -> u64 {
        let rows = local_rows(tile);
        let map = &self.maps[local_map(tile.space)];
        let in_row = |i: u64| {
            let start = rows.start + i * rows.pitch;
            overlapping(map, &(start..start + rows.len)).map(|(_, p)| p.bound).max().unwrap_or(0)
        };
        (0..rows.n).map(in_row).max().unwrap_or(0)
    }

    fn read(&mut self, map: usize, range: Range<u64>, stamp: Stamp, clock: &Clock) -> Result<(), Conflict> {
        self.split(map, range.start);
        self.split(map, range.end);
        let mut covered = range.start;
        let mut result = Ok(());
        let mut visits = 1;
        for (&start, piece) in self.maps[map].range_mut(range.clone()) {
            visits += 1;
            if start > covered {
                result = result.and(Err(Conflict::Unwritten(covered)));
            }
            covered = piece.end;
            if !piece.writer.is_before(stamp, clock) {
                result = result.and(Err(Conflict::Race("read-after-write", piece.writer.index, start)));
            }
            piece.readers[stamp.queue.index()] = Some(stamp);
        }
        self.visits += visits;
        if covered < range.end { result.and(Err(Conflict::Unwritten(covered))) } else { result }
    }

    fn write(
        &mut self,
        map: usize,
        range: Range<u64>,
        stamp: Stamp,
        clock: &Clock,
        bound: u64,
    ) -> Result<(), Conflict> {
        self.split(map, range.start);
        self.split(map, range.end);
        let mut result = Ok(());
        let old: Vec<u64> = self.maps[map].range(range.clone()).map(|(&start, _)| start).collect();
        self.visits += old.len() + 1;
        for start in old {
            let Some(piece) = self.maps[map].remove(&start) else { continue };
            self.pieces -= 1;
            if !piece.writer.is_before(stamp, clock) {
                result = result.and(Err(Conflict::Race("write-after-write", piece.writer.index, start)));
            }
            if let Some(reader) = piece.readers.iter().flatten().find(|r| !r.is_before(stamp, clock)) {
                result = result.and(Err(Conflict::Race("write-after-read", reader.index, start)));
            }
        }
        let piece = Piece { end: range.end, writer: stamp, readers: [None; 4], bound };
        self.maps[map].insert(range.start, piece);
        self.pieces += 1;
        result
    }

    /// Makes `at` a border between pieces.
    fn split(&mut self, map: usize, at: u64) {
        let Some((_, piece)) = self.maps[map].range_mut(..at).next_back() else { return };
        if piece.end <= at {
            return;
        }
        let behind = piece.clone();
        piece.end = at;
        self.maps[map].insert(at, behind);
        self.pieces += 1;
    }
}

enum Conflict {
    Race(&'static str, usize, u64),
    Unwritten(u64),
}

impl Conflict {
    fn fault(self, what: &'static str, space: &'static str) -> Fault {
        match self {
            Self::Race(kind, other, at) => Fault::Race { kind, other, space, at },
            Self::Unwritten(at) => Fault::Unwritten { what, space, at },
        }
    }
}

/// Rows as ranges; dense rows are one.
struct Rows {
    start: u64,
    n: u64,
    len: u64,
    pitch: u64,
}

fn rows(start: u64, n: u64, len: u64, pitch: u64) -> Rows {
    if pitch == len { Rows { start, n: 1, len: n * len, pitch } } else { Rows { start, n, len, pitch } }
}

fn local_rows(tile: &Tile) -> Rows {
    rows(tile.offset.into(), tile.rows.into(), tile.len.into(), tile.pitch.into())
}

fn local_map(space: Space) -> usize {
    match space {
        Space::A => 0,
        Space::W => 1,
        Space::Acc => 2,
    }
}

/// The pieces that share something with `range`.
fn overlapping<'m>(map: &'m BTreeMap<u64, Piece>, range: &Range<u64>) -> impl Iterator<Item = (u64, &'m Piece)> + use<'m> {
    let start = map.range(..range.start).next_back().filter(|(_, p)| p.end > range.start).map_or(range.start, |(&s, _)| s);
    map.range(start..range.end).map(|(&s, p)| (s, p))
}
