//! The order in which the worker takes jobs.

use super::*;
use crate::fence::Waits;
use ottava_hal::Fence;
use ottava_hal::host::HostFence;

fn job(core: &Arc<Core>, id: u64, wait: Option<Arc<dyn Fence>>) -> Job {
    let waits: Vec<_> = wait.into_iter().map(|f| (f, 1)).collect();
    let waits = Waits::register(core, &waits);
    Job { id, commands: Vec::new(), waits, signals: Vec::new(), deadline: None, profile: None }
}

/// The numbers of the jobs that are ready, in the order in which the worker would run them.
fn order(core: &Core) -> Vec<u64> {
    let mut state = core.state.lock();
    let pick = || match state.pick(None)? {
        Next::Run(job) | Next::End(job, _) => Some(job.id),
    };
    std::iter::from_fn(pick).collect()
}

#[test]
fn queues_are_served_in_turn_and_each_in_order() {
    let core = Core::new("npu", None);
    let (a, b) = (core.open_line(), core.open_line());
    for (line, id) in [(a, 1), (a, 2), (a, 3), (b, 10), (b, 11)] {
        core.enqueue(line, job(&core, id, None));
    }
    assert_eq!(order(&core), [1, 10, 2, 11, 3]);
}

#[test]
fn a_wait_holds_up_its_own_queue_only() {
    let core = Core::new("npu", None);
    let (a, b) = (core.open_line(), core.open_line());
    let gate: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    core.enqueue(a, job(&core, 1, Some(Arc::clone(&gate))));
    core.enqueue(a, job(&core, 2, None));
    core.enqueue(b, job(&core, 10, None));
    assert_eq!(order(&core), [10]);
    gate.signal(1).unwrap();
    assert_eq!(order(&core), [1, 2]);
}

#[test]
fn a_closed_queue_still_runs_what_it_has() {
    let core = Core::new("npu", None);
    let line = core.open_line();
    core.enqueue(line, job(&core, 1, None));
    core.close_line(line);
    assert_eq!(order(&core), [1]);
    assert!(core.state.lock().lines.is_empty());
}
