//! Building blocks for devices whose memory is the host's: buffers, timelines, an in-order queue.
//!
//! A driver implements [`HostProgram`] and gets the rest. The queue runs each submission in the caller's thread, so
//! [`Queue::submit`] returns when the work is done; fences still carry the result, as on any other device.
//!
//! Protocol: a [`HostFence`] holds its state under one mutex and wakes all waiters on each change. Buffers are locked
//! for reading (inputs) or writing (outputs) during a run; a buffer that is bound as both is refused before any lock is
//! taken, so a submission cannot deadlock with itself.

use crate::device::NodeTime;
use crate::{
    Binding, Buffer, BufferDesc, Error, Executable, Fence, Queue, Result, Status, Submission, Tensor, TensorType,
};
use parking_lot::{Condvar, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A buffer in host memory, aligned to 64 bytes or less as the allocator gives (8 at least).
pub struct HostBuffer {
    words: RwLock<Vec<u64>>,
    len: usize,
}

impl HostBuffer {
    /// Allocates zeroed memory.
    pub fn new(desc: &BufferDesc) -> Result<Self> {
        let n_words = desc.bytes.div_ceil(8);
        let mut words = Vec::new();
        let no_memory = |_| Error::failed(Status::OutOfHostMemory, format!("cannot allocate {} bytes", desc.bytes));
        words.try_reserve_exact(n_words).map_err(no_memory)?;
        words.resize(n_words, 0);
        Ok(Self { words: RwLock::new(words), len: desc.bytes })
    }

    fn range(&self, offset: usize, len: usize) -> Result<std::ops::Range<usize>> {
        let end = offset.checked_add(len).filter(|&e| e <= self.len);
        let outside = || Error::invalid(format!("bytes {offset}+{len} are outside a buffer of {}", self.len));
        Ok(offset..end.ok_or_else(outside)?)
    }
}

impl Buffer for HostBuffer {
    fn len(&self) -> usize {
        self.len
    }

    fn read(&self, offset: usize, to: &mut [u8]) -> Result<()> {
        let range = self.range(offset, to.len())?;
        to.copy_from_slice(&bytemuck::cast_slice::<u64, u8>(&self.words.read())[range]);
        Ok(())
    }

    fn write(&self, offset: usize, from: &[u8]) -> Result<()> {
        let range = self.range(offset, from.len())?;
        bytemuck::cast_slice_mut::<u64, u8>(&mut self.words.write())[range].copy_from_slice(from);
        Ok(())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A timeline in host memory.
pub struct HostFence {
    state: Mutex<Result<u64>>,
    changed: Condvar,
}

impl HostFence {
    /// A timeline that stands at `initial`.
    pub fn new(initial: u64) -> Self {
        Self { state: Mutex::new(Ok(initial)), changed: Condvar::new() }
    }
}

impl Fence for HostFence {
    fn query(&self) -> Result<u64> {
        self.state.lock().clone()
    }

    fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
        let deadline = Instant::now().checked_add(timeout);
        let mut state = self.state.lock();
        loop {
            match &*state {
                Err(e) => return Err(e.clone()),
                Ok(reached) if *reached >= value => return Ok(()),
                Ok(reached) => {
                    let reached = *reached;
                    let Some(deadline) = deadline else {
                        self.changed.wait(&mut state);
                        continue;
                    };
                    if self.changed.wait_until(&mut state, deadline).timed_out() && Instant::now() >= deadline {
                        let what = format!("the timeline stands at {reached}, waited for {value}");
                        return Err(Error::Failed { status: Status::Timeout, what, transient: true });
                    }
                }
            }
        }
    }

    fn signal(&self, value: u64) -> Result<()> {
        let mut state = self.state.lock();
        let reached = state.clone()?;
        if value <= reached {
            return Err(Error::invalid(format!("a timeline at {reached} cannot be signalled to {value}")));
        }
        *state = Ok(value);
        self.changed.notify_all();
        Ok(())
    }

    fn fail(&self, error: Error) {
        let mut state = self.state.lock();
        if state.is_ok() {
            *state = Err(error);
        }
        self.changed.notify_all();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// What a host device runs: bytes in, bytes out. Slices have exactly the byte lengths of the declared types.
pub trait HostProgram: Send + Sync {
    /// Runs once. `times`, if given, receives one entry per node.
    fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]], times: Option<&mut Vec<NodeTime>>) -> Result<()>;

    /// See [`Executable::kernels`].
    fn kernels(&self) -> Vec<(String, String)> {
        Vec::new()
    }

    /// See [`Executable::arena_bytes`].
    fn arena_bytes(&self) -> usize {
        0
    }

    /// See [`Executable::run_dynamic`].
    fn run_dynamic(&self, _inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Err(Error::unsupported(crate::Reason::DynamicShape, "this device runs fixed shapes only"))
    }
}

/// An executable of a host device.
pub struct HostExecutable {
    inputs: Vec<TensorType>,
    outputs: Vec<TensorType>,
    program: Box<dyn HostProgram>,
}

impl HostExecutable {
    /// Wraps a program with the types of its inputs and outputs.
    pub fn new(inputs: Vec<TensorType>, outputs: Vec<TensorType>, program: Box<dyn HostProgram>) -> Self {
        Self { inputs, outputs, program }
    }
}

impl Executable for HostExecutable {
    fn inputs(&self) -> &[TensorType] {
        &self.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.program.kernels()
    }

    fn arena_bytes(&self) -> usize {
        self.program.arena_bytes()
    }

    fn run_dynamic(&self, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        self.program.run_dynamic(inputs)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// A queue that runs each submission in the caller's thread.
#[derive(Default)]
pub struct HostQueue {
    /// Serialises submissions: a queue runs in order.
    times: Mutex<Vec<NodeTime>>,
}

/// A binding resolved to host memory.
struct Bound<'a> {
    buffer: &'a HostBuffer,
    range: std::ops::Range<usize>,
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
    Read(RwLockReadGuard<'a, Vec<u64>>),
    Write(RwLockWriteGuard<'a, Vec<u64>>),
}

/// Locks every bound buffer once, in the order of their addresses: whatever two submissions bind, they lock in the same
/// order and cannot wait for each other.
fn lock<'a>(ins: &[Bound<'a>], outs: &[Bound<'a>]) -> Vec<(*const HostBuffer, Guard<'a>)> {
    let reads = ins.iter().map(|b| (std::ptr::from_ref(b.buffer), b.buffer, false));
    let mut all: Vec<_> = outs.iter().map(|b| (std::ptr::from_ref(b.buffer), b.buffer, true)).chain(reads).collect();
    all.sort_by_key(|(address, _, _)| *address);
    all.dedup_by_key(|(address, _, _)| *address);
    let hold = |(address, buffer, write): (_, &'a HostBuffer, bool)| {
        let guard = if write { Guard::Write(buffer.words.write()) } else { Guard::Read(buffer.words.read()) };
        (address, guard)
    };
    all.into_iter().map(hold).collect()
}

fn run(exe: &HostExecutable, ins: &[Bound], outs: &[Bound], times: Option<&mut Vec<NodeTime>>) -> Result<()> {
    let mut guards = lock(ins, outs);
    let (mut readable, mut writable) = (BTreeMap::new(), BTreeMap::new());
    for (address, guard) in &mut guards {
        match guard {
            Guard::Read(words) => drop(readable.insert(*address, bytemuck::cast_slice::<u64, u8>(words))),
            Guard::Write(words) => drop(writable.insert(*address, bytemuck::cast_slice_mut::<u64, u8>(words))),
        }
    }
    let gone = || Error::failed(Status::Internal, "a bound buffer was not locked");
    let input = |b: &Bound| readable.get(&std::ptr::from_ref(b.buffer)).map(|bytes| &bytes[b.range.clone()]);
    let inputs = ins.iter().map(|b| input(b).ok_or_else(gone)).collect::<Result<Vec<_>>>()?;
    let mut output =
        |b: &Bound| writable.remove(&std::ptr::from_ref(b.buffer)).map(|bytes| &mut bytes[b.range.clone()]);
    let mut outputs = outs.iter().map(|b| output(b).ok_or_else(gone)).collect::<Result<Vec<_>>>()?;
    exe.program.run(&inputs, &mut outputs, times)
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

impl Queue for HostQueue {
    fn submit(&self, s: &Submission) -> Result<()> {
        let foreign = || Error::invalid("the executable belongs to another device");
        let exe = s.executable.as_any().downcast_ref::<HostExecutable>().ok_or_else(foreign)?;
        let ins = bind(&s.inputs, &exe.inputs, "input")?;
        let outs = bind(&s.outputs, &exe.outputs, "output")?;
        check_distinct(&ins, &outs)?;
        let mut times = self.times.lock();
        times.clear();
        let waited = s.waits.iter().try_for_each(|(fence, value)| fence.wait(*value, Duration::MAX));
        let result = waited.and_then(|()| run(exe, &ins, &outs, s.profile.then_some(&mut *times)));
        for (fence, value) in &s.signals {
            match &result {
                Ok(()) => fence.signal(*value)?,
                Err(e) => fence.fail(e.clone()),
            }
        }
        Ok(())
    }

    fn take_profile(&self) -> Vec<NodeTime> {
        std::mem::take(&mut self.times.lock())
    }
}

/// Allocates a [`HostBuffer`]; what [`crate::Device::alloc`] of a host device returns.
pub fn alloc(desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
    Ok(Arc::new(HostBuffer::new(desc)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    struct AddOne;

    impl HostProgram for AddOne {
        fn run(&self, i: &[&[u8]], o: &mut [&mut [u8]], _: Option<&mut Vec<NodeTime>>) -> Result<()> {
            for (x, y) in i[0].iter().zip(o[0].iter_mut()) {
                *y = x.checked_add(1).ok_or_else(|| Error::failed(Status::Internal, "overflow"))?;
            }
            Ok(())
        }
    }

    fn submission(data: &[u8]) -> (Submission, Arc<dyn Buffer>, Arc<HostFence>) {
        let ty = TensorType::fixed(DataType::U8, &[data.len()]);
        let desc = BufferDesc { bytes: data.len(), alignment: 64 };
        let (a, b) = (alloc(&desc).unwrap(), alloc(&desc).unwrap());
        a.write(0, data).unwrap();
        let fence = Arc::new(HostFence::new(0));
        let s = Submission {
            executable: Arc::new(HostExecutable::new(vec![ty.clone()], vec![ty], Box::new(AddOne))),
            inputs: vec![Binding::whole(a)],
            outputs: vec![Binding::whole(b.clone())],
            waits: vec![],
            signals: vec![(fence.clone(), 1)],
            profile: false,
        };
        (s, b, fence)
    }

    #[test]
    fn a_run_signals_its_fence() {
        let (s, out, fence) = submission(&[1, 2, 3]);
        HostQueue::default().submit(&s).unwrap();
        assert_eq!(fence.query(), Ok(1));
        let mut y = [0; 3];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [2, 3, 4]);
    }

    #[test]
    fn a_failed_run_fails_its_fence_and_everything_that_waits() {
        let (s, _, fence) = submission(&[255]);
        let queue = HostQueue::default();
        queue.submit(&s).unwrap();
        assert!(fence.wait(1, Duration::ZERO).is_err());
        let (mut next, _, after) = submission(&[1]);
        next.waits = vec![(fence, 1)];
        queue.submit(&next).unwrap();
        assert!(after.query().unwrap_err().to_string().contains("overflow"));
    }

    #[test]
    fn crossing_submissions_do_not_wait_for_each_other() {
        let (forth, _, _) = submission(&[1; 64]);
        let mut back = forth.clone();
        std::mem::swap(&mut back.inputs, &mut back.outputs);
        std::thread::scope(|scope| {
            for mut s in [forth, back] {
                scope.spawn(move || {
                    let queue = HostQueue::default();
                    for _ in 0..60 {
                        s.signals = vec![];
                        queue.submit(&s).unwrap();
                    }
                });
            }
        });
    }

    #[test]
    fn an_input_may_be_bound_twice() {
        let ty = TensorType::fixed(DataType::U8, &[1]);
        let (mut s, out, _) = submission(&[4]);
        s.inputs.push(s.inputs[0].clone());
        s.executable = Arc::new(HostExecutable::new(vec![ty.clone(), ty.clone()], vec![ty], Box::new(AddOne)));
        HostQueue::default().submit(&s).unwrap();
        let mut y = [0];
        out.read(0, &mut y).unwrap();
        assert_eq!(y, [5]);
    }

    #[test]
    fn aliased_outputs_and_wrong_sizes_are_refused() {
        let (mut s, _, fence) = submission(&[1]);
        s.outputs = s.inputs.clone();
        assert!(HostQueue::default().submit(&s).unwrap_err().to_string().contains("bound twice"));
        s.outputs[0].len = 2;
        assert!(HostQueue::default().submit(&s).is_err());
        assert_eq!(fence.query(), Ok(0));
    }

    #[test]
    fn timelines_only_grow_and_waits_time_out() {
        let fence = HostFence::new(5);
        assert!(fence.signal(5).is_err());
        assert_eq!(fence.wait(5, Duration::ZERO), Ok(()));
        let e = fence.wait(6, Duration::from_millis(1)).unwrap_err();
        assert_eq!(e.status(), Status::Timeout);
    }
}
