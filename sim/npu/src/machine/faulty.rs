//! Runs with injected faults: the same steps, in the order in which they end, with what strikes between them.

use super::{Chip, Counters, Exec, Memory, Program, RunReport, at};
use crate::error::{Fault, NpuError};
use crate::fault::{Fate, HostBytes, Injection, Strikes, mishaps};
use crate::program::resolve;
use crate::timing::{Timing, simulate_with};

impl Program {
    /// Executes the program with the faults of its configuration. Memory is checked.
    pub(super) fn run_faulty(&self, memory: &mut Memory<'_>, faults: Vec<Injection>) -> Result<RunReport, NpuError> {
        let timing = self.faulty_timing(&faults)?;
        let limit = self.config.watchdog_cycles.unwrap_or(u64::MAX);
        if timing.total_cycles > limit {
            return Err(NpuError::Watchdog { cycles: timing.total_cycles, limit });
        }
        let mut spans = timing.spans.clone();
        spans.sort_by_key(|s| s.end);
        let mut host = HostBytes { input: memory.input.into(), constants: memory.constants.into() };
        let mut strikes = Strikes::new(faults, self.config.parity);
        let mut chip = Chip::new(&self.config);
        let mut report = RunReport::default();
        for span in &spans {
            let index = span.step as usize;
            let step = &self.steps[index];
            let fate = strikes.before(step, span, &mut chip, memory, &mut host)?;
            let mut bound = Memory {
                input: &host.input,
                output: &mut *memory.output,
                scratch: &mut *memory.scratch,
                constants: &host.constants,
            };
            let mut exec = Exec { chip, memory: &mut bound, dynamic: self.costs[index].counters };
            let result = match &fate {
                Fate::Runs => exec.step(&step.work, &mut report),
                Fate::Changed(work) => exec.step(work, &mut report),
                Fate::Dropped => Ok(()),
            };
            let dynamic: Counters = exec.dynamic;
            chip = exec.chip;
            result.map_err(|fault| NpuError::Run(at(step, fault)))?;
            report.counters.add(&dynamic);
            if let Some(node) = step.node {
                report.nodes.entry(node).or_default().add(&dynamic);
            }
        }
        Ok(report)
    }

    /// The times under the faults; a deadlock is noticed by the watchdog or not at all.
    fn faulty_timing(&self, faults: &[Injection]) -> Result<Timing, NpuError> {
        let mishaps = mishaps(faults);
        if mishaps.is_empty() {
            return Ok(self.timing.clone());
        }
        let decoded = resolve(&self.config, &self.stream).decoded;
        simulate_with(&self.config, &self.steps, &decoded, &self.costs, mishaps).map_err(|violation| {
            match (violation.fault, self.config.watchdog_cycles) {
                (Fault::Deadlock { waiting }, Some(limit)) => NpuError::Stopped { waiting, limit },
                (Fault::Deadlock { waiting }, None) => NpuError::Hung { waiting },
                (fault, _) => NpuError::Run(crate::Violation { fault, index: violation.index, node: violation.node }),
            }
        })
    }
}
