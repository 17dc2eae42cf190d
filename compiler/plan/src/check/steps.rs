//! Steps: what they name is there, bodies fit, and data is in its place before it is read.

use crate::order::{Access, Order, by_slot};
use crate::{Place, Plan, Step, Work};
use ottava_hal::{Error, Result};
use std::collections::BTreeSet;

/// Checks the steps of a plan; only one that runs nothing needs none.
pub(super) fn check(plan: &Plan, order: &Order) -> Result<()> {
    for (i, step) in plan.steps.iter().enumerate() {
        if !fits(plan, &step.work) {
            return Err(Error::invalid(format!("step {i} (`{}`) names what is not there or does not fit", step.name)));
        }
    }
    if plan.steps.is_empty() && plan.partitions.is_empty() {
        return Ok(());
    }
    check_runs(plan)?;
    check_data(plan, order)
}

fn fits(plan: &Plan, work: &Work) -> bool {
    let place = |p: &Place| !matches!(p, Place::Device(d) if *d >= plan.devices.len());
    let slots = |list: &[usize]| list.iter().all(|s| *s < plan.slots.len());
    let ends = |body: &Plan| (body.inputs.len(), body.outputs.len());
    match work {
        Work::Run { partition } => plan.partitions.get(*partition).is_some_and(|p| plan.device(&p.device).is_some()),
        Work::Copy { slot, from, to } => slots(&[*slot]) && place(from) && place(to) && from != to,
        Work::If { condition, then, otherwise, inputs, outputs } => {
            let wanted = (inputs.len(), outputs.len());
            slots(&[*condition]) && slots(inputs) && slots(outputs) && ends(then) == wanted && ends(otherwise) == wanted
        }
        Work::Loop { max_trips, condition, body, inputs, outputs } => {
            let first: Vec<usize> = max_trips.iter().chain(condition).copied().collect();
            let (n_in, n_out) = ends(body);
            let counts = n_in == inputs.len() + 2 && n_out == outputs.len() + 1 && outputs.len() >= inputs.len();
            slots(&first) && slots(inputs) && slots(outputs) && counts
        }
        Work::Scan { scanned, body, inputs, outputs } => {
            let carried = inputs.len().checked_sub(*scanned);
            let counts = carried.is_some_and(|n| outputs.len() >= n) && ends(body) == (inputs.len(), outputs.len());
            slots(inputs) && slots(outputs) && counts
        }
    }
}

/// Every partition runs once.
fn check_runs(plan: &Plan) -> Result<()> {
    let mut runs = vec![0usize; plan.partitions.len()];
    for step in &plan.steps {
        if let Work::Run { partition } = step.work {
            runs[partition] += 1;
        }
    }
    match runs.iter().position(|n| *n != 1) {
        None => Ok(()),
        Some(i) => {
            let (n, name) = (runs[i], &plan.partitions[i].program.name);
            Err(Error::invalid(format!("partition `{name}` runs {n} times, expected once")))
        }
    }
}

/// In each place a slot is written once, and before every step that reads it there; the caller's are on the host.
fn check_data(plan: &Plan, order: &Order) -> Result<()> {
    let given: BTreeSet<usize> = plan.given().collect();
    let mut on_host = given.clone();
    let mut last: Option<(Access, usize)> = None;
    for (access, step) in by_slot(plan)? {
        let writer = last.filter(|(w, _)| (w.slot, w.place) == (access.slot, access.place)).map(|(_, step)| step);
        let from_start = access.place == Place::Host && given.contains(&access.slot);
        let named = || named(plan, &plan.steps[step], step, access);
        if access.writes {
            if writer.is_some() || from_start {
                return Err(Error::invalid(format!("{} is written a second time", named())));
            }
            last = Some((access, step));
            if access.place == Place::Host {
                on_host.insert(access.slot);
            }
        } else if !from_start && writer.is_none_or(|w| !order.before(w, step)) {
            return Err(Error::invalid(format!("{} is read before it is surely there", named())));
        }
    }
    match plan.kept().find(|slot| !on_host.contains(slot)) {
        None => Ok(()),
        Some(slot) => Err(Error::invalid(format!("no step brings output slot {slot} to the host"))),
    }
}

fn named(plan: &Plan, step: &Step, i: usize, access: Access) -> String {
    let place = match access.place {
        Place::Host => "the host",
        Place::Device(d) => plan.devices.get(d).map_or("?", |d| d.id.as_str()),
    };
    format!("step {i} (`{}`): slot {} on {place}", step.name, access.slot)
}
