//! A plan turned into what a runner does: one operation per step, and the order that must be kept.
//!
//! Beside [`Step::waits`](ottava_plan::Step::waits) there are the edges that the memory plan needs: slots that share
//! bytes of an arena live one after the other, so whoever uses the earlier one goes before whoever first writes the
//! later one. With them steps may run in any order that the flow allows.

use crate::flow::{Flow, Kind};
use ottava_hal::{Error, Reason, Result};
use ottava_plan::{Arena, Place, Plan, Step, Work};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a runner does for a step. Devices are indices into [`Plan::devices`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// Queues a partition on an asynchronous device.
    Submit { device: usize, partition: usize, turn: usize },
    /// Runs a partition on a synchronous device.
    Call { device: usize, partition: usize },
    /// Runs a partition on host tensors, because only the run decides its shapes.
    Dynamic { device: usize, partition: usize },
    /// Copies a slot from host memory to a device.
    Write { slot: usize, device: usize },
    /// Copies a slot from a device to host memory.
    Read { slot: usize, device: usize },
    /// Copies a slot from one device to another.
    Move { slot: usize, from: usize, to: usize },
}

impl Op {
    /// The device whose timeline decides about the step; `None` for copies.
    pub fn device(self) -> Option<usize> {
        match self {
            Self::Submit { device, .. } | Self::Call { device, .. } | Self::Dynamic { device, .. } => Some(device),
            _ => None,
        }
    }
}

/// What the script must know of a partition.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PartitionKind {
    /// All shapes are fixed, so buffers can be bound.
    pub is_static: bool,
    /// Its device runs in the caller's thread.
    pub sync_only: bool,
}

/// One inference, step by step.
#[derive(Debug)]
pub(crate) struct Script {
    pub ops: Vec<Op>,
    pub flow: Arc<Flow>,
    /// Some step is queued on an asynchronous device.
    pub is_concurrent: bool,
}

/// The steps that use each slot on a device, in order; the first one writes it there.
pub(crate) type Uses = BTreeMap<usize, Vec<usize>>;

impl Script {
    /// The script of a plan that has passed [`Plan::check`].
    pub fn new(plan: &Plan, kinds: &[PartitionKind]) -> Result<Self> {
        let mut turns = vec![0; plan.devices.len()];
        let ops = plan.steps.iter().map(|step| op(plan, step, kinds, &mut turns)).collect::<Result<Vec<_>>>()?;
        let mut waits: Vec<Vec<usize>> = plan.steps.iter().map(|s| s.waits.clone()).collect();
        for (device, arena) in plan.arenas.iter().enumerate().take(plan.devices.len()) {
            share_bytes(plan, &uses(plan, device), arena, &mut waits);
        }
        let kind = |op: &Op| match op {
            Op::Submit { device, turn, .. } => Kind::Queued { device: *device, turn: *turn },
            _ => Kind::Host,
        };
        let flow = Arc::new(Flow::new(ops.iter().map(kind).collect(), &waits, plan.devices.len()));
        let is_concurrent = flow.turns.iter().any(|t| !t.is_empty());
        Ok(Self { ops, flow, is_concurrent })
    }
}

fn op(plan: &Plan, step: &Step, kinds: &[PartitionKind], turns: &mut [usize]) -> Result<Op> {
    let bad = |what: &str| Error::invalid(format!("step `{}` {what}; compile the model again", step.name));
    let known = |device: usize| if device < plan.devices.len() { Ok(device) } else { Err(bad("names no device")) };
    Ok(match &step.work {
        Work::Run { partition } => {
            let (partition, id) = (*partition, &plan.partitions[*partition].device);
            let device =
                plan.device(id).ok_or_else(|| bad(&format!("runs on `{id}`, which the plan does not list")))?;
            match kinds[partition] {
                PartitionKind { is_static: false, .. } => Op::Dynamic { device, partition },
                PartitionKind { sync_only: true, .. } => Op::Call { device, partition },
                _ => {
                    turns[device] += 1;
                    Op::Submit { device, partition, turn: turns[device] - 1 }
                }
            }
        }
        Work::Copy { slot, from: Place::Host, to: Place::Device(to) } => Op::Write { slot: *slot, device: known(*to)? },
        Work::Copy { slot, from: Place::Device(d), to: Place::Host } => Op::Read { slot: *slot, device: known(*d)? },
        Work::Copy { slot, from: Place::Device(from), to: Place::Device(to) } => {
            Op::Move { slot: *slot, from: known(*from)?, to: known(*to)? }
        }
        Work::Copy { .. } => return Err(bad("copies from host to host")),
        Work::If { .. } | Work::Loop { .. } | Work::Scan { .. } => {
            let what = format!("step `{}` is a branch or loop, which this version does not run", step.name);
            return Err(Error::unsupported(Reason::Other, what));
        }
    })
}

/// The steps that use each slot on a device, in order.
pub(crate) fn uses(plan: &Plan, device: usize) -> Uses {
    let mut uses = Uses::new();
    for (i, step) in plan.steps.iter().enumerate() {
        let mut used = |slot: usize| uses.entry(slot).or_default().push(i);
        match &step.work {
            Work::Run { partition } => {
                let p = &plan.partitions[*partition];
                if plan.device(&p.device) == Some(device) {
                    p.inputs.iter().chain(&p.outputs).for_each(|s| used(*s));
                }
            }
            Work::Copy { slot, from, to } if [*from, *to].contains(&Place::Device(device)) => used(*slot),
            _ => {}
        }
    }
    uses
}

/// Adds the edges that slots with common bytes need: [`Plan::check`] has seen that one is over before the other begins
/// if the runs of each device keep their order, and these edges keep as much of it as matters.
fn share_bytes(plan: &Plan, uses: &Uses, arena: &Arena, waits: &mut [Vec<usize>]) {
    let range = |(slot, start): &(usize, usize)| {
        let bytes = plan.slots.get(*slot)?.ty.byte_len().filter(|b| *b > 0)?;
        uses.contains_key(slot).then_some((*start, start.checked_add(bytes)?, *slot))
    };
    let mut ranges: Vec<(usize, usize, usize)> = arena.slots.iter().filter_map(range).collect();
    ranges.sort_unstable();
    for (i, (_, end, a)) in ranges.iter().enumerate() {
        for (_, _, b) in ranges[i + 1..].iter().take_while(|(start, _, _)| start < end) {
            let (earlier, later) = if uses[a][0] < uses[b][0] { (a, b) } else { (b, a) };
            let first = uses[later][0];
            waits[first].extend(uses[earlier].iter().filter(|step| **step < first));
        }
    }
}

#[cfg(test)]
#[path = "script_tests.rs"]
mod tests;
