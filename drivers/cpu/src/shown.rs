//! Runs that show their outputs as soon as they are there, and then use their memory again.
//!
//! The steps are those of every run. Only the places differ: an output is a buffer of the arena, alive from the step that
//! writes it to the last one that reads it, so that whoever looks at it finds it in the processor's cache, and all outputs
//! together take no more memory than the run itself.

use crate::arena::{Arena, Operands, Place};
use crate::builder::Step;
use crate::sharing::{Access, layout};
use ottava_hal::Result;
use parking_lot::Mutex;
use std::ops::Range;

/// The memory of such runs.
pub(crate) struct Showing {
    /// Per step.
    pub(crate) operands: Vec<Operands>,
    /// Per step: the outputs that are complete after it.
    complete: Vec<Vec<usize>>,
    /// Ranges of all buffers; those of the outputs come last.
    pub(crate) ranges: Vec<Range<usize>>,
    first_output: usize,
    arena_bytes: usize,
    idle: Mutex<Vec<Arena>>,
}

impl Showing {
    /// Plans the memory of steps over buffers and outputs of the given sizes.
    pub(crate) fn new(steps: &[&Step], buffers: &[usize], outputs: &[usize]) -> Result<Self> {
        let moved = |place: &Place| match *place {
            Place::Output(i) => Place::Buffer(buffers.len() + i),
            other => other,
        };
        let of = |o: &Operands| Operands {
            reads: o.reads.iter().map(moved).collect(),
            write: moved(&o.write),
            scratch: o.scratch,
        };
        let operands: Vec<Operands> = steps.iter().map(|step| of(&step.operands)).collect();
        let accesses: Vec<Access<'_>> = operands.iter().zip(steps).map(|(o, step)| (o, &step.sharing)).collect();
        let bytes: Vec<usize> = buffers.iter().chain(outputs).copied().collect();
        let layout = layout(&accesses, &bytes)?;
        let mut complete = vec![Vec::new(); steps.len()];
        for i in 0..outputs.len() {
            let last = operands.iter().rposition(|o| o.write == Place::Buffer(buffers.len() + i));
            last.into_iter().for_each(|step| complete[step].push(i));
        }
        Ok(Self {
            operands,
            complete,
            ranges: layout.ranges,
            first_output: buffers.len(),
            arena_bytes: layout.arena_bytes,
            idle: Mutex::new(Vec::new()),
        })
    }

    /// Working memory for a run.
    pub(crate) fn take(&self) -> Result<Arena> {
        let idle = self.idle.lock().pop();
        idle.map_or_else(|| Arena::new(self.arena_bytes), Ok)
    }

    /// Keeps it for the next run.
    pub(crate) fn give(&self, arena: Arena) {
        self.idle.lock().push(arena);
    }

    /// Shows the outputs that a step has completed.
    pub(crate) fn show(&self, step: usize, arena: &[u8], see: &mut dyn FnMut(usize, &[u8])) {
        for &i in self.complete.get(step).into_iter().flatten() {
            let range = self.ranges.get(self.first_output + i).cloned().unwrap_or_default();
            see(i, arena.get(range).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sharing::Sharing;

    #[test]
    fn outputs_take_turns_in_memory_and_are_shown_once() {
        let step = |reads: &[Place], write| Step {
            kernel: String::new(),
            operands: Operands { reads: reads.to_vec(), write, scratch: None },
            sharing: Sharing::None,
            run: Box::new(|_, _| Ok(())),
        };
        let out = Place::Output;
        let steps = [step(&[], out(0)), step(&[out(0)], out(2)), step(&[out(2)], Place::Buffer(0)), step(&[Place::Buffer(0)], out(1))];
        let showing = Showing::new(&steps.iter().collect::<Vec<_>>(), &[64], &[64, 64, 64]).unwrap();
        assert_eq!(showing.complete, [vec![0], vec![2], vec![], vec![1]]);
        assert_eq!(showing.arena_bytes, 128);
        let arena: Vec<u8> = (0..128).map(|i| i / 64).collect();
        let mut seen = Vec::new();
        (0..4).for_each(|i| showing.show(i, &arena, &mut |output, bytes| seen.push((output, bytes.len()))));
        assert_eq!(seen, [(0, 64), (2, 64), (1, 64)]);
    }
}
