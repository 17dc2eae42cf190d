//! The memory bus: DMA channels, the data of transfers one behind the other, and optionally the rows of a DRAM.
//!
//! **Simple memory.** A transfer takes `L + bytes/B`; the bus carries the data of one transfer at a time.
//! **Memory with rows** (`Banked`): see [`super::rows`].

use super::Transfer;
use super::rows::Rows;
use crate::NpuConfig;
use crate::analytic::Dram as Simple;
use crate::program::Step;

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
