//! Queues: order, waits, failures, deadlines, rebinding, profiles.

use crate::common::{LONG, buffer, compile, contents, dequantize, device, finish, reference, submission};
use ottava_driver_opencl::OpenCLDevice;
use ottava_hal::device::Command;
use ottava_hal::host::HostFence;
use ottava_hal::{Binding, Device, Error, Executable, Fence, Program, Status, Submission, Tensor};
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Setup {
    device: Arc<OpenCLDevice>,
    program: Program,
    exe: Arc<dyn Executable>,
    input: Tensor,
}

fn setup(what: &str) -> Option<Setup> {
    let device = device(what, &[])?;
    let (program, input) = dequantize(1000);
    let exe = compile(device.as_ref(), &program);
    Some(Setup { device, program, exe, input })
}

impl Setup {
    fn run(&self) -> (Submission, Vec<Arc<dyn ottava_hal::Buffer>>) {
        submission(self.device.as_ref(), &self.exe, std::slice::from_ref(&self.input))
    }

    fn expect(&self) -> Vec<Vec<u8>> {
        reference(&self.program, std::slice::from_ref(&self.input))
    }
}

#[test]
fn a_queue_that_waits_holds_up_neither_the_caller_nor_another_queue() {
    let Some(s) = setup("waits on OpenCL") else { return };
    let gate: Arc<dyn Fence> = Arc::new(HostFence::new(0));
    let (waiting, done) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let (mut late, outs) = s.run();
    late.waits = vec![(Arc::clone(&gate), 5)];
    late.signals = vec![(Arc::clone(&done), 1)];
    waiting.submit(&late).unwrap();
    let other = s.device.create_queue().unwrap();
    finish(s.device.as_ref(), other.as_ref(), s.run().0).unwrap();
    assert_eq!(done.query(), Ok(0));
    gate.signal(5).unwrap();
    done.wait(1, LONG).unwrap();
    assert_eq!(contents(&outs), s.expect());
}

#[test]
fn two_queues_take_turns_along_a_timeline() {
    let Some(s) = setup("two queues on OpenCL") else { return };
    let fence = s.device.create_fence(0).unwrap();
    let queues = [s.device.create_queue().unwrap(), s.device.create_queue().unwrap()];
    let words = buffer(s.device.as_ref(), &[0; 8]);
    for n in 1..=40u64 {
        let step = Submission {
            commands: vec![Command::Fill { to: Binding::whole(Arc::clone(&words)), pattern: n as u32 }],
            waits: vec![(Arc::clone(&fence), n - 1)],
            signals: vec![(Arc::clone(&fence), n)],
            ..Submission::default()
        };
        queues[(n % 2) as usize].submit(&step).unwrap();
    }
    fence.wait(40, LONG).unwrap();
    assert_eq!(contents(&[words])[0], [40, 0, 0, 0, 40, 0, 0, 0]);
}

#[test]
fn submissions_of_one_queue_end_in_order_also_empty_ones() {
    let Some(s) = setup("order on OpenCL") else { return };
    let (queue, fence) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let mut kept = Vec::new();
    for n in 1..=30u64 {
        let (mut run, outs) = s.run();
        if n % 3 == 0 {
            run.commands.clear();
        } else {
            kept.push(outs);
        }
        run.signals = vec![(Arc::clone(&fence), n)];
        assert_eq!(queue.submit(&run), Ok(n));
    }
    fence.wait(30, LONG).unwrap();
    assert_eq!(fence.query(), Ok(30));
    kept.iter().for_each(|outs| assert_eq!(contents(outs), s.expect()));
}

#[test]
fn failures_travel_along_fences() {
    let Some(s) = setup("failures on OpenCL") else { return };
    let (queue, gate) = (s.device.create_queue().unwrap(), Arc::new(HostFence::new(0)));
    let fences: Vec<_> = (0..2).map(|_| s.device.create_fence(0).unwrap()).collect();
    let (mut first, outs) = s.run();
    first.waits = vec![(gate.clone() as Arc<dyn Fence>, 1)];
    first.signals = vec![(Arc::clone(&fences[0]), 1)];
    let (mut second, _) = s.run();
    second.waits = vec![(Arc::clone(&fences[0]), 1)];
    second.signals = vec![(Arc::clone(&fences[1]), 1)];
    queue.submit(&first).unwrap();
    s.device.create_queue().unwrap().submit(&second).unwrap();
    gate.fail(Error::failed(Status::Internal, "the camera is gone"));
    assert!(fences[1].wait(1, LONG).unwrap_err().to_string().contains("the camera is gone"));
    assert!(contents(&outs)[0].iter().all(|&b| b == 0));
}

#[test]
fn a_submission_that_cannot_start_in_time_does_not_run() {
    let Some(s) = setup("deadlines on OpenCL") else { return };
    let (queue, fence) = (s.device.create_queue().unwrap(), s.device.create_fence(0).unwrap());
    let (mut late, outs) = s.run();
    late.waits = vec![(Arc::new(HostFence::new(0)), 1)];
    late.signals = vec![(Arc::clone(&fence), 1)];
    late.deadline = Some(Instant::now() + Duration::from_millis(5));
    queue.submit(&late).unwrap();
    assert_eq!(fence.wait(1, LONG).unwrap_err().status(), Status::Timeout);
    assert!(contents(&outs)[0].iter().all(|&b| b == 0));
    finish(s.device.as_ref(), queue.as_ref(), s.run().0).unwrap();
}

#[test]
fn other_bindings_are_other_memory_also_parts_and_buffers_that_come_and_go() {
    let Some(s) = setup("rebinding on OpenCL") else { return };
    let queue = s.device.create_queue().unwrap();
    let (expect, x) = (s.expect(), s.input.bytes());
    let large = buffer(s.device.as_ref(), &vec![0; 64 * 1024]);
    for i in 0..24 {
        let (offset, result) = (1024 * (i % 12), 16_384 + 4096 * (i % 11));
        large.write(offset, x).unwrap();
        let input = match i % 3 {
            0 => Binding::whole(buffer(s.device.as_ref(), x)),
            _ => Binding { buffer: Arc::clone(&large), offset, len: x.len() },
        };
        let output = Binding { buffer: Arc::clone(&large), offset: result, len: 4000 };
        let run = Submission::dispatch(Arc::clone(&s.exe), vec![input], vec![output]);
        finish(s.device.as_ref(), queue.as_ref(), run).unwrap();
        let mut found = vec![0; 4000];
        large.read(result, &mut found).unwrap();
        assert_eq!(found, expect[0], "run {i}");
        large.write(result, &[0; 4000]).unwrap();
    }
}

#[test]
fn a_profile_has_a_time_for_each_node() {
    let Some(s) = setup("profiles on OpenCL") else { return };
    let queue = s.device.create_queue().unwrap();
    let (mut run, _) = s.run();
    run.profile = true;
    let id = finish(s.device.as_ref(), queue.as_ref(), run).unwrap();
    let profile = queue.take_profile(id).expect("it was asked for");
    assert_eq!(profile.nodes.len(), 1);
    let node = &profile.nodes[0];
    assert_eq!((node.node.as_str(), node.kernel.as_str()), ("only", "convert"));
    assert!(node.duration_ns > 0 && profile.begin <= profile.end);
    assert!(queue.take_profile(id).is_none());
}
