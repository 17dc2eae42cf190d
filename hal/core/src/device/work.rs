//! Submissions: what a queue is given.

use super::{Buffer, Executable};
use crate::Fence;
use std::sync::Arc;
use std::time::Instant;

/// A part of a buffer that stands for one input or output.
#[derive(Clone)]
pub struct Binding {
    /// The buffer.
    pub buffer: Arc<dyn Buffer>,
    /// First byte.
    pub offset: usize,
    /// Number of bytes.
    pub len: usize,
}

impl Binding {
    /// A whole buffer.
    pub fn whole(buffer: Arc<dyn Buffer>) -> Self {
        let len = buffer.len();
        Self { buffer, offset: 0, len }
    }
}

/// One piece of work of a submission.
#[derive(Clone)]
pub enum Command {
    /// Runs an executable.
    Dispatch {
        /// What runs.
        executable: Arc<dyn Executable>,
        /// One binding per input.
        inputs: Vec<Binding>,
        /// One binding per output.
        outputs: Vec<Binding>,
    },
    /// Copies between buffers of the device; both have the same length and do not overlap.
    Copy {
        /// Source.
        from: Binding,
        /// Destination.
        to: Binding,
    },
    /// Fills a buffer with a repeated pattern, least significant byte first.
    Fill {
        /// Destination.
        to: Binding,
        /// Four bytes.
        pattern: u32,
    },
}

/// Commands that run in order, with what they wait for and what they signal. Everything it names is kept alive until
/// the signals have fired.
#[derive(Clone, Default)]
pub struct Submission {
    /// What runs, in order.
    pub commands: Vec<Command>,
    /// Timelines that must have reached a value before the first command starts.
    pub waits: Vec<(Arc<dyn Fence>, u64)>,
    /// Timelines that are advanced when the last command is done, or failed when one fails or a wait fails.
    pub signals: Vec<(Arc<dyn Fence>, u64)>,
    /// A submission that cannot start by then does not run and fails its signals with `Timeout`.
    pub deadline: Option<Instant>,
    /// Record the time of each node.
    pub profile: bool,
}

impl Submission {
    /// One run of an executable that waits for nothing and signals nothing.
    pub fn dispatch(executable: Arc<dyn Executable>, inputs: Vec<Binding>, outputs: Vec<Binding>) -> Self {
        Self { commands: vec![Command::Dispatch { executable, inputs, outputs }], ..Self::default() }
    }
}
