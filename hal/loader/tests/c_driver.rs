//! Drivers written in C and C++ behind the driver contract.

mod common;

use common::*;
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::host::{HostFence, HostMemory};
use ottava_hal::refmath::elementwise::qdq_add;
use ottava_hal::refmath::quantize::{Affine, Target};
use ottava_hal::{
    Binding, BlobKey, BufferDesc, Command, CompileOptions, DeviceKind, Error, Fence, Options, Reason, Status,
    Submission, Verdict,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn all_s8() -> Vec<u8> {
    (0..=255).collect()
}

/// A tensor and itself backwards.
fn both(x: Vec<u8>) -> [Vec<u8>; 2] {
    let backwards = x.iter().rev().copied().collect();
    [x, backwards]
}

/// The sum of [`both`].
fn sums(x: &[u8]) -> Vec<u8> {
    x.iter().zip(x.iter().rev()).map(|(a, b)| add(*a, *b)).collect()
}

#[test]
fn the_template_adds_every_pair_as_the_reference_does() {
    let Some(built) = template() else { return };
    let device = open(&built.library);
    let pairs: Vec<(u8, u8)> = (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))).collect();
    let data = [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
    let affine = |scale, zp| Affine { scale, zp };
    for (a, b, y) in [
        (INPUT, INPUT, OUTPUT),
        (affine(0.1, 0), affine(0.1, 0), affine(0.1, 0)),
        (affine(0.037, -128), affine(0.0021, 127), affine(0.0193, 11)),
        (affine(1.0 / 3.0, 5), affine(2.0 / 3.0, -7), affine(1.0 / 7.0, -128)),
        (affine(1e-20, 1), affine(3e-20, 2), affine(7e-21, 3)),
        (affine(3e37, 0), affine(3e37, 0), affine(1.0, 0)),
    ] {
        let (s, out) = submission(device.as_ref(), &quantized("Add", &[a, b], y, pairs.len()), &data).unwrap();
        device.create_queue().unwrap().submit(&s).unwrap();
        let to = Target { scale: y.scale, zp: y.zp, lo: -128, hi: 127 };
        let sum = |p: &(u8, u8)| qdq_add((p.0 as i8).into(), a, (p.1 as i8).into(), b, to) as u8;
        let expected: Vec<u8> = pairs.iter().map(sum).collect();
        let found = bytes(out.as_ref());
        let wrong = found.iter().zip(&expected).position(|(f, e)| f != e);
        assert_eq!(wrong.map(|i| (pairs[i], found[i], expected[i])), None, "{a:?} + {b:?} -> {y:?}");
    }
}

#[test]
fn the_template_computes_the_integers_of_the_contract() {
    let Some(built) = template() else { return };
    let candidate = load(&built.library);
    assert_eq!(candidate.abi.as_deref(), Some("0.9 c"));
    assert_eq!((candidate.name.as_deref(), candidate.version.as_deref()), (Some("my-driver"), Some("0.1.0")));
    let device = open(&built.library);
    assert_eq!((device.info().kind, device.info().sync_only, device.info().alignment), (DeviceKind::Dsp, true, 1));
    let program = program("Add", 2, 256);
    assert_eq!(device.assess(&program).unwrap(), [Verdict::Supported { exact: true }]);
    assert_eq!(device.capability().assess(&program), [Verdict::Supported { exact: true }]);
    assert_eq!(device.estimate(&program).unwrap().time_ns, 256);
    let (mut s, out) = submission(device.as_ref(), &program, &both(all_s8())).unwrap();
    let fence = device.create_fence(0).unwrap();
    s.signals = vec![(fence.clone(), 1)];
    assert_eq!(device.create_queue().unwrap().submit(&s), Ok(1));
    assert_eq!(fence.query(), Ok(1));
    assert_eq!(bytes(out.as_ref()), sums(&all_s8()));
}

#[test]
fn refusals_carry_the_driver_s_words() {
    let Some(built) = template() else { return };
    let device = open(&built.library);
    let other = program("Sigmoid", 1, 4);
    let [Verdict::Rejected { reason, detail }] = &device.assess(&other).unwrap()[..] else { panic!("accepted") };
    assert_eq!((*reason, detail.as_str()), (Reason::OpUnknown, "the only operator is Add"));
    let e = device.compile(&other, &CompileOptions::default()).err().unwrap();
    assert_eq!(e.status(), Status::Unsupported);
    assert!(e.to_string().contains("compile: the only operator is Add"), "{e}");
    for e in [
        device.inject(Fault { kind: FaultKind::Lost, after_calls: 0, seed: 0 }).unwrap_err(),
        device.reset().unwrap_err(),
    ] {
        assert_eq!(e.status(), Status::Unsupported, "{e}");
    }
}

#[test]
fn options_and_devices_are_checked_by_name() {
    let Some(built) = template() else { return };
    let driver = load(&built.library).driver.unwrap();
    let options = Options::from([("speed".to_owned(), "11".to_owned())]);
    let e = driver.open("my-driver", &options).err().unwrap();
    assert!(e.to_string().contains("no option `speed`"), "{e}");
    let e = driver.open("npu7", &Options::new()).err().unwrap();
    assert!(e.to_string().contains("no device `npu7`; it has: `my-driver`"), "{e}");
}

#[test]
fn submissions_that_do_not_fit_never_reach_the_driver() {
    let Some(built) = template() else { return };
    let (device, other) = (open(&built.library), open(&built.library));
    let program = program("Add", 2, 64);
    let (good, out) = submission(device.as_ref(), &program, &both(vec![1; 64])).unwrap();
    let queue = device.create_queue().unwrap();
    let refused = |change: &dyn Fn(&mut Vec<Binding>, &mut Vec<Binding>), words: &str| {
        let mut s = good.clone();
        let Command::Dispatch { inputs, outputs, .. } = &mut s.commands[0] else { unreachable!() };
        change(inputs, outputs);
        let e = queue.submit(&s).unwrap_err();
        assert!(matches!(e, Error::Invalid(_)) && e.to_string().contains(words), "{e}");
    };
    refused(&|i, _| i[0].len = 63, "input 0: 63 bytes are bound, 64 are needed");
    refused(&|i, _| i[0].offset = usize::MAX, "outside a buffer of 64");
    refused(&|i, _| i.clear(), "0 inputs and 1 outputs are bound");
    refused(&|i, o| o[0] = i[0].clone(), "output 0 are bound twice");
    let foreign = other.alloc(&BufferDesc { bytes: 64, alignment: 64 }).unwrap();
    refused(&|i, _| i[0].buffer = foreign.clone(), "input 0 is no buffer of device `my-driver`");
    let copy =
        |from: Binding, to: Binding| Submission { commands: vec![Command::Copy { from, to }], ..Default::default() };
    let whole = || Binding::whole(out.clone());
    let e = queue.submit(&copy(whole(), whole())).unwrap_err();
    assert!(e.to_string().contains("overlap"), "{e}");
    assert!(other.create_queue().unwrap().submit(&good).is_err());
}

/// Memory that is aligned as the template wants it.
#[repr(align(64))]
struct Line([u8; 64]);

struct Lent(Box<Line>);

impl HostMemory for Lent {
    fn bytes(&self) -> &[u8] {
        &self.0.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0.0
    }
}

#[test]
fn copies_fills_and_lent_memory() {
    let Some(built) = template() else { return };
    let device = open(&built.library);
    let desc = BufferDesc { bytes: 64, alignment: 1 };
    let mut line = Line([0; 64]);
    line.0.copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8].repeat(8));
    let from = device.import_host(Box::new(Lent(Box::new(line))), &desc).unwrap();
    let to = device.alloc(&desc).unwrap();
    let part = |buffer: &Arc<dyn ottava_hal::Buffer>, offset, len| Binding { buffer: buffer.clone(), offset, len };
    let commands = vec![
        Command::Copy { from: part(&from, 2, 8), to: part(&to, 0, 8) },
        Command::Fill { to: part(&to, 8, 6), pattern: 0x0a0b_0c0d },
    ];
    device.create_queue().unwrap().submit(&Submission { commands, ..Submission::default() }).unwrap();
    assert_eq!(bytes(to.as_ref())[..16], [3, 4, 5, 6, 7, 8, 1, 2, 0xd, 0xc, 0xb, 0xa, 0xd, 0xc, 0, 0]);
    assert_eq!(device.alloc(&BufferDesc { bytes: 0, alignment: 1 }).unwrap().len(), 0);
    assert!(device.alloc(&BufferDesc { bytes: 8, alignment: 3 }).is_err());
}

#[test]
fn memory_that_cannot_be_imported_is_mapped() {
    let Some(built) = variant(&["VARIANT_MAPPED"]) else { return };
    let device = open(&built.library);
    let (s, out) = submission(device.as_ref(), &program("Add", 2, 256), &both(all_s8())).unwrap();
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(bytes(out.as_ref()), sums(&all_s8()));
    let mut two = [0; 2];
    out.read(254, &mut two).unwrap();
    assert_eq!(two, sums(&all_s8())[254..]);
    assert!(out.read(255, &mut two).is_err() && out.write(usize::MAX, &[1]).is_err());
}

#[test]
fn timelines_are_emulated() {
    let Some(built) = template() else { return };
    let device = open(&built.library);
    let (mut s, out) = submission(device.as_ref(), &program("Add", 2, 256), &both(all_s8())).unwrap();
    let before: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    let after = device.create_fence(0).unwrap();
    (s.waits, s.signals) = (vec![(before.clone(), 3)], vec![(after.clone(), 1)]);
    let queue = device.create_queue().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| queue.submit(&s).unwrap());
        assert_eq!(after.query(), Ok(0));
        before.signal(3).unwrap();
        after.wait(1, Duration::from_secs(60)).unwrap();
    });
    assert_eq!(bytes(out.as_ref()), sums(&all_s8()));
    before.fail(Error::failed(Status::DeviceLost, "somewhere else"));
    let late = device.create_fence(0).unwrap();
    s.signals = vec![(late.clone(), 1)];
    queue.submit(&s).unwrap();
    assert_eq!(late.query().unwrap_err().to_string(), "DeviceLost (7): somewhere else");
    let (bad, next) = (device.create_fence(0).unwrap(), device.create_fence(0).unwrap());
    bad.fail(Error::invalid("whatever the cause is, it travels"));
    (s.waits, s.signals) = (vec![(bad, 1)], vec![(next.clone(), 1)]);
    queue.submit(&s).unwrap();
    assert!(next.query().unwrap_err().to_string().contains("it travels"));
    let missed = device.create_fence(0).unwrap();
    let never: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    (s.waits, s.signals) = (vec![(never, 1)], vec![(missed.clone(), 1)]);
    s.deadline = Some(Instant::now());
    queue.submit(&s).unwrap();
    assert_eq!(missed.query().unwrap_err().status(), Status::Timeout);
}

#[test]
fn queues_of_several_threads_do_not_disturb_each_other() {
    let Some(built) = template() else { return };
    let device = open(&built.library);
    let program = program("Add", 2, 256);
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let (device, program) = (&device, &program);
            scope.spawn(move || {
                let data: Vec<u8> = all_s8().iter().map(|x| x.wrapping_add(t * 50)).collect();
                let (s, out) = submission(device.as_ref(), program, &both(data.clone())).unwrap();
                let queue = device.create_queue().unwrap();
                for _ in 0..200 {
                    out.write(0, &[0; 256]).unwrap();
                    queue.submit(&s).unwrap();
                    assert_eq!(bytes(out.as_ref()), sums(&data));
                }
            });
        }
    });
}

#[test]
fn failures_keep_their_words_and_travel_along_the_signals() {
    let Some(built) = variant(&["VARIANT_SUBMIT"]) else { return };
    let device = open(&built.library);
    let program = program("Add", 2, 8);
    let (mut s, out) = submission(device.as_ref(), &program, &both(vec![1; 8])).unwrap();
    let queue = device.create_queue().unwrap();
    let fence = device.create_fence(0).unwrap();
    s.signals = vec![(fence.clone(), 1)];
    queue.submit(&s).unwrap();
    let e = fence.query().unwrap_err();
    assert!(e.to_string().contains("no room for 3 GiB, vendor code -7"), "{e}");
    assert!(matches!(e, Error::Failed { status: Status::OutOfDeviceMemory, transient: true, .. }));
    // Without signals the failure is returned; a driver that says nothing is filled in.
    s.signals.clear();
    let e = queue.submit(&s).unwrap_err();
    assert!(e.to_string().contains("OUT_OF_DEVICE_MEMORY, and the driver says nothing"), "{e}");
    // The third submission loses the device: every timeline fails, everything made before is invalid after a reset.
    let idle = device.create_fence(0).unwrap();
    let e = queue.submit(&s).unwrap_err();
    assert!(e.status() == Status::DeviceLost && e.to_string().contains("the cable is out"), "{e}");
    assert_eq!(idle.query().unwrap_err().status(), Status::DeviceLost);
    assert_eq!(device.alloc(&BufferDesc { bytes: 8, alignment: 1 }).err().unwrap().status(), Status::DeviceLost);
    device.reset().unwrap();
    assert!(queue.submit(&s).unwrap_err().to_string().contains("made before the device was lost"));
    assert!(out.read(0, &mut [0]).unwrap_err().to_string().contains("made before"));
    let (s, out) = submission(device.as_ref(), &program, &both(vec![5; 8])).unwrap();
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(bytes(out.as_ref()), sums(&[5; 8]));
}

#[test]
fn silence_and_missing_results_are_errors_in_words() {
    let Some(built) = variant(&["VARIANT_SILENT"]) else { return };
    let [Verdict::Rejected { reason, detail }] = &open(&built.library).assess(&program("Add", 2, 8)).unwrap()[..]
    else {
        panic!("accepted");
    };
    assert_eq!((*reason, detail.as_str()), (Reason::Other, "the driver gives no reason"));
    let Some(built) = variant(&["VARIANT_NULL_EXEC"]) else { return };
    let device = open(&built.library);
    let e = device.compile(&program("Add", 2, 8), &CompileOptions::default()).err().unwrap();
    assert!(e.to_string().contains("OK without an executable"), "{e}");
}

#[test]
fn whatever_a_driver_returns_is_checked() {
    let program = program("Add", 2, 8);
    if let Some(built) = variant(&["VARIANT_ODD_IO"]) {
        let device = open(&built.library);
        for words in [
            "1 requirements for 3",
            "requirement 1 is 9 bytes",
            "alignment 3",
            "must be BLOCKED",
            "requirement 0 speaks of value 7, value 0 is bound there",
            "size and kind of requirement 1 are (4, 10)",
        ] {
            let e = device.compile(&program, &CompileOptions::default()).err().unwrap();
            assert!(e.to_string().contains(words), "{e}");
        }
        assert!(device.compile(&program, &CompileOptions::default()).is_ok());
    }
    if let Some(built) = variant(&["VARIANT_ODD_INFO"]) {
        let driver = load(&built.library).driver.unwrap();
        for words in ["size and kind of device 0 are (4, 6)", "device 0 has 9 memory types, at most 8 fit"] {
            let e = driver.devices().unwrap_err().to_string();
            assert!(e.contains("`variant`, enumerate") && e.contains(words), "{e}");
        }
    }
    if let Some(built) = variant(&["VARIANT_ODD_ROWS"]) {
        let driver = load(&built.library).driver.unwrap();
        let e = driver.open("variant", &Options::new()).err().unwrap();
        assert!(e.to_string().contains("op_table: the driver breaks its contract"), "{e}");
    }
    if let Some(built) = variant(&["VARIANT_ODD_STATUS"]) {
        let e = open(&built.library).estimate(&program).unwrap_err();
        assert_eq!(e.status(), Status::Internal);
        assert!(e.to_string().contains("the moon is in the wrong phase, node `the node`"), "{e}");
        assert!(e.to_string().contains("unknown status 77"), "{e}");
    }
}

#[test]
fn exceptions_of_a_guarded_driver_are_errors() {
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/drivers/guarded.cpp");
    let Some(built) = build(&source, &[]) else { return };
    let driver = load(&built.library).driver.expect("the driver loads");
    assert!(driver.devices().unwrap().is_empty());
    let key = BlobKey {
        driver: "guarded".into(),
        driver_version: "1".into(),
        uuid: [0; 16],
        hw_rev: 0,
        ir_version: 1,
        core_hash: 0,
        ops_hash: 0,
        program_hash: 0,
        quant_hash: 0,
        options_hash: 0,
        payload_len: 0,
        payload_sha256: [0; 32],
    };
    let e = driver.check_blob(&key).unwrap_err();
    assert_eq!(e.status(), Status::Panic);
    assert!(e.to_string().contains("thrown in check_blob"), "{e}");
}
