//! A memory with channels, banks and rows.
//!
//! **Addresses.** Blocks of `interleave` bytes go round the channels, each round in an order turned by the digits of its
//! number, so that accesses at a pitch of whole rounds do not all meet in one channel. What a channel has of consecutive
//! addresses is consecutive in it; its rows go round its banks.
//! **Time.** A channel has its share of the bandwidth. An access of a row that its bank has open (a hit) needs the latency;
//! another one (a miss) first waits until the bank is idle and opens its row, which other banks of the channel hide. A
//! channel that changes between reading and writing waits for the turnaround. Pieces of one transfer are known at its
//! start, so rows open ahead of their data.

use crate::analytic::{Bandwidth, Time};
use crate::config::Dram;
use crate::isa::Region;
use crate::program::{DramTile, Place, Step};

/// Parts of a cycle.
const PARTS: u64 = 256;

/// One bank of one channel, times in parts of a cycle.
#[derive(Clone, Copy, Default)]
struct Bank {
    open: Option<u64>,
    idle_at: u64,
}

/// One channel of the memory.
struct Channel {
    free: u64,
    writes: bool,
    banks: Vec<Bank>,
}

/// A memory with rows.
pub(super) struct Rows {
    channels: Vec<Channel>,
    interleave: u64,
    row_bytes: u64,
    miss: u64,
    turnaround: u64,
    /// Of one channel; `None` is a memory that never limits.
    rate: Option<Bandwidth>,
}

/// When a transfer may begin, and which way it goes.
#[derive(Clone, Copy)]
struct Request {
    start: u64,
    latency: u64,
    write: bool,
}

impl Rows {
    pub fn new(dram: &Dram) -> Option<Self> {
        let Dram::Banked { bytes_per_cycle, channels, banks, interleave, row_bytes, row_miss, turnaround, .. } = *dram
        else {
            return None;
        };
        let channel = || Channel { free: 0, writes: false, banks: vec![Bank::default(); banks as usize] };
        Some(Self {
            channels: (0..channels).map(|_| channel()).collect(),
            interleave: u64::from(interleave).max(1),
            row_bytes: u64::from(row_bytes).max(1),
            miss: u64::from(row_miss).saturating_mul(PARTS),
            turnaround: u64::from(turnaround).saturating_mul(PARTS),
            rate: Bandwidth::from_f64(bytes_per_cycle / f64::from(channels)),
        })
    }

    /// First and last cycle of the data, hits and misses.
    pub fn transfer(&mut self, step: &Step, start: u64, bytes: u64, latency: u64) -> (u64, u64, (u64, u64)) {
        let (mut first, mut last, mut rows) = (u64::MAX, 0, (0, 0));
        let accesses = step.accesses();
        let tile = accesses.iter().find_map(|a| match a.place {
            Place::Dram(tile) => Some((tile, a.write)),
            Place::Local(_) => None,
        });
        // A step that names no memory moves its bytes from the start of the first region.
        let whole = DramTile { region: Region::Input, offset: 0, rows: 1, len: u32::MAX, pitch: 0 };
        let (tile, write) = tile.unwrap_or((whole, false));
        let request = Request { start: start.saturating_mul(PARTS), latency: latency.saturating_mul(PARTS), write };
        let mut left = bytes;
        for (at, len) in runs(&tile) {
            let len = len.min(left);
            left -= len;
            for channel in 0..self.channels.len() as u64 {
                let (mut place, end) = (self.below(at, channel), self.below(at.wrapping_add(len), channel));
                while place < end {
                    let n = (self.row_bytes - place % self.row_bytes).min(end - place);
                    let (begin, end, hit) = self.piece(channel, place / self.row_bytes, n, request);
                    (first, last) = (first.min(begin), last.max(end));
                    rows = if hit { (rows.0 + 1, rows.1) } else { (rows.0, rows.1 + 1) };
                    place += n;
                }
            }
            if left == 0 {
                break;
            }
        }
        (first / PARTS, last.div_ceil(PARTS), rows)
    }

    /// Bytes of a channel that lie below an address: the place of the address, or of the next that the channel has.
    fn below(&self, address: u64, channel: u64) -> u64 {
        let n = self.channels.len() as u64;
        let (block, inside) = (address / self.interleave, address % self.interleave);
        let (round, place) = (block / n, block % n);
        // The channel's place in this round.
        let own = (channel + n - turn(round, n)) % n;
        let partial = match own.cmp(&place) {
            std::cmp::Ordering::Less => self.interleave,
            std::cmp::Ordering::Equal => inside,
            std::cmp::Ordering::Greater => 0,
        };
        round * self.interleave + partial
    }

    /// A piece inside one row: when its data begin and end, and whether the row was open.
    fn piece(&mut self, channel: u64, row: u64, bytes: u64, request: Request) -> (u64, u64, bool) {
        let data = self.rate.map_or(0, |r| r.transfer(bytes).map_or(u64::MAX, Time::parts));
        let channel = &mut self.channels[channel as usize];
        let banks = channel.banks.len() as u64;
        let bank = &mut channel.banks[(row % banks) as usize];
        let hit = bank.open == Some(row);
        let ready = if hit { request.start } else { request.start.max(bank.idle_at).saturating_add(self.miss) };
        let turns = channel.writes != request.write;
        let free = if turns { channel.free.saturating_add(self.turnaround) } else { channel.free };
        let begin = ready.saturating_add(request.latency).max(free);
        let end = begin.saturating_add(data);
        (bank.open, bank.idle_at) = (Some(row), end);
        (channel.free, channel.writes) = (end, request.write);
        (begin, end, hit)
    }
}

/// By how many channels a round is turned: the sum of its digits to the base of the number of channels.
fn turn(mut round: u64, channels: u64) -> u64 {
    let mut sum = 0;
    while channels > 1 && round > 0 {
        sum += round % channels;
        round /= channels;
    }
    sum % channels
}

/// The runs of bytes of a tile, as addresses in one space: regions lie far apart.
fn runs(tile: &DramTile) -> impl Iterator<Item = (u64, u64)> {
    let base = (tile.region.index() as u64) << 44;
    let (len, tile) = (u64::from(tile.len), *tile);
    let dense = tile.pitch == len;
    let count = if dense { 1 } else { u64::from(tile.rows) };
    let length = if dense { len.saturating_mul(tile.rows.into()) } else { len };
    (0..count).map(move |i| (base.wrapping_add(tile.start(i)), length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(channels: u32, interleave: u32) -> Rows {
        let dram = Dram::Banked {
            bytes_per_cycle: 16.0,
            latency: 10,
            channels,
            banks: 2,
            interleave,
            row_bytes: 1024,
            row_miss: 20,
            turnaround: 5,
        };
        Rows::new(&dram).unwrap()
    }

    /// Every byte lies in one channel, at the next place of it, and a round has one block of each.
    #[test]
    fn channels_share_the_addresses_without_gaps() {
        for (channels, interleave) in [(1, 64), (2, 64), (3, 16), (8, 64), (64, 16)] {
            let rows = memory(channels, interleave);
            let mut next = vec![0; channels as usize];
            for address in 0..u64::from(channels * interleave * 5) {
                let owners: Vec<u64> = (0..u64::from(channels))
                    .filter(|c| rows.below(address + 1, *c) > rows.below(address, *c))
                    .collect();
                assert_eq!(owners.len(), 1, "{address}");
                let owner = owners[0] as usize;
                assert_eq!(rows.below(address, owners[0]), next[owner], "{address}");
                next[owner] += 1;
            }
            assert!(next.iter().all(|n| *n == u64::from(interleave) * 5), "{next:?}");
        }
    }

    #[test]
    fn a_pitch_of_whole_rounds_meets_all_channels() {
        let rows = memory(4, 64);
        for pitch in [256, 1024, 4096] {
            let owner = |i: u64| (0..4).find(|c| rows.below(i * pitch + 1, *c) > rows.below(i * pitch, *c)).unwrap();
            let met: std::collections::BTreeSet<u64> = (0..4).map(owner).collect();
            assert_eq!(met.len(), 4, "{pitch}");
        }
    }
}
