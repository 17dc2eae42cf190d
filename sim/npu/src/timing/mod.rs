//! Time: when each step starts and ends, and where the cycles of each queue went.
//!
//! The engine is event-driven at instruction granularity and sees shapes only, never data: [`simulate`] runs once when a
//! stream is loaded. It acts in the order of time: of the command processor and the four queue heads, the one that can
//! act first does; ties go to the queue nearest the end of the chain (a store goes before a
//! load). Every action enables others at its own time or later, so times
//! never go back, and the order of starts is a legal order of execution. The machine executes in that order.
//!
//! **Accounting.** A queue's cycles up to the total are busy or belong to exactly one [`Reason`]: a gap before an
//! instruction belongs to the condition that was met last (ties in the order of the enum), the rest behind its last
//! instruction is drain.

mod cost;
mod engine;
mod nodes;
#[cfg(test)]
mod tests;

pub use cost::{Cost, cost, hold};
pub use engine::simulate;
pub use nodes::NodeTime;

use crate::isa::Queue;

/// Why a queue did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It waited for a load.
    DmaIn,
    /// It waited for a store.
    DmaOut,
    /// It waited for the array, or for a free token.
    DepToken,
    /// The instruction was not decoded yet.
    Issue,
    /// It waited for the vector unit.
    Vector,
    /// It had nothing more to do.
    Drain,
}

impl Reason {
    /// Every reason, in the order of ties.
    pub const ALL: [Self; 6] = [Self::DmaIn, Self::DmaOut, Self::DepToken, Self::Issue, Self::Vector, Self::Drain];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        ["dma_in", "dma_out", "dep_token", "issue", "vector", "drain"][self as usize]
    }
}

/// The cycles of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTime {
    /// Cycles with an instruction at work.
    pub busy: u64,
    /// Cycles without, by [`Reason`].
    pub stalls: [u64; 6],
}

impl QueueTime {
    /// Busy and stalled cycles together.
    pub fn sum(&self) -> u64 {
        self.stalls.iter().fold(self.busy, |sum, s| sum.saturating_add(*s))
    }
}

/// When one step was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Index among the steps.
    pub step: u32,
    /// First cycle.
    pub start: u64,
    /// First cycle behind it.
    pub end: u64,
    /// The condition that was met last before it started.
    pub reason: Reason,
}

/// The time of a whole stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// From the issue of the first instruction to the end of the last.
    pub total_cycles: u64,
    /// Cycles before the array or the vector unit first works (part of the total).
    pub cold_start: u64,
    /// Cycles behind the last work of array and vector unit (part of the total).
    pub drain: u64,
    /// Per queue, in chain order.
    pub queues: [QueueTime; 4],
    /// One span per step, in the order of starts, which is an order of execution.
    pub spans: Vec<Span>,
}

impl Timing {
    /// The queue's cycles.
    pub fn queue(&self, queue: Queue) -> &QueueTime {
        &self.queues[queue.index()]
    }

    /// Busy and stalled cycles of each queue are the total: the law that is checked after every simulation.
    pub fn adds_up(&self) -> bool {
        self.queues.iter().all(|q| q.sum() == self.total_cycles)
    }
}
