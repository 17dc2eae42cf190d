//! Injected faults, loss and reset.

use crate::common::{LONG, Rng, chip, compile, contents, data, finish, submission, try_chip};
use crate::network::network;
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::{BufferDesc, CompileOptions, Device, Executable, Fence, Queue, Result, Status, Tensor};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Setup {
    device: Arc<dyn Device>,
    queue: Arc<dyn Queue>,
    exe: Arc<dyn Executable>,
    inputs: Vec<Tensor>,
}

fn setup() -> Setup {
    let mut rng = Rng::new(31);
    let program = network(&mut rng);
    let device = chip("Npu()");
    let (queue, exe) = (device.create_queue().unwrap(), compile(device.as_ref(), &program));
    Setup { queue, exe, inputs: data(&program, &mut rng), device }
}

impl Setup {
    fn run(&self) -> Result<Vec<Vec<u8>>> {
        let (s, outs) = submission(self.device.as_ref(), &self.exe, &self.inputs);
        finish(self.device.as_ref(), self.queue.as_ref(), s)?;
        Ok(contents(&outs))
    }

    fn inject(&self, kind: FaultKind) {
        self.device.inject(Fault { kind, after_calls: 1, seed: 12_345 }).unwrap();
    }
}

#[test]
fn panics_and_lack_of_memory_are_errors_of_one_submission() {
    let s = setup();
    let good = s.run().unwrap();
    for (kind, status) in [(FaultKind::Panic, Status::Panic), (FaultKind::OutOfMemory, Status::OutOfDeviceMemory)] {
        s.inject(kind);
        assert_eq!(s.run().unwrap(), good, "one call before it strikes");
        assert_eq!(s.run().unwrap_err().status(), status);
        assert_eq!(s.run().unwrap(), good, "the device goes on");
    }
}

#[test]
fn a_lack_of_memory_also_strikes_an_allocation() {
    let s = setup();
    s.device.inject(Fault { kind: FaultKind::OutOfMemory, after_calls: 0, seed: 0 }).unwrap();
    let alloc = || s.device.alloc(&BufferDesc { bytes: 8, alignment: 64 });
    assert_eq!(alloc().err().map(|e| e.status()), Some(Status::OutOfDeviceMemory));
    alloc().unwrap();
    s.run().unwrap();
}

#[test]
fn a_delay_is_late_and_right_and_a_flipped_bit_is_one_bit() {
    let s = setup();
    let good = s.run().unwrap();
    s.inject(FaultKind::Delay);
    assert_eq!([s.run().unwrap(), s.run().unwrap()], [good.clone(), good.clone()]);
    s.inject(FaultKind::BitFlip);
    s.run().unwrap();
    let bad = s.run().unwrap();
    let differ = |(a, b): (&u8, &u8)| (a ^ b).count_ones();
    let bits: u32 = good.concat().iter().zip(&bad.concat()).map(differ).sum();
    assert_eq!(bits, 1);
    s.inject(FaultKind::BitFlip);
    s.device.clear_faults().unwrap();
    assert_eq!([s.run().unwrap(), s.run().unwrap()], [good.clone(), good]);
}

#[test]
fn a_lost_device_fails_its_fences_until_it_is_reset() {
    let s = setup();
    let idle = s.device.create_fence(0).unwrap();
    s.device.inject(Fault { kind: FaultKind::Lost, after_calls: 0, seed: 0 }).unwrap();
    assert_eq!(s.run().unwrap_err().status(), Status::DeviceLost);
    assert_eq!(idle.wait(1, LONG).unwrap_err().status(), Status::DeviceLost);
    let lost = |e: ottava_hal::Error| e.status() == Status::DeviceLost;
    assert!(s.device.alloc(&BufferDesc { bytes: 8, alignment: 64 }).err().is_some_and(lost));
    assert!(s.device.create_queue().err().is_some_and(lost));
    s.device.reset().unwrap();
    let mut rng = Rng::new(31);
    let program = network(&mut rng);
    assert!(s.run().unwrap_err().to_string().contains("before a reset"), "old executables stay void");
    let exe = s.device.compile(&program, &CompileOptions::default()).unwrap();
    Setup { exe, ..s }.run().unwrap();
}

#[test]
fn a_hung_submission_ends_at_its_deadline_or_by_a_reset() {
    let s = setup();
    let hang = Fault { kind: FaultKind::Hang, after_calls: 0, seed: 0 };
    s.device.inject(hang).unwrap();
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    run.deadline = Some(Instant::now() + Duration::from_millis(200));
    assert_eq!(finish(s.device.as_ref(), s.queue.as_ref(), run).unwrap_err().status(), Status::Timeout);
    // On a very slow machine the deadline may have passed before the fault could strike.
    s.device.clear_faults().unwrap();
    s.run().unwrap();
    s.device.inject(hang).unwrap();
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    let fence = s.device.create_fence(0).unwrap();
    run.signals = vec![(Arc::clone(&fence), 1)];
    s.queue.submit(&run).unwrap();
    assert_eq!(fence.wait(1, Duration::from_millis(20)).unwrap_err().status(), Status::Timeout, "still hanging");
    s.device.reset().unwrap();
    assert!(fence.wait(1, LONG).is_err());
}

#[test]
fn a_closed_device_ends_what_waits() {
    let s = setup();
    let fence: Arc<dyn Fence> = s.device.create_fence(0).unwrap();
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    run.waits = vec![(s.device.create_fence(0).unwrap(), 1)];
    run.signals = vec![(Arc::clone(&fence), 1)];
    s.queue.submit(&run).unwrap();
    drop((s, run));
    assert_eq!(fence.wait(1, LONG).unwrap_err().status(), Status::Cancelled);
}

/// Memories so small that most of their bytes are in use.
const SMALL: &str = "sram: (a: (bytes: 2048, banks: 1), w: (bytes: 1024, banks: 1), acc: (bytes: 512, banks: 1))";

/// A chip that was described with faults: they strike in every run, and the device tells what became of it.
fn faulty(fault: &str, more: &[(&str, &str)]) -> Setup {
    let mut rng = Rng::new(31);
    let program = network(&mut rng);
    let device = try_chip(&format!("Npu({SMALL}, parity: true, fault: [{fault}])"), more).unwrap();
    let (queue, exe) = (device.create_queue().unwrap(), compile(device.as_ref(), &program));
    Setup { queue, exe, inputs: data(&program, &mut rng), device }
}

#[test]
fn faults_of_the_chip_are_told_by_the_device() {
    let found = |s: &Setup| s.run().unwrap_err();
    // Parity finds flips of bytes that are read; some seeds hit bytes that nobody reads, which changes nothing.
    let good = setup().run().unwrap();
    let (mut n_found, mut rng) = (0, Rng::new(5));
    for _ in 0..400 {
        let (seed, when, place) = (rng.next(), rng.range(20, 1500), rng.pick(&["a", "w", "acc"]));
        match faulty(&format!("(\"bit_flip\", \"{place}\", {when}, {seed})"), &[]).run() {
            Ok(bytes) => assert_eq!(bytes, good, "{seed} in {place} at {when} was not noticed"),
            Err(e) => {
                assert!(e.to_string().contains("parity"), "{e}");
                n_found += 1;
            }
        }
    }
    println!("400 flips: parity found {n_found}, the others hit nothing that is read");
    assert!(n_found > 0);
    let lost = faulty("(\"device_lost\", \"any\", 100, 1)", &[]);
    assert_eq!(found(&lost).status(), Status::DeviceLost);
    assert!(lost.device.create_queue().is_err(), "it stays lost");
    lost.device.reset().unwrap();
    lost.device.create_queue().unwrap();
    let dropped = faulty("(\"event_lost\", \"any\", 0, 1)", &[("watchdog", "1000000")]);
    assert_eq!(found(&dropped).status(), Status::Timeout);
}

/// A submission whose signal the chip drops never ends, which is said even without a watchdog.
#[test]
fn a_dropped_signal_is_a_timeout_without_a_watchdog() {
    let s = faulty("(\"event_lost\", \"any\", 0, 1)", &[]);
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    run.deadline = Some(Instant::now() + Duration::from_millis(300));
    let e = finish(s.device.as_ref(), s.queue.as_ref(), run).unwrap_err();
    assert_eq!(e.status(), Status::Timeout, "{e}");
}
