//! What ran where, and how long: the report of an inference.

use crate::compiled::Compiled;
use crate::context::{Context, Record};
use crate::script::Op;
use ottava_hal::device::NodeTime;
use std::collections::BTreeMap;
use std::time::Instant;

/// Name of the host among the devices of a report.
pub const HOST: &str = "host";

/// Time of one partition in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionTime {
    /// Device that ran it.
    pub device: String,
    /// Start since the begin of the run, nanoseconds.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Times of the nodes; starts count from the begin of the partition.
    pub nodes: Vec<NodeTime>,
}

/// What a step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Ran a partition.
    Run,
    /// Copied a slot between host memory and a device, or between devices.
    Copy,
    /// Nothing: a device, or the host, stood still until another one was done.
    Wait,
}

/// Time of one step in one run.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// Name of the step; of a wait, what was waited for.
    pub name: String,
    /// Device that ran, copied ([`HOST`]) or waited.
    pub device: String,
    /// What it did.
    pub kind: StepKind,
    /// Start since the begin of the run, nanoseconds.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Times of the nodes; starts count from the begin of the step.
    pub nodes: Vec<NodeTime>,
}

impl StepTime {
    /// End since the begin of the run, nanoseconds.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// What ran where, and how long.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RunReport {
    /// Partitions in the order in which they ran, if the run was profiled.
    pub partitions: Vec<PartitionTime>,
    /// The whole run, nanoseconds.
    pub total_ns: u64,
    /// Number of the inference, from 0, among those of its runner.
    pub inference: u64,
    /// Begin of the run since the runner was made, nanoseconds.
    pub begin_ns: u64,
    /// How often the inference was run again because a device was lost.
    pub reruns: usize,
    /// How often the inference was tried again because a device failed with an error that may pass.
    pub retries: usize,
    /// Steps and waits by their start, if the run was profiled.
    pub steps: Vec<StepTime>,
}

/// Fills in steps and partitions after a profiled run that went well.
pub(crate) fn fill(report: &mut RunReport, compiled: &Compiled, cx: &mut Context, begin: Instant) {
    let ends = cx.progress.take_ends();
    let n = compiled.script.ops.len();
    for step in 0..n {
        if let Op::Submit { device, .. } = compiled.script.ops[step] {
            cx.records[step] = queued(compiled, cx, step, device, ends.get(step).copied().flatten());
        }
    }
    let since = |t: Instant| u64::try_from(t.saturating_duration_since(begin).as_nanos()).unwrap_or(u64::MAX);
    let mut times: Vec<Option<StepTime>> = Vec::with_capacity(n);
    for step in 0..n {
        let record = cx.records[step].take();
        times.push(record.map(|r| step_time(compiled, step, since(r.start), since(r.end), r.nodes)));
    }
    report.steps = waits(compiled, &times);
    report.steps.extend(times.into_iter().flatten());
    report.steps.sort_by_key(|s| (s.start_ns, s.end_ns()));
    let partition = |s: &StepTime| PartitionTime {
        device: s.device.clone(),
        start_ns: s.start_ns,
        duration_ns: s.duration_ns,
        nodes: s.nodes.clone(),
    };
    report.partitions = report.steps.iter().filter(|s| s.kind == StepKind::Run).map(partition).collect();
}

/// Times of a queued step: the device's own, or what the host saw of it.
fn queued(compiled: &Compiled, cx: &Context, step: usize, device: usize, end: Option<Instant>) -> Option<Record> {
    let (id, submitted) = cx.submitted[step]?;
    if let Some(profile) = cx.lanes[device].as_ref().and_then(|l| l.queue.take_profile(id)) {
        return Some(Record { start: profile.begin, end: profile.end, nodes: profile.nodes });
    }
    let end = end?;
    let before = compiled.plan.steps[step].waits.iter().filter_map(|w| cx.records[*w].as_ref());
    let turns = &compiled.script.flow.turns[device];
    let previous = turns.iter().take_while(|s| **s < step).last().and_then(|s| cx.records[*s].as_ref());
    let start = before.chain(previous).map(|r| r.end).fold(submitted, Instant::max);
    Some(Record { start: start.min(end), end, nodes: Vec::new() })
}

fn step_time(compiled: &Compiled, step: usize, start_ns: u64, end_ns: u64, nodes: Vec<NodeTime>) -> StepTime {
    let op = compiled.script.ops[step];
    let bytes = match op {
        Op::Write { slot, .. } | Op::Read { slot, .. } | Op::Move { slot, .. } => {
            compiled.plan.slots[slot].ty.byte_len().unwrap_or(0) as u64
        }
        _ => 0,
    };
    StepTime {
        name: compiled.plan.steps[step].name.clone(),
        device: op.device().map_or(HOST, |d| compiled.device_id(d)).to_owned(),
        kind: if op.device().is_some() { StepKind::Run } else { StepKind::Copy },
        start_ns,
        duration_ns: end_ns.saturating_sub(start_ns),
        bytes,
        nodes,
    }
}

/// For each step that another device made wait: from when its own device had nothing else to do for this inference
/// until the last step that it waited for was done.
fn waits(compiled: &Compiled, times: &[Option<StepTime>]) -> Vec<StepTime> {
    let mut waits = Vec::new();
    for (step, time) in times.iter().enumerate() {
        let Some(time) = time else { continue };
        let others = compiled.plan.steps[step].waits.iter().filter_map(|w| times[*w].as_ref());
        let Some(last) = others.filter(|t| t.device != time.device).max_by_key(|t| t.end_ns()) else { continue };
        let same = times.iter().flatten().filter(|t| t.device == time.device && t.end_ns() <= time.start_ns);
        let idle = same.map(StepTime::end_ns).max().unwrap_or(0);
        let until = last.end_ns().min(time.start_ns);
        if until > idle {
            waits.push(StepTime {
                name: format!("{} waits for {}", time.name, last.name),
                device: time.device.clone(),
                kind: StepKind::Wait,
                start_ns: idle,
                duration_ns: until - idle,
                bytes: 0,
                nodes: Vec::new(),
            });
        }
    }
    waits
}

/// Nanoseconds in which each device was busy with at least one of the inferences; copies count for [`HOST`].
pub fn busy_ns(reports: &[RunReport]) -> BTreeMap<String, u64> {
    let mut spans: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    for report in reports {
        for step in report.steps.iter().filter(|s| s.kind != StepKind::Wait) {
            let span = (report.begin_ns.saturating_add(step.start_ns), report.begin_ns.saturating_add(step.end_ns()));
            spans.entry(step.device.clone()).or_default().push(span);
        }
    }
    spans.into_iter().map(|(device, spans)| (device, union_ns(spans))).collect()
}

fn union_ns(mut spans: Vec<(u64, u64)>) -> u64 {
    spans.sort_unstable();
    let mut busy = (0, 0);
    for (start, end) in spans {
        let from = start.max(busy.1);
        busy = (busy.0 + end.saturating_sub(from), busy.1.max(end));
    }
    busy.0
}

/// Sum of the devices' busy times (without the host's copies) over the time from the first begin to the last end: 1 is
/// one device after the other, 2 is two devices busy all the time.
pub fn overlap_ratio(reports: &[RunReport]) -> f64 {
    let begin = reports.iter().map(|r| r.begin_ns).min().unwrap_or(0);
    let end = reports.iter().map(|r| r.begin_ns.saturating_add(r.total_ns)).max().unwrap_or(0);
    let busy: u64 = busy_ns(reports).iter().filter(|(device, _)| *device != HOST).map(|(_, ns)| ns).sum();
    if end > begin { busy as f64 / (end - begin) as f64 } else { 0.0 }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
