//! The worker threads under random schedules.

use super::*;
use crate::pending::pair;
use ottava_hal::Status;
use shuttle::sync::Barrier;
use shuttle::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use shuttle::{check_random, thread};

const ROUNDS: usize = 400;

#[test]
fn every_job_runs_once_on_a_few_threads() {
    let check = || {
        let (workers, busy) = (Workers::new(2), Arc::new(AtomicUsize::new(0)));
        let start = |_| {
            let (promise, pending) = pair(None);
            let busy = busy.clone();
            workers.push(Box::new(move || {
                assert!(busy.fetch_add(1, SeqCst) < 2);
                thread::yield_now();
                busy.fetch_sub(1, SeqCst);
                promise.keep(Ok((Vec::new(), crate::RunReport::default())));
            }));
            pending
        };
        let pending: Vec<_> = (0..5).map(start).collect();
        pending.into_iter().for_each(|p| assert!(p.wait().is_ok()));
        assert!(workers.shared.state.lock().threads <= 2);
    };
    check_random(check, ROUNDS);
}

#[test]
fn jobs_that_meet_get_a_thread_each() {
    let check = || {
        let workers = Workers::new(2);
        let start = |meeting: Option<Arc<Barrier>>| {
            let (promise, pending) = pair(None);
            workers.push(Box::new(move || {
                meeting.map(|m| m.wait());
                promise.keep(Ok((Vec::new(), crate::RunReport::default())));
            }));
            pending
        };
        // The first job leaves a thread that may be idle when the others come.
        assert!(start(None).wait().is_ok());
        let meeting = Arc::new(Barrier::new(2));
        let pending = [start(Some(meeting.clone())), start(Some(meeting))];
        pending.into_iter().for_each(|p| assert!(p.wait().is_ok()));
    };
    check_random(check, ROUNDS);
}

#[test]
fn jobs_are_run_or_cancelled_when_the_workers_go_away() {
    let check = || {
        let workers = Workers::new(1);
        let start = |_| {
            let (promise, pending) = pair(None);
            workers.push(Box::new(move || promise.keep(Ok((Vec::new(), crate::RunReport::default())))));
            pending
        };
        let pending: Vec<_> = (0..3).map(start).collect();
        drop(workers);
        for p in pending {
            if let Err(error) = p.wait() {
                assert_eq!(error.status(), Status::Cancelled);
            }
        }
    };
    check_random(check, ROUNDS);
}
