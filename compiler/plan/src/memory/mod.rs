//! Memory of one inference on each device: which bytes of its arena each slot has.
//!
//! Two slots may share bytes only if every use of the one happens before the other is written, by the steps' waits and
//! the order of each device's queue (the module `order`). No wait is added for the sake of memory: what may run at the same time
//! keeps bytes of its own. What one partition reads and writes never overlaps.

mod place;
#[cfg(test)]
mod tests;

use crate::order::{Order, by_slot};
use crate::{Arena, Place, Plan};
use ottava_hal::{Error, Result};

/// Alignment of slots in bytes.
pub const ALIGN: usize = 64;

/// A slot on a device: its size, the step that writes it, and all steps that use it.
struct Life {
    slot: usize,
    bytes: usize,
    writer: usize,
    uses: Vec<usize>,
}

impl Life {
    /// Whether all of `self` is over before `next` begins.
    fn ends_before(&self, next: &Self, order: &Order) -> bool {
        self.uses.iter().all(|step| order.before(*step, next.writer))
    }

    /// Whether the slot holds data that is needed while a step runs.
    fn covers(&self, step: usize, order: &Order) -> bool {
        let began = self.writer == step || order.before(self.writer, step);
        began && self.uses.iter().any(|last| *last == step || order.before(step, *last))
    }
}

/// The arenas of a plan, from its steps.
pub fn arenas(plan: &Plan) -> Result<Vec<Arena>> {
    let (order, lives) = (Order::of(plan)?, lives(plan)?);
    lives.iter().map(|lives| arena(lives, &order, plan.steps.len())).collect()
}

/// Per device, the slots of fixed size that are on it at some time, by index.
fn lives(plan: &Plan) -> Result<Vec<Vec<Life>>> {
    let mut all: Vec<Vec<Life>> = plan.devices.iter().map(|_| Vec::new()).collect();
    for (access, step) in by_slot(plan)? {
        let Place::Device(device) = access.place else { continue };
        let unknown = || Error::invalid(format!("slot {} or device {device} of a step is not there", access.slot));
        let (slot, on) = plan.slots.get(access.slot).zip(all.get_mut(device)).ok_or_else(unknown)?;
        let Some(bytes) = slot.ty.byte_len() else { continue };
        match on.last_mut() {
            Some(life) if life.slot == access.slot => life.uses.push(step),
            _ => on.push(Life { slot: access.slot, bytes, writer: step, uses: vec![step] }),
        }
    }
    Ok(all)
}

fn arena(lives: &[Life], order: &Order, n_steps: usize) -> Result<Arena> {
    let sizes: Vec<usize> = lives.iter().map(|l| l.bytes).collect();
    let lower_bound = lower_bound(lives, order, n_steps)?;
    let placed = place::best(&sizes, &neighbours(lives, order), lower_bound)?;
    Ok(Arena {
        bytes: placed.bytes,
        sum_bytes: place::side_by_side(&sizes)?,
        lower_bound,
        slots: lives.iter().map(|l| l.slot).zip(placed.starts).collect(),
    })
}

/// Per slot, those that it may not overlap.
fn neighbours(lives: &[Life], order: &Order) -> Vec<Vec<usize>> {
    let mut near: Vec<Vec<usize>> = lives.iter().map(|_| Vec::new()).collect();
    for (i, a) in lives.iter().enumerate() {
        for (j, b) in lives.iter().enumerate().skip(i + 1) {
            let apart = a.bytes == 0 || b.bytes == 0 || a.ends_before(b, order) || b.ends_before(a, order);
            if !apart {
                near[i].push(j);
                near[j].push(i);
            }
        }
    }
    near
}

/// The most bytes that are needed at one step: slots that a step covers meet pairwise, so no plan can do with less.
fn lower_bound(lives: &[Life], order: &Order, n_steps: usize) -> Result<usize> {
    let mut most = 0;
    for step in 0..n_steps {
        let mut covering = lives.iter().filter(|l| l.covers(step, order)).map(|l| l.bytes);
        let bytes = covering.try_fold(0usize, usize::checked_add).ok_or_else(too_large)?;
        most = most.max(bytes);
    }
    Ok(most)
}

fn too_large() -> Error {
    Error::invalid("the working memory of the plan exceeds this machine; use a smaller shape or batch")
}
