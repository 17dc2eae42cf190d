//! A few nodes on a device and on the reference.

use ottava_hal::{
    Binding, Buffer, BufferDesc, CompileOptions, DataType, Device, Error, Program, Submission, Tensor, ValueId, Verdict,
};
use ottava_ops::{EvalCx, evaluate};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longer than any run; a wait that lasts so long is a failure.
const LONG: Duration = Duration::from_secs(60);

/// How a node ends.
#[derive(Debug)]
pub enum Outcome {
    /// The results are those of the reference, floats within their bounds.
    Equal,
    /// The device does not run it, and says why.
    Refused(String),
    /// The reference does not compute it either.
    Undefined(String),
    /// Anything else.
    Wrong(String),
}

/// Runs a program; `data` holds the data of the inputs of its first node that are present, in their order.
pub fn run(device: &dyn Device, program: &Program, data: &[Tensor]) -> Outcome {
    match device.assess(program) {
        Err(Error::Unsupported { what, .. }) => return Outcome::Refused(what),
        Err(e) => return Outcome::Wrong(format!("assess: {e}")),
        Ok(verdicts) => {
            for verdict in verdicts {
                if let Verdict::Rejected { reason, detail } = verdict {
                    return Outcome::Refused(format!("{reason}: {detail}"));
                }
            }
        }
    }
    let expected = match reference(program, data) {
        Ok(expected) => expected,
        Err(e) => return Outcome::Undefined(e.to_string()),
    };
    let found = match on_device(device, program, data) {
        Ok(found) => found,
        Err(e) => return Outcome::Wrong(format!("accepted, then {e}")),
    };
    for (i, (y, expected)) in found.iter().zip(&expected).enumerate() {
        if let Some(why) = difference(y, expected) {
            return Outcome::Wrong(format!("output {i}: {why}"));
        }
    }
    Outcome::Equal
}

/// What the definitions of the operators make of a program; constants and inputs of the first node are given by `data`.
pub fn reference(program: &Program, data: &[Tensor]) -> ottava_hal::Result<Vec<Tensor>> {
    let mut values: BTreeMap<ValueId, Tensor> = given(program, data);
    for (i, value) in program.values.iter().enumerate() {
        if let Some(constant) = &value.constant {
            values.entry(ValueId(i)).or_insert_with(|| constant.clone());
        }
    }
    for node in &program.nodes {
        let inputs: Vec<_> = node.inputs.iter().map(|id| id.and_then(|id| values.get(&id))).collect();
        let in_types: Vec<_> = node.inputs.iter().map(|id| id.map(|id| program.ty(id))).collect();
        let out_types: Vec<_> = node.outputs.iter().map(|id| program.ty(*id)).collect();
        let cx = EvalCx { node, inputs: &inputs, in_types: &in_types, out_types: &out_types };
        let outputs = evaluate(&cx)?;
        values.extend(node.outputs.iter().copied().zip(outputs));
    }
    Ok(program.outputs.iter().filter_map(|id| values.get(id).cloned()).collect())
}

fn given(program: &Program, data: &[Tensor]) -> BTreeMap<ValueId, Tensor> {
    program.nodes[0].inputs.iter().flatten().copied().zip(data.iter().cloned()).collect()
}

fn on_device(device: &dyn Device, program: &Program, data: &[Tensor]) -> ottava_hal::Result<Vec<Tensor>> {
    let exe = device.compile(program, &CompileOptions::default())?;
    let of = given(program, data);
    let buffer = |bytes: &[u8]| -> ottava_hal::Result<Arc<dyn Buffer>> {
        let buffer = device.alloc(&BufferDesc { bytes: bytes.len().max(1), alignment: 64 })?;
        buffer.write(0, bytes)?;
        Ok(buffer)
    };
    let mut inputs = Vec::new();
    for id in &program.inputs {
        inputs.push(Binding::whole(buffer(of[id].bytes())?));
    }
    let mut outputs = Vec::new();
    for ty in exe.outputs() {
        // What a run does not write would be seen.
        outputs.push(buffer(&vec![0xA5; ty.byte_len().unwrap_or(0)])?);
    }
    let bound = outputs.iter().cloned().map(Binding::whole).collect();
    let mut submission = Submission::dispatch(Arc::clone(&exe), inputs, bound);
    let fence = device.create_fence(0)?;
    submission.signals.push((Arc::clone(&fence), 1));
    device.create_queue()?.submit(&submission)?;
    fence.wait(1, LONG)?;
    let read = |(ty, buffer): (&ottava_hal::TensorType, &Arc<dyn Buffer>)| {
        let mut bytes = vec![0; ty.byte_len().unwrap_or(0)];
        buffer.read(0, &mut bytes)?;
        Tensor::from_bytes(ty.dtype, &ty.shape.known().unwrap_or_default(), &bytes)
    };
    exe.outputs().iter().zip(&outputs).map(read).collect()
}

/// Where two results differ more than they may: floats by 4 units of their last place, or in sums by 2^-20 of the largest.
pub fn difference(found: &Tensor, expected: &Tensor) -> Option<String> {
    if found.dtype() != expected.dtype() || found.shape() != expected.shape() {
        return Some(format!("{} instead of {}", found.ty(), expected.ty()));
    }
    let units = match found.dtype() {
        DataType::F32 => 2f64.powi(-23),
        DataType::F16 => 2f64.powi(-10),
        DataType::BF16 => 2f64.powi(-7),
        _ if found.bytes() == expected.bytes() => return None,
        _ => {
            let (a, b) = (found.to_ints().ok()?, expected.to_ints().ok()?);
            let i = a.iter().zip(&b).position(|(x, y)| x != y)?;
            return Some(format!("element {i} is {}, expected {}", a[i], b[i]));
        }
    };
    let (a, b) = (found.to_f32s().ok()?, expected.to_f32s().ok()?);
    let near = |x: f32, y: f32| {
        let bound = 4.0 * units * f64::from(y.abs()).max(f64::from(f32::MIN_POSITIVE));
        x == y || (x.is_nan() && y.is_nan()) || (f64::from(x) - f64::from(y)).abs() <= bound
    };
    let i = a.iter().zip(&b).position(|(x, y)| !near(*x, *y))?;
    Some(format!("element {i} is {:e}, expected {:e}", a[i], b[i]))
}
