//! Where the slots of an inference are on each device.
//!
//! An asynchronous device gets one buffer, the arena of the plan, and bindings at the planned offsets. A device that
//! runs in the caller's thread locks whole buffers during a run, so there the slots that begin at the same byte of the
//! arena share one buffer and all others have their own. Where the arena does not fit the device (alignment, largest
//! buffer) every slot has a buffer of its own.
//!
//! Invariant: what one partition reads and writes never overlaps ([`ottava_plan::memory`]), so no buffer is bound twice
//! there in one submission.

use ottava_hal::{Binding, Buffer, BufferDesc, Device, Error, Result};
use ottava_plan::memory::ALIGN;
use ottava_plan::{Arena, Plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the slots on a device are laid out in buffers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Sizes of the buffers.
    buffers: Vec<usize>,
    /// Slot, its buffer, its first byte there, its length.
    slots: Vec<(usize, usize, usize, usize)>,
    alignment: usize,
}

impl Layout {
    /// The layout for a device. `wanted` are the slots of fixed size that need memory there.
    pub fn new(plan: &Plan, index: usize, device: &dyn Device, wanted: &BTreeSet<usize>) -> Self {
        let info = device.info();
        let mut layout = Self { alignment: ALIGN.max(info.alignment), ..Self::default() };
        let offsets: BTreeMap<usize, usize> =
            plan.arenas.get(index).map(|a| a.slots.iter().copied().collect()).unwrap_or_default();
        let arena = plan.arenas.get(index).filter(|arena| {
            let aligned = |slot: &usize| offsets.get(slot).is_some_and(|o| o % info.alignment.max(1) == 0);
            let small = info.max_buffer == 0 || arena.bytes as u64 <= info.max_buffer;
            !info.sync_only && small && wanted.iter().all(aligned)
        });
        match arena {
            Some(arena) => layout.arena(plan, arena, wanted, &offsets),
            None => {
                layout.separate(plan, wanted, |slot| offsets.get(&slot).copied().filter(|_| info.sync_only));
            }
        }
        layout
    }

    fn arena(&mut self, plan: &Plan, arena: &Arena, wanted: &BTreeSet<usize>, offsets: &BTreeMap<usize, usize>) {
        self.buffers = vec![arena.bytes];
        self.slots = wanted.iter().map(|s| (*s, 0, offsets[s], byte_len(plan, *s))).collect();
    }

    fn separate(&mut self, plan: &Plan, wanted: &BTreeSet<usize>, offset: impl Fn(usize) -> Option<usize>) {
        let mut by_offset: BTreeMap<usize, usize> = BTreeMap::new();
        for &slot in wanted {
            let bytes = byte_len(plan, slot);
            let buffer = match offset(slot).filter(|_| bytes > 0) {
                Some(offset) => *by_offset.entry(offset).or_insert(self.buffers.len()),
                None => self.buffers.len(),
            };
            self.buffers.resize(self.buffers.len().max(buffer + 1), 0);
            self.buffers[buffer] = self.buffers[buffer].max(bytes);
            self.slots.push((slot, buffer, 0, bytes));
        }
    }

    /// Bytes of one inference.
    pub fn bytes(&self) -> usize {
        self.buffers.iter().fold(0, |sum, b| sum.saturating_add(*b))
    }

    /// Allocates the buffers of one inference; the binding of each slot.
    pub fn alloc(&self, device: &dyn Device, n_slots: usize) -> Result<Vec<Option<Binding>>> {
        let one = |bytes: &usize| device.alloc(&BufferDesc { bytes: *bytes, alignment: self.alignment });
        let buffers = self.buffers.iter().map(one).collect::<Result<Vec<Arc<dyn Buffer>>>>()?;
        let mut bindings = vec![None; n_slots];
        for (slot, buffer, offset, len) in &self.slots {
            let missing = || Error::invalid(format!("slot {slot} is outside the plan"));
            *bindings.get_mut(*slot).ok_or_else(missing)? =
                Some(Binding { buffer: buffers[*buffer].clone(), offset: *offset, len: *len });
        }
        Ok(bindings)
    }
}

fn byte_len(plan: &Plan, slot: usize) -> usize {
    plan.slots.get(slot).and_then(|s| s.ty.byte_len()).unwrap_or(0)
}
