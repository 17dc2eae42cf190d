//! A program with data and the bytes that it must give, and its runs between guard bytes.

use super::Rng;
use crate::{Check, Stop, ensure};
use ottava_hal::host::HostProgram;
use ottava_hal::{
    Binding, Buffer, BufferDesc, CompileOptions, DataType, Device, Executable, Fence, Program, Queue, Submission,
    TensorType,
};
use ottava_reference::Interpreter;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for work that is over in a moment on any device.
pub(crate) const LIMIT: Duration = Duration::from_secs(5);
/// What surrounds a binding, and what is in an output before the run.
const GUARD: u8 = 0xa5;
const STALE: u8 = 0x5a;

/// A compiled program with data.
pub(crate) struct Work {
    pub program: Program,
    pub exe: Arc<dyn Executable>,
    pub inputs: Vec<Vec<u8>>,
    pub expected: Vec<Vec<u8>>,
}

impl Work {
    /// Compiles a program and draws data for it.
    pub(crate) fn new(device: &dyn Device, program: Program, seed: u64) -> Result<Self, Stop> {
        let exe = device.compile(&program, &CompileOptions::default())?;
        let inputs = random_inputs(&program, seed);
        let expected = expected(&program, &inputs)?;
        Ok(Self { program, exe, inputs, expected })
    }

    /// A small program of this device: `x0 + x1` of 24 elements.
    pub(crate) fn small(device: &dyn Device, seed: u64) -> Result<Self, Stop> {
        Self::new(device, super::Net::chain(&super::basis(device, 24)?, 1), seed)
    }

    /// A program of this device that takes a while: many additions of many elements.
    pub(crate) fn long(device: &dyn Device, seed: u64) -> Result<Self, Stop> {
        Self::new(device, super::Net::chain(&super::basis(device, 2048)?, 48), seed)
    }

    /// The same executable with other data.
    pub(crate) fn with_seed(&self, seed: u64) -> Result<Self, Stop> {
        let inputs = random_inputs(&self.program, seed);
        let expected = expected(&self.program, &inputs)?;
        Ok(Self { program: self.program.clone(), exe: self.exe.clone(), inputs, expected })
    }

    /// Buffers with the inputs, ready to be submitted.
    pub(crate) fn bind(&self, device: &dyn Device) -> Result<Bound, Stop> {
        let step = device.info().alignment.max(64);
        let place = |bytes: &[u8]| guarded(device, bytes, step);
        let inputs = self.inputs.iter().map(|x| place(x)).collect::<Result<Vec<_>, Stop>>()?;
        let stale = |y: &Vec<u8>| place(&vec![STALE; y.len()]);
        let outputs = self.expected.iter().map(stale).collect::<Result<Vec<_>, Stop>>()?;
        let submission = Submission::dispatch(self.exe.clone(), inputs, outputs);
        Ok(Bound { submission, step })
    }

    /// Submits, waits, and compares.
    pub(crate) fn run(&self, device: &dyn Device) -> Check {
        let queue = device.create_queue()?;
        let mut bound = self.bind(device)?;
        let fence = bound.signal(device)?;
        queue.submit(&bound.submission)?;
        done(&*fence, 1, "a submission")?;
        bound.check(self)
    }
}

/// A submission of a [`Work`] with its buffers.
pub(crate) struct Bound {
    pub submission: Submission,
    step: usize,
}

impl Bound {
    /// Makes the submission signal a new fence to 1.
    pub(crate) fn signal(&mut self, device: &dyn Device) -> Result<Arc<dyn Fence>, Stop> {
        let fence = device.create_fence(0)?;
        self.submission.signals.push((fence.clone(), 1));
        Ok(fence)
    }

    /// The bindings of inputs and outputs.
    pub(crate) fn bindings(&self) -> (&[Binding], &[Binding]) {
        match self.submission.commands.first() {
            Some(ottava_hal::Command::Dispatch { inputs, outputs, .. }) => (inputs, outputs),
            _ => (&[], &[]),
        }
    }

    /// The bindings, to be changed.
    pub(crate) fn bindings_mut(&mut self) -> Option<(&mut Vec<Binding>, &mut Vec<Binding>)> {
        match self.submission.commands.first_mut() {
            Some(ottava_hal::Command::Dispatch { inputs, outputs, .. }) => Some((inputs, outputs)),
            _ => None,
        }
    }

    /// The outputs are right, and nothing else was written.
    pub(crate) fn check(&self, work: &Work) -> Check {
        let (inputs, outputs) = self.bindings();
        for (i, (binding, want)) in outputs.iter().zip(&work.expected).enumerate() {
            let all = bytes_of(&*binding.buffer)?;
            let found = &all[binding.offset..binding.offset + binding.len];
            if let Some(at) = first_difference(found, want) {
                let stale = if found.iter().all(|b| *b == STALE) { "; the output was not written" } else { "" };
                return Err(Stop::failed(format!("output {i} differs: {at}{stale}")));
            }
            self.check_guards(binding, &all, &format!("output {i}"))?;
        }
        for (i, (binding, want)) in inputs.iter().zip(&work.inputs).enumerate() {
            let all = bytes_of(&*binding.buffer)?;
            let found = &all[binding.offset..binding.offset + binding.len];
            ensure!(found == want.as_slice(), "input {i} was changed by the run");
            self.check_guards(binding, &all, &format!("input {i}"))?;
        }
        Ok(())
    }

    /// The outputs are what they were before the run.
    pub(crate) fn untouched(&self, when: &str) -> Check {
        for (i, binding) in self.bindings().1.iter().enumerate() {
            let all = bytes_of(&*binding.buffer)?;
            let touched = all.iter().filter(|b| **b != STALE && **b != GUARD).count();
            ensure!(touched == 0, "output {i} was touched {when}");
        }
        Ok(())
    }

    fn check_guards(&self, binding: &Binding, all: &[u8], what: &str) -> Check {
        let end = binding.offset + binding.len;
        let outside = (0..self.step).chain(end..all.len()).find(|i| all.get(*i).is_some_and(|b| *b != GUARD));
        let words = |i: usize| {
            if i < end { format!("{} in front of", self.step - i) } else { format!("{} behind", i - end + 1) }
        };
        match outside {
            None => Ok(()),
            Some(i) => Err(Stop::failed(format!("a byte outside of the binding was written: {} {what}", words(i)))),
        }
    }
}

fn guarded(device: &dyn Device, bytes: &[u8], step: usize) -> Result<Binding, Stop> {
    let size = step + bytes.len() + step;
    let buffer = device.alloc(&BufferDesc { bytes: size, alignment: step })?;
    let mut all = vec![GUARD; size];
    all[step..step + bytes.len()].copy_from_slice(bytes);
    buffer.write(0, &all)?;
    Ok(Binding { buffer, offset: step, len: bytes.len() })
}

/// A buffer with these bytes.
pub(crate) fn buffer_of(device: &dyn Device, bytes: &[u8]) -> Result<Arc<dyn Buffer>, Stop> {
    let buffer = device.alloc(&BufferDesc { bytes: bytes.len(), alignment: 64 })?;
    buffer.write(0, bytes)?;
    Ok(buffer)
}

/// All bytes of a buffer.
pub(crate) fn bytes_of(buffer: &dyn Buffer) -> Result<Vec<u8>, Stop> {
    let mut bytes = vec![0; buffer.len()];
    buffer.read(0, &mut bytes)?;
    Ok(bytes)
}

/// Waits for a fence that will be signalled soon.
pub(crate) fn done(fence: &dyn Fence, value: u64, what: &str) -> Check {
    fence.wait(value, LIMIT).map_err(|e| Stop::failed(format!("{what} was not signalled: {e}")))
}

/// Submits and waits until it is done.
pub(crate) fn submit_and_wait(device: &dyn Device, queue: &dyn Queue, mut s: Submission) -> Check {
    let fence = device.create_fence(0)?;
    s.signals.push((fence.clone(), 1));
    queue.submit(&s)?;
    done(&*fence, 1, "a submission")
}

/// Random bytes that are values of the types.
pub(crate) fn random_inputs(program: &Program, seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    program.inputs.iter().map(|id| random(program.ty(*id), &mut rng)).collect()
}

fn random(ty: &TensorType, rng: &mut Rng) -> Vec<u8> {
    let n = ty.byte_len().unwrap_or(0);
    match ty.dtype {
        DataType::F32 => (0..n / 4).flat_map(|_| (rng.below(2000) as f32 / 8.0 - 125.0).to_le_bytes()).collect(),
        DataType::Bool => (0..n).map(|_| rng.below(2) as u8).collect(),
        _ => (0..n).map(|_| rng.bits() as u8).collect(),
    }
}

/// What the reference gives for these inputs.
pub(crate) fn expected(program: &Program, inputs: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, Stop> {
    let cannot = |e: ottava_hal::Error| Stop::Skipped(format!("the reference cannot run the program: {e}"));
    let interpreter = Interpreter::new(program).map_err(cannot)?;
    let mut outputs: Vec<Vec<u8>> =
        program.outputs.iter().map(|id| vec![0; program.ty(*id).byte_len().unwrap_or(0)]).collect();
    let ins: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    HostProgram::run(&interpreter, &ins, &mut outs, None).map_err(cannot)?;
    Ok(outputs)
}

/// The first byte that differs, in words.
pub(crate) fn first_difference(found: &[u8], want: &[u8]) -> Option<String> {
    if found.len() != want.len() {
        return Some(format!("{} bytes, expected {}", found.len(), want.len()));
    }
    let at = found.iter().zip(want).position(|(f, w)| f != w)?;
    let n = found.iter().zip(want).filter(|(f, w)| f != w).count();
    Some(format!("byte {at} is {:#04x}, expected {:#04x} ({n} of {} differ)", found[at], want[at], want.len()))
}

/// Runs an executable on these inputs with new buffers of the device; its outputs.
pub(crate) fn guarded_run(
    device: &dyn Device,
    exe: Arc<dyn Executable>,
    inputs: &[Vec<u8>],
    expected: &[Vec<u8>],
) -> Result<Vec<Vec<u8>>, Stop> {
    let step = device.info().alignment.max(64);
    let place = |bytes: &[u8]| guarded(device, bytes, step);
    let ins = inputs.iter().map(|x| place(x)).collect::<Result<Vec<_>, Stop>>()?;
    let outs = expected.iter().map(|y| place(&vec![STALE; y.len()])).collect::<Result<Vec<_>, Stop>>()?;
    let submission = Submission::dispatch(exe, ins, outs.clone());
    submit_and_wait(device, &*device.create_queue()?, submission)?;
    let read = |b: &Binding| {
        let all = bytes_of(&*b.buffer)?;
        Ok(all[b.offset..b.offset + b.len].to_vec())
    };
    outs.iter().map(read).collect()
}
