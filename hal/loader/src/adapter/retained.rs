//! Keeps what a submission uses alive until the device is done with it.
//!
//! Each submission of a device that runs on its own signals one more timeline, which belongs to the queue. When it has
//! fired, or failed, what the submission held is let go. A timeline of its own per submission, because a failed one stays
//! failed and says nothing of its neighbours. Timelines and lists are reused, so that a steady state allocates nothing.

use super::device::Shared;
use super::fence::AbiFence;
use ottava_hal::{Binding, Buffer, Command, Executable, Fence, Result, Status, Submission};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of a queue waits for each submission.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that a submission uses.
#[allow(dead_code)] // Held, never read.
enum Kept {
    Buffer(Arc<dyn Buffer>),
    Executable(Arc<dyn Executable>),
    Fence(Arc<dyn Fence>),
}

/// A submission that may still run.
pub(crate) struct Flight {
    fence: AbiFence,
    value: u64,
    kept: Vec<Kept>,
}

impl Flight {
    /// Timeline and value that the submission signals.
    pub fn point(&self) -> (&AbiFence, u64) {
        (&self.fence, self.value)
    }

    fn keep(&mut self, s: &Submission) {
        let fences = s.waits.iter().chain(&s.signals);
        self.kept.extend(fences.map(|(fence, _)| Kept::Fence(fence.clone())));
        let buffer = |b: &Binding| Kept::Buffer(b.buffer.clone());
        for c in &s.commands {
            match c {
                Command::Dispatch { executable, inputs, outputs } => {
                    self.kept.push(Kept::Executable(executable.clone()));
                    self.kept.extend(inputs.iter().chain(outputs).map(buffer));
                }
                Command::Copy { from, to } => self.kept.extend([from, to].map(buffer)),
                Command::Fill { to, .. } => self.kept.push(buffer(to)),
            }
        }
    }
}

/// Every submission of a queue that may still run, oldest first.
#[derive(Default)]
pub(crate) struct Retained {
    flights: VecDeque<Flight>,
    idle: Vec<Flight>,
}

impl Retained {
    /// Lets go what is done. Submissions of a queue end in order.
    pub fn sweep(&mut self) {
        while let Some(flight) = self.flights.front() {
            let state = flight.fence.query();
            match state {
                Ok(value) if value < flight.value => return,
                // A driver that has panicked may still be running; see `finish`.
                Err(e) if e.status() == Status::Panic => return,
                done => {
                    let Some(mut flight) = self.flights.pop_front() else { return };
                    flight.kept.clear();
                    // A timeline that failed is of no further use.
                    self.idle.extend(done.is_ok().then_some(flight));
                }
            }
        }
    }

    /// A place for the next submission.
    pub fn begin(&mut self, shared: &Arc<Shared>) -> Result<Flight> {
        match self.idle.pop() {
            Some(mut flight) => {
                flight.value += 1;
                Ok(flight)
            }
            None => Ok(Flight { fence: AbiFence::new(shared, 0)?, value: 1, kept: Vec::new() }),
        }
    }

    /// The submission runs.
    pub fn started(&mut self, mut flight: Flight, s: &Submission) {
        flight.keep(s);
        self.flights.push_back(flight);
    }

    /// The submission was refused: its place can be used again, at the same value.
    pub fn refused(&mut self, mut flight: Flight) {
        flight.value -= 1;
        self.idle.push(flight);
    }

    /// Waits for what still runs. Memory of a submission that does not end is given up, not freed: the device may still
    /// write to it.
    pub fn finish(&mut self, device: &str) {
        for flight in self.flights.drain(..) {
            let waited = flight.fence.wait(flight.value, PATIENCE);
            if waited.is_err_and(|e| matches!(e.status(), Status::Timeout | Status::Panic)) {
                tracing::error!("device `{device}` does not finish its work; what the work uses is given up");
                std::mem::forget(flight);
            }
        }
    }
}
