//! Opening, closing and submitting many times: nothing grows.
//!
//! A few rounds by default; `--ignored` runs the numbers that are promised.

#[path = "../vulkan/common.rs"]
#[allow(dead_code)] // what the other tests need of it
mod common;

use common::{LONG, compile, contents, dequantize, device, finish, reference, submission};
use ottava_hal::Device;
use std::sync::{Arc, Mutex, PoisonError};

/// Resident memory in bytes, file descriptors and threads of this process; zeros where the system does not tell.
fn usage() -> [u64; 3] {
    let count = |folder: &str| std::fs::read_dir(folder).map_or(0, |d| d.count() as u64);
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split_whitespace().nth(1).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    [pages * 4096, count("/proc/self/fd"), count("/proc/self/task")]
}

/// Repeats something and compares what the process uses after a tenth of it and at the end.
fn check_steady(rounds: u64, bytes_per_round: u64, mut f: impl FnMut(u64)) {
    // One at a time, so that what is counted is the test's own.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let mut early = usage();
    for round in 0..rounds {
        f(round);
        if round == rounds / 10 {
            early = usage();
        }
    }
    let late = usage();
    println!("{rounds} rounds: {early:?} to {late:?} (bytes, descriptors, threads)");
    // The test's own threads come and go, so counts are compared with some slack.
    assert!(late[0] <= early[0] + rounds * bytes_per_round + (32 << 20), "memory {early:?} to {late:?}");
    assert!(late[1] <= early[1] + 24 && late[2] <= early[2] + 24, "{early:?} to {late:?}");
}

fn open_and_close(rounds: u64) {
    if device("opening and closing on Vulkan", &[]).is_none() {
        return;
    }
    let (program, x) = dequantize(64);
    let folder = tempfile::tempdir().unwrap();
    let expect = reference(&program, std::slice::from_ref(&x));
    check_steady(rounds, 4096, |_| {
        let options = [("cache", folder.path().to_str().unwrap())];
        let Some(device) = device("opening and closing on Vulkan", &options) else { return };
        let exe = compile(device.as_ref(), &program);
        let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
        finish(device.as_ref(), device.create_queue().unwrap().as_ref(), run).unwrap();
        assert_eq!(contents(&outs), expect);
    });
}

fn submit(rounds: u64) {
    let Some(device) = device("many submissions on Vulkan", &[]) else { return };
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
