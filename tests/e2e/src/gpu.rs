//! GPU devices for tests: every one that is present, in each way that its products can be computed.

use ottava_driver_opencl::OpenCLDriver;
use ottava_hal::{Binding, BufferDesc, Device, Driver, Executable, Options, Result, Submission, Tensor};
use std::sync::Arc;
use std::time::Duration;

/// Longer than any run of these tests.
const LONG: Duration = Duration::from_secs(120);

/// A device, opened with options.
pub struct Opened {
    /// Device and options, for messages.
    pub name: String,
    /// The device.
    pub device: Arc<dyn Device>,
}

/// Ways to compute: dot products of bytes by products and by the device's instruction.
const WAYS: &[&[(&str, &str)]] = &[&[("dot", "plain")], &[("dot", "packed"), ("work_group", "5")]];

/// Every GPU device, once for each way. If there is none, `what` is noted as skipped.
pub fn devices(what: &str) -> Vec<Opened> {
    let drivers: [Box<dyn Driver>; 1] = [Box::new(OpenCLDriver::new())];
    let mut opened = Vec::new();
    for driver in &drivers {
        let found = driver.devices().unwrap_or_default();
        if found.is_empty() {
            crate::assets::skip(what, &format!("the {} driver has no device", driver.info().name));
        }
        for info in found {
            for way in WAYS {
                let options: Options = way.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
                match driver.open(&info.id, &options) {
                    Ok(device) => opened.push(Opened { name: format!("{} {way:?}", info.id), device }),
                    Err(e) => crate::assets::skip(what, &format!("{} {way:?}: {e}", info.id)),
                }
            }
        }
    }
    opened
}

/// Runs an executable once.
pub fn run(opened: &Opened, exe: &Arc<dyn Executable>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let device = &opened.device;
    let buffer = |bytes: &[u8]| {
        let buffer = device.alloc(&BufferDesc { bytes: bytes.len(), alignment: 64 })?;
        buffer.write(0, bytes).map(|()| buffer)
    };
    let ins = inputs.iter().map(|t| buffer(t.bytes()).map(Binding::whole)).collect::<Result<_>>()?;
    let zeros = |len: Option<usize>| buffer(&vec![0; len.unwrap_or(0)]);
    let outs = exe.outputs().iter().map(|ty| zeros(ty.byte_len())).collect::<Result<Vec<_>>>()?;
    let mut s = Submission::dispatch(Arc::clone(exe), ins, outs.iter().cloned().map(Binding::whole).collect());
    let fence = device.create_fence(0)?;
    s.signals.push((Arc::clone(&fence), 1));
    device.create_queue()?.submit(&s)?;
    fence.wait(1, LONG)?;
    let read = |(ty, buffer): (&ottava_hal::TensorType, &Arc<dyn ottava_hal::Buffer>)| {
        let mut bytes = vec![0; buffer.len()];
        buffer.read(0, &mut bytes)?;
        Tensor::from_bytes(ty.dtype, &ty.shape.known().unwrap_or_default(), &bytes)
    };
    exe.outputs().iter().zip(&outs).map(read).collect()
}
