//! Queues, fences, deadlines, memory.

use crate::common::{LONG, Rng, buffer, chip, compile, contents, data, finish, reference, submission, try_chip};
use crate::network::network;
use ottava_hal::host::HostFence;
use ottava_hal::{
    Binding, BufferDesc, Device, Error, Executable, Fence, Program, Status, Submission, Tensor, device::Command,
};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Setup {
    device: Arc<dyn Device>,
    program: Program,
    exe: Arc<dyn Executable>,
    inputs: Vec<Tensor>,
}

fn setup(options: &[(&str, &str)]) -> Setup {
    let mut rng = Rng::new(21);
    let program = network(&mut rng);
    let device = try_chip("Npu()", options).unwrap();
    let exe = compile(device.as_ref(), &program);
    Setup { exe, inputs: data(&program, &mut rng), device, program }
}

#[test]
fn a_queue_that_waits_holds_up_no_other() {
    let s = setup(&[]);
    let gate: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    let (waiting, done) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let (mut late, outs) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    late.waits = vec![(Arc::clone(&gate), 5)];
    late.signals = vec![(Arc::clone(&done), 1)];
    waiting.submit(&late).unwrap();
    let other = s.device.create_queue().unwrap();
    let (now, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    finish(s.device.as_ref(), other.as_ref(), now).unwrap();
    assert_eq!(done.query(), Ok(0));
    gate.signal(5).unwrap();
    done.wait(1, LONG).unwrap();
    assert_eq!(contents(&outs), reference(&s.program, &s.inputs));
}

#[test]
fn a_queue_runs_in_order_and_submissions_wait_for_one_another() {
    let s = setup(&[]);
    let (queue, fence) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let other = s.device.create_queue().unwrap();
    let words = buffer(s.device.as_ref(), &[0; 8]);
    for n in 1..=20u64 {
        let line = if n % 2 == 0 { &queue } else { &other };
        let commands = vec![Command::Fill { to: Binding::whole(Arc::clone(&words)), pattern: n as u32 }];
        let step = Submission {
            commands,
            waits: vec![(Arc::clone(&fence), n - 1)],
            signals: vec![(Arc::clone(&fence), n)],
            ..Submission::default()
        };
        line.submit(&step).unwrap();
    }
    fence.wait(20, LONG).unwrap();
    assert_eq!(contents(&[words])[0][..4], [20, 0, 0, 0]);
}

#[test]
fn copies_run_and_wrong_bindings_submit_nothing() {
    let s = setup(&[]);
    let queue = s.device.create_queue().unwrap();
    let (from, to) = (buffer(s.device.as_ref(), &[1, 2, 3, 4]), buffer(s.device.as_ref(), &[0; 4]));
    let copy = |len| Submission {
        commands: vec![Command::Copy {
            from: Binding { buffer: Arc::clone(&from), offset: 1, len },
            to: Binding { buffer: Arc::clone(&to), offset: 0, len },
        }],
        ..Submission::default()
    };
    finish(s.device.as_ref(), queue.as_ref(), copy(3)).unwrap();
    assert_eq!(contents(&[Arc::clone(&to)])[0], [2, 3, 4, 0]);
    assert!(queue.submit(&copy(4)).unwrap_err().to_string().contains("outside"));
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    let Command::Dispatch { outputs, .. } = &mut run.commands[0] else { unreachable!() };
    outputs.clear();
    assert!(queue.submit(&run).unwrap_err().to_string().contains("0 output bindings"));
    let stranger = chip("Npu()");
    let (run, _) = submission(stranger.as_ref(), &s.exe, &s.inputs);
    assert!(queue.submit(&run).unwrap_err().to_string().contains("another device"));
}

#[test]
fn failures_travel_along_fences() {
    let s = setup(&[]);
    let (queue, gate) = (s.device.create_queue().unwrap(), Arc::new(HostFence::new(0)));
    let fences: Vec<_> = (0..2).map(|_| s.device.create_fence(0).unwrap()).collect();
    let (mut first, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    first.waits = vec![(gate.clone() as Arc<dyn Fence>, 1)];
    first.signals = vec![(Arc::clone(&fences[0]), 1)];
    let (mut second, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    second.waits = vec![(Arc::clone(&fences[0]), 1)];
    second.signals = vec![(Arc::clone(&fences[1]), 1)];
    queue.submit(&first).unwrap();
    s.device.create_queue().unwrap().submit(&second).unwrap();
    gate.fail(Error::failed(Status::Internal, "the camera is gone"));
    assert!(fences[1].wait(1, LONG).unwrap_err().to_string().contains("the camera is gone"));
}

#[test]
fn a_submission_that_cannot_start_in_time_does_not_run() {
    let s = setup(&[]);
    let (queue, fence) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let (mut late, outs) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    late.waits = vec![(Arc::new(HostFence::new(0)), 1)];
    late.signals = vec![(Arc::clone(&fence), 1)];
    late.deadline = Some(Instant::now() + Duration::from_millis(5));
    queue.submit(&late).unwrap();
    assert_eq!(fence.wait(1, LONG).unwrap_err().status(), Status::Timeout);
    assert!(contents(&outs)[0].iter().all(|&b| b == 0));
    let (next, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    finish(s.device.as_ref(), queue.as_ref(), next).unwrap();
}

#[test]
fn memory_has_a_limit_and_comes_back() {
    let device = try_chip("Npu()", &[("memory", "4096")]).unwrap();
    let alloc = |bytes| device.alloc(&BufferDesc { bytes, alignment: 64 });
    let first = alloc(4000).unwrap();
    assert_eq!(alloc(100).err().map(|e| e.status()), Some(Status::OutOfDeviceMemory));
    drop(first);
    alloc(4096).unwrap();
    let program = network(&mut Rng::new(21));
    let small = try_chip("Npu()", &[("memory", "100")]).unwrap();
    let refused = small.compile(&program, &ottava_hal::CompileOptions::default()).err();
    assert_eq!(refused.map(|e| e.status()), Some(Status::OutOfDeviceMemory));
}

#[test]
fn a_watchdog_gives_a_long_submission_up() {
    let s = setup(&[("watchdog", "10")]);
    let (run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    let e = finish(s.device.as_ref(), s.device.create_queue().unwrap().as_ref(), run).unwrap_err();
    assert_eq!(e.status(), Status::Timeout, "{e}");
}

#[test]
fn in_real_time_a_run_takes_its_modelled_time() {
    let s = setup(&[("realtime", "200")]);
    let modelled = Duration::from_nanos(s.device.estimate(&s.program).unwrap().time_ns) * 200;
    let (mut run, _) = submission(s.device.as_ref(), &s.exe, &s.inputs);
    run.profile = true;
    let queue = s.device.create_queue().unwrap();
    let begin = Instant::now();
    let id = finish(s.device.as_ref(), queue.as_ref(), run).unwrap();
    assert!(begin.elapsed() >= modelled);
    let nodes = queue.take_profile(id).unwrap().nodes;
    // 2 ns a cycle, 200 times slower; rounded down.
    assert!(nodes.iter().all(|n| (n.cycles * 400).abs_diff(n.duration_ns) <= 1), "{nodes:?}");
}
