//! Which values stay on the chip between the step that makes them and the steps that read them.
//!
//! A value that is kept has a place at the end of a scratchpad for as long as it lives; what the steps of that time may
//! use ends before it. Its stores and loads become moves between two places of the chip, and products, depthwise
//! convolutions and pools read it where it lies. An output of the program is stored to memory as well.
//!
//! **The choice** is greedy. Each value is tried by itself: every step of its life is cut into tiles again for the room
//! that would be left, and timed by the machine's own model. Values are then taken in the order of cycles won per byte
//! and step, each only if the steps of its life are not slower than without it. What was chosen is dropped altogether
//! if the whole program should be slower than before.

use super::builder::{Buffer, Step};
use super::{At, Chip, Loc, Room};
use crate::emit::{Emitter, Pipeline, Place};
use ottava_hal::Result;
use ottava_npu::isa::{Local, Region, Space};
use ottava_npu::timing::Timed;
use ottava_npu::{NpuConfig, Stream};
use std::collections::BTreeMap;

/// A value that lives over more steps is not kept.
const MAX_LIFE: usize = 64;
/// A step of more instructions belongs to a chip on which nothing fits; it is not timed.
const MAX_COMMANDS: usize = 1 << 15;
/// Bounds of regions while a step is timed by itself.
const ANY_REGION: u64 = 1 << 48;

/// Where the values of a program are kept.
#[derive(Debug, Clone, Default)]
pub(super) struct Kept(Vec<Option<Local>>);

impl Kept {
    /// Where a byte of a buffer is kept.
    pub(super) fn at(&self, loc: Loc) -> Option<Local> {
        let start = (*self.0.get(loc.buffer)?)?;
        Some(Local { offset: start.offset + loc.offset as u32, ..start })
    }

    /// Whether a buffer is kept.
    pub(super) fn has(&self, buffer: usize) -> bool {
        self.0.get(buffer).is_some_and(Option::is_some)
    }

    /// The place of a byte that would lie at `memory` otherwise.
    pub(super) fn place(&self, loc: Loc, memory: Place) -> Place {
        let Some(local) = self.at(loc) else { return memory };
        let region = if local.space == Space::W { Region::W } else { Region::A };
        let also = (memory.region == Region::Output).then_some((memory.region, memory.offset));
        Place { region, offset: local.offset.into(), also }
    }
}

/// A value that may be kept.
struct Candidate {
    buffer: usize,
    bytes: usize,
    life: (usize, usize),
}

impl Candidate {
    /// The steps from the one that writes it to the last that reads it.
    fn steps(&self) -> std::ops::RangeInclusive<usize> {
        self.life.0..=self.life.1
    }
}

/// A piece of a scratchpad that is taken during a step.
#[derive(Debug, Clone, Copy)]
struct Held {
    space: Space,
    start: usize,
    end: usize,
}

/// The search.
struct Search<'s> {
    config: &'s NpuConfig,
    chip: &'s Chip,
    buffers: &'s [Buffer],
    steps: &'s mut [Step],
    kept: Kept,
    /// Per step: its cycles as things stand; `None` for a step that is not timed.
    cycles: Vec<Option<u64>>,
    /// Per step: whether its tiles are chosen by the time of moves.
    moves: Vec<bool>,
    /// Per step: what is kept during it.
    held: Vec<Vec<Held>>,
    /// What steps took that were timed.
    known: BTreeMap<Situation, Option<(u64, bool)>>,
}

/// All that the time of a step depends on: the step, what is left of the scratchpads for it, and which of its operands
/// are kept in which. Known of it are the cycles, and whether they are of tiles chosen by the time of moves.
type Situation = (usize, [usize; 2], Vec<Option<Space>>);

/// Chooses what is kept and cuts the steps into tiles accordingly.
pub(super) fn choose(config: &NpuConfig, chip: &Chip, buffers: &[Buffer], steps: &mut [Step]) -> Result<Kept> {
    let candidates = candidates(buffers, steps);
    let kept = Kept(vec![None; buffers.len()]);
    let moves = vec![false; steps.len()];
    let (held, known) = (vec![Vec::new(); steps.len()], BTreeMap::new());
    let mut search = Search { config, chip, buffers, steps, kept, cycles: Vec::new(), moves, held, known };
    if candidates.is_empty() {
        return Ok(search.kept);
    }
    search.cycles = (0..search.steps.len()).map(|i| search.time(i..i + 1)).collect();
    let before = search.time(0..search.steps.len());
    search.take(candidates);
    let after = search.settle().ok().and_then(|()| search.time(0..search.steps.len()));
    let worse = before.zip(after).is_none_or(|(before, after)| after > before);
    if worse {
        search.kept.0.fill(None);
        search.moves.fill(false);
        search.held.iter_mut().for_each(Vec::clear);
        search.settle()?;
    }
    Ok(search.kept)
}

/// What a step writes and later steps read, none of it before it is written.
fn candidates(buffers: &[Buffer], steps: &[Step]) -> Vec<Candidate> {
    let mut found = Vec::new();
    for (buffer, b) in buffers.iter().enumerate() {
        let Some(life @ (first, last)) = b.life else { continue };
        let read = || steps[first + 1..=last].iter().any(|s| s.reads.contains(&buffer));
        let own = matches!(b.region, Region::Scratch | Region::Output) && b.bytes > 0;
        let written_once = steps[first].write == buffer && !steps[first].reads.contains(&buffer);
        if own && last > first && last - first <= MAX_LIFE && written_once && read() {
            found.push(Candidate { buffer, bytes: b.bytes, life });
        }
    }
    found
}

impl Search<'_> {
    /// Takes what is worth it, the best first.
    fn take(&mut self, candidates: Vec<Candidate>) {
        let mut ranked: Vec<(f64, Candidate)> = Vec::new();
        for c in candidates {
            if let Some((won, _)) = self.best(&c) {
                let room = (c.bytes * (c.life.1 - c.life.0 + 1)) as f64;
                ranked.push((won as f64 / room, c));
            }
        }
        ranked.sort_by(|(a, x), (b, y)| b.total_cmp(a).then(x.buffer.cmp(&y.buffer)));
        for (_, c) in ranked {
            if let Some((_, place)) = self.best(&c) {
                self.put(&c, Some(place));
                let start = place.offset as usize;
                let held = Held { space: place.space, start, end: start + c.bytes };
                for i in c.steps() {
                    self.held[i].push(held);
                    self.cycles[i] = self.fitted(i, None);
                }
            }
        }
    }

    fn put(&mut self, c: &Candidate, place: Option<Local>) {
        if let Some(slot) = self.kept.0.get_mut(c.buffer) {
            *slot = place;
        }
    }

    /// The scratchpad in which a value wins the most cycles, with these; `None` where it would lose some.
    fn best(&mut self, c: &Candidate) -> Option<(u64, Local)> {
        let before = c.steps().try_fold(0u64, |sum, i| self.cycles[i].map(|n| sum + n))?;
        let mut best: Option<(u64, Local)> = None;
        let moves = self.moves[c.life.0..=c.life.1].to_vec();
        for space in [Space::A, Space::W] {
            let Some(place) = self.free(c, space) else { continue };
            self.put(c, Some(place));
            let after = c.steps().try_fold(0u64, |sum, i| self.fitted(i, Some(c)).map(|n| sum + n));
            self.put(c, None);
            self.moves[c.life.0..=c.life.1].copy_from_slice(&moves);
            let won = after.and_then(|after| before.checked_sub(after));
            if let Some(won) = won.filter(|won| best.is_none_or(|(most, _)| *won > most)) {
                best = Some((won, place));
            }
        }
        best
    }

    /// The place nearest the end of a scratchpad that is free during a value's life.
    fn free(&self, c: &Candidate, space: Space) -> Option<Local> {
        let held = self.held[c.life.0..=c.life.1].iter().flatten().filter(|h| h.space == space);
        let mut busy: Vec<(usize, usize)> = held.map(|h| (h.end, h.start)).collect();
        busy.sort_unstable_by(|a, b| b.cmp(a));
        let mut end = if space == Space::W { self.chip.w } else { self.chip.a };
        for (top, bottom) in busy {
            if top + c.bytes <= end {
                break;
            }
            end = end.min(bottom);
        }
        let offset = u32::try_from(end.checked_sub(c.bytes)?).ok()?;
        Some(if space == Space::W { Local::w(offset) } else { Local::a(offset) })
    }

    /// The chip that a step has for itself; `and` is kept as well.
    fn left(&self, step: usize, and: Option<&Candidate>) -> Chip {
        let own = and.and_then(|c| self.kept.0[c.buffer]).map(|at| (at.space, at.offset as usize));
        let held = self.held[step].iter().map(|h| (h.space, h.start));
        held.chain(own).fold(self.chip.clone(), |mut chip, (space, start)| {
            let pad = if space == Space::W { &mut chip.w } else { &mut chip.a };
            *pad = (*pad).min(start);
            chip
        })
    }

    /// Cycles of a step after it was cut into tiles for what is left, in the better way; `None` if it does not fit.
    fn fitted(&mut self, step: usize, and: Option<&Candidate>) -> Option<u64> {
        let situation = self.situation(step, and);
        let found = match self.known.get(&situation) {
            Some(found) => *found,
            None => {
                let found = self.better(step, and);
                self.known.insert(situation, found);
                found
            }
        };
        let (cycles, moves) = found?;
        self.moves[step] = moves;
        Some(cycles)
    }

    fn situation(&self, step: usize, and: Option<&Candidate>) -> Situation {
        let (chip, at) = (self.left(step, and), &self.steps[step]);
        let space = |b: &usize| self.kept.0[*b].map(|local| local.space);
        (step, [chip.a, chip.w], at.reads.iter().chain([&at.write]).map(space).collect())
    }

    /// The cycles of a step in the better of two ways to choose its tiles, and whether that is by the time of moves.
    fn better(&mut self, step: usize, and: Option<&Candidate>) -> Option<(u64, bool)> {
        let both = self.steps[step].tiles.knows_moves();
        let mut timed = |moves: bool| {
            self.moves[step] = moves;
            self.fit(step, and).ok()?;
            self.time(step..step + 1)
        };
        let as_memory = timed(false)?;
        let as_moves = if both { timed(true)? } else { as_memory };
        Some((as_memory.min(as_moves), as_moves < as_memory))
    }

    fn fit(&mut self, step: usize, and: Option<&Candidate>) -> Result<()> {
        let (chip, kept) = (self.left(step, and), &self.kept);
        self.steps[step].tiles.fit(&Room { chip: &chip, kept: &|loc| kept.at(loc), moves: self.moves[step] })
    }

    /// Cuts every step for what was decided.
    fn settle(&mut self) -> Result<()> {
        (0..self.steps.len()).try_for_each(|i| self.fit(i, None))
    }

    /// Cycles of steps that follow one another; `None` if there are too many instructions or they cannot be timed.
    fn time(&self, steps: std::ops::Range<usize>) -> Option<u64> {
        let place = |loc: Loc| {
            let memory = Place { region: self.buffers[loc.buffer].region, offset: loc.offset as u64, also: None };
            self.kept.place(loc, memory)
        };
        let (at, alone): (At<'_>, bool) = (&place, steps.len() == 1);
        let mut emitter = Emitter::default();
        for step in &self.steps[steps] {
            emitter.begin(step.node).ok()?;
            step.tiles.emit(&mut Pipeline::new(&mut emitter), at).ok()?;
        }
        let (commands, nodes) = emitter.finish().ok()?;
        if alone && commands.len() > MAX_COMMANDS {
            return None;
        }
        let stream = Stream {
            commands,
            constants: Vec::new(),
            regions: [ANY_REGION; 4],
            nodes,
            config_hash: self.config.hash64(),
        };
        Timed::of(self.config, &stream).ok().map(|timed| timed.timing.total_cycles)
    }
}
