//! Where values live while a program runs, and safe access to several of them at once.
//!
//! A value is in the caller's input or output, in a constant, or in a range of the arena. Ranges of values that are alive
//! at the same time are disjoint (the planner's promise, checked again here by construction): [`Memory::open`] cuts the
//! result and the scratch space of a step out of the arena with `split_at_mut`, so that an operand that overlapped
//! either could not be found and would be an error, never a wrong number. A step that says so ([`crate::sharing`]) may have
//! an operand inside its result: then it finds the bytes there.

use ottava_hal::{Element, Error, Result, Status, Tensor};
use std::ops::Range;

/// Alignment of the arena and of every buffer in it.
pub(crate) const ALIGN: usize = 64;

/// Where a value's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The caller's input of this index.
    Input(usize),
    /// The caller's output of this index. A value that lies there is read from there.
    Output(usize),
    /// A constant of this index.
    Const(usize),
    /// The arena buffer of this index.
    Buffer(usize),
}

/// The working memory of one inference.
pub(crate) struct Arena {
    words: Vec<u64>,
    bytes: usize,
}

impl Arena {
    /// Allocates zeroed memory of `bytes` bytes.
    pub(crate) fn new(bytes: usize) -> Result<Self> {
        let n_words = bytes.div_ceil(8) + ALIGN / 8;
        let mut words = Vec::new();
        let no_memory =
            |_| Error::failed(Status::OutOfHostMemory, format!("cannot allocate {bytes} bytes of working memory"));
        words.try_reserve_exact(n_words).map_err(no_memory)?;
        words.resize(n_words, 0);
        Ok(Self { words, bytes })
    }

    /// The aligned bytes.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        let at = all.as_ptr().align_offset(ALIGN).min(ALIGN);
        &mut all[at..at + self.bytes]
    }
}

/// Everything that a run may touch.
pub(crate) struct Memory<'a, 'o> {
    /// The caller's inputs.
    pub(crate) inputs: &'a [&'a [u8]],
    /// The caller's outputs.
    pub(crate) outputs: &'a mut [&'o mut [u8]],
    /// Constants in the form in which the kernels want them.
    pub(crate) constants: &'a [Tensor],
    /// Ranges of the arena buffers.
    pub(crate) ranges: &'a [Range<usize>],
    /// The arena.
    pub(crate) arena: &'a mut [u8],
}

/// What a step reads and writes.
#[derive(Clone, Debug)]
pub(crate) struct Operands {
    /// Operands in the step's order.
    pub(crate) reads: Vec<Place>,
    /// The result.
    pub(crate) write: Place,
    /// Arena buffer for intermediate data.
    pub(crate) scratch: Option<usize>,
}

/// The operands of one step as slices.
pub(crate) struct Io<'a> {
    /// The result's bytes.
    pub(crate) out: &'a mut [u8],
    /// Scratch bytes; empty if the step asked for none.
    pub(crate) scratch: &'a mut [u8],
    reads: &'a [Place],
    inputs: &'a [&'a [u8]],
    /// The outputs before and behind the one that the step writes; the index of the first one behind.
    outputs: [&'a [&'a mut [u8]]; 2],
    behind: usize,
    constants: &'a [Tensor],
    ranges: &'a [Range<usize>],
    /// The parts of the arena that the step does not write, each with its offset.
    rest: [(usize, &'a [u8]); 3],
    /// Where the result lies in the arena; empty if it is not there.
    own: Range<usize>,
}

fn inconsistent(what: &str) -> Error {
    Error::failed(Status::Internal, format!("the memory plan is inconsistent: {what}"))
}

impl Memory<'_, '_> {
    /// Borrows what one step needs.
    pub(crate) fn open<'b>(&'b mut self, step: &'b Operands) -> Result<Io<'b>> {
        let none = 0..0;
        let range_of = |i: usize| self.ranges.get(i).cloned().ok_or_else(|| inconsistent("unknown buffer"));
        let scratch = step.scratch.map_or(Ok(none.clone()), range_of)?;
        let own = match step.write {
            Place::Buffer(i) => range_of(i)?,
            _ => none,
        };
        let ([out, scratch], rest) = carve(self.arena, own.clone(), scratch)?;
        let (out, outputs, behind): (&mut [u8], [&[&mut [u8]]; 2], usize) = match step.write {
            Place::Buffer(_) => (out, [&*self.outputs, &[]], self.outputs.len()),
            Place::Output(i) => {
                let (before, rest) = self.outputs.split_at_mut_checked(i).unwrap_or_default();
                let (own, behind) = rest.split_first_mut().ok_or_else(|| inconsistent("unknown output"))?;
                (own, [&*before, &*behind], i + 1)
            }
            Place::Input(_) | Place::Const(_) => return Err(inconsistent("a step writes what is read-only")),
        };
        let (inputs, constants, ranges) = (self.inputs, self.constants, self.ranges);
        Ok(Io { out, scratch, reads: &step.reads, inputs, outputs, behind, constants, ranges, rest, own })
    }

    /// Overwrites a buffer that nobody may read any more, so that tests see a plan that reuses memory too early.
    #[cfg(test)]
    pub(crate) fn poison(&mut self, buffer: usize) {
        self.arena[self.ranges[buffer].clone()].fill(0xA5);
    }
}

/// Cuts two disjoint ranges out of the arena; the rest stays readable. An unused range is `0..0`.
#[allow(clippy::type_complexity)] // two writable parts and three readable ones, used in one place
fn carve(arena: &mut [u8], a: Range<usize>, b: Range<usize>) -> Result<([&mut [u8]; 2], [(usize, &[u8]); 3])> {
    let swapped = (b.start, b.end) < (a.start, a.end);
    let (lo, hi) = if swapped { (b, a) } else { (a, b) };
    if lo.start > lo.end || lo.end > hi.start || hi.start > hi.end || hi.end > arena.len() {
        return Err(inconsistent("result and scratch overlap or leave the arena"));
    }
    let (head, tail) = arena.split_at_mut(lo.start);
    let (first, tail) = tail.split_at_mut(lo.len());
    let (middle, tail) = tail.split_at_mut(hi.start - lo.end);
    let (second, tail) = tail.split_at_mut(hi.len());
    let rest = [(0, &*head), (lo.end, &*middle), (hi.end, &*tail)];
    Ok((if swapped { [second, first] } else { [first, second] }, rest))
}

impl<'a> Io<'a> {
    /// Bytes of operand `i`.
    pub(crate) fn bytes(&self, i: usize) -> Result<&'a [u8]> {
        let unknown = || inconsistent("unknown operand");
        match *self.reads.get(i).ok_or_else(unknown)? {
            Place::Input(k) => self.inputs.get(k).copied().ok_or_else(unknown),
            Place::Const(k) => self.constants.get(k).map(Tensor::bytes).ok_or_else(unknown),
            Place::Buffer(k) => self.buffer(self.ranges.get(k).ok_or_else(unknown)?),
            Place::Output(k) => self.output(k),
        }
    }

    /// From which byte of the result on operand `i` is found there before the step runs, if the memory plan has put it in
    /// ([`crate::sharing`]). It cannot be read by [`Self::bytes`] then.
    pub(crate) fn held_at(&self, i: usize) -> Option<usize> {
        let Place::Buffer(k) = *self.reads.get(i)? else { return None };
        let range = self.ranges.get(k).filter(|r| !r.is_empty() && r.end <= self.own.end)?;
        range.start.checked_sub(self.own.start)
    }

    fn output(&self, k: usize) -> Result<&'a [u8]> {
        let [before, behind] = self.outputs;
        let found = before.get(k).or_else(|| behind.get(k.checked_sub(self.behind)?));
        found.map(|bytes| &**bytes).ok_or_else(|| inconsistent("an operand is the output that its step writes"))
    }

    fn buffer(&self, range: &Range<usize>) -> Result<&'a [u8]> {
        let inside =
            |(at, part): &(usize, &'a [u8])| part.get(range.start.checked_sub(*at)?..range.end.checked_sub(*at)?);
        self.rest.iter().find_map(inside).ok_or_else(|| inconsistent("an operand overlaps what its step writes"))
    }

    /// Operand `i` as elements of a type.
    pub(crate) fn read<T: Element>(&self, i: usize) -> Result<&'a [T]> {
        elements(self.bytes(i)?)
    }

    /// The result as elements of a type, and the scratch bytes.
    pub(crate) fn out_and_scratch<T: Element>(self) -> Result<(&'a mut [T], &'a mut [u8])> {
        let out = bytemuck::try_cast_slice_mut(self.out).map_err(|_| misaligned("output"))?;
        Ok((out, self.scratch))
    }

    /// The result as elements of a type.
    pub(crate) fn out<T: Element>(&mut self) -> Result<&mut [T]> {
        elements_mut(self.out)
    }
}

/// Bytes as elements of a type.
pub(crate) fn elements<T: Element>(bytes: &[u8]) -> Result<&[T]> {
    bytemuck::try_cast_slice(bytes).map_err(|_| misaligned("input"))
}

/// Bytes as elements of a type, for writing.
pub(crate) fn elements_mut<T: Element>(bytes: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(bytes).map_err(|_| misaligned("output"))
}

fn misaligned(what: &str) -> Error {
    Error::invalid(format!("an {what} is not aligned to its element type; bind buffers at multiples of 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_io<R>(reads: Vec<Place>, write: Place, scratch: Option<usize>, f: impl FnOnce(Result<Io>) -> R) -> R {
        let mut arena = Arena::new(256).unwrap();
        for (i, b) in arena.bytes_mut().iter_mut().enumerate() {
            *b = i as u8;
        }
        let (mut out, input) = ([0u8; 4], [9u8; 4]);
        let ranges = [0..64, 64..128, 128..192, 64..192];
        let mut memory = Memory {
            inputs: &[&input],
            outputs: &mut [&mut out],
            constants: &[Tensor::from_slice(&[2], &[7u8, 8]).unwrap()],
            ranges: &ranges,
            arena: arena.bytes_mut(),
        };
        f(memory.open(&Operands { reads, write, scratch }))
    }

    #[test]
    fn operands_come_from_everywhere() {
        let reads = vec![Place::Input(0), Place::Const(0), Place::Buffer(0), Place::Buffer(0)];
        with_io(reads, Place::Buffer(2), Some(1), |io| {
            let io = io.unwrap();
            assert_eq!((io.bytes(0).unwrap(), io.bytes(1).unwrap()), (&[9u8; 4][..], &[7u8, 8][..]));
            assert_eq!((io.bytes(2).unwrap()[3], io.bytes(3).unwrap()[3]), (3, 3));
            assert_eq!((io.out[0], io.scratch[0]), (128, 64));
        });
        with_io(vec![Place::Buffer(2)], Place::Output(0), None, |io| {
            let io = io.unwrap();
            assert_eq!((io.out.len(), io.scratch.len(), io.bytes(0).unwrap()[0]), (4, 0, 128));
        });
    }

    #[test]
    fn a_step_reads_every_output_but_its_own() {
        let (mut a, mut b, mut c) = ([1u8; 4], [2u8; 4], [3u8; 4]);
        let mut arena = Arena::new(64).unwrap();
        let mut memory = Memory {
            inputs: &[],
            outputs: &mut [&mut a, &mut b, &mut c],
            constants: &[],
            ranges: std::slice::from_ref(&(0..64)),
            arena: arena.bytes_mut(),
        };
        let reads: Vec<Place> = (0..4).map(Place::Output).collect();
        let step = |write| Operands { reads: reads.clone(), write, scratch: None };
        let (second, inner) = (step(Place::Output(1)), step(Place::Buffer(0)));
        let io = memory.open(&second).unwrap();
        assert_eq!((io.out[0], io.bytes(0).unwrap()[0], io.bytes(2).unwrap()[0]), (2, 1, 3));
        assert!(io.bytes(1).is_err() && io.bytes(3).is_err());
        let io = memory.open(&inner).unwrap();
        assert_eq!((0..3).map(|i| io.bytes(i).unwrap()[0]).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(memory.open(&step(Place::Output(3))).is_err());
    }

    #[test]
    fn overlaps_are_errors() {
        with_io(vec![Place::Buffer(3)], Place::Buffer(1), None, |io| assert!(io.unwrap().bytes(0).is_err()));
        with_io(vec![], Place::Buffer(1), Some(3), |io| assert!(io.is_err()));
        with_io(vec![], Place::Const(0), None, |io| assert!(io.is_err()));
    }

    #[test]
    fn an_operand_inside_the_result_is_found_there() {
        with_io(vec![Place::Buffer(1), Place::Buffer(2), Place::Buffer(0)], Place::Buffer(3), None, |io| {
            let io = io.unwrap();
            assert_eq!([io.held_at(0), io.held_at(1), io.held_at(2)], [Some(0), Some(64), None]);
            assert!(io.bytes(0).is_err() && io.bytes(2).is_ok());
        });
        with_io(vec![Place::Buffer(0)], Place::Output(0), None, |io| assert_eq!(io.unwrap().held_at(0), None));
    }

    #[test]
    fn the_arena_is_aligned() {
        let mut arena = Arena::new(100).unwrap();
        let bytes = arena.bytes_mut();
        assert_eq!((bytes.len(), bytes.as_ptr().align_offset(ALIGN)), (100, 0));
    }
}
