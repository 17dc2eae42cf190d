//! The queues of the fakes: one that runs in the caller's thread and allocates nothing, one with a thread of its own.

use super::{Core, FakeBuffer, FakeExe, FakeFence, Fate};
use ottava_hal::device::{Command, NodeTime, Profile, WorkKind};
use ottava_hal::fault::lost;
use ottava_hal::{Binding, Error, Queue, Result, Status, Submission};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

fn buffer<'a>(core: &Arc<Core>, binding: &'a Binding) -> Result<&'a FakeBuffer> {
    let foreign = || Error::invalid("a buffer of another kind of device");
    let buffer = binding.buffer.as_any().downcast_ref::<FakeBuffer>().ok_or_else(foreign)?;
    core.owns(&buffer.core, buffer.era, "buffer")?;
    Ok(buffer)
}

fn check(core: &Arc<Core>, s: &Submission) -> Result<()> {
    core.check()?;
    for (fence, _) in s.waits.iter().chain(&s.signals) {
        let foreign = || Error::invalid("a fence of another kind of device");
        let fence = fence.as_any().downcast_ref::<FakeFence>().ok_or_else(foreign)?;
        core.owns(&fence.core, fence.era, "fence")?;
    }
    for command in &s.commands {
        let Command::Dispatch { executable, inputs, outputs } = command else {
            return Err(Error::invalid("no copies"));
        };
        let foreign = || Error::invalid("an executable of another kind of device");
        let exe = executable.as_any().downcast_ref::<FakeExe>().ok_or_else(foreign)?;
        core.owns(&exe.core, exe.era, "executable")?;
        for (binding, ty) in inputs.iter().chain(outputs).zip(exe.inputs.iter().chain(&exe.outputs)) {
            buffer(core, binding)?;
            assert_eq!(binding.offset as u64 % core.alignment.load(SeqCst), 0, "{} of {}", exe.name, core.id);
            assert_eq!(Some(binding.len), ty.byte_len(), "{} of {}", exe.name, core.id);
        }
    }
    Ok(())
}

fn wait_all(s: &Submission) -> Result<()> {
    for (fence, value) in &s.waits {
        let left = s.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
        fence.wait(*value, left)?;
    }
    Ok(())
}

/// Runs the dispatches of a submission whose waits are met. `scratch` holds a sum and an operand.
fn execute(
    core: &Arc<Core>,
    s: &Submission,
    scratch: &mut [Vec<u8>; 2],
    times: Option<&mut Vec<NodeTime>>,
) -> Result<()> {
    let begin = Instant::now();
    let mut times = times;
    for command in &s.commands {
        let Command::Dispatch { executable, inputs, outputs } = command else { continue };
        let exe = executable.as_any().downcast_ref::<FakeExe>().expect("checked");
        let call = core.calls.fetch_add(1, SeqCst);
        match (core.plot)(call, &exe.name) {
            Fate::Go => {}
            Fate::Fail => return Err(Error::failed(Status::Internal, format!("dispatch {call} was told to fail"))),
            Fate::Busy => {
                let what = format!("dispatch {call} was told to be busy");
                return Err(Error::Failed { status: Status::Busy, what, transient: true });
            }
            Fate::Panic => panic!("dispatch {call} was told to panic"),
            Fate::Lose => {
                core.lose();
                return Err(lost(&core.id));
            }
            Fate::Hang => {
                let mut hung = core.hung.0.lock().unwrap();
                while *hung {
                    hung = core.hung.1.wait(hung).unwrap();
                }
                return Err(Error::failed(Status::Cancelled, "a hanging dispatch was let go"));
            }
        }
        core.check()?;
        let [sum, operand] = scratch;
        sum.clear();
        sum.resize(outputs[0].len, 1);
        for input in inputs {
            operand.resize(input.len, 0);
            buffer(core, input)?.inner.with_bytes(input.offset, input.len, |b| operand.copy_from_slice(b))?;
            sum.iter_mut().zip(operand.iter()).for_each(|(s, x)| *s = s.wrapping_add(*x));
        }
        for output in outputs {
            let at = buffer(core, output)?;
            at.inner.with_bytes_mut(output.offset, output.len, |b| b.copy_from_slice(sum))?;
        }
        if let Some(times) = times.as_deref_mut() {
            let duration_ns = begin.elapsed().as_nanos() as u64;
            let (node, kernel) = (format!("node of {}", exe.name), "add".into());
            times.push(NodeTime {
                node,
                kernel,
                kind: WorkKind::Dispatch,
                start_ns: 0,
                duration_ns,
                cycles: 7,
                bytes: 0,
            });
        }
    }
    Ok(())
}

fn signal_all(s: &Submission, result: &Result<()>) {
    for (fence, value) in &s.signals {
        match result {
            // A fence that has failed meanwhile stays failed.
            Ok(()) => drop(fence.signal(*value)),
            Err(e) => fence.fail(e.clone()),
        }
    }
}

type Profiles = Mutex<Vec<(u64, Profile)>>;

fn take(profiles: &Profiles, id: u64) -> Option<Profile> {
    let mut profiles = profiles.lock().unwrap();
    let i = profiles.iter().position(|(n, _)| *n == id)?;
    Some(profiles.remove(i).1)
}

/// Runs in the caller's thread.
pub struct SyncQueue {
    core: Arc<Core>,
    next: AtomicU64,
    scratch: Mutex<[Vec<u8>; 2]>,
    profiles: Profiles,
}

impl SyncQueue {
    pub fn new(core: Arc<Core>) -> Self {
        Self { core, next: AtomicU64::new(0), scratch: Mutex::default(), profiles: Mutex::default() }
    }
}

impl Queue for SyncQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        check(&self.core, s)?;
        let id = self.next.fetch_add(1, SeqCst);
        let mut profile = s.profile.then(Profile::begin);
        let mut scratch = self.scratch.lock().unwrap_or_else(|e| e.into_inner());
        let result =
            wait_all(s).and_then(|()| execute(&self.core, s, &mut scratch, profile.as_mut().map(|p| &mut p.nodes)));
        if let Some(mut profile) = profile {
            profile.end = Instant::now();
            self.profiles.lock().unwrap().push((id, profile));
        }
        signal_all(s, &result);
        Ok(id)
    }

    fn take_profile(&self, id: u64) -> Option<Profile> {
        take(&self.profiles, id)
    }
}

/// Runs in a thread of its own, one dispatch of the device at a time.
pub struct ThreadQueue {
    core: Arc<Core>,
    next: AtomicU64,
    sender: Mutex<mpsc::Sender<(u64, Submission)>>,
    profiles: Arc<Profiles>,
}

impl ThreadQueue {
    pub fn new(core: Arc<Core>) -> Self {
        let (sender, jobs) = mpsc::channel::<(u64, Submission)>();
        let profiles = Arc::<Profiles>::default();
        let (device, kept) = (core.clone(), profiles.clone());
        std::thread::spawn(move || {
            let mut scratch = <[Vec<u8>; 2]>::default();
            for (id, s) in jobs {
                let mut profile = None;
                let result = wait_all(&s).and_then(|()| {
                    let _engine = device.engine.lock().unwrap();
                    let profile = profile.insert(Profile::begin());
                    let result = execute(&device, &s, &mut scratch, Some(&mut profile.nodes));
                    profile.end = Instant::now();
                    result
                });
                if let Some(profile) = profile.filter(|_| s.profile) {
                    kept.lock().unwrap().push((id, profile));
                }
                signal_all(&s, &result);
            }
        });
        Self { core, next: AtomicU64::new(0), sender: Mutex::new(sender), profiles }
    }
}

impl Queue for ThreadQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        check(&self.core, s)?;
        let id = self.next.fetch_add(1, SeqCst);
        let gone = |_| Error::failed(Status::Internal, "the queue's thread is gone");
        super::apart(|| self.sender.lock().unwrap().send((id, s.clone())).map_err(gone))?;
        Ok(id)
    }

    fn take_profile(&self, id: u64) -> Option<Profile> {
        take(&self.profiles, id)
    }
}
