//! A shadow of every memory: who wrote each piece last and who has read it since.
//!
//! A piece is a range that was always accessed together; pieces are split where accesses begin and end. Neighbours are
//! merged again once they are *settled*: every step that is still to come starts after their writers and readers have
//! ended, so that no conflict with them is possible any more. Regions `in` and `const` are never written and have no
//! shadow. The number of pieces, and of visits to them, is limited: a hostile stream of scattered accesses costs bounded
//! time and memory.

use super::clocks::Clock;
use crate::error::Fault;
use crate::isa::{Queue, Space};
use crate::program::{Access, Place, Tile};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pieces that may be visited in one verification.
const MAX_VISITS: usize = 1 << 27;
/// Pieces that may exist at a time.
const MAX_PIECES: usize = 1 << 21;

/// A step: its queue and its position in it, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub queue: Queue,
    pub position: u32,
}

/// The step that accesses, and what is known to have ended.
pub(super) struct Now {
    pub stamp: Stamp,
    /// Steps that end before this one starts.
    pub clock: Clock,
    /// Steps that end before any step that is still to come starts.
    pub floor: Clock,
    /// (V5) Bound of the accumulators that it writes.
    pub bound: u64,
}

impl Now {
    /// Whether an earlier step is of the same queue or ends before this one starts.
    fn is_after(&self, earlier: Stamp) -> bool {
        earlier.queue == self.stamp.queue || self.clock[earlier.queue.index()] >= earlier.position
    }
}

#[derive(Clone, Debug)]
struct Piece {
    end: u64,
    writer: Stamp,
    /// Position of the last reader by queue; 0: none.
    readers: [u32; 4],
    bound: u64,
}

impl Piece {
    fn is_settled(&self, floor: &Clock) -> bool {
        let written = floor[self.writer.queue.index()] >= self.writer.position;
        written && self.readers.iter().zip(floor).all(|(reader, floor)| floor >= reader)
    }
}

/// The shadows by memory: A, W, accumulators, out, scratch.
pub(super) struct Shadow {
    maps: [BTreeMap<u64, Piece>; 5],
    visits: usize,
    pieces: usize,
    /// The most pieces that may exist at a time.
    max_pieces: usize,
}

impl Default for Shadow {
    fn default() -> Self {
        Self { maps: Default::default(), visits: 0, pieces: 0, max_pieces: MAX_PIECES }
    }
}

impl Shadow {
    /// Whether a limit was reached; [`Shadow::access`] has reported it.
    pub fn is_exhausted(&self) -> bool {
        self.visits > MAX_VISITS || self.pieces > self.max_pieces
    }

    /// Records an access; the first conflict is the error.
    pub fn access(&mut self, access: &Access, now: &Now) -> Result<(), Conflict> {
        let (map, rows) = match access.place {
            Place::Local(tile) => (local_map(tile.space), local_rows(&tile)),
            Place::Dram(tile) => {
                let Some(map) = [None, Some(3), Some(4), None, None, None][tile.region.index()] else { return Ok(()) };
                let pitch = if tile.rows == 1 { tile.len.into() } else { tile.pitch };
                (map, rows(tile.offset, tile.rows.into(), tile.len.into(), pitch))
            }
        };
        let mut result = Ok(());
        for i in 0..rows.n {
            let start = rows.start + i * rows.pitch;
            let range = start..start + rows.len;
            self.split(map, range.start);
            self.split(map, range.end);
            let row = if access.write { self.write(map, range, now) } else { self.read(map, range, now) };
            if self.is_exhausted() {
                return Err(Conflict::Exhausted);
            }
            result = result.and(row);
        }
        result
    }

    /// (V5) The greatest bound in a tile.
    pub fn bound(&self, tile: &Tile) -> u64 {
        let rows = local_rows(tile);
        let map = &self.maps[local_map(tile.space)];
        let in_row = |i: u64| {
            let start = rows.start + i * rows.pitch;
            overlapping(map, &(start..start + rows.len)).map(|p| p.bound).max().unwrap_or(0)
        };
        (0..rows.n).map(in_row).max().unwrap_or(0)
    }

    fn read(&mut self, map: usize, range: Range<u64>, now: &Now) -> Result<(), Conflict> {
        let mut covered = range.start;
        let mut result = Ok(());
        let (mut visits, mut settled, mut bound) = (0, true, None);
        for (&start, piece) in self.maps[map].range_mut(range.clone()) {
            visits += 1;
            if start > covered {
                result = result.and(Err(Conflict::Unwritten(covered)));
            }
            covered = piece.end;
            if !now.is_after(piece.writer) {
                result = result.and(Err(Conflict::Race("read-after-write", piece.writer, start)));
            }
            settled &= piece.is_settled(&now.floor) && *bound.get_or_insert(piece.bound) == piece.bound;
            piece.readers[now.stamp.queue.index()] = now.stamp.position;
        }
        self.visits += visits + 1;
        if covered < range.end {
            return result.and(Err(Conflict::Unwritten(covered)));
        }
        if settled && visits > 1 && result.is_ok() {
            self.merge(map, range, now.stamp);
        }
        result
    }

    /// Makes one piece of the settled pieces that fill a range which `reader` has just read.
    fn merge(&mut self, map: usize, range: Range<u64>, reader: Stamp) {
        let starts: Vec<u64> = self.maps[map].range(range.clone()).map(|(&start, _)| start).collect();
        let Some(mut first) = self.maps[map].remove(&range.start) else { return };
        for start in &starts[1..] {
            self.maps[map].remove(start);
        }
        first.end = range.end;
        first.readers = [0; 4];
        first.readers[reader.queue.index()] = reader.position;
        self.maps[map].insert(range.start, first);
        self.pieces -= starts.len() - 1;
    }

    fn write(&mut self, map: usize, range: Range<u64>, now: &Now) -> Result<(), Conflict> {
        let mut result = Ok(());
        let old: Vec<u64> = self.maps[map].range(range.clone()).map(|(&start, _)| start).collect();
        self.visits += old.len() + 1;
        for start in old {
            let Some(piece) = self.maps[map].remove(&start) else { continue };
            self.pieces -= 1;
            if !now.is_after(piece.writer) {
                result = result.and(Err(Conflict::Race("write-after-write", piece.writer, start)));
            }
            let readers = Queue::ALL.into_iter().zip(piece.readers).filter(|(_, position)| *position > 0);
            let mut readers = readers.map(|(queue, position)| Stamp { queue, position });
            if let Some(reader) = readers.find(|r| !now.is_after(*r)) {
                result = result.and(Err(Conflict::Race("write-after-read", reader, start)));
            }
        }
        let piece = Piece { end: range.end, writer: now.stamp, readers: [0; 4], bound: now.bound };
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

/// What is wrong with an access.
pub(super) enum Conflict {
    /// The kind, the other step, the place.
    Race(&'static str, Stamp, u64),
    /// The place.
    Unwritten(u64),
    /// Too many pieces.
    Exhausted,
}

impl Conflict {
    /// The fault; `index` finds a step's instruction.
    pub fn fault(self, access: &Access, index: impl Fn(Stamp) -> usize) -> Fault {
        let space = match access.place {
            Place::Local(tile) => tile.space.name(),
            Place::Dram(tile) => tile.region.name(),
        };
        match self {
            Self::Race(kind, other, at) => Fault::Race { kind, other: index(other), space, at },
            Self::Unwritten(at) => Fault::Unwritten { what: access.what, space, at },
            Self::Exhausted => Fault::Fragmented { limit: MAX_PIECES },
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
fn overlapping<'m>(map: &'m BTreeMap<u64, Piece>, range: &Range<u64>) -> impl Iterator<Item = &'m Piece> + use<'m> {
    let before = map.range(..range.start).next_back().filter(|(_, piece)| piece.end > range.start);
    before.into_iter().chain(map.range(range.clone())).map(|(_, piece)| piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Region;
    use crate::program::DramTile;

    fn now(queue: Queue, position: u32, clock: Clock, floor: Clock) -> Now {
        Now { stamp: Stamp { queue, position }, clock, floor, bound: 0 }
    }

    fn scratch(offset: u64, rows: u32, write: bool) -> Access {
        let tile = DramTile { region: Region::Scratch, offset, rows, len: 4, pitch: if write { 8 } else { 4 } };
        Access { what: "test", place: Place::Dram(tile), write }
    }

    #[test]
    fn settled_pieces_merge_when_they_are_read_together() {
        let mut shadow = Shadow::default();
        let store = |position| now(Queue::St, position, [0, 0, 0, position], [0; 4]);
        assert!(shadow.access(&scratch(0, 1000, true), &store(1)).is_ok());
        assert!(shadow.access(&scratch(4, 1000, true), &store(2)).is_ok());
        assert_eq!(shadow.pieces, 2000);
        // A load that is ordered behind the first store only races with the second.
        let early = now(Queue::Ld, 1, [1, 0, 0, 1], [0; 4]);
        let race = shadow.access(&scratch(0, 2000, false), &early);
        assert!(matches!(race, Err(Conflict::Race("read-after-write", Stamp { queue: Queue::St, position: 2 }, 4))));
        assert_eq!(shadow.pieces, 2000);
        let late = now(Queue::Ld, 2, [2, 0, 0, 2], [1, 0, 0, 2]);
        assert!(shadow.access(&scratch(0, 2000, false), &late).is_ok());
        assert_eq!(shadow.pieces, 1);
        // The merged piece still knows its reader.
        let race = shadow.access(&scratch(80, 1, true), &now(Queue::St, 3, [1, 0, 0, 3], [1, 0, 0, 2]));
        assert!(matches!(race, Err(Conflict::Race("write-after-read", Stamp { queue: Queue::Ld, position: 2 }, 80))));
    }

    #[test]
    fn scattered_accesses_end() {
        let mut shadow = Shadow { max_pieces: 10_000, ..Shadow::default() };
        let step = now(Queue::St, 1, [0, 0, 0, 1], [0; 4]);
        let many = scratch(0, u32::MAX, true);
        assert!(matches!(shadow.access(&many, &step), Err(Conflict::Exhausted)));
        assert!(shadow.is_exhausted());
    }
}
