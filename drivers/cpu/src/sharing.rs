//! Which buffers share memory on purpose: the result of an elementwise step replaces an operand that dies there, and the
//! parts of a concatenation along the outermost axis are written where they will lie, so that nothing is left to copy.
//!
//! Invariants: a buffer lies inside at most one other one; buffers that share bytes are either never alive together, or one
//! is a part of the other and holds the very bytes that the other has there. The life of shared memory covers the lives of
//! all that share it, so the planner ([`crate::plan`]) sees one buffer.

use crate::arena::{Operands, Place};
use crate::plan::{Life, plan};
use ottava_hal::Result;
use std::ops::Range;

/// What a step allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Its result lies apart from its operands.
    #[default]
    None,
    /// Element `i` of the result depends on element `i` of each operand alone: it may replace one of equal size.
    Elementwise,
    /// Operand `i` is the part of the result from byte `parts[i]` on; `None` if it changes on the way.
    Parts(Vec<Option<usize>>),
}

/// Where each buffer lies.
struct Homes<'a> {
    bytes: &'a [usize],
    /// The buffer that it is in, and from which byte on.
    home: Vec<Option<(usize, usize)>>,
    /// Lives; that of an outermost buffer covers all buffers inside.
    lives: Vec<Life>,
}

/// Ranges of all buffers, the size of the arena, and per step the buffers whose memory nobody reads after it.
pub(crate) struct Layout {
    pub(crate) ranges: Vec<Range<usize>>,
    pub(crate) arena_bytes: usize,
    #[cfg(test)]
    pub(crate) dead_after: Vec<Vec<usize>>,
}

/// What the plan must know of a step: its memory, and what it allows.
pub(crate) type Access<'s> = (&'s Operands, &'s Sharing);

/// Plans the memory of steps over buffers of the given sizes.
pub(crate) fn layout(steps: &[Access<'_>], bytes: &[usize]) -> Result<Layout> {
    let mut homes = Homes { bytes, home: vec![None; bytes.len()], lives: lives(steps, bytes) };
    for step in steps {
        if let (Sharing::Parts(parts), Place::Buffer(y)) = (step.1, step.0.write) {
            parts.iter().enumerate().for_each(|(i, at)| homes.adopt_part(*step, i, *at, y));
        }
    }
    for (at, step) in steps.iter().enumerate() {
        if let (Sharing::Elementwise, Place::Buffer(y)) = (step.1, step.0.write) {
            homes.replace_operand(*step, at, y);
        }
    }
    homes.place()
}

impl Homes<'_> {
    /// The outermost buffer around a buffer, and from which byte on it lies there.
    fn find(&self, mut buffer: usize) -> (usize, usize) {
        let mut offset = 0;
        while let Some((outer, at)) = self.home[buffer] {
            (buffer, offset) = (outer, offset + at);
        }
        (buffer, offset)
    }

    /// Puts an outermost buffer into another one.
    fn move_into(&mut self, inner: usize, outer: usize, at: usize) {
        let (root, _) = self.find(outer);
        if root == inner || self.home[inner].is_some() {
            return;
        }
        self.home[inner] = Some((outer, at));
        let Life { first, last, .. } = self.lives[inner];
        let life = &mut self.lives[root];
        (life.first, life.last) = (life.first.min(first), life.last.max(last));
    }

    fn adopt_part(&mut self, step: Access<'_>, i: usize, at: Option<usize>, y: usize) {
        let (Some(at), Some(p)) = (at, only_read(step, i)) else { return };
        let inside = at.checked_add(self.bytes[p]).is_some_and(|end| end <= self.bytes[y]);
        if inside && self.bytes[p] > 0 && self.is_apart(step, p) {
            self.move_into(p, y, at);
        }
    }

    /// Whether only one operand of the step lies in an outermost buffer: what is read besides must not be overwritten.
    fn is_apart(&self, step: Access<'_>, root: usize) -> bool {
        let inside = |place: &&Place| matches!(place, Place::Buffer(b) if self.find(*b).0 == root);
        step.0.reads.iter().filter(inside).count() == 1
    }

    /// Lets the result take the place of the first operand that is dead after the step.
    fn replace_operand(&mut self, step: Access<'_>, at: usize, y: usize) {
        let dies = |i: usize| {
            let p = only_read(step, i)?;
            let (root, _) = self.find(p);
            let whole = self.bytes[root] == self.bytes[y] && self.bytes[p] == self.bytes[y];
            let free = self.lives[root].last == at && self.find(y).0 != root && self.is_apart(step, root);
            (whole && free).then_some(root)
        };
        if let Some(root) = (0..step.0.reads.len()).find_map(dies) {
            self.move_into(root, y, 0);
        }
    }

    fn place(self) -> Result<Layout> {
        let roots: Vec<usize> = (0..self.bytes.len()).filter(|b| self.home[*b].is_none()).collect();
        let lives: Vec<Life> = roots.iter().map(|b| self.lives[*b].clone()).collect();
        let (placed, arena_bytes) = plan(&lives)?;
        let mut start = vec![0; self.bytes.len()];
        roots.iter().zip(&placed).for_each(|(b, range)| start[*b] = range.start);
        let range = |b: usize| {
            let (root, offset) = self.find(b);
            let first = start[root] + offset;
            first..first + self.bytes[b]
        };
        Ok(Layout {
            ranges: (0..self.bytes.len()).map(range).collect(),
            arena_bytes,
            #[cfg(test)]
            dead_after: dead_after(&roots, &lives),
        })
    }
}

/// The buffer that operand `i` is, if no other operand of the step is the same.
fn only_read(step: Access<'_>, i: usize) -> Option<usize> {
    let reads = &step.0.reads;
    let Place::Buffer(p) = *reads.get(i)? else { return None };
    (reads.iter().filter(|r| **r == Place::Buffer(p)).count() == 1).then_some(p)
}

/// The life of each buffer: from the step that writes it to the last that reads it.
fn lives(steps: &[Access<'_>], bytes: &[usize]) -> Vec<Life> {
    let mut lives: Vec<Life> = bytes.iter().map(|&bytes| Life { bytes, first: usize::MAX, last: 0 }).collect();
    for (i, step) in steps.iter().enumerate() {
        let scratch = step.0.scratch.map(Place::Buffer);
        for place in step.0.reads.iter().copied().chain([step.0.write]).chain(scratch) {
            if let Place::Buffer(b) = place {
                lives[b].first = lives[b].first.min(i);
                lives[b].last = lives[b].last.max(i);
            }
        }
    }
    lives
}

#[cfg(test)]
fn dead_after(roots: &[usize], lives: &[Life]) -> Vec<Vec<usize>> {
    let n_steps = lives.iter().map(|l| l.last + 1).max().unwrap_or(0);
    let of = |step| roots.iter().zip(lives).filter(|(_, l)| l.last == step).map(|(b, _)| *b).collect();
    (0..n_steps).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builder::Step;

    fn step(reads: &[usize], write: usize, sharing: Sharing) -> Step {
        let reads = reads.iter().map(|b| Place::Buffer(*b)).collect();
        let operands = Operands { reads, write: Place::Buffer(write), scratch: None };
        Step { kernel: String::new(), operands, sharing, run: Box::new(|_, _| Ok(())) }
    }

    fn accesses(steps: &[Step]) -> Vec<Access<'_>> {
        steps.iter().map(|s| (&s.operands, &s.sharing)).collect()
    }

    fn ranges(steps: &[Step], bytes: &[usize]) -> Vec<Range<usize>> {
        layout(&accesses(steps), bytes).unwrap().ranges
    }

    #[test]
    fn a_chain_of_elementwise_steps_needs_one_buffer() {
        let one = || Sharing::Elementwise;
        let steps = [step(&[], 0, Sharing::None), step(&[0], 1, one()), step(&[1], 2, one()), step(&[2], 3, one())];
        assert_eq!(ranges(&steps, &[100; 4]), vec![0..100; 4]);
    }

    #[test]
    fn an_operand_that_is_read_again_is_kept() {
        let steps = [step(&[], 0, Sharing::None), step(&[0], 1, Sharing::Elementwise), step(&[0, 1], 2, Sharing::None)];
        let found = ranges(&steps, &[100; 3]);
        assert!(found[0].end <= found[1].start || found[1].end <= found[0].start);
        // Twice by the same step: neither is replaced.
        let steps = [step(&[], 0, Sharing::None), step(&[0, 0], 1, Sharing::Elementwise)];
        let found = ranges(&steps, &[100; 2]);
        assert_ne!(found[0], found[1]);
        // Of another size.
        let steps = [step(&[], 0, Sharing::None), step(&[0], 1, Sharing::Elementwise)];
        let found = ranges(&steps, &[400, 100]);
        assert!(found[0].end <= found[1].start || found[1].end <= found[0].start);
    }

    #[test]
    fn the_second_operand_is_replaced_if_only_it_dies() {
        let steps = [
            step(&[], 0, Sharing::None),
            step(&[], 1, Sharing::None),
            step(&[0, 1], 2, Sharing::Elementwise),
            step(&[0, 2], 3, Sharing::None),
        ];
        let found = ranges(&steps, &[64; 4]);
        assert_eq!(found[1], found[2]);
        assert_ne!(found[0], found[2]);
    }

    #[test]
    fn parts_lie_in_their_concatenation() {
        let parts = |at: &[Option<usize>]| Sharing::Parts(at.to_vec());
        let steps = [
            step(&[], 0, Sharing::None),
            step(&[0], 1, Sharing::Elementwise),
            step(&[], 2, Sharing::None),
            step(&[1, 2], 3, parts(&[Some(0), Some(64)])),
            // The first concatenation is part of a second one, beside a part that is requantized.
            step(&[], 5, Sharing::None),
            step(&[3, 5], 4, parts(&[Some(64), None])),
            step(&[1, 4], 6, Sharing::None),
        ];
        let found = ranges(&steps, &[64, 64, 32, 96, 256, 96, 10]);
        let whole = &found[4];
        assert_eq!(found[3], whole.start + 64..whole.start + 160);
        assert_eq!((found[1].start, found[2].start), (found[3].start, found[3].start + 64));
        assert_eq!(found[0], found[1], "the producer of a part still replaces its operand");
        assert!((5..7).all(|i| found[i].end <= whole.start || whole.end <= found[i].start));
    }

    #[test]
    fn what_is_read_besides_is_not_overwritten() {
        let parts = |at: &[Option<usize>]| Sharing::Parts(at.to_vec());
        let steps = [
            step(&[], 0, Sharing::None),
            step(&[0], 1, parts(&[Some(0)])),
            // 0 lies in 1, so 1 can neither be replaced nor lie where 0 is copied to.
            step(&[0, 1], 2, Sharing::Elementwise),
            step(&[1, 0, 2], 3, parts(&[Some(0), Some(64), Some(128)])),
        ];
        let found = ranges(&steps, &[64, 64, 64, 192]);
        assert_eq!(found[0], found[1]);
        assert!((0..2).all(|i| found[i].end <= found[2].start || found[2].end <= found[i].start));
        assert!(found[1].end <= found[3].start || found[3].end <= found[1].start);
        assert_eq!(found[2].start, found[3].start + 128);
    }

    #[test]
    fn a_part_of_two_concatenations_lies_in_the_first() {
        let steps = [
            step(&[], 0, Sharing::None),
            step(&[0], 1, Sharing::Parts(vec![Some(64)])),
            step(&[0], 2, Sharing::Parts(vec![Some(0)])),
            step(&[1, 2], 3, Sharing::None),
        ];
        let found = ranges(&steps, &[64, 128, 64, 8]);
        assert_eq!(found[0], found[1].start + 64..found[1].end);
        assert!(found[2].end <= found[1].start || found[1].end <= found[2].start);
        // Shared memory lives as long as its last reader, so nothing else moves in.
        let dead = layout(&accesses(&steps), &[64, 128, 64, 8]).unwrap().dead_after;
        assert_eq!(dead, [vec![], vec![], vec![], vec![1, 2, 3]]);
    }
}
