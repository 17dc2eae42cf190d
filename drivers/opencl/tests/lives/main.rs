//! Opening, closing and submitting many times: nothing grows.
//!
//! A program of its own, so that no other test uses memory beside it. A few rounds by default; `--ignored` runs the
//! numbers that are promised.

#[path = "../opencl/common.rs"]
#[allow(dead_code)] // the other test program uses the rest
mod common;

use common::{LONG, compile, contents, dequantize, device, finish, reference, submission};
use ottava_hal::Device;
use parking_lot::Mutex;
use std::sync::Arc;

/// Resident memory in bytes, file descriptors and threads of this process; zeros where the system does not tell.
fn usage() -> [u64; 3] {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, |d| d.count() as u64);
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    [pages * 4096, count("/proc/self/fd"), count("/proc/self/task")]
}

/// Repeats something and compares what the process uses after a tenth of it and at the end.
fn check_steady(rounds: u64, bytes_per_round: u64, mut f: impl FnMut(u64)) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock();
    let mut early = usage();
    for round in 0..rounds {
        f(round);
        if round == rounds / 10 {
            early = usage();
        }
    }
    let late = usage();
    println!("{rounds} rounds: {early:?} to {late:?} (bytes, descriptors, threads)");
    // Threads of the test program itself come and go.
    assert!(late[0] <= early[0] + rounds * bytes_per_round + (8 << 20), "memory {early:?} to {late:?}");
    assert!(late[1] <= early[1] + 2 && late[2] <= early[2] + 2, "{early:?} to {late:?}");
}

fn open_and_close(rounds: u64) {
    if device("opening and closing on OpenCL", &[]).is_none() {
        return;
    }
    let (program, x) = dequantize(64);
    let folder = tempfile::tempdir().unwrap();
    let expect = reference(&program, std::slice::from_ref(&x));
    check_steady(rounds, 4096, |_| {
        let options = [("cache", folder.path().to_str().unwrap())];
        let Some(device) = device("opening and closing on OpenCL", &options) else { return };
        let exe = compile(device.as_ref(), &program);
        let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
        finish(device.as_ref(), device.create_queue().unwrap().as_ref(), run).unwrap();
        assert_eq!(contents(&outs), expect);
    });
}

fn submit(rounds: u64) {
    let Some(device) = device("many submissions on OpenCL", &[]) else { return };
    let (program, x) = dequantize(64);
    let exe = compile(device.as_ref(), &program);
    let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    let (queue, fence) = (device.create_queue().unwrap(), device.create_fence(0).unwrap());
    check_steady(rounds, 64, |round| {
        let mut run = run.clone();
        run.signals = vec![(Arc::clone(&fence), round + 1)];
        queue.submit(&run).unwrap();
        // Several are in flight.
        fence.wait(round.saturating_sub(2), LONG).unwrap();
    });
    fence.wait(rounds, LONG).unwrap();
    assert_eq!(contents(&outs), reference(&program, &[x]));
}

#[test]
fn a_device_that_is_opened_and_closed_leaves_nothing() {
    open_and_close(20);
}

#[test]
fn many_submissions_leave_nothing() {
    submit(500);
}

#[test]
#[ignore = "minutes; tests/full.sh runs it"]
fn a_device_that_is_opened_and_closed_a_thousand_times_leaves_nothing() {
    open_and_close(1000);
}

#[test]
#[ignore = "minutes; tests/full.sh runs it"]
fn ten_thousand_submissions_leave_nothing() {
    submit(10_000);
}
