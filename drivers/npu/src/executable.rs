//! A verified stream with the types of its inputs and outputs.
//!
//! A run copies the inputs into the stream's region, executes, and copies the outputs out; regions are made with the
//! executable and kept, so that a run allocates nothing but the chip's memories and the report.

use crate::buffer::{Generation, Reservation};
use crate::info::nanoseconds;
use crate::job::Part;
use ottava_hal::device::NodeTime;
use ottava_hal::{Error, Executable, Result, Status, TensorType};
use ottava_npu::{Counters, Memory, NpuError, Program as Machine, RunReport};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Everything of an executable that its bytes carry.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Interface {
    pub inputs: Vec<TensorType>,
    pub outputs: Vec<TensorType>,
    /// Offset of each input in region 0.
    pub input_at: Vec<u64>,
    /// Offset of each output in region 1.
    pub output_at: Vec<u64>,
    /// Name and kernel of each node.
    pub nodes: Vec<(String, String)>,
}

impl Interface {
    /// Checks that inputs and outputs lie in their regions.
    fn check(&self, regions: &[u64; 4]) -> Result<()> {
        let inside = |types: &[TensorType], at: &[u64], region: u64| {
            types.len() == at.len()
                && types.iter().zip(at).all(|(ty, at)| {
                    let end = ty.byte_len().and_then(|n| at.checked_add(n as u64));
                    end.is_some_and(|end| end <= region)
                })
        };
        if inside(&self.inputs, &self.input_at, regions[0]) && inside(&self.outputs, &self.output_at, regions[1]) {
            return Ok(());
        }
        Err(Error::failed(Status::CorruptBlob, "an input or output lies outside its region"))
    }
}

/// Memory of one run.
#[derive(Default)]
struct Arena {
    input: Vec<u8>,
    output: Vec<u8>,
    scratch: Vec<u8>,
}

impl Arena {
    fn new(machine: &Machine) -> Result<Self> {
        let [input, output, scratch, _] = machine.stream().regions;
        Ok(Self { input: zeros(input)?, output: zeros(output)?, scratch: zeros(scratch)? })
    }
}

/// How times are counted: from when, and in modelled time if there is a factor.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub since: Instant,
    pub pace: Option<f64>,
}

/// A compiled program.
pub(crate) struct NpuExecutable {
    interface: Interface,
    machine: Machine,
    generation: Arc<Generation>,
    arenas: Mutex<Vec<Arena>>,
    /// What the last run counted.
    counters: Mutex<Option<Counters>>,
    times: BTreeMap<u32, ottava_npu::timing::NodeTime>,
    _reservation: Reservation,
}

impl NpuExecutable {
    /// Wraps a loaded stream. `reservation` covers its regions and constants.
    pub(crate) fn new(
        interface: Interface,
        machine: Machine,
        generation: Arc<Generation>,
        reservation: Reservation,
    ) -> Result<Self> {
        interface.check(&machine.stream().regions)?;
        let times = machine.timing().nodes(machine.steps(), machine.costs());
        // The device runs one submission at a time: with one arena from the start, no run allocates or clears memory.
        let arenas = Mutex::new(vec![Arena::new(&machine)?]);
        Ok(Self {
            interface,
            machine,
            generation,
            arenas,
            counters: Mutex::default(),
            times,
            _reservation: reservation,
        })
    }

    /// Types, places and names.
    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The verified stream.
    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// What the last run counted.
    pub(crate) fn counters(&self) -> Option<Counters> {
        *self.counters.lock()
    }

    /// Which device, and since which reset.
    pub(crate) fn generation(&self) -> &Arc<Generation> {
        &self.generation
    }

    /// Runs on parts of buffers that fit; the modelled cycles.
    ///
    /// Times of the nodes count from `clock.since`. With a pace they are modelled time; else the host's time of the
    /// run, divided as the cycles are.
    pub(crate) fn run(
        &self,
        inputs: &[Part],
        outputs: &[Part],
        times: Option<&mut Vec<NodeTime>>,
        clock: Clock,
    ) -> Result<u64> {
        let begin = clock.since.elapsed();
        let mut arena = self.arena()?;
        let result = self.execute(&mut arena, inputs, outputs);
        self.arenas.lock().push(arena);
        let report = result?;
        *self.counters.lock() = Some(report.counters);
        let total = self.machine.timing().total_cycles;
        if let Some(times) = times {
            let spent = match clock.pace {
                Some(factor) => self.modelled(total).mul_f64(factor),
                None => clock.since.elapsed() - begin,
            };
            let ns = |cycles: u64| (spent.as_nanos() * u128::from(cycles) / u128::from(total.max(1))) as u64;
            times.extend(self.node_times(&report, begin.as_nanos() as u64, ns));
        }
        Ok(total)
    }

    /// Modelled time of a number of cycles.
    pub(crate) fn modelled(&self, cycles: u64) -> Duration {
        Duration::from_nanos(nanoseconds(self.machine.config(), cycles))
    }

    fn arena(&self) -> Result<Arena> {
        if let Some(arena) = self.arenas.lock().pop() {
            return Ok(arena);
        }
        Arena::new(&self.machine)
    }

    fn execute(&self, arena: &mut Arena, inputs: &[Part], outputs: &[Part]) -> Result<RunReport> {
        let ranges = |types: &[TensorType], at: &[u64]| -> Vec<std::ops::Range<usize>> {
            let one = |(ty, &at): (&TensorType, &u64)| at as usize..at as usize + ty.byte_len().unwrap_or(0);
            types.iter().zip(at).map(one).collect()
        };
        for (part, range) in inputs.iter().zip(ranges(&self.interface.inputs, &self.interface.input_at)) {
            part.read_into(&mut arena.input[range])?;
        }
        let mut memory =
            Memory { input: &arena.input, output: &mut arena.output, scratch: &mut arena.scratch, constants: &[] };
        let report = self.machine.run(&mut memory).map_err(run_error)?;
        for (part, range) in outputs.iter().zip(ranges(&self.interface.outputs, &self.interface.output_at)) {
            part.write(&arena.output[range])?;
        }
        Ok(report)
    }

    fn node_times(&self, report: &RunReport, begin: u64, ns: impl Fn(u64) -> u64) -> Vec<NodeTime> {
        let mut nodes: Vec<_> = self.times.iter().collect();
        nodes.sort_by_key(|(_, t)| t.start);
        let one = |(index, time): (&u32, &ottava_npu::timing::NodeTime)| {
            let unnamed = || (format!("node {index}"), String::new());
            let (node, kernel) = self.interface.nodes.get(*index as usize).cloned().unwrap_or_else(unnamed);
            let counters = report.nodes.get(index).copied().unwrap_or_default();
            NodeTime {
                node,
                kernel,
                start_ns: begin + ns(time.start),
                duration_ns: ns(time.total()),
                cycles: time.total(),
                bytes: counters.dram_bytes_read.saturating_add(counters.dram_bytes_written),
                ..NodeTime::default()
            }
        };
        nodes.into_iter().map(one).collect()
    }
}

fn zeros(bytes: u64) -> Result<Vec<u8>> {
    let no_memory = || Error::failed(Status::OutOfHostMemory, format!("no memory for a region of {bytes} bytes"));
    let n = usize::try_from(bytes).map_err(|_| no_memory())?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(n).map_err(|_| no_memory())?;
    memory.resize(n, 0);
    Ok(memory)
}

/// What the machine says when a run fails.
fn run_error(error: NpuError) -> Error {
    let status = match error {
        NpuError::Watchdog { .. } | NpuError::Stopped { .. } | NpuError::Hung { .. } => Status::Timeout,
        NpuError::Lost { .. } => Status::DeviceLost,
        _ => Status::Internal,
    };
    Error::failed(status, error.to_string())
}

impl Executable for NpuExecutable {
    fn inputs(&self) -> &[TensorType] {
        &self.interface.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.interface.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.interface.nodes.clone()
    }

    fn arena_bytes(&self) -> usize {
        self.machine.stream().regions[2] as usize
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Ledger;
    use ottava_npu::isa::{Inst, Opcode};
    use ottava_npu::{NpuConfig, Stream};

    #[test]
    fn memory_of_a_run_is_there_before_the_first_and_kept() {
        let config = NpuConfig::default();
        let stream = Stream {
            commands: vec![Inst::new(Opcode::End, 0, 0, 0)],
            constants: Vec::new(),
            regions: [64, 128, 4096, 0],
            nodes: Vec::new(),
            config_hash: config.hash64(),
        };
        let machine = Machine::load(&config, stream).unwrap();
        let reservation = Ledger::new(0).reserve(0).unwrap();
        let exe = NpuExecutable::new(Interface::default(), machine, Arc::default(), reservation).unwrap();
        let scratch = || exe.arenas.lock().iter().map(|a| (a.scratch.len(), a.scratch.as_ptr())).collect::<Vec<_>>();
        let before = scratch();
        assert_eq!((before.len(), before[0].0), (1, 4096));
        exe.run(&[], &[], None, Clock { since: Instant::now(), pace: None }).unwrap();
        assert_eq!(scratch(), before);
    }
}
