//! Traces for Perfetto and Chrome: a track per queue, DMA channel and for the DRAM, and counters over time, one per bank.
//!
//! One cycle is one microsecond of the trace, so that viewers show cycles without rounding. Work of one queue that
//! overlaps (transfers whose latencies overlap) is laid out on further lines of the queue. The document is the JSON of
//! the trace event format: `X` events are spans, `C` events are counters, `M` events are names.

mod banks;

use crate::isa::Queue;
use crate::program::Step;
use crate::timing::{Timed, Transfer};
use crate::{NpuConfig, program::Work};
use serde_json::{Value, json};

/// A timed stream, its place on the time line, and the names of its nodes.
pub struct Part<'a> {
    /// The stream.
    pub timed: &'a Timed,
    /// Cycles before it.
    pub offset: u64,
    /// Name of each program node, by index.
    pub nodes: &'a [String],
}

/// Number of the track of nodes; those of queues follow by tens, then those of channels and of the DRAM.
const NODES: u64 = 1;
const QUEUES: u64 = 10;
const LANES: u64 = 100;
const CHANNELS: u64 = 1000;
const DRAM: u64 = 2000;

/// The whole trace as one JSON document.
pub fn chrome(config: &NpuConfig, parts: &[Part<'_>]) -> String {
    let mut trace = Trace { events: Vec::new(), named: std::collections::BTreeSet::new() };
    trace.events.push(json!({"ph": "M", "pid": 1, "name": "process_name", "args": {"name": config.name}}));
    for part in parts {
        trace.nodes(part);
        trace.queues(part);
        trace.transfers(part);
        trace.counters(part);
        for (name, edges) in banks::counters(config, part.timed) {
            trace.steps(&name, part.offset, edges);
        }
    }
    let other = json!({ "unit": "1 us is 1 cycle", "chip": config.name, "clock_hz": config.clock_hz });
    json!({ "traceEvents": trace.events, "displayTimeUnit": "ns", "otherData": other }).to_string()
}

struct Trace {
    events: Vec<Value>,
    named: std::collections::BTreeSet<u64>,
}

impl Trace {
    /// Names a track once, and gives it its place.
    fn name(&mut self, track: u64, name: &str) {
        if self.named.insert(track) {
            self.events.push(json!({
                "ph": "M", "pid": 1, "tid": track, "name": "thread_name", "args": {"name": name},
            }));
            self.events.push(json!({
                "ph": "M", "pid": 1, "tid": track, "name": "thread_sort_index", "args": {"sort_index": track},
            }));
        }
    }

    fn span(&mut self, track: u64, name: &str, (start, end): (u64, u64), args: Value) {
        self.events.push(json!({
            "ph": "X", "pid": 1, "tid": track, "name": name, "ts": start, "dur": end - start, "args": args,
        }));
    }

    fn counter(&mut self, name: &str, at: u64, value: f64) {
        self.events.push(json!({ "ph": "C", "pid": 1, "name": name, "ts": at, "args": { "value": value } }));
    }

    fn nodes(&mut self, part: &Part<'_>) {
        self.name(NODES, "nodes");
        let Timed { steps, costs, timing } = part.timed;
        for (index, node) in timing.nodes(steps, costs) {
            if node.total() > 0 {
                let place = (node.start + part.offset, node.end + part.offset);
                let args = json!({ "macs": node.counters.macs, "compute": node.compute, "stalls": node.stalls() });
                self.span(NODES, &node_name(part, Some(index)), place, args);
            }
        }
    }

    fn queues(&mut self, part: &Part<'_>) {
        let mut lanes: [Vec<u64>; 4] = Default::default();
        for span in part.timed.timing.spans.iter().filter(|s| s.end > s.start) {
            let step = &part.timed.steps[span.step as usize];
            let q = step.queue.index();
            let lane = lane(&mut lanes[q], span.start, span.end);
            let track = QUEUES + LANES * q as u64 + lane;
            let name = Queue::ALL[q].name();
            self.name(track, &if lane == 0 { name.to_owned() } else { format!("{name} {}", lane + 1) });
            let args = json!({
                "instruction": step.index, "node": node_name(part, step.node), "issued": span.issued + part.offset,
                "waited_for": span.reason.name(), "moves": moves(step),
            });
            self.span(track, step.op.info().name, (span.start + part.offset, span.end + part.offset), args);
        }
    }

    fn transfers(&mut self, part: &Part<'_>) {
        let mut lanes = Vec::new();
        for t in &part.timed.timing.transfers {
            let step = &part.timed.steps[t.step as usize];
            let (name, place) = (direction(step), (t.start + part.offset, t.end + part.offset));
            let args = json!({ "bytes": t.bytes, "row_hits": t.rows.0, "row_misses": t.rows.1, "node": node_name(part, step.node) });
            let channel = CHANNELS + u64::from(t.channel);
            self.name(channel, &format!("dma {}", t.channel));
            self.span(channel, name, place, args.clone());
            let lane = lane(&mut lanes, t.start, t.end);
            self.name(DRAM + lane, &if lane == 0 { "dram".to_owned() } else { format!("dram {}", lane + 1) });
            self.span(DRAM + lane, name, place, args);
        }
    }

    /// Bytes per cycle on the bus, and instructions that wait in each queue.
    fn counters(&mut self, part: &Part<'_>) {
        let timing = &part.timed.timing;
        let rate = |t: &Transfer| t.bytes as f64 / (t.end - t.start).max(1) as f64;
        let edges = timing.transfers.iter().flat_map(|t| [(t.start, rate(t)), (t.end, -rate(t))]);
        self.steps("dram bytes per cycle", part.offset, edges.collect());
        for queue in Queue::ALL {
            let own = timing.spans.iter().filter(|s| part.timed.steps[s.step as usize].queue == queue);
            let edges = own.filter(|s| s.start > s.issued).flat_map(|s| [(s.issued, 1.0), (s.start, -1.0)]);
            self.steps(&format!("{} waiting", queue.name()), part.offset, edges.collect());
        }
    }

    /// A counter from its changes.
    fn steps(&mut self, name: &str, offset: u64, mut edges: Vec<(u64, f64)>) {
        edges.sort_by_key(|(at, _)| *at);
        let (mut value, mut last) = (0.0_f64, None);
        for (i, (at, change)) in edges.iter().enumerate() {
            value += change;
            if edges.get(i + 1).is_none_or(|(next, _)| next > at) {
                // Sums of rates that cancel leave a rounding.
                let shown = if value.abs() < 1e-9 { 0.0 } else { value };
                if last != Some(shown) {
                    self.counter(name, at + offset, shown);
                }
                last = Some(shown);
            }
        }
    }
}

/// The first line that is free at `start`.
fn lane(ends: &mut Vec<u64>, start: u64, end: u64) -> u64 {
    let free = ends.iter().position(|last| *last <= start);
    let at = free.unwrap_or(ends.len());
    match ends.get_mut(at) {
        Some(last) => *last = end,
        None => ends.push(end),
    }
    at as u64
}

fn node_name(part: &Part<'_>, node: Option<u32>) -> String {
    match node {
        None => String::new(),
        Some(i) => part.nodes.get(i as usize).cloned().unwrap_or_else(|| format!("node {i}")),
    }
}

fn direction(step: &Step) -> &'static str {
    if step.queue == Queue::St { "write" } else { "read" }
}

/// What a step works on, in a word.
fn moves(step: &Step) -> String {
    match &step.work {
        Work::Gemm(g) => format!("{} x {} x {}", g.a.rows, g.w.n, g.w.k),
        Work::Load { to, .. } => format!("{} x {}", to.rows, to.len),
        Work::Im2col(w) => format!("{} x {}", w.to.rows, w.to.len),
        Work::Store { from, .. } => format!("{} x {}", from.rows, from.len),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests;
