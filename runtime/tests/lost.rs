//! Lost devices: reset, open again, go on without, or fail; never hang, never a wrong result.

mod fakes;

use fakes::{Fake, Fate, Net, bytes, devices, expected, inputs};
use ottava_hal::{Device, Status};
use ottava_plan::Plan;
use ottava_runtime::{DeviceEntry, Recovery, Reopen, RunOptions, RunReport, Runner, RunnerOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

const IN_FLIGHT: usize = 100;

fn runner(plan: Plan, list: &[&Arc<Fake>], reopen: Option<Reopen>) -> Runner {
    let entries: BTreeMap<_, _> = devices(list).into_iter().map(|(id, d)| (id, DeviceEntry::new(d))).collect();
    Runner::with(plan, entries, RunnerOptions { in_flight: IN_FLIGHT, reopen, ..RunnerOptions::default() })
        .expect("loads")
}

/// A device that is lost at its 60th dispatch, when inferences are in all stages.
fn fragile(sync: bool) -> Arc<Fake> {
    Fake::plotted("b", sync, |call, _| if call == 60 { Fate::Lose } else { Fate::Go })
}

/// Starts 100 inferences at once and returns how each one ended.
fn flood(runner: &Runner) -> Vec<ottava_hal::Result<(Vec<Vec<u8>>, RunReport)>> {
    let start = |n| runner.run_async(inputs(n), RunOptions::default(), None).expect("starts");
    let pending: Vec<_> = (0..IN_FLIGHT).map(start).collect();
    pending.into_iter().map(|p| p.wait().map(|(outputs, report)| (bytes(&outputs), report))).collect()
}

/// All results are those of an undisturbed run; the number of inferences that ran again.
fn assert_undisturbed(results: Vec<ottava_hal::Result<(Vec<Vec<u8>>, RunReport)>>) -> usize {
    let plan = Net::zigzag("a", "b");
    let mut reruns = 0;
    for (n, result) in results.into_iter().enumerate() {
        let (outputs, report) = result.unwrap_or_else(|e| panic!("inference {n}: {e}"));
        assert_eq!(outputs, expected(&plan, &inputs(n)), "inference {n}");
        reruns += report.reruns;
    }
    reruns
}

#[test]
fn a_hundred_inferences_end_well_on_the_alternative() {
    for sync in [false, true] {
        let (a, b) = (Fake::sync("a"), fragile(sync));
        let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
        let reruns = assert_undisturbed(flood(&runner));
        let events = runner.events();
        assert_eq!(events.len(), 1, "{events:?}");
        assert_eq!((events[0].device.as_str(), events[0].recovery), ("b", Recovery::Alternative));
        assert_eq!(events[0].error.status(), Status::DeviceLost);
        assert!(events[0].tried[0].contains("it stays lost"), "{:?}", events[0].tried);
        assert!(events[0].tried[1].contains("the application offers no way"), "{:?}", events[0].tried);
        assert!(reruns > 0 && events[0].reruns == reruns, "{reruns} {}", events[0].reruns);
        assert_eq!(b.core.resets.load(SeqCst), 1);
        assert!(runner.partitions().iter().all(|p| p.device == "a"));
        // Later inferences run there as well.
        let before = b.core.calls.load(SeqCst);
        assert_eq!(assert_undisturbed(flood(&runner)), 0);
        assert_eq!(b.core.calls.load(SeqCst), before);
    }
}

#[test]
fn without_an_alternative_every_inference_gets_the_error() {
    for sync in [false, true] {
        let (a, b) = (Fake::sync("a"), fragile(sync));
        let runner = runner(Net::zigzag("a", "b"), &[&a, &b], None);
        let plan = Net::zigzag("a", "b");
        let (mut well, mut failed) = (0, 0);
        for (n, result) in flood(&runner).into_iter().enumerate() {
            match result {
                Ok((outputs, _)) => {
                    assert_eq!(outputs, expected(&plan, &inputs(n)));
                    well += 1;
                }
                Err(e) => {
                    assert_eq!(e.status(), Status::DeviceLost);
                    let text = e.to_string();
                    assert!(text.contains("on device `b`") && text.contains("no alternative for `b`"), "{text}");
                    failed += 1;
                }
            }
        }
        assert!(failed >= IN_FLIGHT - 30 && well + failed == IN_FLIGHT, "{well} {failed}");
        assert_eq!(runner.run(&inputs(0), RunOptions::default()).unwrap_err().status(), Status::DeviceLost);
        let events = runner.events();
        assert_eq!((events.len(), events[0].recovery), (1, Recovery::Failed));
    }
}

#[test]
fn a_reset_that_works_is_enough() {
    for sync in [false, true] {
        let (a, b) = (Fake::sync("a"), fragile(sync));
        b.core.resettable.store(true, SeqCst);
        let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
        let reruns = assert_undisturbed(flood(&runner));
        let events = runner.events();
        assert_eq!((events.len(), events[0].recovery), (1, Recovery::Reset));
        assert!(reruns > 0);
        // What ran on `b` was compiled again, once; the rest was taken over.
        assert_eq!((a.core.compiled.load(SeqCst), b.core.compiled.load(SeqCst)), (2, 4));
        assert_eq!(b.core.resets.load(SeqCst), 1);
    }
}

#[test]
fn a_device_that_is_lost_right_after_its_reset_is_given_up() {
    let b = Fake::plotted("b", false, |_, _| Fate::Lose);
    b.core.resettable.store(true, SeqCst);
    let a = Fake::sync("a");
    let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
    assert_undisturbed(flood(&runner));
    let recoveries: Vec<Recovery> = runner.events().iter().map(|e| e.recovery).collect();
    assert_eq!(recoveries, [Recovery::Reset, Recovery::Alternative]);
    assert_eq!(b.core.resets.load(SeqCst), 1);
}

/// Works for three dispatches and is lost at every one that follows; a reset succeeds each time.
fn flapping() -> Arc<Fake> {
    let b = Fake::plotted("b", false, |call, _| if call >= 3 { Fate::Lose } else { Fate::Go });
    b.core.resettable.store(true, SeqCst);
    b
}

/// The runner of a plan whose device `b` flaps, also when it is opened again.
fn flapping_runner(plan: Plan) -> Runner {
    let reopen: Reopen = Arc::new(|_: &str| Ok(DeviceEntry::new(flapping() as Arc<dyn Device>)));
    runner(plan, &[&Fake::sync("a"), &flapping()], Some(reopen))
}

#[test]
fn a_device_that_is_lost_again_and_again_is_reset_once_opened_once_and_given_up() {
    let runner = flapping_runner(Net::with_alternative("a", "b"));
    assert!(assert_undisturbed(flood(&runner)) > 0);
    let events = runner.events();
    let recoveries: Vec<Recovery> = events.iter().map(|e| e.recovery).collect();
    assert_eq!(recoveries, [Recovery::Reset, Recovery::Reopened, Recovery::Alternative]);
    assert!(events[1].tried[0].contains("it is not reset once more"), "{:?}", events[1].tried);
    assert!(events[2].tried[1].contains("it is not opened once more"), "{:?}", events[2].tried);
    assert!(runner.partitions().iter().all(|p| p.device == "a"));
}

#[test]
fn without_an_alternative_a_device_that_is_lost_again_and_again_fails() {
    let runner = flapping_runner(Net::zigzag("a", "b"));
    let failed: Vec<_> = flood(&runner).into_iter().filter_map(|r| r.err()).collect();
    assert!(failed.len() >= IN_FLIGHT - 6 && failed.iter().all(|e| e.status() == Status::DeviceLost), "{failed:?}");
    assert_eq!(runner.events().last().map(|e| e.recovery), Some(Recovery::Failed));
}

#[test]
fn a_device_that_has_served_long_since_its_reset_is_reset_again() {
    let b = Fake::plotted("b", false, |call, _| if [10, 400, 800].contains(&call) { Fate::Lose } else { Fate::Go });
    b.core.resettable.store(true, SeqCst);
    let runner = runner(Net::with_alternative("a", "b"), &[&Fake::sync("a"), &b], None);
    for n in 0..450 {
        let outputs = runner.run(&inputs(n), RunOptions::default()).expect("runs").0;
        assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(n)));
    }
    assert_eq!(runner.events().iter().map(|e| e.recovery).collect::<Vec<_>>(), [Recovery::Reset; 3]);
}

#[test]
fn the_application_may_open_the_device_again() {
    let (a, b) = (Fake::sync("a"), fragile(false));
    let fresh = Fake::queued("b");
    let again = fresh.clone();
    let reopen: Reopen = Arc::new(move |id: &str| {
        assert_eq!(id, "b");
        Ok(DeviceEntry::new(again.clone() as Arc<dyn Device>))
    });
    let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], Some(reopen));
    assert_undisturbed(flood(&runner));
    assert_eq!(runner.events()[0].recovery, Recovery::Reopened);
    assert!(fresh.core.calls.load(SeqCst) > 0);
    assert_eq!(runner.partitions().iter().filter(|p| p.device == "b").count(), 2);
}

#[test]
fn a_panic_in_a_driver_is_a_lost_device() {
    let b = Fake::plotted("b", true, |call, _| if call == 1 { Fate::Panic } else { Fate::Go });
    let a = Fake::sync("a");
    let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
    let (outputs, report) = runner.run(&inputs(0), RunOptions::default()).expect("runs");
    assert_eq!((bytes(&outputs), report.reruns), (expected(runner.plan(), &inputs(0)), 1));
    let event = &runner.events()[0];
    assert_eq!((event.error.status(), event.recovery), (Status::Panic, Recovery::Alternative));
    assert!(event.error.to_string().contains("dispatch 1 was told to panic"), "{}", event.error);
}

#[test]
fn a_device_that_is_lost_while_idle_is_noticed_by_the_next_inference() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
    runner.run(&inputs(0), RunOptions::default()).expect("runs");
    b.core.lose();
    let (outputs, report) = runner.run(&inputs(1), RunOptions::default()).expect("runs");
    assert_eq!((bytes(&outputs), report.reruns), (expected(runner.plan(), &inputs(1)), 1));
}

#[test]
fn two_devices_lost_one_after_the_other_leave_an_error() {
    let a = Fake::plotted("a", true, |call, _| if call >= 40 { Fate::Lose } else { Fate::Go });
    let b = Fake::plotted("b", false, |call, _| if call == 5 { Fate::Lose } else { Fate::Go });
    let runner = runner(Net::with_alternative("a", "b"), &[&a, &b], None);
    let failed = flood(&runner).into_iter().filter_map(|r| r.err()).collect::<Vec<_>>();
    assert!(!failed.is_empty() && failed.iter().all(|e| e.status() == Status::DeviceLost));
    assert_eq!(runner.events().last().map(|e| (e.device.clone(), e.recovery)), Some(("a".into(), Recovery::Failed)));
}
