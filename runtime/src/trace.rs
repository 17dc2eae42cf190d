//! Profiles as a Chrome trace, which `chrome://tracing` and Perfetto open.
//!
//! Two processes: *devices* has a track per device with what it did, steps around their nodes; *inferences* has a track
//! per inference with its span and its waits. Spans of one track nest: what would overlap there (two inferences on a
//! device at the same time) goes to a further track of the same name.

use crate::report::{RunReport, StepKind, StepTime};
use serde_json::{Value, json};
use std::collections::BTreeMap;

const DEVICES: u32 = 1;
const INFERENCES: u32 = 2;

/// Something with a begin and an end, nanoseconds, and what the trace says about it.
struct Span {
    track: String,
    start: u64,
    end: u64,
    event: Value,
    inner: Vec<Span>,
}

/// The trace of some profiled inferences of one runner, as JSON.
pub fn chrome_trace(reports: &[RunReport]) -> String {
    let mut events = Vec::new();
    lay_out(DEVICES, "devices", reports.iter().flat_map(device_spans).collect(), &mut events);
    lay_out(INFERENCES, "inferences", reports.iter().flat_map(inference_spans).collect(), &mut events);
    json!({ "traceEvents": events, "displayTimeUnit": "ns" }).to_string()
}

fn device_spans(report: &RunReport) -> Vec<Span> {
    report.steps.iter().filter(|s| s.kind != StepKind::Wait).map(|s| step_span(report, s)).collect()
}

fn step_span(report: &RunReport, step: &StepTime) -> Span {
    let start = report.begin_ns.saturating_add(step.start_ns);
    let end = start.saturating_add(step.duration_ns);
    let category = if step.kind == StepKind::Copy { "copy" } else { "run" };
    let cycles: u64 = step.nodes.iter().fold(0, |sum, n| sum.saturating_add(n.cycles));
    let args = json!({ "inference": report.inference, "bytes": step.bytes, "cycles": cycles });
    let mut inner = Vec::new();
    let mut free = start;
    for node in &step.nodes {
        // A device's own clock may be a little off the host's; a node stays inside its step and after the one before.
        let from = start.saturating_add(node.start_ns).clamp(free, end);
        let to = start.saturating_add(node.start_ns).saturating_add(node.duration_ns).clamp(from, end);
        free = to;
        let args = json!({ "kernel": node.kernel, "cycles": node.cycles, "bytes": node.bytes });
        let event = json!({ "name": node.node, "cat": "node", "args": args });
        inner.push(Span { track: step.device.clone(), start: from, end: to, event, inner: Vec::new() });
    }
    let event = json!({ "name": step.name, "cat": category, "args": args });
    Span { track: step.device.clone(), start, end, event, inner }
}

fn inference_spans(report: &RunReport) -> Vec<Span> {
    let track = format!("inference {}", report.inference);
    let end = report.begin_ns.saturating_add(report.total_ns);
    let wait = |step: &StepTime| {
        let start = report.begin_ns.saturating_add(step.start_ns).min(end);
        let event = json!({ "name": step.name, "cat": "wait", "args": { "device": step.device } });
        Span {
            track: track.clone(),
            start,
            end: start.saturating_add(step.duration_ns).min(end),
            event,
            inner: Vec::new(),
        }
    };
    let waits = report.steps.iter().filter(|s| s.kind == StepKind::Wait).map(wait);
    let args = json!({ "inference": report.inference, "reruns": report.reruns });
    let event = json!({ "name": track, "cat": "inference", "args": args });
    let whole = Span { track: track.clone(), start: report.begin_ns, end, event, inner: Vec::new() };
    std::iter::once(whole).chain(waits).collect()
}

/// Distributes spans to tracks and writes the events of one process.
fn lay_out(pid: u32, name: &str, mut spans: Vec<Span>, events: &mut Vec<Value>) {
    events.push(json!({ "name": "process_name", "ph": "M", "pid": pid, "args": { "name": name } }));
    // The longer of two spans with one start is the outer one.
    spans.sort_by(|a, b| a.start.cmp(&b.start).then(b.end.cmp(&a.end)));
    // Per track name: its thread ids, each with the ends of the spans that are open there.
    let mut tracks: BTreeMap<String, Vec<(u32, Vec<u64>)>> = BTreeMap::new();
    let mut next_tid = 1;
    for span in spans {
        let lanes = tracks.entry(span.track.clone()).or_default();
        let nests = |open: &mut Vec<u64>| {
            open.retain(|end| *end > span.start);
            // Steps of a device never nest in one another: only the whole inference is around something else.
            open.is_empty() || (pid == INFERENCES && open.iter().all(|end| *end >= span.end))
        };
        let lane = match lanes.iter_mut().position(|(_, open)| nests(open)) {
            Some(lane) => lane,
            None => {
                let title =
                    if lanes.is_empty() { span.track.clone() } else { format!("{} ({})", span.track, lanes.len() + 1) };
                let args = json!({ "name": title });
                events.push(json!({ "name": "thread_name", "ph": "M", "pid": pid, "tid": next_tid, "args": args }));
                lanes.push((next_tid, Vec::new()));
                next_tid += 1;
                lanes.len() - 1
            }
        };
        let (tid, open) = &mut lanes[lane];
        open.push(span.end);
        write(pid, *tid, span, events);
    }
}

fn write(pid: u32, tid: u32, span: Span, events: &mut Vec<Value>) {
    let us = |ns: u64| ns as f64 / 1e3;
    let mut event = span.event;
    if let Some(fields) = event.as_object_mut() {
        let place = [("ph", json!("X")), ("pid", json!(pid)), ("tid", json!(tid))];
        let time = [("ts", json!(us(span.start))), ("dur", json!(us(span.end - span.start)))];
        fields.extend(place.into_iter().chain(time).map(|(key, value)| (key.to_owned(), value)));
    }
    events.push(event);
    span.inner.into_iter().for_each(|inner| write(pid, tid, inner, events));
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
