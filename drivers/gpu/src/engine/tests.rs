//! The engine over a device that only notes what it is told; the tests say when its work ends.

use super::backend::{Backend, Completion};
use super::{Core, Engine, EngineQueue};
use ottava_hal::device::{Command, Profile};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::host::HostFence;
use ottava_hal::{Error, Fence, Queue, Result, Status, Submission};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(30);

/// A device that ends its work at once, or when it is told to.
#[derive(Default)]
struct Fake {
    holds: Mutex<Vec<Completion>>,
    holding: bool,
    /// Numbers of the queues that work was started on.
    started: Mutex<Vec<u64>>,
    queues: Mutex<u64>,
}

impl Backend for Fake {
    type Queue = u64;
    type Work = ();
    type Running = ();

    fn id(&self) -> &str {
        "fake"
    }

    fn queue(&self) -> Result<u64> {
        let mut queues = self.queues.lock();
        *queues += 1;
        Ok(*queues)
    }

    fn check(&self, _: &Command) -> Result<()> {
        Err(Error::invalid("the fake runs no command"))
    }

    fn start(&self, queue: &u64, _: &[()], _: bool, done: Completion) -> Result<()> {
        self.started.lock().push(*queue);
        if self.holding {
            self.holds.lock().push(done);
        } else {
            done.tell(Ok(()));
        }
        Ok(())
    }

    fn end(&self, (): (), _: Option<&mut Profile>) -> Result<()> {
        Ok(())
    }

    fn flip_bit(&self, _: &[()], _: u64) -> Result<()> {
        Ok(())
    }

    fn reset(&self) -> Result<()> {
        Ok(())
    }
}

struct Setup {
    engine: Arc<Engine<Fake>>,
    queue: EngineQueue<Fake>,
    fence: Arc<dyn Fence>,
}

fn setup(holding: bool) -> Setup {
    let core = Core::new(Fake { holding, ..Fake::default() });
    let engine = Arc::new(Engine::start(core).unwrap());
    let queue = EngineQueue::new(Arc::clone(&engine)).unwrap();
    Setup { fence: engine.core.create_fence(0), queue, engine }
}

impl Setup {
    fn signal(&self, value: u64) -> Submission {
        Submission { signals: vec![(Arc::clone(&self.fence), value)], ..Submission::default() }
    }

    fn backend(&self) -> &Fake {
        &self.engine.core.backend
    }

    /// Waits until the device has so many pieces of work.
    fn await_held(&self, n: usize) {
        let begin = Instant::now();
        while self.backend().holds.lock().len() < n {
            assert!(begin.elapsed() < LONG, "the device never got its work");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_queue_gives_the_device_several_submissions_but_not_all() {
    let s = setup(true);
    (1..=10).for_each(|n| assert_eq!(s.queue.submit(&s.signal(n)), Ok(n)));
    s.await_held(4);
    assert_eq!(s.fence.query(), Ok(0));
    for n in 1..=10 {
        s.await_held(1);
        let first = s.backend().holds.lock().remove(0);
        first.tell(Ok(()));
        s.fence.wait(n, LONG).unwrap();
    }
    assert_eq!(s.backend().started.lock().len(), 10);
}

#[test]
fn the_devices_failure_is_that_of_its_submission_only() {
    let s = setup(true);
    let other = s.engine.core.create_fence(0);
    s.queue.submit(&s.signal(1)).unwrap();
    s.queue.submit(&Submission { signals: vec![(Arc::clone(&other), 1)], ..Submission::default() }).unwrap();
    s.await_held(2);
    let mut held = std::mem::take(&mut *s.backend().holds.lock());
    held.remove(0).tell(Err(Error::failed(Status::Internal, "a kernel failed")));
    // Dropped without a word, as by a driver that forgets.
    assert!(s.fence.wait(1, LONG).unwrap_err().to_string().contains("a kernel failed"));
    drop(held);
    assert!(other.wait(1, LONG).unwrap_err().to_string().contains("never said"));
}

#[test]
fn a_loss_that_the_device_reports_fails_every_timeline_until_a_reset() {
    let s = setup(true);
    let bystander = s.engine.core.create_fence(0);
    s.queue.submit(&s.signal(1)).unwrap();
    s.await_held(1);
    s.backend().holds.lock().remove(0).tell(Err(Error::failed(Status::DeviceLost, "it is gone")));
    assert_eq!(s.fence.wait(1, LONG).unwrap_err().status(), Status::DeviceLost);
    assert_eq!(bystander.wait(1, LONG).unwrap_err().status(), Status::DeviceLost);
    assert_eq!(s.queue.submit(&s.signal(2)).unwrap_err().status(), Status::DeviceLost);
    s.engine.core.reset().unwrap();
    let fence = s.engine.core.create_fence(0);
    s.queue.submit(&Submission { signals: vec![(Arc::clone(&fence), 1)], ..Submission::default() }).unwrap();
    s.await_held(1);
    s.backend().holds.lock().remove(0).tell(Ok(()));
    fence.wait(1, LONG).unwrap();
}

#[test]
fn a_reset_tells_those_that_wait_for_work_that_never_ends() {
    let s = setup(true);
    s.queue.submit(&s.signal(1)).unwrap();
    s.await_held(1);
    s.engine.core.reset().unwrap();
    assert_eq!(s.fence.wait(1, LONG).unwrap_err().status(), Status::DeviceLost);
    // The device lets go of it later, and nobody is told twice.
    s.backend().holds.lock().remove(0).tell(Ok(()));
    assert!(s.fence.query().is_err());
}

#[test]
fn a_wait_holds_up_its_own_queue_only_and_its_deadline_ends_it() {
    let s = setup(false);
    let gate: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    let mut late = s.signal(1);
    late.waits = vec![(gate, 1)];
    late.deadline = Some(Instant::now() + Duration::from_millis(5));
    s.queue.submit(&late).unwrap();
    let (other, fence) = (EngineQueue::new(Arc::clone(&s.engine)).unwrap(), s.engine.core.create_fence(0));
    other.submit(&Submission { signals: vec![(Arc::clone(&fence), 1)], ..Submission::default() }).unwrap();
    fence.wait(1, LONG).unwrap();
    assert_eq!(s.fence.wait(1, LONG).unwrap_err().status(), Status::Timeout);
    assert_eq!(*s.backend().started.lock(), [2]);
}

#[test]
fn without_a_thread_a_submission_is_done_when_submit_returns() {
    let engine = Arc::new(Engine::without_thread(Core::new(Fake::default())));
    let (queue, fence) = (EngineQueue::new(Arc::clone(&engine)).unwrap(), engine.core.create_fence(0));
    let to = |n| Submission { signals: vec![(Arc::clone(&fence), n)], ..Submission::default() };
    queue.submit(&to(1)).unwrap();
    assert_eq!(fence.query(), Ok(1));
    engine.core.inject(Fault { kind: FaultKind::Hang, after_calls: 0, seed: 0 });
    queue.submit(&to(2)).unwrap();
    assert_eq!(fence.query(), Ok(1));
    engine.core.clear_faults();
    assert_eq!(fence.query().unwrap_err().status(), Status::Cancelled);
}

#[test]
fn closing_ends_what_waits_and_waits_for_what_runs() {
    let s = setup(true);
    let waiting = s.engine.core.create_fence(0);
    s.queue.submit(&s.signal(1)).unwrap();
    s.await_held(1);
    let gate: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    let signals = vec![(Arc::clone(&waiting), 1)];
    s.queue.submit(&Submission { signals, waits: vec![(gate, 1)], ..Submission::default() }).unwrap();
    let held = s.backend().holds.lock().remove(0);
    let Setup { engine, queue, fence } = s;
    let closing = std::thread::spawn(move || drop((queue, engine)));
    assert_eq!(waiting.wait(1, LONG).unwrap_err().status(), Status::Cancelled);
    held.tell(Ok(()));
    closing.join().unwrap();
    assert_eq!(fence.query(), Ok(1));
}
