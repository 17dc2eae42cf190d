//! A driver made with the vendor kit, through the Rust door: panics, timelines of its own, faults, words, saved programs.

mod common;

use common::*;
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::fence::Notify;
use ottava_hal::{
    Binding, BlobKey, BufferDesc, CompileOptions, DataType, Device, Error, Node, Options, Program, Result, Status,
    Submission, TensorType, Value, ValueId, Verdict,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn identity(node: &str) -> Program {
    let value = |name: &str| Value { name: name.into(), ty: TensorType::fixed(DataType::U8, &[4]), constant: None };
    let mut node = Node::new(node, "Identity", 14);
    (node.inputs, node.outputs) = (vec![Some(ValueId(0))], vec![ValueId(1)]);
    Program {
        name: "p".into(),
        values: vec![value("x"), value("y")],
        nodes: vec![node],
        inputs: vec![ValueId(0)],
        outputs: vec![ValueId(1)],
    }
}

/// A device of the driver, opened anew.
fn device(test: &str, id: &str) -> Option<Arc<dyn Device>> {
    let candidate = load(&kit_driver(test)?);
    let driver = candidate.driver.as_ref().unwrap_or_else(|| panic!("{candidate:?}"));
    assert_eq!(candidate.abi.as_deref(), Some("0.9 rust"));
    Some(driver.open(id, &Options::new()).expect("the device opens"))
}

fn work(device: &dyn Device) -> (Submission, Arc<dyn ottava_hal::Buffer>) {
    submission(device, &identity("n"), &[vec![1, 2, 3, 255]]).expect("the program compiles")
}

#[test]
fn devices_have_the_words_of_the_driver() {
    let Some(path) = kit_driver("devices_have_the_words_of_the_driver") else { return };
    let driver = load(&path).driver.unwrap();
    let ids: Vec<(String, bool)> = driver.devices().unwrap().into_iter().map(|d| (d.id, d.sync_only)).collect();
    assert_eq!(ids, [("sync0".to_owned(), true), ("async0".to_owned(), false), ("jump0".to_owned(), false)]);
    assert_eq!(driver.option_schema()[0].key, "greeting");
    let device = driver.open("sync0", &Options::new()).unwrap();
    let exe = device.compile(&identity("n"), &CompileOptions::default()).unwrap();
    assert_eq!(exe.kernels(), [("n".to_owned(), "add_one".to_owned())]);
}

#[test]
fn a_driver_s_log_reaches_the_host_with_level_and_target() {
    let Some(path) = kit_driver("a_driver_s_log_reaches_the_host_with_level_and_target") else { return };
    let text = logged(|| {
        let options = Options::from([("greeting".to_owned(), "good morning".to_owned())]);
        drop(load(&path).driver.unwrap().open("sync0", &options).unwrap());
    });
    let line = text.lines().find(|l| l.contains("opening sync0: good morning")).unwrap_or_else(|| panic!("{text}"));
    for part in ["INFO", "ottava::driver", "driver=\"kit-driver\"", "module=\"kit_driver\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
}

#[test]
fn a_panic_poisons_the_device_and_no_other() {
    let Some(device) = device("a_panic_poisons_the_device_and_no_other", "sync0") else { return };
    let e = device.compile(&identity("panics"), &CompileOptions::default()).err().unwrap();
    assert_eq!(e.status(), Status::Panic);
    assert!(e.to_string().contains("asked to panic"), "{e}");
    let e = device.alloc(&BufferDesc { bytes: 1, alignment: 1 }).err().unwrap();
    assert!(e.status() == Status::Panic && e.to_string().contains("asked to panic"), "{e}");
    assert!(device.reset().is_err() && device.create_fence(0).is_err());
    drop(device);
    let device = self::device("", "sync0").unwrap();
    let (s, out) = work(device.as_ref());
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(bytes(out.as_ref()), [2, 3, 4, 0]);
}

#[test]
fn timelines_of_the_device_carry_values_and_failures() {
    let Some(device) = device("timelines_of_the_device_carry_values_and_failures", "async0") else { return };
    let queue = device.create_queue().unwrap();
    let (before, after) = (device.create_fence(0).unwrap(), device.create_fence(0).unwrap());
    let (mut s, out) = work(device.as_ref());
    (s.waits, s.signals) = (vec![(before.clone(), 7)], vec![(after.clone(), 1)]);
    for _ in 0..50 {
        // Nothing runs before it may; what is submitted is held by the queue alone.
        let mut s = s.clone();
        s.signals = vec![];
        queue.submit(&s).unwrap();
    }
    queue.submit(&s).unwrap();
    drop(s);
    assert_eq!(after.query(), Ok(0));
    assert_eq!(after.wait(1, Duration::from_millis(1)).unwrap_err().status(), Status::Timeout);
    before.signal(7).unwrap();
    after.wait(1, MINUTE).unwrap();
    assert_eq!(bytes(out.as_ref()), [2, 3, 4, 0]);
    assert!(before.signal(7).unwrap_err().to_string().contains("7"));
    let (mut s, _) = work(device.as_ref());
    let next = device.create_fence(0).unwrap();
    (s.waits, s.signals) = (vec![(after.clone(), 9)], vec![(next.clone(), 1)]);
    queue.submit(&s).unwrap();
    after.fail(Error::failed(Status::Cancelled, "the user left"));
    assert_eq!(next.wait(1, MINUTE).unwrap_err().status(), Status::Cancelled);
    assert!(after.query().unwrap_err().to_string().contains("the user left"));
}

/// The device is lost after a timeline has said what nobody asked for.
fn assert_lost(device: &dyn Device, first: &Error) {
    assert_eq!(first.status(), Status::Internal);
    let words = "a timeline stands at 18446744073709551615, 1 is the largest value that was asked for";
    assert!(first.to_string().contains(words), "{first}");
    let e = device.alloc(&BufferDesc { bytes: 1, alignment: 1 }).err().unwrap();
    assert!(e.status() == Status::DeviceLost && e.to_string().contains(words), "{e}");
}

#[test]
fn a_timeline_that_jumps_loses_the_device() {
    let test = "a_timeline_that_jumps_loses_the_device";
    let Some(device) = device(test, "jump0") else { return };
    let done = device.create_fence(0).unwrap();
    let (mut s, _) = work(device.as_ref());
    s.signals = vec![(done.clone(), 1)];
    let queue = device.create_queue().unwrap();
    queue.submit(&s).unwrap();
    assert_lost(device.as_ref(), &done.wait(1, MINUTE).unwrap_err());
}

#[test]
fn a_callback_of_a_timeline_that_jumped_is_not_believed() {
    let test = "a_callback_of_a_timeline_that_jumped_is_not_believed";
    let Some(device) = device(test, "jump0") else { return };
    let (before, done, (ear, heard)) = (device.create_fence(0).unwrap(), device.create_fence(0).unwrap(), ear());
    let (mut s, out) = work(device.as_ref());
    (s.waits, s.signals) = (vec![(before.clone(), 7)], vec![(done.clone(), 1)]);
    let queue = device.create_queue().unwrap();
    queue.submit(&s).unwrap();
    done.notify(1, ear, 5);
    before.signal(7).unwrap();
    assert_eq!(heard.recv_timeout(MINUTE), Ok((5, Ok(()))));
    assert_lost(device.as_ref(), &out.read(0, &mut [0; 4]).unwrap_err());
}

#[test]
fn a_queue_that_failed_once_goes_on() {
    let Some(device) = device("a_queue_that_failed_once_goes_on", "async0") else { return };
    let queue = device.create_queue().unwrap();
    let broken = device.create_fence(0).unwrap();
    broken.fail(Error::failed(Status::Internal, "broken"));
    for _ in 0..3 {
        let (mut s, _) = work(device.as_ref());
        s.waits = vec![(broken.clone(), 1)];
        queue.submit(&s).unwrap();
        let (mut s, out) = work(device.as_ref());
        let done = device.create_fence(0).unwrap();
        s.signals = vec![(done.clone(), 1)];
        queue.submit(&s).unwrap();
        done.wait(1, MINUTE).unwrap();
        assert_eq!(bytes(out.as_ref()), [2, 3, 4, 0]);
    }
}

/// Sends what it hears.
struct Ear(Mutex<Sender<(u64, Result<()>)>>);

impl Notify for Ear {
    fn notified(&self, token: u64, result: Result<()>) {
        let _ = self.0.lock().unwrap().send((token, result));
    }
}

fn ear() -> (Arc<Ear>, Receiver<(u64, Result<()>)>) {
    let (send, receive) = channel();
    (Arc::new(Ear(Mutex::new(send))), receive)
}

#[test]
fn notifications_come_once_each() {
    let Some(device) = device("notifications_come_once_each", "async0") else { return };
    let (fence, (ear, heard)) = (device.create_fence(5).unwrap(), ear());
    for (value, token) in [(5, 0), (6, 1), (9, 2)] {
        fence.notify(value, ear.clone(), token);
    }
    assert_eq!(heard.recv_timeout(MINUTE), Ok((0, Ok(()))));
    fence.signal(6).unwrap();
    assert_eq!(heard.recv_timeout(MINUTE), Ok((1, Ok(()))));
    fence.fail(Error::failed(Status::DeviceLost, "gone"));
    let (token, result) = heard.recv_timeout(MINUTE).unwrap();
    assert_eq!((token, result.unwrap_err().status()), (2, Status::DeviceLost));
    drop(ear);
    assert!(heard.try_recv().is_err());
}

#[test]
fn foreign_timelines_are_refused() {
    let (Some(a), Some(b)) = (device("foreign_timelines_are_refused", "async0"), device("", "async0")) else { return };
    let (mut s, _) = work(a.as_ref());
    s.waits = vec![(b.create_fence(0).unwrap(), 1)];
    let e = a.create_queue().unwrap().submit(&s).unwrap_err();
    assert!(e.to_string().contains("needs a proxy"), "{e}");
}

#[test]
fn injected_faults_strike() {
    let Some(device) = device("injected_faults_strike", "sync0") else { return };
    let queue = device.create_queue().unwrap();
    let (s, _) = work(device.as_ref());
    let fault = Fault { kind: FaultKind::Lost, after_calls: 1, seed: 0 };
    device.inject(fault).unwrap();
    device.clear_faults().unwrap();
    for _ in 0..3 {
        queue.submit(&s).unwrap();
    }
    device.inject(fault).unwrap();
    queue.submit(&s).unwrap();
    for _ in 0..2 {
        assert_eq!(queue.submit(&s).unwrap_err().status(), Status::DeviceLost);
    }
}

#[test]
fn a_lost_device_fails_the_signals_of_work_under_way() {
    let Some(device) = device("a_lost_device_fails_the_signals_of_work_under_way", "async0") else { return };
    device.inject(Fault { kind: FaultKind::Lost, after_calls: 0, seed: 0 }).unwrap();
    let (mut s, _) = work(device.as_ref());
    let done = device.create_fence(0).unwrap();
    s.signals = vec![(done.clone(), 1)];
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(done.wait(1, MINUTE).unwrap_err().status(), Status::DeviceLost);
}

#[test]
fn profiles_name_nodes_and_kernels() {
    let Some(device) = device("profiles_name_nodes_and_kernels", "sync0") else { return };
    let queue = device.create_queue().unwrap();
    let (mut s, _) = work(device.as_ref());
    s.profile = true;
    let id = queue.submit(&s).unwrap();
    let profile = queue.take_profile(id).expect("a profile");
    assert!(profile.end >= profile.begin);
    assert!(profile.nodes.iter().all(|n| n.node == "n" && n.kernel == "add_one"), "{profile:?}");
    assert!(queue.take_profile(id).is_none());
}

#[test]
fn long_names_come_back_whole() {
    let Some(device) = device("long_names_come_back_whole", "sync0") else { return };
    let name = "block/".repeat(40) + "add";
    let (mut s, _) = submission(device.as_ref(), &identity(&name), &[vec![1, 2, 3, 255]]).unwrap();
    s.profile = true;
    let queue = device.create_queue().unwrap();
    let id = queue.submit(&s).unwrap();
    let profile = queue.take_profile(id).expect("a profile");
    assert_eq!(profile.nodes.iter().map(|n| n.node.as_str()).collect::<Vec<_>>(), [name]);
}

#[test]
fn saved_programs_run_or_are_refused_in_words() {
    let Some(device) = device("saved_programs_run_or_are_refused_in_words", "sync0") else { return };
    let exe = device.compile(&identity("n"), &CompileOptions::default()).unwrap();
    let key = BlobKey {
        driver: "kit-driver".into(),
        driver_version: "1.0".into(),
        uuid: device.info().uuid,
        hw_rev: device.info().hw_rev,
        ir_version: 1,
        core_hash: 0,
        ops_hash: 0,
        program_hash: 0,
        quant_hash: 0,
        options_hash: 0,
        payload_len: 0,
        payload_sha256: [0; 32],
    };
    assert_eq!(device.deserialize(&key, b"nonsense").err().unwrap().status(), Status::CorruptBlob);
    let payload = device.serialize(exe.as_ref()).unwrap();
    assert_eq!(device.deserialize(&key, &payload[..payload.len() - 1]).err().unwrap().status(), Status::CorruptBlob);
    let again = device.deserialize(&key, &payload).unwrap();
    assert_eq!((again.inputs(), again.outputs()), (exe.inputs(), exe.outputs()));
    let desc = BufferDesc { bytes: 4, alignment: 8 };
    let (a, b) = (device.alloc(&desc).unwrap(), device.alloc(&desc).unwrap());
    a.write(0, &[7; 4]).unwrap();
    let s = Submission::dispatch(again, vec![Binding::whole(a)], vec![Binding::whole(b.clone())]);
    device.create_queue().unwrap().submit(&s).unwrap();
    assert_eq!(bytes(b.as_ref()), [8; 4]);
}

#[test]
fn capabilities_cross_as_data() {
    let Some(device) = device("capabilities_cross_as_data", "sync0") else { return };
    assert_eq!(device.capability().rows[0].op, "Identity");
    assert_eq!(device.assess(&identity("n")).unwrap(), [Verdict::Supported { exact: true }]);
}
