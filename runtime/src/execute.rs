//! One inference: submits what is queued, runs the rest, waits for the end.
//!
//! A plan without asynchronous devices is a loop over its steps in the caller's thread; it takes no lock of this crate.
//! Otherwise all queued steps are submitted first, and the calling thread then runs host steps as they become ready.
//! In the steady state nothing is allocated but outputs that the caller does not provide.

use crate::compiled::{Compiled, kept};
use crate::context::{Context, Record, Source};
use crate::guard;
use crate::options::Limits;
use crate::progress::{Failure, Next};
use crate::script::Op;
use crate::shown::{Show, Shown};
use ottava_hal::{Dim, Error, Notify, Result, Status, Submission, Tensor, TensorType};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An inference that runs in a context.
pub(crate) struct Run<'a, 's, 'f> {
    pub compiled: &'a Compiled,
    pub cx: &'a mut Context,
    pub inputs: &'a [Tensor],
    pub outputs: &'a mut [Tensor],
    pub limits: Limits,
    /// Outputs are shown instead of copied.
    pub show: Option<&'a mut Show<'s, 'f>>,
}

/// What went wrong in a step; the device to blame, if it is not the step's own.
type Blamed = (Option<usize>, Error);

fn own(error: Error) -> Blamed {
    (None, error)
}

impl Run<'_, '_, '_> {
    /// Runs to the end. After a failure the context is not used again.
    pub fn run(&mut self) -> Result<(), Failure> {
        self.cx.clear();
        if self.compiled.script.is_concurrent { self.concurrent() } else { self.serial() }?;
        self.cx.runs += 1;
        self.finish_outputs();
        self.show_rest();
        Ok(())
    }

    fn serial(&mut self) -> Result<(), Failure> {
        for step in 0..self.compiled.script.ops.len() {
            if self.limits.deadline.is_some_and(|d| Instant::now() >= d) {
                let error = Error::failed(Status::Timeout, "not done at the deadline");
                return Err(Failure { step, device: None, error });
            }
            self.timed_step(step).map_err(|(device, error)| Failure { step, device, error })?;
        }
        Ok(())
    }

    fn concurrent(&mut self) -> Result<(), Failure> {
        let progress = self.cx.progress.clone();
        progress.begin(self.cx.runs, self.limits.profile);
        for step in 0..self.compiled.script.ops.len() {
            if let Op::Submit { device, turn, .. } = self.compiled.script.ops[step]
                && let Err(error) = self.submit(step, device, turn)
            {
                progress.fail(Failure { step, device: Some(device), error });
                break;
            }
        }
        loop {
            match progress.next(self.limits.deadline) {
                Next::Finished => return Ok(()),
                Next::Failed(failure) => return Err(failure),
                Next::Run(step) => match self.timed_step(step) {
                    Ok(()) => progress.done(step),
                    Err((device, error)) => progress.fail(Failure { step, device, error }),
                },
            }
        }
    }

    /// Queues a step and asks to be told when it is done.
    fn submit(&mut self, step: usize, device: usize, turn: usize) -> Result<()> {
        let turns = self.compiled.script.flow.turns[device].len() as u64;
        let before = self.cx.runs.wrapping_mul(turns).wrapping_add(turn as u64);
        let (Some(work), Some(lane)) = (&mut self.cx.work[step], &self.cx.lanes[device]) else {
            return Err(lost_work());
        };
        prepare(work, self.limits, before.wrapping_add(1));
        if turn > 0
            && let Some((_, value)) = work.waits.first_mut()
        {
            *value = before;
        }
        let id = guard::call(self.compiled.device_id(device), || lane.queue.submit(work))?;
        self.cx.submitted[step] = self.limits.profile.then(|| (id, Instant::now()));
        lane.done.notify(before.wrapping_add(1), self.cx.progress.clone() as Arc<dyn Notify>, step as u64);
        Ok(())
    }

    fn timed_step(&mut self, step: usize) -> Result<(), Blamed> {
        if !self.limits.profile {
            return self.step(step);
        }
        let start = Instant::now();
        let result = self.step(step);
        let (end, nodes) = (Instant::now(), self.nodes_of_call(step));
        // A call counts from when the device was free for it.
        let start = self.cx.submitted[step].map_or(start, |(_, called)| called);
        self.cx.records[step] = Some(Record { start, end, nodes });
        result
    }

    /// Times of the nodes of a call, if the device has them.
    fn nodes_of_call(&self, step: usize) -> Vec<ottava_hal::device::NodeTime> {
        let Op::Call { device, .. } = self.compiled.script.ops[step] else { return Vec::new() };
        let (Some((id, _)), Some(lane)) = (self.cx.submitted[step], &self.cx.lanes[device]) else { return Vec::new() };
        lane.queue.take_profile(id).map(|p| p.nodes).unwrap_or_default()
    }

    fn step(&mut self, step: usize) -> Result<(), Blamed> {
        match self.compiled.script.ops[step] {
            Op::Submit { .. } => Err(own(lost_work())),
            Op::Call { device, .. } => self.call(step, device).map_err(own),
            Op::Dynamic { device, partition } => self.run_dynamic(device, partition).map_err(own),
            Op::Write { slot, device } => self.write(slot, device).map_err(|e| (Some(device), e)),
            Op::Read { slot, device } => self.deliver(slot, device).map_err(|e| (Some(device), e)),
            Op::Move { slot, from, to } => self.relay(slot, from, to),
        }
    }

    /// Runs a static partition on a device that is done when `submit` returns.
    fn call(&mut self, step: usize, device: usize) -> Result<()> {
        let _place = self.compiled.lanes.enter(device, self.limits.deadline)?;
        let (Some(work), Some(lane)) = (&mut self.cx.work[step], &mut self.cx.lanes[device]) else {
            return Err(lost_work());
        };
        let value = lane.calls.wrapping_add(1);
        prepare(work, self.limits, value);
        let called = Instant::now();
        let id = guard::call(self.compiled.device_id(device), || lane.queue.submit(work))?;
        self.cx.submitted[step] = self.limits.profile.then_some((id, called));
        let left = self.limits.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(called));
        lane.done.wait(value, left)?;
        lane.calls = value;
        Ok(())
    }

    fn run_dynamic(&mut self, device: usize, partition: usize) -> Result<()> {
        let p = &self.compiled.plan.partitions[partition];
        let inputs = p.inputs.iter().map(|s| self.fetch(*s, device)).collect::<Result<Vec<_>>>()?;
        let executable = &self.compiled.loaded[partition].executable;
        let outputs = guard::call(&p.device, || executable.run_dynamic(&inputs))?;
        if outputs.len() != p.outputs.len() {
            let (found, expected) = (outputs.len(), p.outputs.len());
            return Err(Error::failed(Status::Internal, format!("{found} outputs came back, expected {expected}")));
        }
        for (slot, data) in p.outputs.iter().zip(outputs) {
            self.put(*slot, data);
            self.write(*slot, device)?;
        }
        Ok(())
    }

    /// The data of a slot, if it is in host memory.
    fn host(&self, slot: usize) -> Option<&Tensor> {
        match self.compiled.sources[slot] {
            Source::Input(i) => self.inputs.get(i),
            Source::Constant(i) => self.compiled.plan.constants.get(i).map(|(_, t)| t),
            Source::Output(i) => self.outputs.get(i).filter(|_| self.cx.arrived[slot]),
            Source::Inner => self.cx.host[slot].as_ref(),
        }
    }

    fn put(&mut self, slot: usize, data: Tensor) {
        match self.compiled.sources[slot] {
            Source::Output(i) => (self.outputs[i], self.cx.arrived[slot]) = (data, true),
            _ => self.cx.host[slot] = Some(data),
        }
    }

    /// The data of a slot for a partition that takes host tensors.
    fn fetch(&mut self, slot: usize, device: usize) -> Result<Tensor> {
        if self.host(slot).is_none() {
            self.read(slot, device)?;
        }
        self.host(slot).cloned().ok_or_else(|| self.nowhere(slot))
    }

    /// Host memory to device. A slot that no static partition uses there stays where it is.
    fn write(&mut self, slot: usize, device: usize) -> Result<()> {
        let Some(to) = &self.cx.memory[device][slot] else { return Ok(()) };
        let data = self.host(slot).ok_or_else(|| self.nowhere(slot))?;
        if data.bytes().len() != to.len {
            let (name, found) = (&self.compiled.plan.slots[slot].name, data.ty());
            return Err(Error::invalid(format!("slot `{name}` is {found}, the plan has {} bytes for it", to.len)));
        }
        guard::call(self.compiled.device_id(device), || to.buffer.write(to.offset, data.bytes()))
    }

    /// Device to host memory, unless it is an output that the caller only looks at.
    fn deliver(&mut self, slot: usize, device: usize) -> Result<()> {
        let is_output = matches!(self.compiled.sources[slot], Source::Output(_));
        let in_host = self.host(slot).is_some();
        match (&mut self.show, &self.cx.memory[device][slot]) {
            (Some(show), Some(from)) if is_output && !in_host => {
                let ty = &self.compiled.plan.slots[slot].ty;
                guard::call(self.compiled.device_id(device), || show.show_slot(&self.compiled.plan, slot, ty, from))
            }
            _ => self.read(slot, device),
        }
    }

    /// Shows the outputs that no device had in its memory.
    fn show_rest(&mut self) {
        let Some(show) = &mut self.show else { return };
        self.outputs.iter().enumerate().for_each(|(i, value)| show.show(i, Shown::of(value)));
    }

    /// Device to host memory: into the caller's output if it is one and fits.
    fn read(&mut self, slot: usize, device: usize) -> Result<()> {
        if self.host(slot).is_some() {
            return Ok(());
        }
        let from = self.cx.memory[device][slot].clone().ok_or_else(|| self.nowhere(slot))?;
        let ty = &self.compiled.plan.slots[slot].ty;
        let id = self.compiled.device_id(device);
        if let Source::Output(i) = self.compiled.sources[slot]
            && fits(&self.outputs[i], ty)
        {
            let out = self.outputs[i].bytes_mut();
            guard::call(id, || from.buffer.read(from.offset, out))?;
            self.cx.arrived[slot] = true;
            return Ok(());
        }
        let shape = ty.shape.known().ok_or_else(|| self.nowhere(slot))?;
        let mut data = Tensor::zeros(ty.dtype, &shape)?;
        guard::call(id, || from.buffer.read(from.offset, data.bytes_mut()))?;
        self.put(slot, data);
        Ok(())
    }

    /// Device to device, through host memory.
    fn relay(&mut self, slot: usize, from: usize, to: usize) -> Result<(), Blamed> {
        let blame = |device: usize| move |e: Error| (Some(device), e);
        if self.host(slot).is_none() {
            let (Some(source), Some(target)) = (&self.cx.memory[from][slot], &self.cx.memory[to][slot]) else {
                return self.read(slot, from).map_err(blame(from));
            };
            let bytes = self.cx.staging.get_mut(..source.len).ok_or_else(|| own(lost_work()))?;
            guard::call(self.compiled.device_id(from), || source.buffer.read(source.offset, bytes))
                .map_err(blame(from))?;
            return guard::call(self.compiled.device_id(to), || target.buffer.write(target.offset, bytes))
                .map_err(blame(to));
        }
        self.write(slot, to).map_err(blame(to))
    }

    fn nowhere(&self, slot: usize) -> Error {
        Error::invalid(format!(
            "slot `{}` holds no data; the plan reads it too early",
            self.compiled.plan.slots[slot].name
        ))
    }

    /// Outputs that are inputs, constants, or listed a second time.
    fn finish_outputs(&mut self) {
        for (i, slot) in kept(&self.compiled.plan).enumerate() {
            if self.compiled.sources[slot] != Source::Output(i)
                && let Some(data) = self.host(slot).cloned()
            {
                self.outputs[i] = data;
            }
        }
    }
}

/// Whether a tensor has a type of fixed shape.
pub(crate) fn fits(tensor: &Tensor, ty: &TensorType) -> bool {
    let same = |(d, n): (&Dim, &usize)| d.known() == Some(*n);
    let (dims, shape) = (&ty.shape.0, tensor.shape());
    tensor.dtype() == ty.dtype && dims.len() == shape.len() && dims.iter().zip(shape).all(same)
}

/// Sets what differs from run to run.
fn prepare(work: &mut Submission, limits: Limits, value: u64) {
    (work.deadline, work.profile) = (limits.deadline, limits.profile);
    for (_, v) in work.signals.iter_mut().chain(&mut work.waits) {
        *v = value;
    }
}

fn lost_work() -> Error {
    Error::failed(Status::Internal, "a prepared submission is missing")
}
