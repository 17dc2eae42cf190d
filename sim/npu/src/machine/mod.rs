//! The machine: a verified program on bytes.
//!
//! [`Program::load`] resolves, verifies and times a stream once; [`Program::run`] executes it on memory any number of
//! times. Steps run in the order in which the timing engine starts them. A program without races has the same result in
//! every legal order, which the verifier has proved; that is why bytes never depend on bandwidths or array sizes.

mod array;
mod counters;
mod faulty;
mod memory;
mod pool;
mod requant;
#[cfg(test)]
mod tests;
mod transfer;
mod vector;

pub use counters::Counters;
pub(crate) use memory::Chip;
pub use memory::Memory;

use crate::error::{Fault, NpuError, Violation};
use crate::fault::{self, Injection};
use crate::isa::{ContainerError, FIRST_FENCE_EVENT, Stream};
use crate::program::{Step, Work, resolve};
use crate::timing::{Cost, Timing, cost, simulate};
use crate::{NpuConfig, verify};
use std::collections::BTreeMap;

/// A stream that was verified for one configuration, ready to run.
#[derive(Clone, Debug)]
pub struct Program {
    config: NpuConfig,
    stream: Stream,
    steps: Vec<Step>,
    costs: Vec<Cost>,
    timing: Timing,
}

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunReport {
    /// Counters of the whole run.
    pub counters: Counters,
    /// Counters by program node.
    pub nodes: BTreeMap<u32, Counters>,
    /// Fence events (32..64) that the stream signalled, one bit each.
    pub fences: u64,
    /// IRQ instructions that ran.
    pub irqs: u64,
}

impl Program {
    /// Resolves, times and verifies a stream; all violations are reported together.
    pub fn load(config: &NpuConfig, stream: Stream) -> Result<Self, NpuError> {
        let stream = fault::damaged(stream, &Injection::all(config), config.crc)?;
        let mut resolved = resolve(config, &stream);
        let mut violations = verify::header(config, &stream);
        violations.append(&mut resolved.violations);
        if !violations.is_empty() {
            return Err(NpuError::Rejected(violations));
        }
        let steps = resolved.steps;
        let priced = steps.iter().map(|step| cost(config, step).map_err(|fault| at(step, fault)));
        let mut costs = priced.collect::<Result<Vec<_>, _>>().map_err(|v| NpuError::Rejected(vec![v]))?;
        let timing = simulate(config, &steps, &resolved.decoded, &costs).map_err(|v| NpuError::Rejected(vec![v]))?;
        timing.credit(&mut costs);
        let violations = verify::order(&steps, &timing);
        if !violations.is_empty() {
            return Err(NpuError::Rejected(violations));
        }
        Ok(Self { config: config.clone(), stream, steps, costs, timing })
    }

    /// Reads a container and loads it. A device with `crc` refuses containers without a checksum; a checksum that is
    /// there is always tested.
    pub fn from_bytes(config: &NpuConfig, bytes: &[u8]) -> Result<Self, NpuError> {
        let stream = Stream::from_bytes(bytes)?;
        if config.crc && !Stream::has_crc(bytes) {
            return Err(ContainerError::NoCrc.into());
        }
        Self::load(config, stream)
    }

    /// The configuration.
    pub fn config(&self) -> &NpuConfig {
        &self.config
    }

    /// The stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The steps: every queued instruction with its operands.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The cost of each step.
    pub fn costs(&self) -> &[Cost] {
        &self.costs
    }

    /// The time of every run; it does not depend on data.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// The counters that do not depend on data, without running anything.
    pub fn static_counters(&self) -> Counters {
        let mut total = Counters::default();
        self.costs.iter().for_each(|c| total.add(&c.counters));
        total
    }

    /// Executes the program. `memory.constants` may be empty if the stream's own constants fill region 3.
    pub fn run(&self, memory: &mut Memory<'_>) -> Result<RunReport, NpuError> {
        let mut memory = Memory {
            input: memory.input,
            output: &mut *memory.output,
            scratch: &mut *memory.scratch,
            constants: if memory.constants.is_empty() { &self.stream.constants } else { memory.constants },
        };
        memory.check(&self.stream.regions)?;
        let faults = Injection::all(&self.config);
        if !faults.is_empty() {
            return self.run_faulty(&mut memory, faults);
        }
        let (cycles, limit) = (self.timing.total_cycles, self.config.watchdog_cycles.unwrap_or(u64::MAX));
        if cycles > limit {
            return Err(NpuError::Watchdog { cycles, limit });
        }
        let mut exec = Exec { chip: Chip::new(&self.config), memory: &mut memory, dynamic: Counters::default() };
        let mut report = RunReport::default();
        for span in &self.timing.spans {
            let index = span.step as usize;
            let step = &self.steps[index];
            exec.dynamic = self.costs[index].counters;
            exec.step(&step.work, &mut report).map_err(|fault| NpuError::Run(at(step, fault)))?;
            report.counters.add(&exec.dynamic);
            if let Some(node) = step.node {
                report.nodes.entry(node).or_default().add(&exec.dynamic);
            }
        }
        Ok(report)
    }
}

fn at(step: &Step, fault: Fault) -> Violation {
    Violation { index: step.index, node: step.node, fault }
}

/// The state of a run.
struct Exec<'m, 'b> {
    chip: Chip,
    memory: &'m mut Memory<'b>,
    /// Counters of the step at work.
    dynamic: Counters,
}

impl Exec<'_, '_> {
    fn step(&mut self, work: &Work, report: &mut RunReport) -> Result<(), Fault> {
        match work {
            Work::Nop | Work::Wait(_) | Work::Preload => {}
            Work::Irq => report.irqs += 1,
            Work::Signal(e) if *e >= FIRST_FENCE_EVENT => report.fences |= 1 << (e % 64),
            Work::Signal(_) => {}
            Work::Load { from, to, accumulate } => self.load(from, to, *accumulate)?,
            Work::Im2col(w) => self.im2col(w)?,
            Work::Store { from, to, requant } => self.store(from, to, requant.as_ref())?,
            Work::Gemm(g) => self.gemm(g),
            Work::Dwconv(d) => self.dwconv(d),
            Work::Requant { from, to, requant } => self.requant(from, to, requant)?,
            Work::Residual { from, other, to, requant } => self.residual(from, other, to, requant)?,
            Work::Binary(b) => self.binary(b)?,
            Work::Unary { op, from, to } => self.unary(op, from, to)?,
            Work::Shift { from, to, amount } => self.shift(from, to, *amount),
            Work::Redsum { from, input, to, accumulate } => self.redsum(from, input, to, *accumulate),
            Work::Redmax { from, input, to } => self.redmax(from, input, to),
            Work::Pool(p) => self.pool(p)?,
            Work::Xpose { from, to, element } => self.xpose(from, to, *element),
        }
        Ok(())
    }
}
