//! From a plan to a runner: programs compiled ahead, memory of the devices, states.

mod fakes;

use fakes::{Fake, Net, bytes, devices, expected, inputs};
use ottava_hal::{CompileOptions, DataType, Device, DriverInfo, Options, Tensor};
use ottava_plan::{Blob, Plan, StateVar, blob_key};
use ottava_runtime::{DeviceEntry, RunOptions, Runner, RunnerOptions};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

fn driver(version: &str) -> DriverInfo {
    DriverInfo { name: "fake".into(), vendor: "tests".into(), version: version.into() }
}

/// One partition, compiled ahead by version 1 of the driver.
fn ahead(payload: Option<&[u8]>) -> Plan {
    let mut net = Net::new(&["a"]);
    let x = net.input(96);
    let y = net.run("a", &[x]);
    net.output(y);
    let mut plan = net.finish();
    let device = Fake::sync("a");
    let options = CompileOptions::default();
    let program = &plan.partitions[0].program;
    let key = blob_key(&driver("1"), device.info(), program, &options, &Options::new()).expect("encodes");
    let own = device.serialize(device.compile(program, &options).expect("compiles").as_ref()).expect("saves");
    plan.partitions[0].blobs = vec![Blob::new(key, payload.unwrap_or(&own)).expect("fits")];
    plan
}

/// How many programs the device has compiled and loaded, after a run with the right result.
fn loaded(plan: Plan, driver: Option<DriverInfo>, options: Options) -> (u64, u64) {
    let a = Fake::sync("a");
    let entry = DeviceEntry { device: a.clone() as Arc<dyn Device>, driver, options };
    let runner = Runner::with(plan, BTreeMap::from([("a".into(), entry)]), RunnerOptions::default()).expect("loads");
    let outputs = runner.run(&inputs(2), RunOptions::default()).expect("runs").0;
    assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(2)));
    (a.core.compiled.load(SeqCst), a.core.loaded.load(SeqCst))
}

#[test]
fn a_program_compiled_ahead_is_loaded_where_its_key_fits() {
    assert_eq!(loaded(ahead(None), Some(driver("1")), Options::new()), (0, 1));
    assert_eq!(loaded(ahead(None), Some(driver("2")), Options::new()), (1, 0), "another version");
    let threads = Options::from([("threads".into(), "2".into())]);
    assert_eq!(loaded(ahead(None), Some(driver("1")), threads), (1, 0), "another option");
    assert_eq!(loaded(ahead(None), None, Options::new()), (1, 0), "an unknown driver");
    assert_eq!(loaded(ahead(Some(b"")), Some(driver("1")), Options::new()), (1, 0), "it does not load");
}

#[test]
fn a_partition_that_does_not_load_is_named_with_its_device() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let entry = |d: &Arc<Fake>| (d.core.id.clone(), DeviceEntry::new(d.clone() as Arc<dyn Device>));
    let load = |list: &[&Arc<Fake>]| {
        let entries = list.iter().map(|d| entry(d)).collect();
        Runner::load(Net::zigzag("a", "b"), entries, RunnerOptions::default()).map(drop)
    };
    load(&[&a, &b]).expect("loads");
    let error = load(&[&a]).unwrap_err();
    assert_eq!((error.partition, error.device.as_str()), (Some(1), "b"));
    b.core.refuses.store(true, SeqCst);
    let error = load(&[&a, &b]).unwrap_err();
    assert_eq!((error.partition, error.device.as_str()), (Some(1), "b"));
    let text = error.to_string();
    assert!(text.contains("partition 1 (`p1`, node `p1`) on device `b`: the program does not fit"), "{text}");
    let mut plan = Net::zigzag("a", "b");
    plan.outputs = vec![1_000];
    let error = Runner::load(plan, BTreeMap::from([entry(&a), entry(&b)]), RunnerOptions::default()).map(drop);
    let error = error.unwrap_err();
    assert_eq!((error.partition, error.device.as_str()), (None, ""));
}

#[test]
fn an_arena_that_does_not_fit_the_device_is_taken_apart() {
    let (b, picky) = (Fake::queued("a"), Fake::aligned("a", 256));
    let mut bytes_of = Vec::new();
    for device in [&b, &picky] {
        let plan = Net::zigzag("a", "a");
        let runner = Runner::new(plan, &devices(&[device]), &CompileOptions::default()).expect("loads");
        let outputs = runner.run(&inputs(1), RunOptions::default()).expect("runs").0;
        assert_eq!(bytes(&outputs), expected(runner.plan(), &inputs(1)));
        bytes_of.push(runner.arena_bytes());
    }
    let plan = Net::zigzag("a", "a");
    assert_eq!(bytes_of, [plan.arenas[0].bytes, plan.slots.len() * 96]);
}

#[test]
fn states_are_inputs_and_outputs_after_the_plans_own() {
    let (a, b) = (Fake::sync("a"), Fake::queued("b"));
    let mut net = Net::new(&["a", "b"]);
    let (x, h) = (net.input(96), net.input(96));
    net.plan.inputs.pop();
    let next = {
        net.plan.states.push(StateVar {
            name: "h".into(),
            input: h,
            output: h,
            initial: Tensor::zeros(DataType::U8, &[96]).expect("fits"),
        });
        net.run("b", &[x, h])
    };
    net.plan.states[0].output = next;
    let y = net.run("a", &[next]);
    net.output(y);
    let runner = Runner::new(net.finish(), &devices(&[&a, &b]), &CompileOptions::default()).expect("loads");
    let mut state = runner.plan().states[0].initial.clone();
    for n in 1..4u8 {
        let given = [Tensor::from_slice(&[96], &[10u8; 96]).expect("fits"), state];
        let outputs = runner.run(&given, RunOptions::default()).expect("runs").0;
        assert_eq!(bytes(&outputs), [vec![11 * n + 1; 96], vec![11 * n; 96]]);
        state = outputs[1].clone();
    }
    let error = runner.run(&inputs(0), RunOptions::default()).unwrap_err();
    assert_eq!(error.to_string(), "1 inputs given, the model has 2: s0, s1");
}
