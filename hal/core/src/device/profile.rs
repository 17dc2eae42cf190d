//! Times of submissions.

use std::time::Instant;

/// What a device was busy with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u32)]
pub enum WorkKind {
    /// A node or kernel.
    #[default]
    Dispatch = 1,
    /// A transfer.
    Copy = 2,
    /// Waiting for a fence.
    Wait = 3,
}

/// Time of one node in one run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NodeTime {
    /// Name of the node.
    pub node: String,
    /// Kernel that ran.
    pub kernel: String,
    /// What the device did.
    pub kind: WorkKind,
    /// Start since [`Profile::begin`], nanoseconds.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub duration_ns: u64,
    /// Cycles of the device's own clock; 0 if it has none.
    pub cycles: u64,
    /// Bytes moved; 0 if unknown.
    pub bytes: u64,
}

/// Times of one submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// When the first command started, on the host's clock.
    pub begin: Instant,
    /// When the last command was done.
    pub end: Instant,
    /// Times of the nodes, in order.
    pub nodes: Vec<NodeTime>,
}

impl Profile {
    /// A profile that begins now.
    pub fn begin() -> Self {
        let now = Instant::now();
        Self { begin: now, end: now, nodes: Vec::new() }
    }
}
