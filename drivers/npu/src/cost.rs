//! What a program would cost: its stream, timed without running it and without the proof that it is free of races.

use crate::info::nanoseconds;
use ottava_hal::{Confidence, Cost, Error, Result, Status};
use ottava_npu::config::Energy;
use ottava_npu::program::Step;
use ottava_npu::timing::{self, Timing};
use ottava_npu::{Counters, NpuConfig, Stream, program};

/// A stream with the time of each step.
pub(crate) struct Timed {
    pub steps: Vec<Step>,
    pub costs: Vec<timing::Cost>,
    pub timing: Timing,
}

/// Times a stream, exactly as a run of it reports.
pub(crate) fn time(config: &NpuConfig, stream: &Stream) -> Result<Timed> {
    let resolved = program::resolve(config, stream);
    let broken = |text: String| Error::failed(Status::Internal, format!("the stream cannot be timed: {text}"));
    if let Some(violation) = resolved.violations.first() {
        return Err(broken(violation.to_string()));
    }
    let costs = resolved.steps.iter().map(|step| timing::cost(config, step)).collect::<Result<Vec<_>, _>>();
    let costs = costs.map_err(|fault| broken(fault.to_string()))?;
    let timing =
        timing::simulate(config, &resolved.steps, &resolved.decoded, &costs).map_err(|v| broken(v.to_string()))?;
    Ok(Timed { steps: resolved.steps, costs, timing })
}

/// The cost of a stream.
pub(crate) fn estimate(config: &NpuConfig, stream: &Stream) -> Result<Cost> {
    let Timed { costs, timing, .. } = time(config, stream)?;
    let mut counters = Counters::default();
    costs.iter().for_each(|c| counters.add(&c.counters));
    Ok(Cost {
        time_ns: nanoseconds(config, timing.total_cycles),
        energy_pj: config.energy.as_ref().map_or(0, |e| energy(e, &counters, timing.total_cycles)),
        workspace_bytes: stream.regions[2],
        weight_bytes: stream.constants.len() as u64,
        confidence: Confidence::Simulated,
    })
}

fn energy(e: &Energy, c: &Counters, cycles: u64) -> u64 {
    let terms = [
        (c.macs, e.mac_s8),
        (c.sram_bytes_read, e.sram_rd_byte),
        (c.sram_bytes_written, e.sram_wr_byte),
        (c.acc_read, e.acc_rd),
        (c.acc_written, e.acc_wr),
        (c.dram_bytes_read.saturating_add(c.dram_bytes_written), e.dram_byte),
        (c.vector_ops, e.vec_op),
        (c.instructions, e.instr),
        (cycles, e.static_per_cycle),
    ];
    terms.into_iter().map(|(n, pj)| n as f64 * pj).sum::<f64>() as u64
}
