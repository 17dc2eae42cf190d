//! What the event engine keeps of a queue and of a counter of tokens, and the books of a queue.

use super::{QueueTime, Reason};
use crate::isa::{Queue, TOKEN_CAPACITY};
use std::collections::VecDeque;

/// Tokens of one counter: when each was given, and when room last appeared.
#[derive(Default)]
pub(super) struct Counter {
    pub stamps: VecDeque<u64>,
    pub room_at: u64,
    /// From this cycle on, the counter seems to have a token at any time.
    pub stuck_from: Option<u64>,
}

impl Counter {
    /// When a token is there to be taken; `None` if that cannot be said yet.
    pub fn token_at(&self) -> Option<u64> {
        match (self.stamps.front().copied(), self.stuck_from) {
            (Some(token), Some(stuck)) => Some(token.min(stuck)),
            (token, stuck) => token.or(stuck),
        }
    }
}

/// One queue.
#[derive(Default)]
pub(super) struct QueueState {
    /// Issued steps and their issue times.
    pub fifo: VecDeque<(usize, u64)>,
    /// When the last slot became free.
    pub room_at: u64,
    /// Earliest start of the next instruction.
    pub free_at: u64,
    /// End of the latest instruction.
    pub last_end: u64,
    /// Ends of transfers under way.
    pub in_flight: VecDeque<u64>,
    pub time: QueueTime,
}

/// The latest condition so far.
pub(super) struct Latest {
    pub at: u64,
    pub reason: Reason,
}

impl Latest {
    pub fn and(&mut self, at: u64, reason: Reason) {
        if at > self.at || (at == self.at && reason < self.reason) {
            *self = Self { at, reason };
        }
    }
}

/// Takes a token.
pub(super) fn pop(counter: &mut Counter, at: u64) {
    if counter.stamps.len() == TOKEN_CAPACITY as usize {
        counter.room_at = at;
    }
    // A stuck counter gives a token that nobody gave where its own is not there yet.
    if counter.stamps.front().is_some_and(|token| *token <= at) {
        counter.stamps.pop_front();
    }
}

/// The reason of waiting for a queue.
pub(super) fn blame(queue: Queue) -> Reason {
    match queue {
        Queue::Ld => Reason::DmaIn,
        Queue::Ex => Reason::DepToken,
        Queue::Vec => Reason::Vector,
        Queue::St => Reason::DmaOut,
    }
}

/// Adds an instruction to the books; up to `last_end` they are closed. Of its time, `bank` cycles were conflicts.
pub(super) fn account(state: &mut QueueState, (start, end): (u64, u64), bank: u64, reason: Reason) {
    let gap = start.saturating_sub(state.last_end);
    state.time.stalls[reason as usize] += gap;
    let work = end - start.max(state.last_end);
    let conflicts = bank.min(work);
    state.time.stalls[Reason::Bank as usize] += conflicts;
    state.time.busy += work - conflicts;
}
