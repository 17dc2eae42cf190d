//! A program as a list of kernels over slots of memory.
//!
//! Each intermediate result lies in a slot; a slot is used again once the last reader of its value has run. A run takes a
//! set of slots from a pool, so that several runs may be under way; nothing is allocated once the pool has as many sets
//! as there are runs at a time. Results are copied into the outputs at the end.

use super::{Kernel, KernelCx};
use ottava_hal::device::NodeTime;
use ottava_hal::host::HostProgram;
use ottava_hal::{Error, Program, Reason, Result, Status, Tensor, ValueId};
use parking_lot::Mutex;
use std::time::Instant;

/// Where the bytes of a value are.
#[derive(Clone, Copy)]
enum Place {
    Input(usize),
    Constant,
    Slot { slot: usize, len: usize },
    Nowhere,
}

/// A slot: 8-byte words give the alignment.
type Slot = Vec<u64>;

pub(super) struct KernelProgram {
    program: Program,
    kernels: Vec<Kernel>,
    /// By value.
    places: Vec<Place>,
    /// Words per slot.
    slots: Vec<usize>,
    pool: Mutex<Vec<Vec<Slot>>>,
}

impl KernelProgram {
    /// `kernels` has one entry per node of a checked program.
    pub(super) fn new(program: Program, kernels: Vec<Kernel>) -> Result<Self> {
        let (places, slots) = plan(&program)?;
        Ok(Self { program, kernels, places, slots, pool: Mutex::default() })
    }

    fn take_slots(&self) -> Result<Vec<Slot>> {
        if let Some(slots) = self.pool.lock().pop() {
            return Ok(slots);
        }
        let slot = |n: &usize| {
            let mut words = Tensor::buffer::<u64>(*n)?;
            words.resize(*n, 0);
            Ok(words)
        };
        self.slots.iter().map(slot).collect()
    }

    /// The bytes of a value that is not being written.
    fn bytes<'a>(&'a self, id: ValueId, inputs: &[&'a [u8]], slots: &'a [Slot]) -> Result<&'a [u8]> {
        let value = self.program.value(id);
        let found = match self.places[id.0] {
            Place::Input(i) => inputs.get(i).copied(),
            Place::Constant => value.constant.as_ref().map(Tensor::bytes),
            Place::Slot { slot, len } => slots.get(slot).and_then(|s| bytemuck::cast_slice(s).get(..len)),
            Place::Nowhere => None,
        };
        found.ok_or_else(|| Error::failed(Status::Internal, format!("value `{}` has no place", value.name)))
    }

    /// Runs one node. Its results' slots are taken out meanwhile, so that its operands can be read beside them.
    fn step(&self, i: usize, inputs: &[&[u8]], slots: &mut [Slot]) -> Result<()> {
        let node = &self.program.nodes[i];
        let place = |id: &ValueId| match self.places[id.0] {
            Place::Slot { slot, len } => Some((slot, len)),
            _ => None,
        };
        let results: Vec<(usize, usize)> = node.outputs.iter().filter_map(place).collect();
        let mut taken: Vec<Slot> = results.iter().map(|(slot, _)| std::mem::take(&mut slots[*slot])).collect();
        let operand = |id: &Option<ValueId>| id.map(|id| self.bytes(id, inputs, slots)).transpose();
        let operands = node.inputs.iter().map(operand).collect::<Result<Vec<_>>>();
        let result = operands.and_then(|inputs| {
            let outputs = taken.iter_mut().zip(&results);
            let outputs = outputs.map(|(s, (_, len))| &mut bytemuck::cast_slice_mut(s)[..*len]).collect();
            (self.kernels[i].run)(&mut KernelCx { program: &self.program, node, inputs, outputs })
        });
        for ((slot, _), memory) in results.iter().zip(taken) {
            slots[*slot] = memory;
        }
        result
    }

    fn steps(
        &self,
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        mut times: Option<&mut Vec<NodeTime>>,
        slots: &mut [Slot],
    ) -> Result<()> {
        let begin = Instant::now();
        for (i, node) in self.program.nodes.iter().enumerate() {
            let start = begin.elapsed();
            self.step(i, inputs, slots)?;
            if let Some(times) = times.as_deref_mut() {
                let nanos = |d: std::time::Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX);
                let duration_ns = nanos(begin.elapsed().saturating_sub(start));
                let (node, kernel) = (node.name.clone(), self.kernels[i].name.to_owned());
                times.push(NodeTime { node, kernel, start_ns: nanos(start), duration_ns, ..NodeTime::default() });
            }
        }
        for (id, to) in self.program.outputs.iter().zip(outputs) {
            to.copy_from_slice(self.bytes(*id, inputs, slots)?);
        }
        Ok(())
    }
}

impl HostProgram for KernelProgram {
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        let mut slots = self.take_slots()?;
        let result = self.steps(inputs, outputs, times, &mut slots);
        self.pool.lock().push(slots);
        result
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }

    fn kernels(&self) -> Vec<(String, String)> {
        let pairs = self.program.nodes.iter().zip(&self.kernels);
        pairs.map(|(n, k)| (n.name.clone(), k.name.to_owned())).collect()
    }

    fn arena_bytes(&self) -> usize {
        self.slots.iter().sum::<usize>().saturating_mul(8)
    }
}

/// Gives every value a place; a slot is free again after the last reader of its value.
fn plan(program: &Program) -> Result<(Vec<Place>, Vec<usize>)> {
    let mut places = vec![Place::Nowhere; program.values.len()];
    for (i, value) in program.values.iter().enumerate() {
        if value.constant.is_some() {
            places[i] = Place::Constant;
        }
    }
    program.inputs.iter().enumerate().for_each(|(i, id)| places[id.0] = Place::Input(i));
    let last = last_readers(program);
    let (mut slots, mut free): (Vec<usize>, Vec<usize>) = (Vec::new(), Vec::new());
    for (step, node) in program.nodes.iter().enumerate() {
        for id in &node.outputs {
            let unknown =
                || Error::unsupported(Reason::DynamicShape, format!("`{}` has no fixed size", program.value(*id).name));
            let len = program.ty(*id).byte_len().ok_or_else(unknown)?;
            let slot = free.pop().unwrap_or_else(|| {
                slots.push(0);
                slots.len() - 1
            });
            slots[slot] = slots[slot].max(len.div_ceil(8));
            places[id.0] = Place::Slot { slot, len };
        }
        // A result that nobody reads is as free as one that was just read for the last time.
        let mut done: Vec<ValueId> = node.inputs.iter().flatten().chain(&node.outputs).copied().collect();
        done.sort_unstable();
        done.dedup();
        for id in done.into_iter().filter(|id| last[id.0] <= step) {
            if let Place::Slot { slot, .. } = places[id.0] {
                free.push(slot);
            }
        }
    }
    Ok((places, slots))
}

/// The last node that reads each value; never, for outputs of the program.
fn last_readers(program: &Program) -> Vec<usize> {
    let mut last = vec![0; program.values.len()];
    for (step, node) in program.nodes.iter().enumerate() {
        node.inputs.iter().flatten().chain(&node.outputs).for_each(|id| last[id.0] = step);
    }
    program.outputs.iter().for_each(|id| last[id.0] = usize::MAX);
    last
}
