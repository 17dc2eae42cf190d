//! What can be wrong with a command stream, before and while it runs.

use std::fmt;
use thiserror::Error;

/// One thing that is wrong with one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the messages say what the fields are")]
pub enum Fault {
    #[error("{what} is {found}; expected {expected}")]
    Value { what: &'static str, found: i64, expected: &'static str },
    #[error("{what} ends at {end}, memory {space} at {limit}; use a smaller tile")]
    Bounds { what: &'static str, space: &'static str, end: u64, limit: u64 },
    #[error("{what} has rows of {len} at a pitch of {pitch}, so they overlap; use a pitch of at least {len}")]
    Overlap { what: &'static str, len: u64, pitch: u64 },
    #[error("{what} must lie in {expected}")]
    Place { what: &'static str, expected: &'static str },
    #[error("{what} has type {found}; expected {expected}")]
    Type { what: &'static str, found: &'static str, expected: &'static str },
    #[error("region {0} is read only; store to out or scratch")]
    ReadOnly(&'static str),
    #[error("GEMM without a PRELOAD since the start of the stream")]
    NoPreload,
    #[error("requantization mode {0} is not in the configuration's list")]
    Mode(&'static str),
    #[error("the constants of this operation are out of range: {0}")]
    Constants(String),
    #[error("the stream does not finish with END")]
    NoEnd,
    #[error("the stream goes on after END")]
    AfterEnd,
    #[error("the stream has {found} instructions, the limit is {limit}")]
    TooLong { found: usize, limit: usize },
    #[error("the stream was made for configuration {found:016x}, this machine is {expected:016x}; compile it again")]
    ConfigHash { found: u64, expected: u64 },
    #[error("the constants have {found} bytes, region const only {limit}")]
    ConstantsLength { found: usize, limit: u64 },
    #[error("deadlock: no queue can go on; waiting at {waiting}")]
    Deadlock { waiting: String },
    #[error("{left} tokens or signals of {what} are left at the end; pushes and pops must balance")]
    Unbalanced { what: String, left: u64 },
    #[error("event {event} is used by two queues on the same side; give each pair of queues its own event")]
    EventShared { event: u32 },
    #[error("{kind} race with instruction {other} at {space}+{at}: nothing orders the two queues")]
    Race { kind: &'static str, other: usize, space: &'static str, at: u64 },
    #[error("{what} reads {space}+{at}, which nothing has written")]
    Unwritten { what: &'static str, space: &'static str, at: u64 },
    #[error("ACC_OVERFLOW: the sum may reach {bound}, an i32 holds 2147483647; split K")]
    AccOverflow { bound: u64 },
    #[error("the accesses touch more than {limit} separate pieces of memory; use denser tiles")]
    Fragmented { limit: usize },
    #[error("parity: {space}+{at} is read and one of its bits has changed since it was written")]
    Parity { space: &'static str, at: u64 },
    #[error("cycle counts do not fit 64 bits")]
    Cycles,
}

/// A fault, its instruction and the program node the instruction belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Index of the instruction in the stream.
    pub index: usize,
    /// The node of the `dbg` section.
    pub node: Option<u32>,
    /// What is wrong.
    pub fault: Fault,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instruction {}", self.index)?;
        if let Some(node) = self.node {
            write!(f, " (node {node})")?;
        }
        write!(f, ": {}", self.fault)
    }
}

impl std::error::Error for Violation {}

/// Why a stream was not loaded or did not finish.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NpuError {
    /// The verifier found violations (at least one).
    #[error("the command stream is refused: {}{}", .0[0], more(.0.len()))]
    Rejected(Vec<Violation>),
    /// The bytes are no container.
    #[error("the command stream cannot be read: {0}")]
    Container(#[from] crate::isa::ContainerError),
    /// The host bound less memory than the stream addresses.
    #[error("region {region} has {found} bytes, the stream addresses {expected}")]
    Memory {
        /// The region.
        region: &'static str,
        /// Bytes bound.
        found: u64,
        /// Bytes addressed.
        expected: u64,
    },
    /// The submission would take longer than the watchdog allows.
    #[error("the submission takes {cycles} cycles, the watchdog allows {limit}")]
    Watchdog {
        /// Cycles of the whole stream.
        cycles: u64,
        /// The configured limit.
        limit: u64,
    },
    /// The queues wait for each other for ever, and the watchdog ends that.
    #[error(
        "the submission never ends: no queue can go on; waiting at {waiting}; the watchdog stops it after {limit} cycles"
    )]
    Stopped {
        /// The heads of the queues.
        waiting: String,
        /// The configured limit.
        limit: u64,
    },
    /// The queues wait for each other for ever, and no watchdog is set.
    #[error("the submission never ends: no queue can go on; waiting at {waiting}")]
    Hung {
        /// The heads of the queues.
        waiting: String,
    },
    /// The device answers no more.
    #[error("the device was lost at cycle {cycle}")]
    Lost {
        /// When.
        cycle: u64,
    },
    /// A fault that only the data could show.
    #[error("{0}")]
    Run(Violation),
}

fn more(n: usize) -> String {
    if n > 1 { format!(" (and {} more)", n - 1) } else { String::new() }
}
