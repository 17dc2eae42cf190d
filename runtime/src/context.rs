//! What one inference in flight owns: buffers, queues, a timeline per partition, and the data of the slots.
//!
//! Protocol: a context is used by one thread at a time (it is popped from the pool). Partition `i` signals its own
//! timeline once per run; the context waits for it before anyone reads the partition's outputs. A partition that fails
//! fails its timeline; the context is then dropped, not reused, because a failed timeline stays failed.

use crate::runner::Loaded;
use ottava_hal::device::NodeTime;
use ottava_hal::{Binding, Buffer, BufferDesc, Error, Fence, Queue, Result, Submission, Tensor};
use ottava_plan::{Partition, Plan};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Buffers and timelines of one inference in flight.
pub struct Context {
    lanes: Vec<Lane>,
    /// Buffer of a slot on a device, for static partitions.
    buffers: BTreeMap<(usize, String), Arc<dyn Buffer>>,
    slots: Vec<SlotData>,
}

/// Queue and timeline of one partition.
struct Lane {
    queue: Arc<dyn Queue>,
    fence: Arc<dyn Fence>,
}

/// Where the data of a slot is in this run.
#[derive(Clone, Default)]
struct SlotData {
    host: Option<Tensor>,
    /// Devices whose buffer holds the data.
    devices: Vec<String>,
}

impl Context {
    pub(crate) fn new(plan: &Plan, loaded: &[Loaded]) -> Result<Self> {
        let mut buffers = BTreeMap::new();
        for (p, l) in plan.partitions.iter().zip(loaded).filter(|(_, l)| l.is_static) {
            for slot in p.inputs.iter().chain(&p.outputs) {
                let bytes = plan.slots[*slot].ty.byte_len().ok_or_else(|| {
                    Error::invalid(format!("slot `{}` of a static partition has no fixed size", plan.slots[*slot].name))
                })?;
                let key = (*slot, p.device.clone());
                if let std::collections::btree_map::Entry::Vacant(entry) = buffers.entry(key) {
                    entry.insert(l.device.alloc(&BufferDesc { bytes, alignment: 64 })?);
                }
            }
        }
        let lane = |l: &Loaded| Ok(Lane { queue: l.device.create_queue()?, fence: l.device.create_fence(0)? });
        let lanes = loaded.iter().map(lane).collect::<Result<Vec<_>>>()?;
        Ok(Self { lanes, buffers, slots: vec![SlotData::default(); plan.slots.len()] })
    }

    pub(crate) fn clear(&mut self) {
        self.slots.iter_mut().for_each(|s| *s = SlotData::default());
    }

    pub(crate) fn set_host(&mut self, slot: usize, data: Tensor) {
        self.slots[slot] = SlotData { host: Some(data), devices: Vec::new() };
    }

    /// The data of a slot in host memory, fetched from a device if need be.
    pub(crate) fn host(&mut self, plan: &Plan, slot: usize) -> Result<Tensor> {
        if let Some(data) = &self.slots[slot].host {
            return Ok(data.clone());
        }
        let spec = &plan.slots[slot];
        let not_there = || Error::invalid(format!("slot `{}` holds no data", spec.name));
        let device = self.slots[slot].devices.first().ok_or_else(not_there)?;
        let buffer = self.buffers.get(&(slot, device.clone())).ok_or_else(not_there)?;
        let shape = spec.ty.shape.known().ok_or_else(not_there)?;
        let mut tensor = Tensor::zeros(spec.ty.dtype, &shape)?;
        buffer.read(0, tensor.bytes_mut())?;
        self.slots[slot].host = Some(tensor.clone());
        Ok(tensor)
    }

    pub(crate) fn run_partition(
        &mut self,
        plan: &Plan,
        i: usize,
        loaded: &Loaded,
        profile: bool,
    ) -> Result<Vec<NodeTime>> {
        let partition = &plan.partitions[i];
        if !loaded.is_static {
            let inputs = partition.inputs.iter().map(|s| self.host(plan, *s)).collect::<Result<Vec<_>>>()?;
            let outputs = loaded.executable.run_dynamic(&inputs)?;
            partition.outputs.iter().zip(outputs).for_each(|(slot, data)| self.set_host(*slot, data));
            return Ok(Vec::new());
        }
        let inputs =
            partition.inputs.iter().map(|s| self.on_device(plan, *s, partition)).collect::<Result<Vec<_>>>()?;
        let outputs = partition.outputs.iter().map(|s| self.binding(*s, partition)).collect::<Result<Vec<_>>>()?;
        let lane = &self.lanes[i];
        let point = lane.fence.query()?.saturating_add(1);
        let mut submission = Submission::dispatch(loaded.executable.clone(), inputs, outputs);
        submission.signals = vec![(lane.fence.clone(), point)];
        submission.profile = profile;
        let id = lane.queue.submit(&submission)?;
        lane.fence.wait(point, Duration::MAX)?;
        let times = lane.queue.take_profile(id).map(|p| p.nodes).unwrap_or_default();
        for slot in &partition.outputs {
            self.slots[*slot] = SlotData { host: None, devices: vec![partition.device.clone()] };
        }
        Ok(times)
    }

    /// The binding of an input slot, copied to the device first if it is not there.
    fn on_device(&mut self, plan: &Plan, slot: usize, partition: &Partition) -> Result<Binding> {
        let binding = self.binding(slot, partition)?;
        if !self.slots[slot].devices.contains(&partition.device) {
            let data = self.host(plan, slot)?;
            binding.buffer.write(0, data.bytes())?;
            self.slots[slot].devices.push(partition.device.clone());
        }
        Ok(binding)
    }

    fn binding(&self, slot: usize, partition: &Partition) -> Result<Binding> {
        let buffer = self.buffers.get(&(slot, partition.device.clone()));
        buffer.cloned().map(Binding::whole).ok_or_else(|| Error::invalid(format!("slot {slot} has no buffer")))
    }
}
