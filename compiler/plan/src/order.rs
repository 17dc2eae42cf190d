//! Which step of an inference happens before which, whatever the devices' speed.
//!
//! A step happens before another if the other waits for it, or if both are runs on one device and it comes first: a
//! device has one in-order queue per inference. Copies and control steps run as soon as their waits are met. The order
//! is the transitive closure of the two; everything about safe reuse of memory rests on it alone.

use crate::{Place, Plan, Step, Work};
use ottava_hal::{Error, Result};

/// More steps than this are refused: the closure takes one bit for each pair.
pub const MAX_STEPS: usize = 1 << 14;

/// The closure of a plan's order.
pub(crate) struct Order {
    words: usize,
    /// Row `i`: the steps that happen before step `i`.
    before: Vec<u64>,
}

impl Order {
    /// The order of a plan's steps; waits must point backwards.
    pub(crate) fn of(plan: &Plan) -> Result<Self> {
        let n = plan.steps.len();
        if n > MAX_STEPS {
            return Err(Error::invalid(format!("the plan has {n} steps, at most {MAX_STEPS} are possible")));
        }
        let words = n.div_ceil(64);
        let mut order = Self { words, before: vec![0; n * words] };
        let mut last_run = vec![None; plan.devices.len()];
        for (i, step) in plan.steps.iter().enumerate() {
            let queue = device_of(plan, step).and_then(|d| last_run.get_mut(d));
            let earlier = queue.and_then(|last| last.replace(i));
            for wait in step.waits.iter().copied().chain(earlier) {
                if wait >= i {
                    return Err(Error::invalid(format!("step {i} (`{}`) waits for a later one", step.name)));
                }
                if !order.before(wait, i) {
                    order.follow(i, wait);
                }
            }
        }
        Ok(order)
    }

    /// Step `i` comes after `wait` and after all that comes before it.
    fn follow(&mut self, i: usize, wait: usize) {
        let (head, row) = self.before.split_at_mut(i * self.words);
        let theirs = &head[wait * self.words..][..self.words];
        row.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine |= theirs);
        row[wait / 64] |= 1 << (wait % 64);
    }

    /// Whether step `a` is done before step `b` starts, always.
    pub(crate) fn before(&self, a: usize, b: usize) -> bool {
        let word = self.before.get(b * self.words + a / 64);
        a < b && word.is_some_and(|w| w >> (a % 64) & 1 == 1)
    }
}

/// Index of the device whose queue runs a step.
fn device_of(plan: &Plan, step: &Step) -> Option<usize> {
    match step.work {
        Work::Run { partition } => plan.device(&plan.partitions.get(partition)?.device),
        _ => None,
    }
}

/// A step's use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    pub(crate) slot: usize,
    pub(crate) place: Place,
    pub(crate) writes: bool,
}

/// What a step reads and writes, reads first. Control steps work in host memory.
pub(crate) fn accesses(plan: &Plan, step: &Step) -> Result<Vec<Access>> {
    let at = |place: Place, writes: bool| move |slot: &usize| Access { slot: *slot, place, writes };
    let ends = |place: Place, reads: &[usize], writes: &[usize]| {
        reads.iter().map(at(place, false)).chain(writes.iter().map(at(place, true))).collect::<Vec<_>>()
    };
    let host = |first: &[Option<usize>], reads: &[usize], writes: &[usize]| {
        let reads: Vec<usize> = first.iter().flatten().chain(reads).copied().collect();
        ends(Place::Host, &reads, writes)
    };
    let mut list = match &step.work {
        Work::Run { partition } => {
            let missing =
                || Error::invalid(format!("step `{}` runs partition {partition}, which is not there", step.name));
            let p = plan.partitions.get(*partition).ok_or_else(missing)?;
            let unknown = || Error::invalid(format!("device `{}` is not among the plan's", p.device));
            ends(Place::Device(plan.device(&p.device).ok_or_else(unknown)?), &p.inputs, &p.outputs)
        }
        Work::Copy { slot, from, to } => vec![at(*from, false)(slot), at(*to, true)(slot)],
        Work::If { condition, inputs, outputs, .. } => host(&[Some(*condition)], inputs, outputs),
        Work::Loop { max_trips, condition, inputs, outputs, .. } => host(&[*max_trips, *condition], inputs, outputs),
        Work::Scan { inputs, outputs, .. } => host(&[], inputs, outputs),
    };
    list.sort_by_key(|a| (a.writes, a.slot, a.place));
    list.dedup();
    Ok(list)
}

/// Every access of a plan with its step, sorted by place and slot, then by step.
pub(crate) fn by_slot(plan: &Plan) -> Result<Vec<(Access, usize)>> {
    let mut all = Vec::new();
    for (i, step) in plan.steps.iter().enumerate() {
        all.extend(accesses(plan, step)?.into_iter().map(|a| (a, i)));
    }
    all.sort_by_key(|(a, step)| (a.place, a.slot, *step, !a.writes));
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DeviceNeed, Partition};

    #[test]
    fn waits_and_queues_make_the_order() {
        let run = |partition: usize, waits: &[usize]| Step {
            name: String::new(),
            work: Work::Run { partition },
            waits: waits.to_vec(),
        };
        let partition = |device: &str| Partition { device: device.into(), ..Partition::default() };
        let mut plan = Plan {
            devices: ["a", "b"].map(|id| DeviceNeed { id: id.into(), ..DeviceNeed::default() }).to_vec(),
            partitions: vec![partition("a"), partition("b")],
            steps: vec![run(0, &[]), run(1, &[]), run(0, &[]), run(1, &[0]), run(0, &[])],
            ..Plan::default()
        };
        let order = Order::of(&plan).unwrap();
        let before: Vec<(usize, usize)> =
            (0..5).flat_map(|b| (0..5).map(move |a| (a, b))).filter(|(a, b)| order.before(*a, *b)).collect();
        assert_eq!(before, [(0, 2), (0, 3), (1, 3), (0, 4), (2, 4)]);
        plan.steps[0].waits = vec![0];
        assert!(Order::of(&plan).is_err());
    }
}
