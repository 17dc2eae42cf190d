//! The memory bus: DMA channels, the data of transfers one behind the other, and optionally the rows of a DRAM.
//!
//! **Simple memory.** A transfer takes `L + bytes/B`; the bus carries the data of one transfer at a time.
//! **Memory with rows** (`Banked`). Addresses go round the channels row by row, and on each channel round its banks. A
//! channel has its share of the bandwidth. An access of a row that its bank has open (a hit) needs the latency; another
//! one (a miss) first waits until the bank is idle and opens its row, which other banks of the channel hide. A channel
//! that changes between reading and writing waits for the turnaround. Pieces of one transfer are known at its start, so
//! rows open ahead of their data.

use super::Transfer;
use crate::NpuConfig;
use crate::analytic::{Bandwidth, Dram as Simple};
use crate::config::Dram;
use crate::program::{DramTile, Place, Step};

/// Parts of a cycle.
const PARTS: u64 = 256;

/// Channels, bus and rows.
pub(super) struct Bus {
    /// When each DMA channel is free.
    channels: Vec<u64>,
    /// When the bus of a simple memory is free.
    free: u64,
    simple: Simple,
    latency: u64,
    rows: Option<Rows>,
}

impl Bus {
    pub fn new(config: &NpuConfig) -> Self {
        Self {
            channels: vec![0; config.dma.channels as usize],
            free: 0,
            simple: Simple { latency: 0, ..Simple::from(&config.dram) },
            latency: config.dram.latency(),
            rows: Rows::new(&config.dram),
        }
    }

    /// When a channel is free.
    pub fn free_at(&self) -> u64 {
        self.channels.iter().copied().min().unwrap_or(0)
    }

    /// A transfer that starts at `start`, on the channel that is free first. One of nothing takes no time and waits for
    /// a channel like any other.
    pub fn transfer(&mut self, s: usize, step: &Step, start: u64, bytes: u64) -> (u64, Option<Transfer>) {
        if bytes == 0 {
            return (start, None);
        }
        let (begin, end, rows) = match &mut self.rows {
            Some(rows) => rows.transfer(step, start, bytes, self.latency),
            None => {
                let data = self.simple.transfer(bytes).map_or(u64::MAX, crate::analytic::Time::ceil);
                let begin = start.saturating_add(self.latency).max(self.free);
                self.free = begin.saturating_add(data);
                (begin, self.free, (0, 0))
            }
        };
        let channel = (0..self.channels.len()).min_by_key(|&c| self.channels[c]).unwrap_or(0);
        if let Some(free) = self.channels.get_mut(channel) {
            *free = end;
        }
        (end, Some(Transfer { step: s as u32, channel: channel as u32, start: begin, end, bytes, rows }))
    }
}

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
struct Rows {
    channels: Vec<Channel>,
    row_bytes: u64,
    miss: u64,
    turnaround: u64,
    /// Of one channel; `None` is a memory that never limits.
    rate: Option<Bandwidth>,
}

impl Rows {
    fn new(dram: &Dram) -> Option<Self> {
        let Dram::Banked { bytes_per_cycle, channels, banks, row_bytes, row_miss, turnaround, .. } = *dram else {
            return None;
        };
        let channel = || Channel { free: 0, writes: false, banks: vec![Bank::default(); banks as usize] };
        Some(Self {
            channels: (0..channels).map(|_| channel()).collect(),
            row_bytes: u64::from(row_bytes).max(1),
            miss: u64::from(row_miss).saturating_mul(PARTS),
            turnaround: u64::from(turnaround).saturating_mul(PARTS),
            rate: Bandwidth::from_f64(bytes_per_cycle / f64::from(channels)),
        })
    }

    /// First and last cycle of the data, hits and misses.
    fn transfer(&mut self, step: &Step, start: u64, bytes: u64, latency: u64) -> (u64, u64, (u64, u64)) {
        let (mut first, mut last, mut rows) = (u64::MAX, 0, (0, 0));
        let (mut left, start) = (bytes, start.saturating_mul(PARTS));
        let latency = latency.saturating_mul(PARTS);
        let accesses = step.accesses();
        let tile = accesses.iter().find_map(|a| match a.place {
            Place::Dram(tile) => Some((tile, a.write)),
            Place::Local(_) => None,
        });
        // A step that names no memory moves its bytes from the start of the first region.
        let whole = DramTile { region: crate::isa::Region::Input, offset: 0, rows: 1, len: u32::MAX, pitch: 0 };
        let (tile, write) = tile.unwrap_or((whole, false));
        for (at, len) in runs(&tile) {
            let len = len.min(left);
            left -= len;
            let mut done = 0;
            while done < len {
                let place = at.wrapping_add(done);
                let n = (self.row_bytes - place % self.row_bytes).min(len - done);
                let (begin, end, hit) = self.piece(place / self.row_bytes, n, write, start, latency);
                (first, last) = (first.min(begin), last.max(end));
                rows = if hit { (rows.0 + 1, rows.1) } else { (rows.0, rows.1 + 1) };
                done += n;
            }
            if left == 0 {
                break;
            }
        }
        (first / PARTS, last.div_ceil(PARTS), rows)
    }

    /// A piece inside one row: when its data begin and end, and whether the row was open.
    fn piece(&mut self, row: u64, bytes: u64, write: bool, start: u64, latency: u64) -> (u64, u64, bool) {
        let n = self.channels.len() as u64;
        let data = self.rate.map_or(0, |r| r.transfer(bytes).map_or(u64::MAX, crate::analytic::Time::parts));
        let (miss, turnaround) = (self.miss, self.turnaround);
        let channel = &mut self.channels[(row % n) as usize];
        let banks = channel.banks.len() as u64;
        let bank = &mut channel.banks[(row / n % banks) as usize];
        let hit = bank.open == Some(row);
        let ready = if hit { start } else { start.max(bank.idle_at).saturating_add(miss) };
        let free = if channel.writes == write { channel.free } else { channel.free.saturating_add(turnaround) };
        let begin = ready.saturating_add(latency).max(free);
        let end = begin.saturating_add(data);
        (bank.open, bank.idle_at) = (Some(row), end);
        (channel.free, channel.writes) = (end, write);
        (begin, end, hit)
    }
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
