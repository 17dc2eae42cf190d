//! What a program would cost: its stream, timed without running it and without the proof that it is free of races.

use crate::info::nanoseconds;
use ottava_hal::{Confidence, Cost, Error, Result, Status};
use ottava_npu::timing::Timed;
use ottava_npu::{NpuConfig, Stream, energy};

/// Times a stream, exactly as a run of it reports.
fn time(config: &NpuConfig, stream: &Stream) -> Result<Timed> {
    let broken = |v: ottava_npu::Violation| Error::failed(Status::Internal, format!("the stream cannot be timed: {v}"));
    Timed::of(config, stream).map_err(broken)
}

/// The cost of a stream.
pub(crate) fn estimate(config: &NpuConfig, stream: &Stream) -> Result<Cost> {
    let timed = time(config, stream)?;
    let (cycles, counters) = (timed.timing.total_cycles, timed.counters());
    let picojoules = config.energy.as_ref().map_or(0, |table| energy::bill(table, &counters, cycles).total_pj());
    Ok(Cost {
        time_ns: nanoseconds(config, cycles),
        energy_pj: u64::try_from(picojoules).unwrap_or(u64::MAX),
        workspace_bytes: stream.regions[2],
        weight_bytes: stream.constants.len() as u64,
        confidence: Confidence::Simulated,
    })
}
