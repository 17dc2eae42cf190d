//! What has to happen before what in one inference: the static half of [`crate::progress`].
//!
//! A step runs on the host (a copy, a call of a synchronous device) or is queued on an asynchronous device. Queues are
//! in order, so an edge between two steps of one queue needs no bookkeeping; all other edges are counted.

/// How a step is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// By the thread that drives the inference, when everything before it is done.
    Host,
    /// By the queue of a device, as its `turn`-th submission.
    Queued { device: usize, turn: usize },
}

/// Counted edges between steps.
#[derive(Debug)]
pub(crate) struct Flow {
    pub kinds: Vec<Kind>,
    /// Per step: how many counted edges lead to it.
    pub blockers: Vec<u32>,
    /// Per step: where its counted edges lead.
    pub dependents: Vec<Vec<usize>>,
    /// Per device: the step of each turn.
    pub turns: Vec<Vec<usize>>,
}

impl Flow {
    /// The flow of steps that wait for the given earlier steps. Turns count up from 0 on each device.
    pub fn new(kinds: Vec<Kind>, waits: &[Vec<usize>], n_devices: usize) -> Self {
        let mut flow = Self {
            blockers: vec![0; kinds.len()],
            dependents: vec![Vec::new(); kinds.len()],
            turns: vec![Vec::new(); n_devices],
            kinds,
        };
        for (step, waits) in waits.iter().enumerate() {
            if let Kind::Queued { device, .. } = flow.kinds[step] {
                flow.turns[device].push(step);
            }
            for &before in waits {
                if !flow.same_queue(before, step) && !flow.dependents[before].contains(&step) {
                    flow.dependents[before].push(step);
                    flow.blockers[step] += 1;
                }
            }
        }
        flow
    }

    fn same_queue(&self, a: usize, b: usize) -> bool {
        let queue = |kind: Kind| match kind {
            Kind::Host => None,
            Kind::Queued { device, .. } => Some(device),
        };
        queue(self.kinds[a]).is_some_and(|device| queue(self.kinds[b]) == Some(device))
    }

    /// Whether a queued step waits for something outside its queue.
    pub fn is_gated(&self, step: usize) -> bool {
        self.blockers[step] > 0
    }
}
