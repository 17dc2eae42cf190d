//! Arenas: every slot inside, aligned, and slots that share bytes in an order that keeps their lives apart.

use crate::memory::ALIGN;
use crate::order::{Order, by_slot};
use crate::{Arena, Place, Plan};
use ottava_hal::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Uses of the slots of one device: the steps in ascending order; the first is the writer.
type Uses = BTreeMap<usize, Vec<usize>>;

/// Checks the arenas of a plan; a plan that is not scheduled yet may have none.
pub(super) fn check(plan: &Plan, order: &Order) -> Result<()> {
    if plan.arenas.is_empty() && plan.steps.is_empty() {
        return Ok(());
    }
    if plan.arenas.len() != plan.devices.len() {
        let (n, expected) = (plan.arenas.len(), plan.devices.len());
        return Err(Error::invalid(format!("the plan has {n} arenas for {expected} devices")));
    }
    let mut uses: Vec<Uses> = plan.devices.iter().map(|_| Uses::new()).collect();
    for (access, step) in by_slot(plan)? {
        if let Place::Device(device) = access.place
            && let Some(uses) = uses.get_mut(device)
        {
            uses.entry(access.slot).or_default().push(step);
        }
    }
    for ((arena, device), uses) in plan.arenas.iter().zip(&plan.devices).zip(&uses) {
        check_places(plan, arena, uses)
            .map_err(|what| Error::invalid(format!("arena of device `{}`: {what}", device.id)))?;
        check_sharing(plan, arena, uses, order)
            .map_err(|what| Error::invalid(format!("arena of device `{}`: {what}", device.id)))?;
    }
    Ok(())
}

/// Every slot of known size that the device uses has one place inside.
fn check_places(plan: &Plan, arena: &Arena, uses: &Uses) -> Result<(), String> {
    let mut placed = BTreeSet::new();
    for (slot, offset) in &arena.slots {
        let bytes = plan.slots.get(*slot).and_then(|s| s.ty.byte_len());
        let end = bytes.and_then(|b| b.checked_add(*offset));
        if end.is_none_or(|end| end > arena.bytes) || !offset.is_multiple_of(ALIGN) {
            return Err(format!("slot {slot} at byte {offset} is outside or not aligned to {ALIGN}"));
        }
        if !placed.insert(*slot) || !uses.contains_key(slot) {
            return Err(format!("slot {slot} is there twice, or no step uses it"));
        }
    }
    let fixed = |slot: &usize| plan.slots.get(*slot).is_some_and(|s| s.ty.byte_len().is_some());
    match uses.keys().find(|slot| fixed(slot) && !placed.contains(slot)) {
        Some(slot) => Err(format!("slot {slot} has no place")),
        None => Ok(()),
    }
}

/// Slots that share a byte follow each other. At each byte the slots are sorted by their writer; that neighbours follow
/// each other is enough, because a writer happens before the uses of its slot.
fn check_sharing(plan: &Plan, arena: &Arena, uses: &Uses, order: &Order) -> Result<(), String> {
    let mut events = Vec::with_capacity(arena.slots.len() * 2);
    for (slot, offset) in &arena.slots {
        let bytes = plan.slots.get(*slot).and_then(|s| s.ty.byte_len()).unwrap_or(0);
        if bytes > 0 {
            events.extend([(*offset, true, *slot), (offset.saturating_add(bytes), false, *slot)]);
        }
    }
    events.sort_unstable();
    let mut living: BTreeSet<(usize, usize)> = BTreeSet::new();
    let follows = |a: usize, b: usize| {
        let writer = uses.get(&b).and_then(|steps| steps.first());
        let before = |steps: &Vec<usize>| steps.iter().all(|s| writer.is_some_and(|w| order.before(*s, *w)));
        uses.get(&a).is_some_and(before)
    };
    for (_, starts, slot) in events {
        let key = (uses.get(&slot).and_then(|s| s.first()).copied().unwrap_or(0), slot);
        if !starts {
            living.remove(&key);
            continue;
        }
        let (earlier, later) = (living.range(..key).next_back(), living.range(key..).next());
        let clash = earlier.filter(|e| !follows(e.1, slot)).or_else(|| later.filter(|l| !follows(slot, l.1)));
        if let Some((_, other)) = clash {
            return Err(format!("slots {slot} and {other} share bytes, but may be alive at the same time"));
        }
        living.insert(key);
    }
    Ok(())
}
