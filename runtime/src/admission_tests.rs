//! The limit of inferences and the protocol for lost devices, under random schedules.

use super::*;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{check_random, thread};

const ROUNDS: usize = 400;

/// A compilation: its number, and whether its device is well.
struct Generation {
    number: usize,
    well: bool,
}

struct World {
    admission: Admission<Generation>,
    inside: AtomicUsize,
    most: AtomicUsize,
    recoveries: AtomicUsize,
    limit: usize,
}

impl World {
    fn new(limit: usize) -> Arc<Self> {
        let first = Arc::new(Generation { number: 0, well: false });
        Arc::new(Self {
            admission: Admission::new(first, limit),
            inside: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            recoveries: AtomicUsize::new(0),
            limit,
        })
    }

    /// A recovery that works, or not.
    fn recover(&self, current: &Arc<Generation>, losses: &[Loss], works: bool) -> Result<Arc<Generation>> {
        assert_eq!(self.inside.load(SeqCst), 0, "somebody is inside during a recovery");
        assert_eq!(losses.len(), 1);
        self.recoveries.fetch_add(1, SeqCst);
        thread::yield_now();
        assert_eq!(self.inside.load(SeqCst), 0, "somebody came in during a recovery");
        if works {
            Ok(Arc::new(Generation { number: current.number + 1, well: true }))
        } else {
            Err(losses[0].error.clone())
        }
    }

    /// An inference: what it ran on in the end, and how often it ran.
    fn infer(&self, works: bool) -> Result<(usize, usize)> {
        let recover = |current: &Arc<Generation>, losses: &[Loss]| self.recover(current, losses, works);
        for run in 1.. {
            let entry = self.admission.enter(None, &recover)?;
            let now = self.inside.fetch_add(1, SeqCst) + 1;
            self.most.fetch_max(now, SeqCst);
            assert!(now <= self.limit, "{now} inside");
            thread::yield_now();
            self.inside.fetch_sub(1, SeqCst);
            let number = entry.current.number;
            if entry.current.well {
                self.admission.leave(entry);
                return Ok((number, run));
            }
            let loss = Loss { device: "npu".into(), error: Error::failed(Status::DeviceLost, "gone") };
            self.admission.leave_lost(entry, loss, None, &recover)?;
        }
        unreachable!("the loop ends by returning")
    }
}

fn flood(limit: usize, works: bool) -> (Arc<World>, Vec<Result<(usize, usize)>>) {
    let world = World::new(limit);
    let start = |_| {
        let world = world.clone();
        thread::spawn(move || world.infer(works))
    };
    let threads: Vec<_> = (0..4).map(start).collect();
    let ends = threads.into_iter().map(|t| t.join().unwrap()).collect();
    (world, ends)
}

#[test]
fn one_loss_is_recovered_once_and_everybody_goes_on() {
    for limit in [1, 2, 4] {
        let check = move || {
            let (world, ends) = flood(limit, true);
            assert_eq!(world.recoveries.load(SeqCst), 1);
            for end in &ends {
                let (number, runs) = end.as_ref().unwrap();
                assert!(*number == 1 && *runs <= 2, "generation {number} after {runs} runs");
            }
            // At least the one that met the loss ran twice, at most as many as were inside with it.
            let again = ends.iter().filter(|e| e.as_ref().unwrap().1 == 2).count();
            assert!((1..=limit).contains(&again), "{again} of {limit}");
        };
        check_random(check, ROUNDS);
    }
}

#[test]
fn a_recovery_that_fails_answers_everybody() {
    for limit in [1, 3] {
        let check = move || {
            let (world, ends) = flood(limit, false);
            assert_eq!(world.recoveries.load(SeqCst), 1);
            assert!(ends.iter().all(|e| e.as_ref().unwrap_err().status() == Status::DeviceLost));
            assert!(world.infer(false).is_err());
        };
        check_random(check, ROUNDS);
    }
}

#[test]
fn a_second_loss_is_recovered_for_itself() {
    let check = || {
        let world = World::new(2);
        let recover = |current: &Arc<Generation>, losses: &[Loss]| world.recover(current, losses, true);
        let loss = || Loss { device: "npu".into(), error: Error::failed(Status::DeviceLost, "gone") };
        for number in 0..2 {
            let entry = world.admission.enter(None, &recover).unwrap();
            assert_eq!(entry.current.number, number);
            world.admission.leave_lost(entry, loss(), None, &recover).unwrap();
        }
        assert_eq!(world.recoveries.load(SeqCst), 2);
    };
    check_random(check, 10);
}
