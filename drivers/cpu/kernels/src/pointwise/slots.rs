//! Which block of memory holds which value of a chain: a slot is free again after the last use of its value.

use alloc::format;
use alloc::vec;
use alloc::vec::Vec;

use super::chain::{Arg, Body, ChainOp, Step};
use crate::epilogue::Source;
use crate::error::{KernelError, Result};

/// Blocks of memory that a task has.
pub(super) const SLOTS: usize = 24;

pub(super) struct Assigned {
    pub(super) steps: Vec<Step>,
    pub(super) scalars: Vec<(usize, f32)>,
    pub(super) result: usize,
}

/// Slots in use and where values are.
struct Slots {
    free: [bool; SLOTS],
    at: Vec<Arg>,
    last_use: Vec<usize>,
}

/// Gives each value its slot. A step never writes a slot that it reads.
pub(super) fn assign(ops: &[ChainOp]) -> Result<Assigned> {
    let mut slots = Slots { free: [true; SLOTS], at: Vec::with_capacity(ops.len()), last_use: last_uses(ops) };
    let (mut steps, mut scalars, mut n_rows) = (Vec::new(), Vec::new(), 0);
    // A scalar is filled in before the first step, so no value may have had its slot before.
    let mut constants = Vec::new();
    for op in ops {
        if let ChainOp::Scalar(v) = op {
            let slot = slots.take()?;
            scalars.push((slot, *v));
            constants.push(slot);
        }
    }
    let mut constants = constants.into_iter();
    for (i, op) in ops.iter().enumerate() {
        let body = match op {
            ChainOp::Scalar(_) => {
                slots.at.extend(constants.next().map(Arg::Slot));
                continue;
            }
            ChainOp::Row(_) => {
                slots.at.push(Arg::Row(n_rows));
                n_rows += 1;
                continue;
            }
            ChainOp::Bytes(input, q) => Body::Bytes(*input, Source::new(*q)?),
            ChainOp::Floats(input) => Body::Floats(*input),
            ChainOp::Unary(f, x) => Body::Unary(*f, slots.in_slot(*x, &mut steps)?),
            ChainOp::Binary(f, a, b) => {
                if let (Arg::Row(_), Arg::Row(_)) = (slots.at[*a], slots.at[*b]) {
                    slots.in_slot(*a, &mut steps)?;
                }
                Body::Binary(*f, slots.at[*a], slots.at[*b])
            }
        };
        let slot = slots.take()?;
        steps.push(Step { slot, body });
        slots.at.push(Arg::Slot(slot));
        slots.release(i, ops);
    }
    let result = slots.in_slot(ops.len() - 1, &mut steps)?;
    Ok(Assigned { steps, scalars, result })
}

/// Per value: the last step that reads it; the result and scalars, which are filled once, live to the end.
fn last_uses(ops: &[ChainOp]) -> Vec<usize> {
    let mut last = vec![0; ops.len()];
    for (i, op) in ops.iter().enumerate() {
        match op {
            ChainOp::Unary(_, x) => last[*x] = i,
            ChainOp::Binary(_, a, b) => (last[*a], last[*b]) = (i, i),
            _ => {}
        }
    }
    for (last, op) in last.iter_mut().zip(ops) {
        if matches!(op, ChainOp::Scalar(_)) {
            *last = usize::MAX;
        }
    }
    if let Some(last) = last.last_mut() {
        *last = usize::MAX;
    }
    last
}

impl Slots {
    fn take(&mut self) -> Result<usize> {
        let slot = self.free.iter().position(|free| *free);
        let slot = slot.ok_or_else(|| KernelError::Parameter {
            what: format!("more than {SLOTS} values of a chain are alive at once"),
        })?;
        self.free[slot] = false;
        Ok(slot)
    }

    /// The slot of a value; a row is copied into one.
    fn in_slot(&mut self, value: usize, steps: &mut Vec<Step>) -> Result<usize> {
        match self.at[value] {
            Arg::Slot(slot) => Ok(slot),
            Arg::Row(row) => {
                let slot = self.take()?;
                steps.push(Step { slot, body: Body::Row(row) });
                self.at[value] = Arg::Slot(slot);
                Ok(slot)
            }
        }
    }

    /// Frees what step `i` has read last.
    fn release(&mut self, i: usize, ops: &[ChainOp]) {
        let operands = match ops[i] {
            ChainOp::Unary(_, x) => [x, x],
            ChainOp::Binary(_, a, b) => [a, b],
            _ => return,
        };
        for value in operands.into_iter().filter(|v| self.last_use[*v] == i) {
            if let Arg::Slot(slot) = self.at[value] {
                self.free[slot] = true;
            }
        }
    }
}
