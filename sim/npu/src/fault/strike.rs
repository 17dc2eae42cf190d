//! Faults while a program runs: what still waits to strike, and what its strike does to bytes.

use super::spec::{Dma, Injection, Kind, Site};
use crate::error::NpuError;
use crate::isa::{INST_BYTES, Inst, Queue, Space, Stream};
use crate::machine::{Chip, Memory};
use crate::program::{Step, Work};
use crate::sweep::splitmix;
use crate::timing::Span;
use std::borrow::Cow;

/// The faults of one run.
#[derive(Debug, Default)]
pub(crate) struct Strikes {
    waiting: Vec<Injection>,
    /// Flipped units of on-chip memories that nothing has written since.
    flipped: Vec<(Space, u64)>,
    parity: bool,
}

/// What the host owns and the machine only reads; faults strike copies.
pub(crate) struct HostBytes<'a> {
    /// Region 0.
    pub input: Cow<'a, [u8]>,
    /// Region 3.
    pub constants: Cow<'a, [u8]>,
}

/// What becomes of a step.
#[derive(Debug, PartialEq)]
pub(crate) enum Fate {
    /// It runs.
    Runs,
    /// It moves nothing.
    Dropped,
    /// It runs as this.
    Changed(Box<Work>),
}

impl Strikes {
    pub fn new(all: Vec<Injection>, parity: bool) -> Self {
        Self { waiting: all, flipped: Vec::new(), parity }
    }

    /// Takes the faults out that `strikes` names.
    fn take(&mut self, strikes: impl Fn(&Injection) -> bool) -> Vec<Injection> {
        let (now, later) = std::mem::take(&mut self.waiting).into_iter().partition(strikes);
        self.waiting = later;
        now
    }

    /// Before a step changes anything: flips, losses, and the step's own fate.
    pub fn before(
        &mut self,
        step: &Step,
        span: &Span,
        chip: &mut Chip,
        memory: &mut Memory<'_>,
        host: &mut HostBytes<'_>,
    ) -> Result<Fate, NpuError> {
        if let Some(lost) = self.take(|i| i.kind == Kind::DeviceLost && i.when < span.end).first() {
            return Err(NpuError::Lost { cycle: lost.when });
        }
        for flip in self.take(|i| matches!(i.kind, Kind::BitFlip(_)) && i.when < span.end) {
            self.flip(&flip, chip, memory, host);
        }
        let table = step.table().filter(|(what, _)| what.contains("requantizer"));
        if let Some((_, tile)) = table {
            for fault in self.take(|i| i.kind == Kind::TableCorrupt && i.when <= span.start) {
                let bytes = tile.units();
                let bit = fault.seed % (bytes * 8);
                let (row, column) = ((bit / 8) / u64::from(tile.len), (bit / 8) % u64::from(tile.len));
                let at = tile.row(row as u32).start as u64 + column;
                flip_bit(chip.bytes_mut(tile.space), at * 8 + bit % 8);
            }
        }
        self.check_parity(step)?;
        let own = |i: &Injection| matches!(i.kind, Kind::Dma(Dma::Drop | Dma::Truncate, q) if q == step.queue);
        let transfers = matches!(step.work, Work::Load { .. } | Work::Im2col(_) | Work::Store { .. });
        let fault = self.take(|i| transfers && own(i) && i.when <= span.start).into_iter().next();
        Ok(match fault {
            None => Fate::Runs,
            Some(Injection { kind: Kind::Dma(Dma::Drop, _), .. }) => Fate::Dropped,
            Some(fault) => truncated(&step.work, fault.seed),
        })
    }

    fn flip(&mut self, fault: &Injection, chip: &mut Chip, memory: &mut Memory<'_>, host: &mut HostBytes<'_>) {
        let Kind::BitFlip(site) = fault.kind else { return };
        match site {
            Site::Local(Space::Acc) => {
                let bit = fault.seed % (chip.acc.len() as u64 * 32).max(1);
                if let Some(acc) = chip.acc.get_mut((bit / 32) as usize) {
                    *acc ^= 1 << (bit % 32);
                }
                self.flipped.push((Space::Acc, bit / 32));
            }
            Site::Local(space) => {
                let bytes = chip.bytes_mut(space);
                let bit = fault.seed % (bytes.len() as u64 * 8).max(1);
                flip_bit(bytes, bit);
                self.flipped.push((space, bit / 8));
            }
            Site::Dram(region) => {
                let bytes = match region {
                    crate::isa::Region::A => chip.bytes_mut(Space::A),
                    crate::isa::Region::W => chip.bytes_mut(Space::W),
                    crate::isa::Region::Output => &mut *memory.output,
                    crate::isa::Region::Scratch => &mut *memory.scratch,
                    crate::isa::Region::Input => host.input.to_mut(),
                    crate::isa::Region::Const => host.constants.to_mut(),
                };
                let bit = fault.seed % (bytes.len() as u64 * 8).max(1);
                flip_bit(bytes, bit);
            }
            Site::Command => {}
        }
    }

    /// A read of a flipped unit is an error; a write makes it whole.
    fn check_parity(&mut self, step: &Step) -> Result<(), NpuError> {
        if !self.parity || self.flipped.is_empty() {
            return Ok(());
        }
        for access in step.accesses() {
            let crate::program::Place::Local(tile) = access.place else { continue };
            let inside = |&(space, at): &(Space, u64)| {
                let from = at.checked_sub(tile.offset.into());
                let place = from.map(|d| (d / u64::from(tile.pitch.max(1)), d % u64::from(tile.pitch.max(1))));
                space == tile.space
                    && place.is_some_and(|(row, column)| row < u64::from(tile.rows) && column < u64::from(tile.len))
            };
            if access.write {
                self.flipped.retain(|unit| !inside(unit));
            } else if let Some(&(space, at)) = self.flipped.iter().find(|unit| inside(unit)) {
                let fault = crate::Fault::Parity { space: space.name(), at };
                return Err(NpuError::Run(crate::Violation { index: step.index, node: step.node, fault }));
            }
        }
        Ok(())
    }
}

/// A transfer that ends early: its first rows, or the first bytes of its only row.
fn truncated(work: &Work, seed: u64) -> Fate {
    let mut work = work.clone();
    let (rows, len) = match &work {
        Work::Load { to, .. } => (to.rows, to.len),
        Work::Im2col(w) => (w.to.rows, w.to.len),
        Work::Store { from, .. } => (from.rows, from.len),
        _ => return Fate::Runs,
    };
    let part = (seed % u64::from(if rows > 1 { rows } else { len })) as u32;
    if part == 0 {
        return Fate::Dropped;
    }
    if rows > 1 {
        match &mut work {
            Work::Load { from, to, .. } => (from.rows, to.rows) = (part, part),
            Work::Im2col(w) => w.to.rows = part,
            Work::Store { from, to, .. } => (from.rows, to.rows) = (part, part),
            _ => {}
        }
        return Fate::Changed(Box::new(work));
    }
    match &mut work {
        // A load into accumulators moves words; a row of taps is one unit.
        Work::Load { from, to, .. } if to.space != Space::Acc => (from.len, to.len) = (part, part),
        Work::Store { from, to, requant: None } if from.space != Space::Acc => (from.len, to.len) = (part, part),
        _ => return Fate::Dropped,
    }
    Fate::Changed(Box::new(work))
}

fn flip_bit(bytes: &mut [u8], bit: u64) {
    if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
        *byte ^= 1 << (bit % 8);
    }
}

/// The stream after the flips of its command words, with the checks that the device makes when it reads it.
pub(crate) fn damaged(stream: Stream, faults: &[Injection], crc: bool) -> Result<Stream, NpuError> {
    let flips = faults.iter().filter(|i| i.kind == Kind::BitFlip(Site::Command));
    let bits = stream.commands.len() as u64 * INST_BYTES as u64 * 8;
    let mut flips = flips.filter(|_| bits > 0).peekable();
    if flips.peek().is_none() {
        return Ok(stream);
    }
    let mut bytes = stream.to_bytes(crc);
    // The commands are the first section.
    let words: Vec<u8> = stream.commands.iter().flat_map(Inst::encode).collect();
    let at = bytes.windows(words.len()).position(|window| window == words).unwrap_or(0);
    for flip in flips {
        flip_bit(&mut bytes[at..], flip.seed % bits);
    }
    Ok(Stream::from_bytes(&bytes)?)
}

/// Cycles by which a transfer is late.
pub(crate) fn delay(seed: u64) -> u64 {
    let mut state = seed;
    1 + splitmix(&mut state) % 100_000
}

/// What the engine must know of the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    /// A transfer of a queue is late by so many cycles.
    Delay(Queue, u64),
    /// A token from one queue to another is lost.
    Lost(Queue, Queue),
    /// The counter from one queue to another always has a token.
    Stuck(Queue, Queue),
    /// A signal is lost.
    Signal,
}

/// The mishaps of a list of faults, each with its cycle.
pub(crate) fn mishaps(faults: &[Injection]) -> Vec<(u64, Mishap)> {
    let one = |i: &Injection| {
        let mishap = match i.kind {
            Kind::Dma(Dma::Delay, queue) => Mishap::Delay(queue, delay(i.seed)),
            Kind::TokenLost(link) => Mishap::Lost(link.from, link.to),
            Kind::TokenStuck(link) => Mishap::Stuck(link.from, link.to),
            Kind::EventLost => Mishap::Signal,
            _ => return None,
        };
        Some((i.when, mishap))
    };
    faults.iter().filter_map(one).collect()
}
