//! Runs a program once on the device under test.

use crate::{Check, Repro, ReproFile, Stop, Subject};
use ottava_hal::device::Profile;
use ottava_hal::{Binding, BufferDesc, CompileOptions, Device, Error, Program, Result, Submission, Tensor, ValueId};
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for a run; the limit of the case ends it earlier.
const PATIENCE: Duration = Duration::from_secs(600);

/// Compiles a program for a device and runs it once, on buffers of the device.
pub fn execute(device: &dyn Device, program: &Program, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    execute_profiled(device, program, inputs).map(|(outputs, _)| outputs)
}

/// As [`execute`], with the times of the run where the device tells them.
pub(crate) fn execute_profiled(
    device: &dyn Device,
    program: &Program,
    inputs: &[Tensor],
) -> Result<(Vec<Tensor>, Option<Profile>)> {
    let executable = device.compile(program, &CompileOptions::default())?;
    let buffer = |bytes: usize| device.alloc(&BufferDesc { bytes, alignment: device.info().alignment });
    let mut bound = Vec::with_capacity(inputs.len());
    for tensor in inputs {
        let to = buffer(tensor.bytes().len())?;
        to.write(0, tensor.bytes())?;
        bound.push(Binding::whole(to));
    }
    let mut results = program.outputs.iter().map(|id| empty(program, *id)).collect::<Result<Vec<_>>>()?;
    let made: Result<Vec<_>> = results.iter().map(|t| buffer(t.bytes().len()).map(Binding::whole)).collect();
    let made = made?;
    let (queue, fence) = (device.create_queue()?, device.create_fence(0)?);
    let submission = Submission::dispatch(executable, bound, made.clone());
    let id = queue.submit(&Submission { signals: vec![(fence.clone(), 1)], profile: true, ..submission })?;
    fence.wait(1, PATIENCE)?;
    let profile = queue.take_profile(id);
    for (tensor, from) in results.iter_mut().zip(&made) {
        from.buffer.read(0, tensor.bytes_mut())?;
    }
    Ok((results, profile))
}

/// A tensor for an output, which must have a fixed shape.
fn empty(program: &Program, id: ValueId) -> Result<Tensor> {
    let ty = program.ty(id);
    let open = || Error::invalid(format!("output `{}` has no fixed shape", program.value(id).name));
    Tensor::zeros(ty.dtype, &ty.shape.known().ok_or_else(open)?)
}

/// Runs what a repro file holds, and compares with what was expected.
pub(crate) fn replay(subject: &Subject, file: &ReproFile) -> Check {
    let Some(repro) = &file.repro else {
        return Err(Stop::Skipped("the file holds no program".to_owned()));
    };
    let device: Arc<dyn Device> = subject.open()?;
    let actual = match execute(device.as_ref(), &repro.program, &repro.inputs) {
        Ok(actual) => actual,
        Err(e) => {
            return Err(Repro { actual: Vec::new(), ..repro.clone() }.differs(format!("the program does not run: {e}")));
        }
    };
    let is_same = actual.iter().zip(&repro.expected).all(|(a, b)| a.bytes() == b.bytes());
    if is_same { Ok(()) } else { Err(Repro { actual, ..repro.clone() }.differs(file.detail.clone())) }
}
