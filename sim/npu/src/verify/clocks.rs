//! Vector clocks: which steps of the other queues have certainly ended before a step starts.
//!
//! Entry q of a step's clock is the number of steps of queue q that end before it starts (for its own queue: its
//! position, from 1). A pop takes over the clock of the push it matches: each counter has one queue on either side, so
//! the i-th pop matches the i-th push in every timing. Events the same. Waiting for *room* in a counter orders steps too,
//! but a program that relies on it is refused: the order would depend on the capacity.

use crate::error::Fault;
use crate::isa::{FIRST_FENCE_EVENT, Queue};
use crate::program::{Step, Work};
use std::collections::{BTreeMap, VecDeque};

/// Steps of each queue that have ended.
pub(super) type Clock = [u32; 4];

/// The clocks of all queues, and those that travel with tokens and signals.
#[derive(Default)]
pub(super) struct Clocks {
    queues: [Clock; 4],
    ready: [VecDeque<Clock>; 3],
    free: [VecDeque<Clock>; 3],
    events: BTreeMap<u32, VecDeque<Clock>>,
    /// Steps of each queue that are still to come.
    remaining: Clock,
}

impl Clocks {
    /// The clocks at the start of a program.
    pub fn new(steps: &[Step]) -> Self {
        let mut clocks = Self::default();
        steps.iter().for_each(|step| clocks.remaining[step.queue.index()] += 1);
        clocks
    }

    /// Steps of each queue that have ended before every step that is still to come starts.
    pub fn floor(&self) -> Clock {
        let open = || self.queues.iter().zip(self.remaining).filter(|(_, n)| *n > 0).map(|(clock, _)| clock);
        std::array::from_fn(|q| open().map(|clock| clock[q]).min().unwrap_or(u32::MAX))
    }

    /// The clock of the next step of its queue. Steps must come in an order of execution.
    pub fn advance(&mut self, step: &Step) -> Clock {
        let q = step.queue.index();
        let tokens = step.tokens;
        let mut clock = self.queues[q];
        let mut take = |from: Option<&mut VecDeque<Clock>>| {
            let other = from.and_then(VecDeque::pop_front).unwrap_or_default();
            clock.iter_mut().zip(other).for_each(|(c, o)| *c = o.max(*c));
        };
        if tokens.pop_prev && q > 0 {
            take(Some(&mut self.ready[q - 1]));
        }
        if tokens.pop_next && q < 3 {
            take(Some(&mut self.free[q]));
        }
        if let Work::Wait(e) = step.work {
            take(self.events.get_mut(&e));
        }
        clock[q] += 1;
        self.remaining[q] = self.remaining[q].saturating_sub(1);
        self.queues[q] = clock;
        if tokens.push_prev && q > 0 {
            self.free[q - 1].push_back(clock);
        }
        if tokens.push_next && q < 3 {
            self.ready[q].push_back(clock);
        }
        if let Work::Signal(e) = step.work {
            self.events.entry(e).or_default().push_back(clock);
        }
        clock
    }

    /// (V2) What is left at the end.
    pub fn left(&self) -> Vec<Fault> {
        let name = |q: usize| Queue::ALL[q].name();
        let mut faults = Vec::new();
        let mut report = |what: String, left: usize| {
            if left > 0 {
                faults.push(Fault::Unbalanced { what, left: left as u64 });
            }
        };
        for (i, (ready, free)) in self.ready.iter().zip(&self.free).enumerate() {
            report(format!("{} -> {}", name(i), name(i + 1)), ready.len());
            report(format!("{} -> {}", name(i + 1), name(i)), free.len());
        }
        for (event, signals) in self.events.iter().filter(|(e, _)| **e < FIRST_FENCE_EVENT) {
            report(format!("event {event}"), signals.len());
        }
        faults
    }
}
