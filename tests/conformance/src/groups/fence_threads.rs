//! D.5: timelines under many threads.

use super::Group;
use crate::kit::LIMIT;
use crate::{Case, Check, Stop, Subject, ensure};

pub(super) const GROUP: Group = Group {
    id: "D.5",
    name: "fence.threads",
    about: "16 threads make, signal, ask and wait at once",
    cases: |_| {
        vec![
            Case::new("D.5", "fence.threads.own", own),
            Case::new("D.5", "fence.threads.shared", shared),
            Case::new("D.5", "fence.threads.race", race),
        ]
    },
};

const THREADS: usize = 16;

fn all(work: impl Fn(usize) -> Check + Sync) -> Check {
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|t| scope.spawn(move || work(t))).collect();
        threads.into_iter().try_for_each(|t| t.join().unwrap_or_else(|_| Err(Stop::failed("a thread panicked"))))
    })
}

fn operations(subject: &Subject) -> u64 {
    if subject.stress { 10_000 } else { 300 }
}

fn own(subject: &Subject) -> Check {
    let device = subject.open()?;
    all(|_| {
        let mut fence = device.create_fence(0)?;
        for i in 1..=operations(subject) {
            fence.signal(i)?;
            if i % 20 == 0 {
                std::thread::yield_now();
            }
            ensure!(fence.query()? == i, "a timeline of one thread stands at {:?}, expected {i}", fence.query());
            if i % 50 == 0 {
                fence = device.create_fence(i)?;
            }
        }
        Ok(())
    })
}

/// One thread signals, the others wait for every value.
fn shared(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    let n = operations(subject);
    all(|t| {
        for i in 1..=n {
            if t == 0 {
                fence.signal(i)?;
            } else {
                let wait = fence.wait(i, LIMIT);
                wait.map_err(|e| Stop::failed(format!("a waiter for {i} of {n} was not woken: {e}")))?;
                let now = fence.query()?;
                ensure!(now >= i, "a waiter for {i} was woken at {now}");
            }
        }
        Ok(())
    })
}

/// All threads signal the same values: each value is taken by exactly one of them.
fn race(subject: &Subject) -> Check {
    let fence = subject.open()?.create_fence(0)?;
    let n = operations(subject);
    let taken = std::sync::atomic::AtomicU64::new(0);
    all(|_| {
        for i in 1..=n {
            if fence.signal(i).is_ok() {
                taken.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            ensure!(fence.query()? >= i, "a timeline stands below {i}, which was signalled");
        }
        Ok(())
    })?;
    let taken = taken.into_inner();
    ensure!(fence.query()? == n && taken <= n, "{taken} signals of {n} values were accepted");
    Ok(())
}
