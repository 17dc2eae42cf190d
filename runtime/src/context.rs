//! What one inference in flight owns: buffers, queues, timelines, prepared submissions.
//!
//! Protocol: a context is used by one thread at a time (it is popped from the pool). Each device with compiled
//! partitions has a queue and a timeline `done`; an asynchronous one whose submissions wait for something outside their
//! queue also has a `gate`, the proxy timeline for it (see [`crate::progress`]). Values grow from run to run: turn `t`
//! of run `r` on a device with `n` turns is value `r * n + t + 1` of both. A context whose run failed is dropped, not
//! reused: failed timelines stay failed. Submissions that still run keep their buffers alive.

use crate::compiled::{Compiled, given, kept};
use crate::guard;
use crate::progress::Progress;
use crate::script::Op;
use ottava_hal::device::NodeTime;
use ottava_hal::{Binding, Error, Fence, Queue, Result, Submission, Tensor};
use ottava_plan::Plan;
use std::sync::Arc;
use std::time::Instant;

/// Where a slot's data is in host memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The caller's input.
    Input(usize),
    /// A constant of the plan.
    Constant(usize),
    /// The caller's output (the first one of the slot), once it is there.
    Output(usize),
    /// The context, once it is there.
    Inner,
}

/// The source of each slot.
pub(crate) fn sources(plan: &Plan) -> Vec<Source> {
    let source = |slot: usize| {
        let constant = plan.constants.iter().position(|(s, _)| *s == slot).map(Source::Constant);
        let input = given(plan).position(|s| s == slot).map(Source::Input);
        let output = || kept(plan).position(|s| s == slot).map(Source::Output);
        input.or(constant).or_else(output).unwrap_or(Source::Inner)
    };
    (0..plan.slots.len()).map(source).collect()
}

/// Queue and timelines of a device.
pub(crate) struct Lane {
    pub queue: Arc<dyn Queue>,
    pub done: Arc<dyn Fence>,
    pub gate: Option<Arc<dyn Fence>>,
    /// Value that `done` has reached, on a synchronous device.
    pub calls: u64,
}

/// Times of a step.
#[derive(Clone)]
pub(crate) struct Record {
    pub start: Instant,
    pub end: Instant,
    pub nodes: Vec<NodeTime>,
}

/// Everything of one inference in flight.
pub(crate) struct Context {
    pub progress: Arc<Progress>,
    pub lanes: Vec<Option<Lane>>,
    /// By device and slot.
    pub memory: Vec<Vec<Option<Binding>>>,
    /// Per step, for those that run a static partition.
    pub work: Vec<Option<Submission>>,
    /// Per step: number and time of its submission, in this run.
    pub submitted: Vec<Option<(u64, Instant)>>,
    /// Per step, if the run is profiled.
    pub records: Vec<Option<Record>>,
    /// Per slot: data that only this inference has.
    pub host: Vec<Option<Tensor>>,
    /// Per slot: the caller's output has the data of this run.
    pub arrived: Vec<bool>,
    /// For copies between devices.
    pub staging: Vec<u8>,
    /// Runs so far.
    pub runs: u64,
}

impl Context {
    /// Allocates everything; an error says which device refused.
    pub fn new(compiled: &Compiled) -> Result<Self, (usize, Error)> {
        let (plan, n_steps, n_slots) = (&compiled.plan, compiled.script.ops.len(), compiled.plan.slots.len());
        let n_devices = compiled.devices.len();
        let per_device = |d: usize| {
            let memory = || compiled.layouts[d].alloc(compiled.devices[d].device.as_ref(), n_slots);
            let made = guard::call(compiled.device_id(d), || Ok((memory()?, lane(compiled, d)?)));
            made.map_err(|e| (d, e))
        };
        let made = (0..n_devices).map(per_device).collect::<Result<Vec<_>, _>>()?;
        let (memory, lanes): (Vec<_>, Vec<_>) = made.into_iter().unzip();
        let work = (0..n_steps).map(|step| submission(compiled, step, &memory, &lanes));
        let work = work.collect::<Result<Vec<_>, _>>()?;
        let gates = lanes.iter().map(|l: &Option<Lane>| l.as_ref().and_then(|l| l.gate.clone())).collect();
        let moved = |op: &Op| match op {
            Op::Move { slot, .. } => plan.slots[*slot].ty.byte_len(),
            _ => None,
        };
        let staging = compiled.script.ops.iter().filter_map(moved).max().unwrap_or(0);
        Ok(Self {
            progress: Arc::new(Progress::new(compiled.script.flow.clone(), gates)),
            lanes,
            memory,
            work,
            submitted: vec![None; n_steps],
            records: vec![None; n_steps],
            host: vec![None; n_slots],
            arrived: vec![false; n_slots],
            staging: vec![0; staging],
            runs: 0,
        })
    }

    /// Forgets the data of the run before.
    pub fn clear(&mut self) {
        self.submitted.fill(None);
        self.records.iter_mut().for_each(|r| *r = None);
        self.host.iter_mut().for_each(|h| *h = None);
        self.arrived.fill(false);
    }
}

/// Queue and timelines of a device; `None` if it has nothing to do with them.
fn lane(compiled: &Compiled, d: usize) -> Result<Option<Lane>> {
    let runs = |op: &Op| matches!(*op, Op::Submit { device, .. } | Op::Call { device, .. } if device == d);
    if !compiled.script.ops.iter().any(runs) {
        return Ok(None);
    }
    let device = &compiled.devices[d].device;
    let flow = &compiled.script.flow;
    let gated = flow.turns[d].iter().any(|step| flow.is_gated(*step));
    let gate = gated.then(|| device.create_fence(0)).transpose()?;
    Ok(Some(Lane { queue: device.create_queue()?, done: device.create_fence(0)?, gate, calls: 0 }))
}

/// The submission of a step, but for the values of its timelines. `waits` are the turn before and the gate, where there
/// are such.
fn submission(
    compiled: &Compiled,
    step: usize,
    memory: &[Vec<Option<Binding>>],
    lanes: &[Option<Lane>],
) -> Result<Option<Submission>, (usize, Error)> {
    let (device, partition, turn) = match compiled.script.ops[step] {
        Op::Submit { device, partition, turn } => (device, partition, turn),
        Op::Call { device, partition } => (device, partition, 0),
        _ => return Ok(None),
    };
    let p = &compiled.plan.partitions[partition];
    let bind = |slots: &[usize]| {
        let one = |slot: &usize| {
            let missing = || Error::invalid(format!("slot {slot} of partition `{}` has no memory", p.program.name));
            memory[device][*slot].clone().ok_or_else(|| (device, missing()))
        };
        slots.iter().map(one).collect::<Result<Vec<_>, _>>()
    };
    let (inputs, outputs) = (bind(&p.inputs)?, bind(&p.outputs)?);
    let mut submission = Submission::dispatch(compiled.loaded[partition].executable.clone(), inputs, outputs);
    if let Some(lane) = &lanes[device] {
        let before = (turn > 0).then(|| (lane.done.clone(), 0));
        let gate = lane.gate.iter().filter(|_| compiled.script.flow.is_gated(step)).map(|g| (g.clone(), 0));
        submission.waits = before.into_iter().chain(gate).collect();
        submission.signals = vec![(lane.done.clone(), 0)];
    }
    Ok(Some(submission))
}
