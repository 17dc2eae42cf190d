//! An open device.

use super::buffer::AbiBuffer;
use super::call::two_call;
use super::error::{broken, of_call};
use super::executable::AbiExecutable;
use super::fence::AbiFence;
use super::health::Health;
use super::info::{Described, MemoryChoice};
use super::profile::ClockReading;
use super::queue::AbiQueue;
use super::timeline::Timelines;
use super::view::View;
use super::{capability, envelope, error, extension, info, verdict};
use crate::plugin::{Inside, Plugin};
use ottava_abi::types::{Device as RawDevice, Exec as RawExec};
use ottava_abi::{
    CompileOptsV1, CostV1, DESCRIBE_HASH, DESCRIBE_NAME, DescribeV1, DeviceVtblV1, ErrorV1, ExtV1, PROFILE_HASH,
    PROFILE_NAME, ProfileV1, Slice, SliceMut, Str, TEST_HOOKS_HASH, TEST_HOOKS_NAME, TestHooksV1, compile_flag,
    confidence, fault, status,
};
use ottava_hal::fault::{Fault, FaultKind};
use ottava_hal::host::HostMemory;
use ottava_hal::{
    BlobKey, Buffer, BufferDesc, Capability, CompileOptions, Confidence, Cost, Device, DeviceInfo, Error, Executable,
    Fence, Program, Queue, Reason, Result, Status, Verdict,
};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;

/// Largest saved executable.
const MAX_BLOB: u64 = 1 << 40;
/// Longest text of `ottava.describe/1`.
const MAX_WORDS: u64 = 64 * 1024;
/// Usual effort of a compilation.
const OPT_LEVEL: u32 = 1;
/// How long a reset waits for other calls to return.
const RESET_PATIENCE: Duration = Duration::from_secs(5);

/// An open device, shared by everything that was made with it; closed when the last of them is gone.
pub(crate) struct Shared {
    /// The handle.
    pub raw: *mut RawDevice,
    /// What it is.
    pub info: DeviceInfo,
    /// Where buffers go.
    pub memory: MemoryChoice,
    /// Whether it is lost or poisoned.
    pub health: Health,
    /// Its timelines, if it runs on its own.
    pub timelines: Timelines,
    /// Words about executables.
    pub describe: Option<DescribeV1>,
    /// Times of nodes.
    pub profile: Option<ProfileV1>,
    /// The clocks when the device was opened.
    pub opened_at: Option<ClockReading>,
    hooks: Option<TestHooksV1>,
    /// Held for writing by `reset`, which is exclusive.
    exclusive: RwLock<()>,
    plugin: Arc<Plugin>,
    /// Keeps the driver from being shut down; dropped after the device is closed.
    _inside: Inside,
}

// SAFETY: the handle is used only with the driver's functions, which are thread-safe by contract.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: everything that was made with the device held it and is gone, so this call is exclusive and the last.
        unsafe { (self.plugin.tables.device.close)(self.raw) };
    }
}

impl Shared {
    /// Takes over a handle that `open` returned.
    pub fn new(
        plugin: Arc<Plugin>,
        inside: Inside,
        raw: *mut RawDevice,
        d: Described,
        words: Option<DescribeV1>,
    ) -> Self {
        let ask = |name: Str, out: *mut ExtV1| {
            // SAFETY: the handle is open, the arguments are valid during the call.
            unsafe { (plugin.tables.device.query_extension)(raw, name, out) }
        };
        let id = &d.info.id;
        let describe = words.or_else(|| extension::query(id, DESCRIBE_NAME, DESCRIBE_HASH, ask));
        let profile: Option<ProfileV1> = extension::query(id, PROFILE_NAME, PROFILE_HASH, ask);
        let hooks = extension::query(id, TEST_HOOKS_NAME, TEST_HOOKS_HASH, ask);
        let opened_at = profile.as_ref().and_then(|p| ClockReading::now(p, raw));
        let (info, memory, health) = (d.info, d.memory, Health::default());
        let (exclusive, timelines) = (RwLock::default(), Timelines::default());
        let mut shared = Self {
            raw,
            info,
            memory,
            health,
            timelines,
            describe,
            profile,
            opened_at,
            hooks,
            exclusive,
            plugin,
            _inside: inside,
        };
        let words = shared.describe.map(|describe| {
            shared.words("open_text", |device, buf, cap, len, err| {
                // SAFETY: the handle is open, `buf` holds `cap` bytes.
                unsafe { (describe.open_text)(device, buf, cap, len, err) }
            })
        });
        info::refine(&mut shared.info, &words.unwrap_or_default());
        shared
    }

    /// A text of `ottava.describe/1`; empty if the driver has none.
    pub fn words(
        &self,
        function: &str,
        mut f: impl FnMut(*mut RawDevice, *mut u8, u64, &mut u64, *mut ErrorV1) -> i32,
    ) -> String {
        let bytes = two_call(&self.info.id, function, MAX_WORDS, 0u8, |cap, out, len| {
            self.call(function, |device, err| f(device, out, cap, len, err))
        });
        match bytes {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) => {
                tracing::debug!("{e}");
                String::new()
            }
        }
    }

    /// The device's functions.
    pub fn table(&self) -> &DeviceVtblV1 {
        &self.plugin.tables.device
    }

    /// Calls a function of the device, unless it is lost or poisoned, and remembers if it is now.
    pub fn call(&self, function: &str, f: impl FnOnce(*mut RawDevice, *mut ErrorV1) -> i32) -> Result<()> {
        self.call_about(function, None, f)
    }

    /// [`Self::call`] about a program, whose nodes an error may name.
    pub fn call_about(
        &self,
        function: &str,
        program: Option<&Program>,
        f: impl FnOnce(*mut RawDevice, *mut ErrorV1) -> i32,
    ) -> Result<()> {
        self.health.check()?;
        let mut err = error::blank();
        let code = {
            let _shared = self.exclusive.read_recursive();
            f(self.raw, &mut err)
        };
        if code == status::OK { Ok(()) } else { Err(self.failed(code, &err, function, program)) }
    }

    /// The error of a call that has failed.
    fn failed(&self, code: i32, err: &ErrorV1, function: &str, program: Option<&Program>) -> Error {
        let error = of_call(code, err, &self.info.id, function, program);
        self.health.observe(code, &self.info.id, &error);
        error
    }

    /// The driver returned OK without what was asked for.
    pub fn broken(&self, function: &str, what: impl std::fmt::Display) -> Error {
        broken(&self.info.id, function, what)
    }

    fn no_hooks(&self) -> Error {
        let what = format!("device `{}` has no test hooks ({TEST_HOOKS_NAME})", self.info.id);
        Error::unsupported(Reason::Other, what)
    }
}

/// An open device of a loaded driver.
pub(crate) struct AbiDevice {
    shared: Arc<Shared>,
    capability: Capability,
}

impl AbiDevice {
    /// Reads the operator table of an open device.
    pub fn new(shared: Arc<Shared>) -> Result<Self> {
        let mut rows = Slice { ptr: std::ptr::null(), len: 0, stride: 0, pad: 0 };
        shared.call("op_table", |device, _| {
            // SAFETY: the handle is open, the slice is valid during the call.
            unsafe { (shared.table().op_table)(device, &mut rows) }
        })?;
        let capability = capability::read(&shared.info.id, rows)?;
        Ok(Self { shared, capability })
    }

    fn executable(
        &self,
        function: &str,
        raw: *mut RawExec,
        head: envelope::Head,
        program: Option<&Program>,
    ) -> Result<Arc<dyn Executable>> {
        if raw.is_null() {
            return Err(self.shared.broken(function, "OK without an executable"));
        }
        Ok(Arc::new(AbiExecutable::new(self.shared.clone(), raw, head, program)?))
    }

    fn own<'a>(&self, executable: &'a dyn Executable) -> Result<&'a AbiExecutable> {
        let own = executable.as_any().downcast_ref::<AbiExecutable>().filter(|e| e.is_of(&self.shared));
        own.ok_or_else(|| Error::invalid(format!("the executable is not one of device `{}`", self.shared.info.id)))
    }
}

/// What the host keeps of a program that was compiled.
fn head_of(program: &Program) -> envelope::Head {
    let types = |ids: &[ottava_hal::ValueId]| ids.iter().map(|&id| program.ty(id).clone()).collect();
    let nodes = program.nodes.iter().map(|n| n.name.clone()).collect();
    envelope::Head { inputs: types(&program.inputs), outputs: types(&program.outputs), nodes }
}

fn cost_of(raw: &CostV1) -> Cost {
    let confidence = match raw.confidence {
        confidence::MEASURED => Confidence::Measured,
        confidence::SIMULATED => Confidence::Simulated,
        _ => Confidence::Datasheet,
    };
    Cost {
        time_ns: raw.time_ns,
        energy_pj: raw.energy_pj,
        workspace_bytes: raw.workspace_bytes,
        weight_bytes: raw.weight_bytes,
        confidence,
    }
}

fn compile_options(options: &CompileOptions) -> CompileOptsV1 {
    let flag = |on, bit| if on { bit } else { 0 };
    let flags = flag(options.exact_only, compile_flag::EXACT_ONLY) | flag(options.debug, compile_flag::DEBUG);
    CompileOptsV1 { opt_level: OPT_LEVEL, flags, ..CompileOptsV1::blank() }
}

fn fault_of(kind: FaultKind) -> u32 {
    match kind {
        FaultKind::Panic => fault::PANIC,
        FaultKind::Lost => fault::LOST,
        FaultKind::OutOfMemory => fault::OOM,
        FaultKind::Hang => fault::HANG,
        FaultKind::Delay => fault::DELAY,
        FaultKind::BitFlip => fault::BITFLIP,
    }
}

impl Device for AbiDevice {
    fn info(&self) -> &DeviceInfo {
        &self.shared.info
    }

    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn assess(&self, program: &Program) -> Result<Vec<Verdict>> {
        let (view, mut raw) = (View::new(program)?, verdict::blank(program));
        let abi = view.as_abi();
        self.shared.call_about("assess", Some(program), |device, err| {
            // SAFETY: the view and the verdicts are valid during the call.
            unsafe { (self.shared.table().assess)(device, &abi, SliceMut::borrowed(&mut raw), err) }
        })?;
        verdict::read(&self.shared.info.id, program, &raw)
    }

    fn estimate(&self, program: &Program) -> Result<Cost> {
        let (view, mut cost) = (View::new(program)?, CostV1::blank());
        let abi = view.as_abi();
        self.shared.call_about("estimate", Some(program), |device, err| {
            // SAFETY: the view and the cost are valid during the call.
            unsafe { (self.shared.table().estimate)(device, &abi, &mut cost, err) }
        })?;
        Ok(cost_of(&cost))
    }

    fn compile(&self, program: &Program, options: &CompileOptions) -> Result<Arc<dyn Executable>> {
        let (view, options, mut raw) = (View::new(program)?, compile_options(options), std::ptr::null_mut());
        let abi = view.as_abi();
        self.shared.call_about("compile", Some(program), |device, err| {
            // SAFETY: view and options are valid during the call; the result is checked before it is used.
            unsafe { (self.shared.table().compile)(device, &abi, &options, &mut raw, err) }
        })?;
        self.executable("compile", raw, head_of(program), Some(program))
    }

    fn serialize(&self, executable: &dyn Executable) -> Result<Vec<u8>> {
        let exe = self.own(executable)?;
        let raw = exe.handle()?;
        let payload = two_call(&self.shared.info.id, "serialize", MAX_BLOB, 0u8, |cap, out, len| {
            self.shared.call("serialize", |device, err| {
                // SAFETY: the executable is alive, `out` holds `cap` bytes.
                unsafe { (self.shared.table().serialize)(device, raw, out, cap, len, err) }
            })
        })?;
        Ok(envelope::seal(exe.head(), &payload))
    }

    fn deserialize(&self, key: &BlobKey, payload: &[u8]) -> Result<Arc<dyn Executable>> {
        let (head, payload) = envelope::open(payload)?;
        let (key, mut raw) = (super::blob::key(key), std::ptr::null_mut());
        self.shared.call("deserialize", |device, err| {
            let (bytes, len) = (payload.as_ptr(), payload.len() as u64);
            // SAFETY: key and bytes are valid during the call; the result is checked before it is used.
            unsafe { (self.shared.table().deserialize)(device, &key, bytes, len, &mut raw, err) }
        })?;
        // Head and driver disagree: the bytes of one of them are not those that were saved.
        let corrupt = |e| match e {
            Error::Failed { status: Status::Internal, what, .. } => Error::failed(Status::CorruptBlob, what),
            other => other,
        };
        self.executable("deserialize", raw, head, None).map_err(corrupt)
    }

    fn alloc(&self, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(AbiBuffer::alloc(&self.shared, desc)?))
    }

    fn import_host(&self, memory: Box<dyn HostMemory>, desc: &BufferDesc) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(AbiBuffer::import(&self.shared, memory, desc)?))
    }

    fn reset(&self) -> Result<()> {
        let busy = || Error::failed(Status::Busy, format!("device `{}` is still in use", self.shared.info.id));
        let alone = self.shared.exclusive.try_write_for(RESET_PATIENCE).ok_or_else(busy)?;
        self.shared.health.begin_reset()?;
        let mut err = error::blank();
        // SAFETY: the handle is open; the lock keeps every other call of this device out.
        let code = unsafe { (self.shared.table().reset)(self.shared.raw, &mut err) };
        drop(alone);
        if code != status::OK {
            return Err(self.shared.failed(code, &err, "reset", None));
        }
        self.shared.health.revived();
        Ok(())
    }

    fn inject(&self, fault: Fault) -> Result<()> {
        let hooks = self.shared.hooks.as_ref().ok_or_else(|| self.shared.no_hooks())?;
        self.shared.call("inject", |device, err| {
            // SAFETY: the handle is open, the error is valid during the call.
            unsafe { (hooks.inject)(device, fault_of(fault.kind), fault.after_calls, fault.seed, err) }
        })
    }

    fn clear_faults(&self) -> Result<()> {
        let hooks = self.shared.hooks.as_ref().ok_or_else(|| self.shared.no_hooks())?;
        self.shared.call("clear", |device, err| {
            // SAFETY: the handle is open, the error is valid during the call.
            unsafe { (hooks.clear)(device, err) }
        })
    }

    fn create_queue(&self) -> Result<Arc<dyn Queue>> {
        Ok(Arc::new(AbiQueue::new(&self.shared)?))
    }

    fn create_fence(&self, initial: u64) -> Result<Arc<dyn Fence>> {
        if self.shared.info.sync_only {
            let fence: Arc<dyn Fence> = self.shared.health.emulated_fence(initial)?;
            return Ok(fence);
        }
        Ok(Arc::new(AbiFence::new(&self.shared, initial)?))
    }
}
