//! The cycles of a stream, divided among the nodes of its program.
//!
//! Nodes own the time line in the order in which they start: a node's time goes from the end of the nodes before it to
//! the end of its own last step, so the times of all nodes are the total, also where nodes overlap. Time before the
//! first node and behind the last one is theirs.
//!
//! **Accounting.** A cycle of a node is *compute* if the array or the vector unit works, else it belongs to exactly one
//! reason: `bank` where both wait for a bank; `drain` behind the node's last compute cycle; else `dma_in` while only loads are under way, `dma_out` while only
//! stores are; where both are, what the next arithmetic waited for last says which (`dma_in` in a tie); `issue` while
//! nothing is under way, because then the command processor is what everything waits for.
//! `compute + Σ stalls = end - start` of every node, by construction.

use super::{Cost, N_REASONS, Reason, Span, Timing};
use crate::isa::Queue;
use crate::machine::Counters;
use crate::program::Step;
use std::collections::BTreeMap;

/// The cycles of one program node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeTime {
    /// First cycle.
    pub start: u64,
    /// First cycle behind it.
    pub end: u64,
    /// Cycles in which the array or the vector unit worked.
    pub compute: u64,
    /// The other cycles, by [`Reason`].
    pub stalls: [u64; N_REASONS],
    /// Cycles of its steps by queue; steps of one queue may overlap.
    pub busy: [u64; 4],
    /// Counts that do not depend on data.
    pub counters: Counters,
}

impl NodeTime {
    /// All cycles.
    pub fn total(&self) -> u64 {
        self.end - self.start
    }

    /// Cycles without compute, by the names of all reasons.
    pub fn stalls(&self) -> BTreeMap<&'static str, u64> {
        Reason::ALL.iter().map(|r| (r.name(), self.stalls[*r as usize])).collect()
    }
}

/// What a span does to the time line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Compute = 0,
    Load = 1,
    Store = 2,
    Conflict = 3,
}

fn kind(step: &Step, cost: &Cost) -> Option<Kind> {
    match (step.queue, cost.dma_bytes) {
        (Queue::St, Some(_)) => Some(Kind::Store),
        (_, Some(_)) => Some(Kind::Load),
        // Moves on the chip count as what they take the place of.
        (Queue::Ld, None) => (cost.cycles > 0).then_some(Kind::Load),
        (Queue::St, None) => (cost.cycles > 0).then_some(Kind::Store),
        (_, None) => (cost.cycles > 0).then_some(Kind::Compute),
    }
}

impl Timing {
    /// Cycles by program node; together they are the total, unless no step belongs to a node.
    pub fn nodes(&self, steps: &[Step], costs: &[Cost]) -> BTreeMap<u32, NodeTime> {
        let mut nodes = BTreeMap::new();
        let mut order = Vec::new();
        for span in &self.spans {
            let (step, cost) = (&steps[span.step as usize], &costs[span.step as usize]);
            let Some(node) = step.node else { continue };
            let time: &mut NodeTime = nodes.entry(node).or_insert_with(|| {
                order.push(node);
                NodeTime::default()
            });
            time.end = time.end.max(span.end);
            let busy = &mut time.busy[step.queue.index()];
            *busy = busy.saturating_add(span.end - span.start);
            time.counters.add(&cost.counters);
        }
        let mut line = Line::new(&self.spans, steps, costs);
        let mut from = 0;
        for (i, node) in order.iter().enumerate() {
            let Some(time) = nodes.get_mut(node) else { continue };
            let end = if i + 1 == order.len() { self.total_cycles } else { time.end.max(from) };
            (time.start, time.end) = (from, end);
            line.divide(time);
            from = end;
        }
        nodes
    }
}

/// The time line as pieces in which the same units are at work.
struct Line {
    /// Times at which a unit begins (+1) or ends (-1).
    events: Vec<(u64, Kind, i64)>,
    /// The starts of arithmetic with what it waited for last, in order.
    starts: Vec<(u64, Reason)>,
    /// Events and starts that lie behind the sweep.
    event: usize,
    next_start: usize,
    /// Units of each kind at work.
    active: [i64; 4],
}

impl Line {
    fn new(spans: &[Span], steps: &[Step], costs: &[Cost]) -> Self {
        let (mut events, mut starts) = (Vec::with_capacity(2 * spans.len()), Vec::new());
        for span in spans.iter().filter(|s| s.end > s.start) {
            let at = span.step as usize;
            let Some(kind) = kind(&steps[at], &costs[at]) else { continue };
            // Conflicts are spread over the work; the books keep them at its end.
            let bank = costs[at].bank.min(span.end - span.start);
            let end = if kind == Kind::Compute { span.end - bank } else { span.end };
            events.extend([(span.start, kind, 1), (end, kind, -1)]);
            if end < span.end {
                events.extend([(end, Kind::Conflict, 1), (span.end, Kind::Conflict, -1)]);
            }
            if kind == Kind::Compute {
                starts.push((span.start, span.reason));
            }
        }
        events.sort_unstable_by_key(|(at, ..)| *at);
        starts.sort_by_key(|(at, _)| *at);
        Self { events, starts, event: 0, next_start: 0, active: [0; 4] }
    }

    /// Divides the cycles from a node's start, where the sweep stands, to its end.
    fn divide(&mut self, time: &mut NodeTime) {
        let mut at = time.start;
        // What follows the last compute cycle seen, and is drain if none follows.
        let mut open = [0; N_REASONS];
        while at < time.end {
            while let Some(&(when, kind, change)) = self.events.get(self.event).filter(|(when, ..)| *when <= at) {
                debug_assert!(when <= at, "events are in order");
                self.active[kind as usize] += change;
                self.event += 1;
            }
            let until = self.events.get(self.event).map_or(time.end, |(when, ..)| time.end.min(*when));
            if self.active[Kind::Compute as usize] > 0 {
                time.compute += until - at;
                close(&mut time.stalls, &mut open);
            } else if self.active[Kind::Conflict as usize] > 0 {
                time.stalls[Reason::Bank as usize] += until - at;
                close(&mut time.stalls, &mut open);
            } else {
                open[self.reason(at) as usize] += until - at;
            }
            at = until;
        }
        if time.compute > 0 {
            open = drained(open);
        }
        close(&mut time.stalls, &mut open);
    }

    /// Why nothing computes at `at`.
    fn reason(&mut self, at: u64) -> Reason {
        while self.starts.get(self.next_start).is_some_and(|(start, _)| *start < at) {
            self.next_start += 1;
        }
        match (self.active[Kind::Load as usize] > 0, self.active[Kind::Store as usize] > 0) {
            (true, true) => match self.starts.get(self.next_start) {
                Some((_, Reason::DmaOut)) => Reason::DmaOut,
                _ => Reason::DmaIn,
            },
            (true, false) => Reason::DmaIn,
            (false, true) => Reason::DmaOut,
            (false, false) => Reason::Issue,
        }
    }
}

/// Moves open cycles to the books.
fn close(stalls: &mut [u64; N_REASONS], open: &mut [u64; N_REASONS]) {
    stalls.iter_mut().zip(open.iter_mut()).for_each(|(sum, more)| *sum += std::mem::take(more));
}

/// The same number of cycles, all of them drain.
fn drained(open: [u64; N_REASONS]) -> [u64; N_REASONS] {
    let mut all = [0; N_REASONS];
    all[Reason::Drain as usize] = open.iter().sum();
    all
}
