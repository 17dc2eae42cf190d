//! Why a plan does not run on its devices, and where.

use crate::guard;
use ottava_hal::{Device, Error, Status, Verdict};
use ottava_plan::Partition;
use std::fmt;

/// What a plan could not be loaded for. `error` says all of it in words; the other fields are for callers that place
/// the nodes of the partition elsewhere.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadError {
    /// Index of the partition, if it is one that does not load (the first one of a device that is not open).
    pub partition: Option<usize>,
    /// Id of the device; empty if no device is to blame.
    pub device: String,
    /// What went wrong.
    pub error: Error,
}

impl LoadError {
    /// The plan itself is wrong.
    pub(crate) fn of_plan(error: Error) -> Self {
        Self { partition: None, device: String::new(), error }
    }

    /// A device has not taken a partition.
    pub(crate) fn of_partition(index: usize, p: &Partition, device: &dyn Device, error: Error) -> Self {
        let node = culprit(p, device, &error).map_or_else(String::new, |node| format!(", node `{node}`"));
        let place = format!("partition {index} (`{}`{node}) on device `{}`", p.program.name, p.device);
        Self { partition: Some(index), device: p.device.clone(), error: guard::context(error, &place) }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for LoadError {}

impl From<LoadError> for Error {
    fn from(e: LoadError) -> Self {
        e.error
    }
}

/// The node that the device does not take: the only one, or the first one that it refuses when it is asked again.
fn culprit<'p>(p: &'p Partition, device: &dyn Device, error: &Error) -> Option<&'p str> {
    let nodes = &p.program.nodes;
    if let [only] = nodes.as_slice() {
        return Some(&only.name);
    }
    if matches!(error.status(), Status::DeviceLost | Status::Panic) {
        return None;
    }
    let verdicts = guard::call(&p.device, || device.assess(&p.program)).ok()?;
    let refused = verdicts.iter().position(|v| matches!(v, Verdict::Rejected { .. }))?;
    nodes.get(refused).map(|n| n.name.as_str())
}
