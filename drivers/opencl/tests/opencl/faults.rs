//! Injected faults: each is an error of its submission, and the device goes on.

use crate::common::{LONG, compile, contents, dequantize, device, finish, reference, submission};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{BufferDesc, Device, Status, Submission};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn fault(kind: FaultKind) -> Fault {
    Fault { kind, after_calls: 0, seed: 5 }
}

#[test]
fn faults_end_their_submission_and_the_next_one_runs() {
    let Some(device) = device("faults on OpenCL", &[]) else { return };
    let (program, x) = dequantize(64);
    let exe = compile(device.as_ref(), &program);
    let queue = device.create_queue().unwrap();
    let inputs = std::slice::from_ref(&x);
    for (kind, status) in [(FaultKind::Panic, Some(Status::Panic)), (FaultKind::Delay, None)] {
        let (run, outs) = submission(device.as_ref(), &exe, inputs);
        device.inject(fault(kind)).unwrap();
        let failed = finish(device.as_ref(), queue.as_ref(), run).err().map(|e| e.status());
        assert_eq!(failed, status, "{kind:?}");
        assert_eq!(contents(&outs) == reference(&program, inputs), status.is_none());
    }
    let (run, outs) = submission(device.as_ref(), &exe, inputs);
    device.inject(fault(FaultKind::BitFlip)).unwrap();
    finish(device.as_ref(), queue.as_ref(), run).unwrap();
    let differing = |a: &[u8], b: &[u8]| a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>();
    assert_eq!(differing(&contents(&outs)[0], &reference(&program, inputs)[0]), 1);
    device.inject(fault(FaultKind::OutOfMemory)).unwrap();
    let refused = device.alloc(&BufferDesc { bytes: 4, alignment: 64 }).err();
    assert_eq!(refused.map(|e| e.status()), Some(Status::OutOfDeviceMemory));
    let (run, outs) = submission(device.as_ref(), &exe, inputs);
    finish(device.as_ref(), queue.as_ref(), run).unwrap();
    assert_eq!(contents(&outs), reference(&program, inputs));
}

#[test]
fn a_submission_that_hangs_ends_at_its_deadline_or_when_faults_are_cleared() {
    let Some(device) = device("hangs on OpenCL", &[]) else { return };
    let (program, x) = dequantize(64);
    let exe = compile(device.as_ref(), &program);
    let queue = device.create_queue().unwrap();
    let (mut run, _) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    device.inject(fault(FaultKind::Hang)).unwrap();
    run.deadline = Some(Instant::now() + Duration::from_millis(20));
    assert_eq!(finish(device.as_ref(), queue.as_ref(), run).unwrap_err().status(), Status::Timeout);
    let fence = device.create_fence(0).unwrap();
    device.inject(fault(FaultKind::Hang)).unwrap();
    let signals = vec![(Arc::clone(&fence), 1)];
    queue.submit(&Submission { signals, ..Submission::default() }).unwrap();
    while fence.wait(1, Duration::from_millis(5)).is_err_and(|e| e.status() == Status::Timeout) {
        device.clear_faults().unwrap();
    }
    let ended = fence.query();
    // Cleared before the worker came to it, the fault never struck.
    assert!(ended == Ok(1) || ended.unwrap_err().status() == Status::Cancelled);
    let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    finish(device.as_ref(), queue.as_ref(), run).unwrap();
    assert_eq!(contents(&outs), reference(&program, &[x]));
}

#[test]
fn a_lost_device_says_so_and_comes_back_with_a_reset() {
    let Some(device) = device("a lost device on OpenCL", &[]) else { return };
    let (program, x) = dequantize(64);
    let exe = compile(device.as_ref(), &program);
    let queue = device.create_queue().unwrap();
    let bystander = device.create_fence(0).unwrap();
    let (run, _) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    device.inject(fault(FaultKind::Lost)).unwrap();
    assert_eq!(finish(device.as_ref(), queue.as_ref(), run.clone()).unwrap_err().status(), Status::DeviceLost);
    assert_eq!(bystander.wait(1, LONG).unwrap_err().status(), Status::DeviceLost);
    assert_eq!(queue.submit(&run).unwrap_err().status(), Status::DeviceLost);
    assert_eq!(
        device.alloc(&BufferDesc { bytes: 4, alignment: 64 }).err().map(|e| e.status()),
        Some(Status::DeviceLost)
    );
    device.reset().unwrap();
    assert!(queue.submit(&run).unwrap_err().to_string().contains("before a reset"));
    let exe = compile(device.as_ref(), &program);
    let (run, outs) = submission(device.as_ref(), &exe, std::slice::from_ref(&x));
    finish(device.as_ref(), queue.as_ref(), run).unwrap();
    assert_eq!(contents(&outs), reference(&program, &[x]));
}
