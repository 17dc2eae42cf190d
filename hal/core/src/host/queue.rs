//! A queue that runs each submission in the caller's thread.

use super::buffer::{HostBuffer, Storage};
use super::program::HostExecutable;
use crate::device::{Command, NodeTime, Profile};
use crate::{Binding, Error, Queue, Result, Status, Submission, TensorType};
use parking_lot::{Mutex, RwLockReadGuard, RwLockWriteGuard};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Profiles that nobody has taken are dropped beyond this number, oldest first.
const KEPT_PROFILES: usize = 64;

/// A queue that runs each submission in the caller's thread. Its lock is held during a run: a queue runs in order.
#[derive(Default)]
pub struct HostQueue {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    submissions: u64,
    profiles: VecDeque<(u64, Profile)>,
}

/// A binding resolved to host memory.
struct Bound<'a> {
    buffer: &'a HostBuffer,
    range: Range<usize>,
}

fn bind<'a>(bindings: &'a [Binding], types: &[TensorType], what: &str) -> Result<Vec<Bound<'a>>> {
    if bindings.len() != types.len() {
        let (found, expected) = (bindings.len(), types.len());
        return Err(Error::invalid(format!("{found} {what} bindings, the executable has {expected} {what}s")));
    }
    let resolve = |(i, (b, ty)): (usize, (&'a Binding, &TensorType))| {
        let foreign = || Error::invalid(format!("{what} {i} is a buffer of another device"));
        let buffer = b.buffer.as_any().downcast_ref::<HostBuffer>().ok_or_else(foreign)?;
        if ty.byte_len() != Some(b.len) {
            return Err(Error::invalid(format!("{what} {i}: {} bytes bound, {ty} needs {:?}", b.len, ty.byte_len())));
        }
        if b.offset % 8 != 0 {
            return Err(Error::invalid(format!("{what} {i}: offset {} is not a multiple of 8", b.offset)));
        }
        Ok(Bound { buffer, range: buffer.range(b.offset, b.len)? })
    };
    bindings.iter().zip(types).enumerate().map(resolve).collect()
}

/// A buffer held for a run.
enum Guard<'a> {
    Read(RwLockReadGuard<'a, Storage>),
    Write(RwLockWriteGuard<'a, Storage>),
}

/// Locks every bound buffer once, in the order of their addresses: whatever two submissions bind, they lock in the same
/// order and cannot wait for each other.
fn lock<'a>(ins: &[Bound<'a>], outs: &[Bound<'a>]) -> Vec<(*const HostBuffer, Guard<'a>)> {
    let reads = ins.iter().map(|b| (std::ptr::from_ref(b.buffer), b.buffer, false));
    let mut all: Vec<_> = outs.iter().map(|b| (std::ptr::from_ref(b.buffer), b.buffer, true)).chain(reads).collect();
    all.sort_by_key(|(address, _, _)| *address);
    all.dedup_by_key(|(address, _, _)| *address);
    let hold = |(address, buffer, write): (_, &'a HostBuffer, bool)| {
        let guard = if write { Guard::Write(buffer.storage.write()) } else { Guard::Read(buffer.storage.read()) };
        (address, guard)
    };
    all.into_iter().map(hold).collect()
}

fn run(exe: &HostExecutable, ins: &[Bound], outs: &[Bound], times: Option<&mut Vec<NodeTime>>) -> Result<()> {
    let mut guards = lock(ins, outs);
    let (mut readable, mut writable) = (BTreeMap::new(), BTreeMap::new());
    for (address, guard) in &mut guards {
        match guard {
            Guard::Read(storage) => drop(readable.insert(*address, storage.bytes())),
            Guard::Write(storage) => drop(writable.insert(*address, storage.bytes_mut())),
        }
    }
    let gone = || Error::failed(Status::Internal, "a bound buffer was not locked");
    let input = |b: &Bound| readable.get(&std::ptr::from_ref(b.buffer)).map(|bytes| &bytes[b.range.clone()]);
    let inputs = ins.iter().map(|b| input(b).ok_or_else(gone)).collect::<Result<Vec<_>>>()?;
    let mut output =
        |b: &Bound| writable.remove(&std::ptr::from_ref(b.buffer)).map(|bytes| &mut bytes[b.range.clone()]);
    let mut outputs = outs.iter().map(|b| output(b).ok_or_else(gone)).collect::<Result<Vec<_>>>()?;
    exe.program().run(&inputs, &mut outputs, times)
}

/// An output buffer must not be bound a second time in the same submission.
fn check_distinct(ins: &[Bound], outs: &[Bound]) -> Result<()> {
    for (i, out) in outs.iter().enumerate() {
        let others = outs[i + 1..].iter().chain(ins);
        if others.into_iter().any(|o| std::ptr::eq(o.buffer, out.buffer)) {
            return Err(Error::invalid(format!(
                "the buffer of output {i} is bound twice; give it a buffer of its own"
            )));
        }
    }
    Ok(())
}

/// A command whose objects are known to be of this kind of device and to fit.
enum Ready<'a> {
    Dispatch { exe: &'a HostExecutable, ins: Vec<Bound<'a>>, outs: Vec<Bound<'a>> },
    Copy { from: Bound<'a>, to: Bound<'a> },
    Fill { to: Bound<'a>, pattern: u32 },
}

impl<'a> Ready<'a> {
    fn check(command: &'a Command) -> Result<Self> {
        match command {
            Command::Dispatch { executable, inputs, outputs } => {
                let foreign = || Error::invalid("the executable belongs to another device");
                let exe = executable.as_any().downcast_ref::<HostExecutable>().ok_or_else(foreign)?;
                let ins = bind(inputs, &exe.inputs, "input")?;
                let outs = bind(outputs, &exe.outputs, "output")?;
                check_distinct(&ins, &outs)?;
                Ok(Self::Dispatch { exe, ins, outs })
            }
            Command::Copy { from, to } if from.len != to.len => {
                Err(Error::invalid(format!("a copy from {} bytes to {}", from.len, to.len)))
            }
            Command::Copy { from, to } => Ok(Self::Copy { from: resolve(from)?, to: resolve(to)? }),
            Command::Fill { to, pattern } => Ok(Self::Fill { to: resolve(to)?, pattern: *pattern }),
        }
    }

    fn run(&self, times: Option<&mut Vec<NodeTime>>) -> Result<()> {
        match self {
            Self::Dispatch { exe, ins, outs } => run(exe, ins, outs, times),
            Self::Copy { from, to } => {
                let bytes = from.buffer.with_bytes(from.range.start, from.range.len(), <[u8]>::to_vec)?;
                to.buffer.with_bytes_mut(to.range.start, to.range.len(), |b| b.copy_from_slice(&bytes))
            }
            Self::Fill { to, pattern } => to.buffer.with_bytes_mut(to.range.start, to.range.len(), |bytes| {
                let pattern = pattern.to_le_bytes();
                bytes.iter_mut().zip(pattern.iter().cycle()).for_each(|(b, p)| *b = *p);
            }),
        }
    }
}

fn resolve(b: &Binding) -> Result<Bound<'_>> {
    let foreign = || Error::invalid("a copy or fill names a buffer of another device");
    let buffer = b.buffer.as_any().downcast_ref::<HostBuffer>().ok_or_else(foreign)?;
    Ok(Bound { buffer, range: buffer.range(b.offset, b.len)? })
}

/// Waits as long as the deadline allows.
fn wait_all(s: &Submission) -> Result<()> {
    for (fence, value) in &s.waits {
        let left = s.deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()));
        fence.wait(*value, left)?;
    }
    match s.deadline {
        Some(deadline) if Instant::now() > deadline => {
            Err(Error::failed(Status::Timeout, "the deadline had passed before the run could start"))
        }
        _ => Ok(()),
    }
}

impl Queue for HostQueue {
    fn submit(&self, s: &Submission) -> Result<u64> {
        let ready = s.commands.iter().map(Ready::check).collect::<Result<Vec<_>>>()?;
        let mut state = self.state.lock();
        let waited = wait_all(s);
        let mut profile = s.profile.then(Profile::begin);
        let result = waited
            .and_then(|()| ready.iter().try_for_each(|command| command.run(profile.as_mut().map(|p| &mut p.nodes))));
        state.submissions += 1;
        let id = state.submissions;
        if let Some(mut profile) = profile {
            profile.end = Instant::now();
            if state.profiles.len() == KEPT_PROFILES {
                state.profiles.pop_front();
            }
            state.profiles.push_back((id, profile));
        }
        drop(state);
        for (fence, value) in &s.signals {
            match &result {
                Ok(()) => fence.signal(*value)?,
                Err(e) => fence.fail(e.clone()),
            }
        }
        Ok(id)
    }

    fn take_profile(&self, submission: u64) -> Option<Profile> {
        let mut state = self.state.lock();
        let i = state.profiles.iter().position(|(id, _)| *id == submission)?;
        state.profiles.remove(i).map(|(_, profile)| profile)
    }
}
