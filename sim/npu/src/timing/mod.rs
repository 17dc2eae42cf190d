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

mod banks;
mod bus;
mod cost;
mod engine;
mod nodes;
mod rows;
mod state;
#[cfg(test)]
mod tests;

pub use banks::conflicts;
pub use cost::{Cost, cost, hold};
pub use engine::simulate;
pub(crate) use engine::simulate_with;
pub use nodes::NodeTime;

use crate::NpuConfig;
use crate::error::Violation;
use crate::isa::{Queue, Stream};
use crate::machine::Counters;
use crate::program::{Step, resolve};

/// Number of reasons.
pub const N_REASONS: usize = 7;

/// Why a queue did not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// It waited for a load.
    DmaIn,
    /// It waited for a store.
    DmaOut,
    /// It waited for the array, or for a free token.
    DepToken,
    /// It was at work, and waited for a bank of a scratchpad.
    Bank,
    /// The instruction was not decoded yet.
    Issue,
    /// It waited for the vector unit.
    Vector,
    /// It had nothing more to do.
    Drain,
}

impl Reason {
    /// Every reason, in the order of ties.
    pub const ALL: [Self; N_REASONS] =
        [Self::DmaIn, Self::DmaOut, Self::DepToken, Self::Bank, Self::Issue, Self::Vector, Self::Drain];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        ["dma_in", "dma_out", "dep_token", "bank", "issue", "vector", "drain"][self as usize]
    }
}

/// The cycles of one queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTime {
    /// Cycles with an instruction at work.
    pub busy: u64,
    /// Cycles without, by [`Reason`].
    pub stalls: [u64; N_REASONS],
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
    /// When it entered its queue.
    pub issued: u64,
    /// First cycle.
    pub start: u64,
    /// First cycle behind it.
    pub end: u64,
    /// The condition that was met last before it started.
    pub reason: Reason,
}

/// One tile transfer on the memory bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Index among the steps.
    pub step: u32,
    /// The DMA channel that carries it.
    pub channel: u32,
    /// When its data begin on the bus, behind its latency.
    pub start: u64,
    /// First cycle behind it.
    pub end: u64,
    /// Bytes.
    pub bytes: u64,
    /// Accesses of open rows of the memory, and of rows that had to be opened; 0 for a memory without rows.
    pub rows: (u64, u64),
}

/// A stream with the time of each step, without the proof that it is free of races.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Every queued instruction with its operands.
    pub steps: Vec<Step>,
    /// What each of them costs.
    pub costs: Vec<Cost>,
    /// When each of them runs.
    pub timing: Timing,
}

impl Timed {
    /// Times a stream exactly as a run of it would report.
    pub fn of(config: &NpuConfig, stream: &Stream) -> Result<Self, Violation> {
        let resolved = resolve(config, stream);
        if let Some(violation) = resolved.violations.into_iter().next() {
            return Err(violation);
        }
        let steps = resolved.steps;
        let priced = steps.iter().map(|step| {
            let at = |fault| Violation { index: step.index, node: step.node, fault };
            cost(config, step).map_err(at)
        });
        let mut costs = priced.collect::<Result<Vec<_>, _>>()?;
        let timing = simulate(config, &steps, &resolved.decoded, &costs)?;
        timing.credit(&mut costs);
        Ok(Self { steps, costs, timing })
    }

    /// The counters that do not depend on data.
    pub fn counters(&self) -> Counters {
        let mut total = Counters::default();
        self.costs.iter().for_each(|c| total.add(&c.counters));
        total
    }
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
    /// Transfers of at least one byte, in the order of starts.
    pub transfers: Vec<Transfer>,
}

impl Timing {
    /// Books what the memory's rows did to the steps that moved the data.
    pub fn credit(&self, costs: &mut [Cost]) {
        for transfer in &self.transfers {
            if let Some(cost) = costs.get_mut(transfer.step as usize) {
                (cost.counters.row_hits, cost.counters.row_misses) = transfer.rows;
            }
        }
    }

    /// The queue's cycles.
    pub fn queue(&self, queue: Queue) -> &QueueTime {
        &self.queues[queue.index()]
    }

    /// Busy and stalled cycles of each queue are the total: the law that is checked after every simulation.
    pub fn adds_up(&self) -> bool {
        self.queues.iter().all(|q| q.sum() == self.total_cycles)
    }
}
