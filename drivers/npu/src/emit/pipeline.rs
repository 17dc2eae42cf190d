//! The tokens of tiles that follow one another.
//!
//! A [`Group`] is what one set of loads feeds; an *output* is one group or several (a sum over slices) that end in
//! stores. Buffers alternate, so the protocol is about the group or output before the last:
//!
//! * the loads of group g start when the unit that works on group g-2 is done with it (EX, or VEC or ST where EX has
//!   nothing to do);
//! * the first work of output o starts when the accumulators or bytes of output o-2 have been read by the unit behind;
//! * a unit without work passes tokens on with NOPs: what lies between queues that are no neighbours.
//!
//! **Slots.** What is loaded for every group and read by the working unit may alternate between two slots, also where
//! several groups keep it: between the last use of a slot and its next load there is always another load. What VEC or
//! ST read while EX works (requantization tables, residuals) needs four slots: the loads of group g wait for EX at g-2,
//! which has waited for the stores of the output before the one before it.
//!
//! Within a step either every output has vector work or none has.
//!
//! A push is written only when its pop is: the instruction that gives a token is patched when the one that takes it
//! appears. All counters are therefore 0 at the end of a step.

use super::{Emitter, Op};
use ottava_hal::Result;
use ottava_npu::isa::{Inst, Opcode, Queue};

/// The instructions of one group, by the unit that runs them.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// DMA from memory.
    pub loads: Vec<Op>,
    /// The array.
    pub array: Vec<Op>,
    /// The vector unit. Beside array work: once per output, in its last group.
    pub vector: Vec<Op>,
    /// DMA to memory: in the last group of an output.
    pub stores: Vec<Op>,
}

/// Last instructions of the last two pieces of work, the older one first.
type Pair = [Option<usize>; 2];

/// Writes groups with their tokens.
pub(crate) struct Pipeline<'e> {
    emitter: &'e mut Emitter,
    groups: usize,
    outputs: usize,
    /// The unit that frees loaded buffers, by group.
    workers: Pair,
    /// VEC (if it has work, else ST), by output: frees accumulators.
    readers: Pair,
    /// ST by output: frees what VEC writes.
    storers: Pair,
    inside_output: bool,
}

fn push(pair: &mut Pair, index: usize) {
    *pair = [pair[1], Some(index)];
}

impl<'e> Pipeline<'e> {
    /// The pipeline of a step that the emitter has begun.
    pub(crate) fn new(emitter: &'e mut Emitter) -> Self {
        Self {
            emitter,
            groups: 0,
            outputs: 0,
            workers: [None; 2],
            readers: [None; 2],
            storers: [None; 2],
            inside_output: false,
        }
    }

    /// Number of groups so far: the parity chooses the slot of what each group loads.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Number of outputs so far: the parity chooses accumulators and output bytes.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Writes a group.
    pub(crate) fn group(&mut self, group: Group) -> Result<()> {
        let first = !std::mem::replace(&mut self.inside_output, group.stores.is_empty());
        let free = self.workers[0].take();
        if group.array.is_empty() {
            self.without_array(group, first, free)?;
        } else {
            self.with_array(group, first, free)?;
        }
        self.groups += 1;
        self.outputs += usize::from(!self.inside_output);
        Ok(())
    }

    fn with_array(&mut self, group: Group, first: bool, free: Option<usize>) -> Result<()> {
        self.loads(group.loads, free)?;
        let wait = if first { self.readers[0].take() } else { None };
        if let Some(reader) = wait {
            self.free_accumulators(reader)?;
        }
        let last = !group.stores.is_empty();
        let ex = self.work(group.array, Queue::Ex, wait.is_some(), last)?;
        push(&mut self.workers, ex);
        if last {
            let reader = self.behind_array(group.vector)?;
            let st = self.stores(group.stores)?;
            push(&mut self.readers, reader.unwrap_or(st));
            push(&mut self.storers, st);
        }
        Ok(())
    }

    /// `reader` gives its token; if it is a store, VEC passes the token on.
    fn free_accumulators(&mut self, reader: usize) -> Result<()> {
        self.emitter.commands[reader].tokens.push_prev = true;
        if self.emitter.commands[reader].queue == Queue::St {
            self.nop(Queue::Vec, |i| i.pop_next().push_prev())?;
        }
        Ok(())
    }

    /// The vector unit behind the array: its work, or a NOP that passes the token on to ST.
    fn behind_array(&mut self, vector: Vec<Op>) -> Result<Option<usize>> {
        if vector.is_empty() {
            self.nop(Queue::Vec, |i| i.pop_prev().push_next())?;
            return Ok(None);
        }
        let wait = self.free_outputs();
        self.work(vector, Queue::Vec, wait, true).map(Some)
    }

    /// The store of the output before the last gives its token, if there is one that VEC has not taken.
    fn free_outputs(&mut self) -> bool {
        let Some(st) = self.storers[0].take() else { return false };
        self.emitter.commands[st].tokens.push_prev = true;
        true
    }

    fn without_array(&mut self, group: Group, first: bool, free: Option<usize>) -> Result<()> {
        let copies = group.vector.is_empty();
        if let Some(worker) = free {
            self.emitter.commands[worker].tokens.push_prev = true;
            if copies {
                self.nop(Queue::Vec, |i| i.pop_next().push_prev())?;
            }
            self.nop(Queue::Ex, |i| i.pop_next().push_prev())?;
        }
        self.loads(group.loads, free)?;
        self.nop(Queue::Ex, |i| i.pop_prev().push_next())?;
        let last = !group.stores.is_empty();
        if copies {
            self.nop(Queue::Vec, |i| i.pop_prev().push_next())?;
            let st = self.stores(group.stores)?;
            push(&mut self.workers, st);
            return Ok(());
        }
        let wait = first && self.free_outputs();
        let vec = self.work(group.vector, Queue::Vec, wait, last)?;
        push(&mut self.workers, vec);
        if last {
            let st = self.stores(group.stores)?;
            push(&mut self.storers, st);
        }
        Ok(())
    }

    fn loads(&mut self, ops: Vec<Op>, free: Option<usize>) -> Result<()> {
        if let Some(worker) = free {
            // Idempotent: `without_array` has done it where NOPs lie between.
            self.emitter.commands[worker].tokens.push_prev = true;
        }
        let ops = if ops.is_empty() { vec![Op::new(Opcode::Nop, 0, 0, 0)] } else { ops };
        self.tokened(ops, Queue::Ld, |i| if free.is_some() { i.pop_next() } else { i }, Inst::push_next).map(drop)
    }

    fn work(&mut self, ops: Vec<Op>, queue: Queue, pop_next: bool, push_next: bool) -> Result<usize> {
        let begin = |i: Inst| if pop_next { i.pop_prev().pop_next() } else { i.pop_prev() };
        self.tokened(ops, queue, begin, |i| if push_next { i.push_next() } else { i })
    }

    fn stores(&mut self, ops: Vec<Op>) -> Result<usize> {
        let ops = ops.into_iter().flat_map(Op::with_second_store).collect();
        self.tokened(ops, Queue::St, Inst::pop_prev, |i| i)
    }

    /// Writes operations of one queue; `begin` marks the first instruction, `end` the last, whose index is returned.
    fn tokened(
        &mut self,
        ops: Vec<Op>,
        queue: Queue,
        begin: impl Fn(Inst) -> Inst,
        end: impl Fn(Inst) -> Inst,
    ) -> Result<usize> {
        let n = ops.len();
        let mut at = self.emitter.commands.len();
        for (i, mut op) in ops.into_iter().enumerate() {
            op.inst = op.inst.on(queue);
            if i == 0 {
                op.inst = begin(op.inst);
            }
            if i + 1 == n {
                op.inst = end(op.inst);
            }
            at = self.emitter.push(op)?;
        }
        Ok(at)
    }

    fn nop(&mut self, queue: Queue, tokens: impl Fn(Inst) -> Inst) -> Result<()> {
        self.emitter.raw(tokens(Inst::new(Opcode::Nop, 0, 0, 0).on(queue))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the stream in its own order: every pop finds a token, at the end none is left.
    fn check(emitter: &Emitter, what: &str) {
        let (mut ready, mut free) = ([0u32; 3], [0u32; 3]);
        for (i, inst) in emitter.commands.iter().enumerate() {
            let q = inst.queue.index();
            let pop = |counter: &mut u32| {
                *counter = counter.checked_sub(1).unwrap_or_else(|| panic!("{what}: no token for instruction {i}"));
            };
            if inst.tokens.pop_prev {
                pop(&mut ready[q - 1]);
            }
            if inst.tokens.pop_next {
                pop(&mut free[q]);
            }
            free[q.saturating_sub(1)] += u32::from(inst.tokens.push_prev);
            ready[q.min(2)] += u32::from(inst.tokens.push_next);
            assert!(inst.check().is_ok(), "{what}: {inst:?}");
            assert!(ready.iter().chain(&free).all(|&n| n <= 3), "{what}: tokens pile up");
        }
        assert_eq!((ready, free), ([0; 3], [0; 3]), "{what}");
    }

    fn ops(n: usize) -> Vec<Op> {
        (0..n).map(|_| Op::new(Opcode::Nop, 0, 0, 0)).collect()
    }

    #[test]
    fn tokens_balance_for_every_kind_of_step() {
        for (array, vector) in [(false, false), (false, true), (true, false), (true, true)] {
            for parts in 1..=3 {
                for outputs in 1..=6 {
                    let mut emitter = Emitter::default();
                    let mut pipe = Pipeline::new(&mut emitter);
                    for i in 0..outputs * parts {
                        let last = i % parts == parts - 1;
                        if !(array || vector || last) {
                            continue;
                        }
                        pipe.group(Group {
                            loads: ops(i % 3),
                            array: ops(if array { 1 + i % 2 } else { 0 }),
                            vector: ops(if vector && (last || !array) { 1 + i % 2 } else { 0 }),
                            stores: ops(if last { 1 + i % 2 } else { 0 }),
                        })
                        .unwrap();
                    }
                    assert_eq!(pipe.outputs(), outputs);
                    check(&emitter, &format!("array {array}, vector {vector}, {parts} parts, {outputs} outputs"));
                }
            }
        }
    }
}
