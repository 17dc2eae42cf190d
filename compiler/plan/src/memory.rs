//! Memory of one inference on each device: which bytes of its arena each slot has.

use crate::{Arena, Place, Plan, Work};
use ottava_hal::{Error, Result};
use std::collections::BTreeSet;

/// Alignment of slots in bytes.
pub const ALIGN: usize = 64;

/// The arenas of a plan, from its steps.
pub fn arenas(plan: &Plan) -> Result<Vec<Arena>> {
    (0..plan.devices.len()).map(|device| arena(plan, device)).collect()
}

/// Slots of fixed size that are on a device at some time.
fn slots_on(plan: &Plan, device: usize) -> BTreeSet<usize> {
    let mut slots = BTreeSet::new();
    for step in &plan.steps {
        match &step.work {
            Work::Run { partition } => {
                let p = &plan.partitions[*partition];
                if plan.device(&p.device) == Some(device) {
                    slots.extend(p.inputs.iter().chain(&p.outputs));
                }
            }
            Work::Copy { slot, from, to } if [*from, *to].contains(&Place::Device(device)) => {
                slots.insert(*slot);
            }
            _ => {}
        }
    }
    slots.retain(|s| plan.slots[*s].ty.byte_len().is_some());
    slots
}

fn arena(plan: &Plan, device: usize) -> Result<Arena> {
    let mut arena = Arena::default();
    let too_large = || Error::invalid("the working memory of the plan exceeds this machine");
    for slot in slots_on(plan, device) {
        let bytes = plan.slots[slot].ty.byte_len().unwrap_or(0);
        let start = arena.bytes.checked_next_multiple_of(ALIGN).ok_or_else(too_large)?;
        arena.bytes = start.checked_add(bytes).ok_or_else(too_large)?;
        arena.sum_bytes = arena.sum_bytes.checked_add(bytes).ok_or_else(too_large)?;
        arena.slots.push((slot, start));
    }
    arena.lower_bound = arena.bytes;
    Ok(arena)
}
