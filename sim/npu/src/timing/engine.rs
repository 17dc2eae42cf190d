//! The event engine: queues, tokens, events and DMA channels.
//!
//! **Start.** A queue's head starts at the latest of: its issue, the time for which the instruction before it holds
//! the unit (transfers: none, since up to `in_flight` of them overlap; products on a pipelined array: less than they take), each popped token, room for each pushed token (reserved at the
//! start), its event, and its DMA channel. Fence events are signalled by the host before the run.
//! **Transfers.** What a transfer takes is the business of [`Bus`]. With an in-flight
//! limit of 1 a transfer holds one of the channels until its end; above, each queue has up to channels times the limit
//! of transfers under way, whose latencies overlap. Transfers of one queue complete in order. Without overlap (`overlap: None`) transfers and arithmetic exclude each other.

use super::bus::Bus;
use super::state::{Counter, Latest, QueueState, account, blame, pop};
use super::{Cost, QueueTime, Reason, Span, Timing, Transfer};
use crate::NpuConfig;
use crate::config::Overlap;
use crate::error::{Fault, Violation};
use crate::fault::Mishap;
use crate::isa::{FIRST_FENCE_EVENT, N_EVENTS, Queue, TOKEN_CAPACITY};
use crate::program::{Step, Work};
use std::collections::VecDeque;

/// Simulates the steps; `decoded` and `costs` have one entry per step. Fails if no queue can go on.
pub fn simulate(config: &NpuConfig, steps: &[Step], decoded: &[u32], costs: &[Cost]) -> Result<Timing, Violation> {
    simulate_with(config, steps, decoded, costs, Vec::new())
}

/// As [`simulate`], with injected mishaps, each from its cycle on.
pub(crate) fn simulate_with(
    config: &NpuConfig,
    steps: &[Step],
    decoded: &[u32],
    costs: &[Cost],
    mishaps: Vec<(u64, Mishap)>,
) -> Result<Timing, Violation> {
    let mut engine = Engine::new(config, steps, decoded, costs);
    for (when, mishap) in &mishaps {
        if let Mishap::Stuck(from, to) = *mishap {
            let counter = engine.counter(from, to);
            counter.stuck_from = Some(counter.stuck_from.map_or(*when, |at| at.min(*when)));
        }
    }
    engine.mishaps = mishaps;
    while engine.n_started < steps.len() {
        engine.act()?;
    }
    engine.finish().ok_or(Violation { index: 0, node: None, fault: Fault::Cycles })
}

struct Engine<'a> {
    config: &'a NpuConfig,
    steps: &'a [Step],
    decoded: &'a [u32],
    costs: &'a [Cost],
    /// The command processor: time and next step.
    processor: (u64, usize),
    queues: [QueueState; 4],
    /// Forward counters: from queue i to i + 1.
    ready: [Counter; 3],
    /// Backward counters: from queue i + 1 to i.
    free: [Counter; 3],
    events: Vec<VecDeque<u64>>,
    /// Which queue signals an event, for the reason of a stall.
    signaller: Vec<Option<Queue>>,
    bus: Bus,
    /// Ends of the latest transfer and of the latest arithmetic.
    ends: (u64, u64),
    n_started: usize,
    spans: Vec<Span>,
    transfers: Vec<Transfer>,
    /// Injected mishaps that have not struck, each with its cycle.
    mishaps: Vec<(u64, Mishap)>,
}

impl<'a> Engine<'a> {
    fn new(config: &'a NpuConfig, steps: &'a [Step], decoded: &'a [u32], costs: &'a [Cost]) -> Self {
        let n_events = N_EVENTS as usize;
        let mut signaller = vec![None; n_events];
        for step in steps {
            if let Work::Signal(e) = step.work {
                signaller[e as usize % n_events] = Some(step.queue);
            }
        }
        Self {
            config,
            steps,
            decoded,
            costs,
            processor: (0, 0),
            queues: Default::default(),
            ready: Default::default(),
            free: Default::default(),
            events: vec![VecDeque::new(); n_events],
            signaller,
            bus: Bus::new(config),
            ends: (0, 0),
            n_started: 0,
            spans: Vec::with_capacity(steps.len()),
            transfers: Vec::new(),
            mishaps: Vec::new(),
        }
    }

    /// The earliest possible action.
    fn act(&mut self) -> Result<(), Violation> {
        let heads = Queue::ALL
            .into_iter()
            .rev()
            .filter_map(|q| self.head_start(q).map(|latest| (latest.at, Some((q, latest)))));
        let issue = self.issue_time().map(|at| (at, None));
        let first = heads.chain(issue).min_by_key(|(at, _)| *at);
        match first {
            Some((_, Some((queue, latest)))) => {
                self.start(queue, &latest);
                Ok(())
            }
            Some((at, None)) => {
                self.issue(at);
                Ok(())
            }
            None => Err(self.deadlock()),
        }
    }

    fn depth(&self, queue: Queue) -> usize {
        let depth = self.config.queues.depth;
        [depth.ld, depth.ex, depth.vec, depth.st][queue.index()] as usize
    }

    /// When the command processor can hand over the next step; `None` if there is none or its queue is full.
    fn issue_time(&self) -> Option<u64> {
        let (time, next) = self.processor;
        let queue = self.steps.get(next)?.queue;
        let state = &self.queues[queue.index()];
        let decode = u64::from(self.decoded[next]).saturating_mul(self.config.queues.decode_cycles.into());
        (state.fifo.len() < self.depth(queue)).then(|| time.saturating_add(decode).max(state.room_at))
    }

    fn issue(&mut self, at: u64) {
        let (_, next) = self.processor;
        self.queues[self.steps[next].queue.index()].fifo.push_back((next, at));
        self.processor = (at, next + 1);
    }

    /// When the head of a queue can start, and what it waits for last; `None` if it cannot be said yet.
    fn head_start(&self, queue: Queue) -> Option<Latest> {
        let q = queue.index();
        let state = &self.queues[q];
        let &(s, issued) = state.fifo.front()?;
        let step = &self.steps[s];
        let mut latest = Latest { at: issued, reason: Reason::Issue };
        latest.and(state.free_at, Reason::Drain);
        let tokens = step.tokens;
        let mut counters: [Option<(&Counter, Queue, bool)>; 4] = [None; 4];
        if q > 0 {
            let prev = Queue::ALL[q - 1];
            counters[0] = tokens.pop_prev.then_some((&self.ready[q - 1], prev, true));
            counters[1] = tokens.push_prev.then_some((&self.free[q - 1], prev, false));
        }
        if q < 3 {
            let next = Queue::ALL[q + 1];
            counters[2] = tokens.pop_next.then_some((&self.free[q], next, true));
            counters[3] = tokens.push_next.then_some((&self.ready[q], next, false));
        }
        for (counter, other, pop) in counters.into_iter().flatten() {
            if pop {
                latest.and(counter.token_at()?, blame(other));
            } else if counter.stamps.len() >= TOKEN_CAPACITY as usize {
                return None;
            } else {
                latest.and(counter.room_at, blame(other));
            }
        }
        if let Work::Wait(e) = step.work
            && e < FIRST_FENCE_EVENT
        {
            let by = self.signaller[e as usize].map_or(Reason::DepToken, blame);
            latest.and(*self.events[e as usize].front()?, by);
        }
        self.resources(queue, s, &mut latest);
        Some(latest)
    }

    /// Adds the conditions of channels and of exclusive use.
    fn resources(&self, queue: Queue, s: usize, latest: &mut Latest) {
        let is_transfer = self.costs[s].dma_bytes.is_some();
        let moves = matches!(queue, Queue::Ld | Queue::St);
        let other = if queue == Queue::Ld { Reason::DmaOut } else { Reason::DmaIn };
        if is_transfer {
            let limit = self.in_flight_limit();
            let under_way = &self.queues[queue.index()].in_flight;
            if self.config.dma.in_flight == 1 {
                latest.and(self.bus.free_at(), other);
            } else if under_way.len() >= limit {
                latest.and(under_way[under_way.len() - limit], other);
            }
        }
        if self.config.dma.overlap == Overlap::None {
            if is_transfer || (moves && self.costs[s].cycles > 0) {
                latest.and(self.ends.1, Reason::DepToken);
            } else if self.costs[s].cycles > 0 {
                latest.and(self.ends.0, Reason::DmaIn);
            }
        }
    }

    fn start(&mut self, queue: Queue, latest: &Latest) {
        let q = queue.index();
        let Some((s, issued)) = self.queues[q].fifo.pop_front() else { return };
        let start = latest.at;
        let cost = &self.costs[s];
        self.take(queue, s, start);
        let is_transfer = cost.dma_bytes.is_some();
        let end = match cost.dma_bytes {
            Some(bytes) => {
                let (end, transfer) = self.bus.transfer(s, &self.steps[s], start, bytes);
                self.transfers.extend(transfer);
                let late = |m: Mishap| if let Mishap::Delay(q, by) = m { (q == queue).then_some(by) } else { None };
                end.saturating_add(self.strike(start, late).unwrap_or(0))
            }
            None => start.saturating_add(cost.cycles),
        };
        let limit = self.in_flight_limit();
        let state = &mut self.queues[q];
        state.room_at = start;
        let end = end.max(state.last_end);
        account(state, (start, end), cost.bank, latest.reason);
        // Transfers with memory overlap; a move keeps its queue's engine.
        state.free_at = if is_transfer { start } else { start.saturating_add(cost.hold) };
        state.last_end = end;
        if is_transfer {
            while state.in_flight.len() >= limit {
                state.in_flight.pop_front();
            }
            state.in_flight.push_back(end);
            self.ends.0 = self.ends.0.max(end);
        } else if cost.cycles > 0 && matches!(queue, Queue::Ld | Queue::St) {
            self.ends.0 = self.ends.0.max(end);
        } else if cost.cycles > 0 {
            self.ends.1 = self.ends.1.max(end);
        }
        self.give(queue, s, end);
        self.spans.push(Span { step: s as u32, issued, start, end, reason: latest.reason });
        self.n_started += 1;
    }

    /// Takes tokens and signals.
    fn take(&mut self, queue: Queue, s: usize, at: u64) {
        let q = queue.index();
        let tokens = self.steps[s].tokens;
        if tokens.pop_prev && q > 0 {
            pop(&mut self.ready[q - 1], at);
        }
        if tokens.pop_next && q < 3 {
            pop(&mut self.free[q], at);
        }
        if let Work::Wait(e) = self.steps[s].work {
            self.events[e as usize].pop_front();
        }
    }

    /// Gives tokens and signals.
    fn give(&mut self, queue: Queue, s: usize, at: u64) {
        let q = queue.index();
        let tokens = self.steps[s].tokens;
        if tokens.push_prev && q > 0 && !self.loses(queue, Queue::ALL[q - 1], at) {
            self.free[q - 1].stamps.push_back(at);
        }
        if tokens.push_next && q < 3 && !self.loses(queue, Queue::ALL[q + 1], at) {
            self.ready[q].stamps.push_back(at);
        }
        if let Work::Signal(e) = self.steps[s].work {
            let lost = self.strike(at, |m| (m == Mishap::Signal).then_some(())).is_some();
            if !lost {
                self.events[e as usize].push_back(at);
            }
        }
    }

    /// The counter of the tokens from one queue to its neighbour.
    fn counter(&mut self, from: Queue, to: Queue) -> &mut Counter {
        let first = from.index().min(to.index()).min(2);
        if from.index() < to.index() { &mut self.ready[first] } else { &mut self.free[first] }
    }

    /// Whether a token that is given at `at` gets lost.
    fn loses(&mut self, from: Queue, to: Queue, at: u64) -> bool {
        self.strike(at, |m| (m == Mishap::Lost(from, to)).then_some(())).is_some()
    }

    /// The first mishap of a kind whose cycle has come; it strikes once.
    fn strike<T>(&mut self, at: u64, kind: impl Fn(Mishap) -> Option<T>) -> Option<T> {
        let (i, found) = (self.mishaps.iter().enumerate())
            .find_map(|(i, (when, m))| if *when <= at { kind(*m).map(|t| (i, t)) } else { None })?;
        self.mishaps.remove(i);
        Some(found)
    }

    /// Transfers that a queue may have under way.
    fn in_flight_limit(&self) -> usize {
        self.config.dma.in_flight as usize * self.config.dma.channels as usize
    }

    fn deadlock(&self) -> Violation {
        let heads = Queue::ALL.into_iter().filter_map(|q| {
            let &(s, _) = self.queues[q.index()].fifo.front()?;
            Some((self.steps[s].index, q, &self.steps[s]))
        });
        let mut heads: Vec<_> = heads.collect();
        heads.sort_by_key(|(index, ..)| *index);
        let waiting: Vec<String> =
            heads.iter().map(|(index, q, step)| format!("{} {} in {}", index, step.op.info().name, q.name())).collect();
        let (index, node) = heads.first().map_or((0, None), |(index, _, step)| (*index, step.node));
        Violation { index, node, fault: Fault::Deadlock { waiting: waiting.join(", ") } }
    }

    /// Closes the books; `None` if times do not fit u64.
    fn finish(self) -> Option<Timing> {
        let total = self.queues.iter().map(|q| q.last_end).chain([self.processor.0]).max()?;
        let mut queues = [QueueTime::default(); 4];
        for (time, state) in queues.iter_mut().zip(&self.queues) {
            *time = state.time;
            time.stalls[Reason::Drain as usize] += total - state.last_end;
        }
        let unit = |s: usize| matches!(self.steps[s].queue, Queue::Ex | Queue::Vec);
        let works = |span: &&Span| unit(span.step as usize) && self.costs[span.step as usize].cycles > 0;
        let first = self.spans.iter().filter(works).map(|s| s.start).min();
        let last = self.spans.iter().filter(works).map(|s| s.end).max();
        let timing = Timing {
            total_cycles: total,
            cold_start: first.unwrap_or(total),
            drain: total - last.unwrap_or(total),
            queues,
            spans: self.spans,
            transfers: self.transfers,
        };
        (timing.total_cycles < u64::MAX && timing.adds_up()).then_some(timing)
    }
}
