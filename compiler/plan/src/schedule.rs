//! From partitions to steps: a copy before each partition for what it reads from elsewhere, a copy to the host for what
//! the caller receives or a session keeps.
//!
//! Steps of different devices that do not depend on each other have no order; what order there must be is in
//! [`Step::waits`].

use crate::{Place, Plan, Step, Work};
use ottava_hal::{Error, Result};
use std::collections::BTreeMap;

/// The step after which a slot is in a place; `None` if it is there from the start.
type Known = BTreeMap<(usize, Place), Option<usize>>;

/// The steps of a plan, from its slots, partitions and devices.
pub fn steps(plan: &Plan) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut known: Known = plan.given().map(|slot| ((slot, Place::Host), None)).collect();
    for (i, partition) in plan.partitions.iter().enumerate() {
        let missing = || Error::invalid(format!("device `{}` is not among the plan's", partition.device));
        let place = Place::Device(plan.device(&partition.device).ok_or_else(missing)?);
        let waits = partition.inputs.iter().map(|slot| bring(plan, &mut steps, &mut known, *slot, place));
        let mut waits: Vec<usize> = waits.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        waits.sort_unstable();
        waits.dedup();
        steps.push(Step { name: partition.program.name.clone(), work: Work::Run { partition: i }, waits });
        let done = Some(steps.len() - 1);
        known.extend(partition.outputs.iter().map(|slot| ((*slot, place), done)));
    }
    for slot in plan.kept() {
        bring(plan, &mut steps, &mut known, slot, Place::Host)?;
    }
    Ok(steps)
}

/// Makes sure that a slot gets to a place; the step after which it is there.
fn bring(plan: &Plan, steps: &mut Vec<Step>, known: &mut Known, slot: usize, to: Place) -> Result<Option<usize>> {
    if let Some(step) = known.get(&(slot, to)) {
        return Ok(*step);
    }
    let found = known.range((slot, Place::Host)..).find(|((s, _), _)| *s == slot);
    let (from, after) = match found {
        Some(((_, from), after)) => (*from, *after),
        None => return Err(Error::invalid(format!("slot {slot} is read before it is written"))),
    };
    let name = |place: Place| match place {
        Place::Host => "host",
        Place::Device(d) => plan.devices.get(d).map_or("?", |d| d.id.as_str()),
    };
    let title = plan.slots.get(slot).map_or("?", |s| s.name.as_str());
    let name = format!("copy {title}: {} to {}", name(from), name(to));
    steps.push(Step { name, work: Work::Copy { slot, from, to }, waits: after.into_iter().collect() });
    known.insert((slot, to), Some(steps.len() - 1));
    Ok(Some(steps.len() - 1))
}
