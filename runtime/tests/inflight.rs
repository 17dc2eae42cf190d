//! Inferences in flight over synchronous and asynchronous devices: results, overlap, failures, deadlines.

mod fakes;

use fakes::{Fake, Fate, Net, bytes, devices, expected, inputs};
use ottava_hal::{CompileOptions, Error, Status, Tensor};
use ottava_runtime::{DeviceEntry, RunOptions, Runner, RunnerOptions};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

fn runner(plan: ottava_plan::Plan, list: &[&Arc<Fake>], in_flight: usize) -> Runner {
    let entries: BTreeMap<_, _> = devices(list).into_iter().map(|(id, d)| (id, DeviceEntry::new(d))).collect();
    Runner::with(plan, entries, RunnerOptions { in_flight, ..RunnerOptions::default() }).expect("loads")
}

fn plain() -> RunOptions {
    RunOptions::default()
}

#[test]
fn every_kind_of_device_computes_the_same() {
    let want = expected(&Net::zigzag("a", "b"), &inputs(3));
    for (a, b) in [(true, true), (true, false), (false, true), (false, false)] {
        let make = |id: &str, sync| if sync { Fake::sync(id) } else { Fake::queued(id) };
        let (a, b) = (make("a", a), make("b", b));
        let plan = Net::zigzag("a", "b");
        let runner = Runner::new(plan, &devices(&[&a, &b]), &CompileOptions::default()).expect("loads");
        for _ in 0..3 {
            assert_eq!(bytes(&runner.run(&inputs(3), plain()).expect("runs").0), want);
        }
        assert_eq!((a.core.calls.load(SeqCst), b.core.calls.load(SeqCst)), (6, 6));
    }
}

#[test]
fn results_do_not_depend_on_what_else_is_in_flight() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 8);
    let plan = Net::zigzag("a", "b");
    let start = |n: usize| runner.run_async(inputs(n), plain(), None).expect("starts");
    let pending: Vec<_> = (0..64).map(start).collect();
    for (n, pending) in pending.into_iter().enumerate() {
        let (outputs, report) = pending.wait().expect("runs");
        assert_eq!(bytes(&outputs), expected(&plan, &inputs(n)), "inference {n}");
        assert_eq!(report.reruns, 0);
    }
    std::thread::scope(|scope| {
        for n in 0..12 {
            let (runner, plan) = (&runner, &plan);
            scope.spawn(move || {
                let outputs = runner.run(&inputs(n), plain()).expect("runs").0;
                assert_eq!(bytes(&outputs), expected(plan, &inputs(n)), "inference {n}");
            });
        }
    });
}

/// Two parties that leave together.
#[derive(Default)]
struct Meeting(Mutex<usize>, Condvar);

impl Meeting {
    fn attend(&self) {
        let mut here = self.0.lock().unwrap();
        *here += 1;
        self.1.notify_all();
        while *here < 2 {
            here = self.1.wait(here).unwrap();
        }
    }
}

#[test]
fn devices_work_at_the_same_time_for_different_inferences() {
    // `b` works for the first inference until `a` works for the second one: without overlap this would never end.
    let meeting = Arc::new(Meeting::default());
    let (at_a, at_b) = (meeting.clone(), meeting);
    let a = Fake::plotted("a", true, move |call, _| {
        if call == 1 {
            at_a.attend();
        }
        Fate::Go
    });
    let b = Fake::plotted("b", false, move |call, _| {
        if call == 0 {
            at_b.attend();
        }
        Fate::Go
    });
    let mut net = Net::new(&["a", "b"]);
    let x = net.input(96);
    let y = net.run("a", &[x]);
    let z = net.run("b", &[y]);
    net.output(z);
    let runner = runner(net.finish(), &[&a, &b], 2);
    let first = runner.run_async(inputs(0), RunOptions { profile: true }, None).expect("starts");
    let second = runner.run_async(inputs(1), RunOptions { profile: true }, None).expect("starts");
    let reports = [first.wait().expect("runs").1, second.wait().expect("runs").1];
    let spans = |device: &str| -> Vec<(u64, u64)> {
        let steps = reports.iter().flat_map(|r| r.steps.iter().map(move |s| (r.begin_ns, s)));
        let of = steps.filter(|(_, s)| s.device == device && s.kind == ottava_runtime::StepKind::Run);
        of.map(|(begin, s)| (begin + s.start_ns, begin + s.end_ns())).collect()
    };
    let meet = |(a0, a1): &(u64, u64), (b0, b1): &(u64, u64)| a0 < b1 && b0 < a1;
    assert!(spans("a").iter().any(|a| spans("b").iter().any(|b| meet(a, b))), "{:?} {:?}", spans("a"), spans("b"));
}

#[test]
fn a_failing_step_names_itself_and_ends_only_its_inference() {
    for sync in [true, false] {
        // The second partition of `b` fails in the second inference.
        let b = Fake::plotted("b", sync, |call, _| if call == 3 { Fate::Fail } else { Fate::Go });
        let a = Fake::sync("a");
        let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 4);
        let want = expected(runner.plan(), &inputs(0));
        assert_eq!(bytes(&runner.run(&inputs(0), plain()).expect("runs").0), want);
        let error = runner.run(&inputs(0), plain()).unwrap_err();
        assert_eq!(error.status(), Status::Internal);
        let text = error.to_string();
        assert!(text.contains("step `p3` on device `b`") && text.contains("told to fail"), "{text}");
        assert_eq!(bytes(&runner.run(&inputs(0), plain()).expect("runs").0), want);
    }
}

#[test]
fn a_failure_that_may_pass_is_tried_again_three_times() {
    for sync in [true, false] {
        for (busy, retries) in [(1, Some(1)), (3, Some(3)), (4, None)] {
            let b = Fake::plotted("b", sync, move |call, _| if call < busy { Fate::Busy } else { Fate::Go });
            let runner = runner(Net::zigzag("a", "b"), &[&Fake::sync("a"), &b], 1);
            let result = runner.run(&inputs(0), plain());
            match (retries, result) {
                (Some(retries), Ok((outputs, report))) => {
                    assert_eq!((report.retries, report.reruns), (retries, 0));
                    assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(0)));
                }
                (None, Err(error)) => {
                    assert_eq!((error.status(), b.core.calls.load(SeqCst)), (Status::Busy, 4));
                    let text = error.to_string();
                    assert!(text.contains("tried 4 times: step `p1` on device `b`"), "{text}");
                }
                (_, other) => panic!("busy {busy} times: {:?}", other.map(|(_, report)| report)),
            }
        }
    }
}

#[test]
fn other_failures_and_late_ones_are_not_tried_again() {
    let a = Fake::sync("a");
    for (fate, by) in [(Fate::Fail, None), (Fate::Busy, Some(Duration::ZERO))] {
        let b = Fake::plotted("b", true, move |_, _| fate);
        let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 1);
        let result = match by {
            Some(by) => runner.run_by(&inputs(0), plain(), Instant::now() + by),
            None => runner.run(&inputs(0), plain()),
        };
        let error = result.unwrap_err();
        assert!(b.core.calls.load(SeqCst) <= 1 && !error.to_string().contains("tried"), "{error}");
    }
}

#[test]
fn what_depends_on_a_failed_step_does_not_run() {
    let a = Fake::sync("a");
    let b = Fake::plotted("b", false, |call, _| if call == 0 { Fate::Fail } else { Fate::Go });
    let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 1);
    assert!(runner.run(&inputs(0), plain()).unwrap_err().to_string().contains("step `p1` on device `b`"));
    assert_eq!((a.core.calls.load(SeqCst), b.core.calls.load(SeqCst)), (1, 1));
}

#[test]
fn a_hanging_device_is_abandoned_at_the_deadline() {
    let a = Fake::sync("a");
    let b = Fake::plotted("b", false, |call, _| if call == 0 { Fate::Hang } else { Fate::Go });
    let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 2);
    let soon = Instant::now() + Duration::from_millis(30);
    let error = runner.run_by(&inputs(0), plain(), soon).unwrap_err();
    assert_eq!(error.status(), Status::Timeout);
    assert!(error.to_string().contains("step `p1` on device `b`"), "{error}");
    // The engine is still held by the hanging dispatch; the next inference runs when it is let go.
    let pending = runner.run_async(inputs(1), plain(), None).expect("starts");
    *b.core.hung.0.lock().unwrap() = false;
    b.core.hung.1.notify_all();
    assert_eq!(bytes(&pending.wait().expect("runs").0), expected(runner.plan(), &inputs(1)));
}

#[test]
fn a_wait_for_a_place_ends_at_the_deadline() {
    let a = Fake::plotted("a", true, |call, _| if call == 0 { Fate::Hang } else { Fate::Go });
    let mut net = Net::new(&["a"]);
    let x = net.input(96);
    let y = net.run("a", &[x]);
    net.output(y);
    let runner = runner(net.finish(), &[&a], 1);
    let hanging = runner.run_async(inputs(0), plain(), None).expect("starts");
    while a.core.calls.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    let error = runner.run_by(&inputs(1), plain(), Instant::now() + Duration::from_millis(5)).unwrap_err();
    assert_eq!(error.status(), Status::Timeout);
    assert!(error.to_string().contains("before the inference could start"), "{error}");
    let late = runner.run_async(inputs(1), plain(), Some(Instant::now())).expect("starts");
    assert_eq!(late.wait().unwrap_err().status(), Status::Timeout);
    *a.core.hung.0.lock().unwrap() = false;
    a.core.hung.1.notify_all();
    assert_eq!(hanging.wait().unwrap_err().status(), Status::Cancelled);
}

#[test]
fn nobody_waits_for_a_driver_that_does_not_return() {
    let a = Fake::plotted("a", true, |_, _| Fate::Hang);
    let runner = runner(Net::zigzag("a", "a"), &[&a], 1);
    let soon = Instant::now() + Duration::from_millis(20);
    let error = runner.run_async(inputs(0), plain(), Some(soon)).expect("starts").wait().unwrap_err();
    assert_eq!(error.status(), Status::Timeout);
    assert!(error.to_string().contains("a driver has not returned"), "{error}");
    *a.core.hung.0.lock().unwrap() = false;
    a.core.hung.1.notify_all();
}

#[test]
fn jobs_that_nobody_has_started_are_cancelled_with_the_runner() {
    let a = Fake::plotted("a", true, |call, _| if call == 0 { Fate::Hang } else { Fate::Go });
    let runner = runner(Net::zigzag("a", "a"), &[&a], 1);
    let (first, second) = (runner.run_async(inputs(0), plain(), None), runner.run_async(inputs(1), plain(), None));
    while a.core.calls.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    drop(runner);
    assert_eq!(second.expect("starts").wait().unwrap_err().status(), Status::Cancelled);
    *a.core.hung.0.lock().unwrap() = false;
    a.core.hung.1.notify_all();
    assert!(first.expect("starts").wait().unwrap_err().to_string().contains("let go"));
}

#[test]
fn shapes_that_only_a_run_decides_go_through_host_tensors() {
    // Static on `b`, of unknown size on `a`, static again: the slot in the middle has no place in any arena.
    for sync in [true, false] {
        let b = if sync { Fake::sync("b") } else { Fake::queued("b") };
        let a = Fake::sync("a");
        let mut net = Net::new(&["a", "b"]);
        let x = net.input(96);
        let first = net.run("b", &[x]);
        let open = net.run_to("a", &[first, x], 0);
        let back = net.run_to("a", &[open], 96);
        let last = net.run("b", &[back, first]);
        for slot in [last, open, x, last] {
            net.output(slot);
        }
        let runner = runner(net.finish(), &[&a, &b], 2);
        for n in 0..3 {
            let outputs = runner.run(&inputs(n), plain()).expect("runs").0;
            assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(n)));
        }
    }
}

#[test]
fn outputs_of_the_caller_are_filled_in_place_or_replaced() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 1);
    let fits = Tensor::from_slice(&[96], &[9u8; 96]).expect("fits");
    let at = fits.bytes().as_ptr();
    let mut outputs = [fits, Tensor::scalar(1.0f32)];
    runner.run_into(&inputs(5), &mut outputs, plain(), None).expect("runs");
    assert_eq!(outputs[0].bytes().as_ptr(), at);
    assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(5)));
    let error = runner.run_into(&inputs(5), &mut outputs[..1], plain(), None).unwrap_err();
    assert!(error.to_string().contains("1 output tensors given, the model has 2"), "{error}");
}

#[test]
fn what_cannot_run_is_refused_in_words() {
    let a = Fake::sync("a");
    let new = |plan| Runner::new(plan, &devices(&[&a]), &CompileOptions::default()).map(drop);
    let error: Error = new(Net::zigzag("a", "b")).unwrap_err();
    assert_eq!(error.to_string(), "the plan needs device `b`; open devices: a");
    let runner = runner(Net::zigzag("a", "a"), &[&a], 1);
    let error = runner.run(&[], plain()).unwrap_err();
    assert_eq!(error.to_string(), "0 inputs given, the model has 1: s0");
    let error = runner.run(&[Tensor::scalar(1u8)], plain()).unwrap_err();
    assert_eq!(error.to_string(), "input `s0` is u8[], expected u8[96]");
}

#[test]
fn kernels_and_memory_are_those_of_the_plan() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let runner = runner(Net::zigzag("a", "b"), &[&a, &b], 1);
    let kernels = runner.kernels();
    assert_eq!(kernels[1], ("p1".into(), "b".into(), "add@b".into()));
    assert_eq!(kernels.len(), 4);
    // `b` has its arena, `a` a buffer for each first byte of its own.
    assert!(runner.arena_bytes() >= runner.plan().arenas[1].bytes);
    assert!(runner.arena_bytes() <= runner.plan().arenas.iter().map(|a| a.sum_bytes.next_multiple_of(64)).sum());
}
