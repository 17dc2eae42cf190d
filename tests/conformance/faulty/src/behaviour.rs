//! Every decision of the driver as a function pointer.

use crate::{
    Compiled, Core, FaultyBuffer, FaultyDevice, FaultyFence, Job, blob, core, driver, executable, memory, queue,
};
use ottava_hal::device::{Command, Profile};
use ottava_hal::fault::Fault;
use ottava_hal::{
    Binding, BlobKey, BlobVerdict, BufferDesc, Capability, Cost, DeviceInfo, Error, Fence, Notify, Program, Result,
    Submission, Tensor, Verdict,
};
use ottava_ops::EvalCx;
use ottava_reference::ReferenceDevice;
use std::sync::Arc;
use std::time::Duration;

/// Runs an executable on the tensors of its inputs, and records times if there is a profile.
pub type Run = fn(&Compiled, Vec<Tensor>, Option<&mut Profile>) -> Result<Vec<Tensor>>;

/// What the driver does where it can be wrong.
#[derive(Clone, Copy)]
#[allow(missing_docs)] // The functions that `right` names are documented.
pub struct Behaviour {
    pub devices: fn() -> Result<Vec<DeviceInfo>>,
    pub option_ok: fn(&str, &str) -> Result<()>,
    pub opened: fn(&FaultyDevice),
    pub closed: fn(&FaultyDevice),
    pub check_blob: fn(&BlobKey) -> Result<BlobVerdict>,

    pub info: for<'a> fn(&'a DeviceInfo) -> &'a DeviceInfo,
    pub capability: fn() -> Capability,
    pub assess: fn(&Capability, &Program) -> Result<Vec<Verdict>>,
    pub estimate: fn(&Program) -> Result<Cost>,
    pub compile: fn(&Arc<Core>, &Capability, &Program) -> Result<Compiled>,
    pub serialize: fn(&Program) -> Result<Vec<u8>>,
    pub deserialize: fn(&[u8]) -> Result<Program>,
    pub reset: fn(&Core),
    pub inject: fn(&Core, Fault),

    pub alloc: fn(&Arc<Core>, &BufferDesc) -> Result<FaultyBuffer>,
    pub import_ok: fn(&[u8], &BufferDesc) -> Result<()>,
    pub free: fn(&FaultyBuffer),
    pub len: fn(&FaultyBuffer) -> usize,
    pub read: fn(&FaultyBuffer, usize, &mut [u8]) -> Result<()>,
    pub write: fn(&FaultyBuffer, usize, &[u8]) -> Result<()>,

    pub query: fn(&FaultyFence) -> Result<u64>,
    pub wait: fn(&FaultyFence, u64, Duration) -> Result<()>,
    pub signal: fn(&FaultyFence, u64) -> Result<()>,
    pub fail: fn(&FaultyFence, Error),
    pub notify: fn(&FaultyFence, u64, Arc<dyn Notify>, u64),

    pub submit: fn(&Core, &Submission) -> Result<()>,
    pub number: fn(u64) -> u64,
    /// From the line after the one that ran last, and the number of lines: which line is asked first.
    pub first_line: fn(usize, usize) -> usize,
    /// From the number of jobs in a line: which one is taken.
    pub first_job: fn(usize) -> usize,
    pub ready: fn(&Job) -> Option<Result<()>>,
    pub expired: fn(&Job) -> bool,
    pub enqueued: fn(&Core, &Job),
    pub started: fn(&Job),
    pub command: fn(&Core, &Command, Option<&mut Profile>) -> Result<()>,
    pub finish: fn(&Job, &Result<()>),
    pub strike: fn(&Core, &Job, Fault) -> Result<()>,
    pub profile: fn(&mut Profile),

    pub read_input: fn(&Binding) -> Result<Vec<u8>>,
    pub run: Run,
    /// One operator: where defects of arithmetic go.
    pub node: fn(&EvalCx) -> Result<Vec<Tensor>>,
    pub write_output: fn(&Binding, &[u8]) -> Result<()>,
    pub copy: fn(&Binding, &Binding) -> Result<()>,
    pub fill: fn(&Binding, u32) -> Result<()>,
}

impl Behaviour {
    /// The driver without a defect.
    pub fn right() -> Self {
        Self {
            devices: driver::devices,
            option_ok: driver::option_ok,
            opened: |_| {},
            closed: |_| {},
            check_blob: driver::check_blob,
            info: |info| info,
            capability: driver::capability,
            assess: |capability, program| program.check().map(|()| capability.assess(program)),
            estimate: |program| ottava_hal::Device::estimate(&ReferenceDevice::new(), program),
            compile: executable::compile,
            serialize: blob::write,
            deserialize: blob::read,
            reset: core::reset,
            inject: core::inject,
            alloc: memory::alloc,
            import_ok: memory::import_ok,
            free: memory::free,
            len: memory::len,
            read: memory::read,
            write: memory::write,
            query: |fence| fence.inner.query(),
            wait: |fence, value, timeout| fence.inner.wait(value, timeout),
            signal: |fence, value| fence.inner.signal(value),
            fail: |fence, error| fence.inner.fail(error),
            notify: |fence, value, to, token| fence.inner.notify(value, to, token),
            submit: queue::check,
            number: |id| id,
            first_line: |turn, _| turn,
            first_job: |_| 0,
            ready: |job| job.waits.outcome(),
            expired: core::expired,
            enqueued: |_, _| {},
            started: |_| {},
            command: executable::command,
            finish: core::finish,
            strike: core::strike,
            profile: |_| {},
            read_input: executable::read_input,
            run: executable::interpret,
            node: ottava_ops::evaluate,
            write_output: executable::write_output,
            copy: memory::copy,
            fill: memory::fill,
        }
    }
}
