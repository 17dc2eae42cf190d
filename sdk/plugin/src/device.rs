//! The device's table: one [`Device`](ottava_hal::Device) behind [`DeviceVtblV1`].
//!
//! A handle is a box that the host holds as a raw pointer. The box of a device holds the device, its operator table and
//! whether it is poisoned; the boxes of executables, buffers, queues and fences hold an `Arc` of the driver's object, so
//! that releasing one while work is under way is legal.

use crate::driver::DriverCx;
use crate::guard::{bytes, check_out, fill, fill_bytes, guard, guard_void, read};
use crate::info::blob_key;
use crate::rows::RowTable;
use crate::{extensions, fences, memory, view, work};
use ottava_abi::{
    BlobKeyV1, CompileOptsV1, CostV1, Device, DeviceVtblV1, ErrorV1, Exec, ExtV1, IoReqV1, OpRowV1, ProgramV1, Slice,
    SliceMut, Str, Table, VerdictV1, compile_flag, copy_text, index, io_direction, layout, state, verdict_flag,
};
use ottava_hal::{
    CompileOptions, Error, Executable, Layout, Program, Reason, Result, Status, TensorType, ValueId, Verdict,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An open device.
pub(crate) struct DeviceHandle {
    pub(crate) cx: &'static DriverCx,
    pub(crate) device: Arc<dyn ottava_hal::Device>,
    pub(crate) poisoned: AtomicBool,
    /// Whether profiled submissions are recorded (`ottava.profile/1`).
    pub(crate) profiling: AtomicBool,
    rows: RowTable,
}

impl DeviceHandle {
    pub(crate) fn new(cx: &'static DriverCx, device: Arc<dyn ottava_hal::Device>) -> Self {
        let rows = RowTable::new(device.capability());
        Self { cx, device, poisoned: AtomicBool::new(false), profiling: AtomicBool::new(true), rows }
    }
}

/// A compiled program.
pub(crate) struct ExecHandle {
    pub(crate) exec: Arc<dyn Executable>,
    pub(crate) kernels: Vec<(String, String)>,
    /// Ids of the nodes by name, for profiles.
    pub(crate) node_ids: Arc<BTreeMap<String, u32>>,
    io: Vec<IoReqV1>,
    /// Bytes of a first call of `serialize`, kept for the second.
    blob: Mutex<Option<Vec<u8>>>,
}

impl ExecHandle {
    fn new(device: &DeviceHandle, exec: Arc<dyn Executable>, program: Option<&Program>) -> Result<Self> {
        let names = program.map(|p| p.nodes.iter().map(|n| n.name.clone()).zip(0..).collect());
        let io = requirements(device, &*exec, program)?;
        let (kernels, node_ids) = (exec.kernels(), Arc::new(names.unwrap_or_default()));
        Ok(Self { exec, kernels, node_ids, io, blob: Mutex::new(None) })
    }

    /// Number of inputs; the other requirements are those of outputs.
    pub(crate) fn n_inputs(&self) -> usize {
        self.exec.inputs().len()
    }

    /// Number of bindings of a dispatch.
    pub(crate) fn n_bindings(&self) -> usize {
        self.io.len()
    }
}

/// What the executable asks of its bindings: inputs, then outputs.
fn requirements(device: &DeviceHandle, exec: &dyn Executable, program: Option<&Program>) -> Result<Vec<IoReqV1>> {
    let value =
        |ids: Option<&Vec<ValueId>>, i: usize| ids.and_then(|ids| ids.get(i)).map_or(index::NONE, |v| v.0 as u32);
    let req = |value, direction, ty: &TensorType| {
        let unknown =
            || Error::unsupported(Reason::DynamicShape, format!("{ty} at the edge of a program has no fixed size"));
        Ok(IoReqV1 {
            value,
            direction,
            layout: if ty.layout == Layout::Nhwc { layout::NHWC } else { layout::ROW_MAJOR },
            alignment: device.device.info().alignment as u64,
            memory_types: 1,
            bytes: ty.byte_len().ok_or_else(unknown)? as u64,
            ..IoReqV1::blank()
        })
    };
    let (ins, outs) = (program.map(|p| &p.inputs), program.map(|p| &p.outputs));
    let inputs = exec.inputs().iter().enumerate().map(|(i, ty)| req(value(ins, i), io_direction::INPUT, ty));
    let outputs = exec.outputs().iter().enumerate().map(|(i, ty)| req(value(outs, i), io_direction::OUTPUT, ty));
    inputs.chain(outputs).collect()
}

pub(crate) static VTBL: DeviceVtblV1 = DeviceVtblV1 {
    size: size_of::<DeviceVtblV1>() as u32,
    kind: DeviceVtblV1::KIND,
    close,
    reset,
    op_table,
    assess,
    estimate,
    compile,
    serialize,
    deserialize,
    exec_io,
    exec_release,
    alloc: memory::alloc,
    import_host: memory::import_host,
    buffer_release: memory::buffer_release,
    map: memory::map,
    unmap: memory::unmap,
    queue_create: work::queue_create,
    queue_release: work::queue_release,
    submit: work::submit,
    fence_create: fences::fence_create,
    fence_release: fences::fence_release,
    fence_query: fences::fence_query,
    fence_wait: fences::fence_wait,
    fence_signal: fences::fence_signal,
    fence_fail: fences::fence_fail,
    fence_notify: fences::fence_notify,
    query_extension,
};

/// Runs a function of the device's table; a panic in it poisons the device.
///
/// # Safety
/// `device` is NULL or an open device of this kit; `err` as in [`guard`].
pub(crate) unsafe fn on_device(
    name: &str,
    device: *mut Device,
    err: *mut ErrorV1,
    body: impl FnOnce(&DeviceHandle) -> Result<()>,
) -> i32 {
    // SAFETY: the caller says that it is NULL or a handle that `close` has not freed.
    let handle = unsafe { device.cast::<DeviceHandle>().as_ref() };
    let body = || body(handle.ok_or_else(|| Error::invalid("device is NULL"))?);
    // SAFETY: the caller's promise.
    unsafe { guard(name, handle.map(|h| &h.poisoned), err, body) }
}

/// A handle that the host passes back.
///
/// # Safety
/// `ptr` is NULL or a handle of type `H` that was not released.
pub(crate) unsafe fn handle<'a, T, H>(ptr: *mut T, what: &str) -> Result<&'a H> {
    // SAFETY: the caller's promise.
    unsafe { ptr.cast::<H>().as_ref() }.ok_or_else(|| Error::invalid(format!("{what} is NULL")))
}

/// Frees a handle.
///
/// # Safety
/// `ptr` is NULL or a handle of type `H` that is not used again.
pub(crate) unsafe fn release<T, H>(name: &str, ptr: *mut T) {
    if !ptr.is_null() {
        // SAFETY: handles are boxes that the host got by `into_raw`, and it gives this one back.
        guard_void(name, || drop(unsafe { Box::from_raw(ptr.cast::<H>()) }));
    }
}

/// Hands a new handle out.
pub(crate) fn hand_out<T, H>(out: *mut *mut T, handle: H) {
    // SAFETY: every caller has checked `out` with `check_out`.
    unsafe { out.write(Box::into_raw(Box::new(handle)).cast()) };
}

unsafe extern "C" fn close(device: *mut Device) {
    // SAFETY: the host closes a device once and does not use it again.
    unsafe { release::<_, DeviceHandle>("close", device) };
}

unsafe extern "C" fn reset(device: *mut Device, err: *mut ErrorV1) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("reset", device, err, |d| d.device.reset()) }
}

unsafe extern "C" fn op_table(device: *mut Device, rows: *mut Slice<OpRowV1>) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(rows, "rows")?;
        // SAFETY: checked above.
        unsafe { rows.write(d.rows.rows()) };
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("op_table", device, std::ptr::null_mut(), body) }
}

unsafe extern "C" fn assess(
    device: *mut Device,
    program: *const ProgramV1,
    verdicts: SliceMut<VerdictV1>,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host keeps to the contract of the program view.
        let program = unsafe { view::program(program)? };
        let (room, stride) = (verdicts.len, verdicts.stride as usize);
        if room != program.nodes.len() as u64 || stride < size_of::<VerdictV1>() || stride % 8 != 0 {
            let nodes = program.nodes.len();
            return Err(Error::invalid(format!(
                "room for {room} verdicts of stride {stride}, there are {nodes} nodes"
            )));
        }
        let answers = d.device.assess(&program)?;
        if answers.len() != program.nodes.len() {
            let (found, expected) = (answers.len(), program.nodes.len());
            return Err(Error::failed(Status::Internal, format!("{found} verdicts on {expected} nodes")));
        }
        if !answers.is_empty() {
            check_out(verdicts.ptr, "verdicts")?;
        }
        for (i, answer) in answers.iter().enumerate() {
            // SAFETY: `i` is below the number of verdicts that the host has room for; the stride is checked above.
            unsafe { verdicts.ptr.cast::<u8>().add(i * stride).cast::<VerdictV1>().write(verdict(i as u32, answer)) };
        }
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("assess", device, err, body) }
}

fn verdict(node: u32, answer: &Verdict) -> VerdictV1 {
    let mut v = VerdictV1 { node, ..VerdictV1::blank() };
    match answer {
        Verdict::Supported { exact } => {
            v.state = state::SUPPORTED;
            v.flags = if *exact { verdict_flag::EXACT } else { 0 };
        }
        Verdict::Rejected { reason, detail } => {
            v.state = state::REJECTED;
            v.reason = *reason as u32;
            copy_text(&mut v.detail, if detail.is_empty() { reason.code() } else { detail });
        }
    }
    v
}

unsafe extern "C" fn estimate(
    device: *mut Device,
    program: *const ProgramV1,
    out: *mut CostV1,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host passes NULL or a cost, and keeps to the contract of the program view.
        let (mut cost, program) = unsafe { (read(out.cast_const(), "out")?, view::program(program)?) };
        let c = d.device.estimate(&program)?;
        (cost.time_ns, cost.energy_pj) = (c.time_ns, c.energy_pj);
        (cost.workspace_bytes, cost.weight_bytes) = (c.workspace_bytes, c.weight_bytes);
        (cost.confidence, cost.pad) = (c.confidence as u32, 0);
        // SAFETY: `read` has checked it.
        unsafe { out.write(cost) };
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("estimate", device, err, body) }
}

unsafe extern "C" fn compile(
    device: *mut Device,
    program: *const ProgramV1,
    opts: *const CompileOptsV1,
    out: *mut *mut Exec,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(out, "out")?;
        // SAFETY: the host passes NULL or options, and keeps to the contract of the program view.
        let (opts, program) = unsafe { (read(opts, "opts")?, view::program(program)?) };
        let has = |bit| opts.flags & bit != 0;
        let options = CompileOptions { exact_only: has(compile_flag::EXACT_ONLY), debug: has(compile_flag::DEBUG) };
        let exec = d.device.compile(&program, &options)?;
        hand_out(out, ExecHandle::new(d, exec, Some(&program))?);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("compile", device, err, body) }
}

unsafe extern "C" fn serialize(
    device: *mut Device,
    exec: *mut Exec,
    buf: *mut u8,
    cap: u64,
    len: *mut u64,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        // SAFETY: the host passes NULL or an executable of this device.
        let exec: &ExecHandle = unsafe { handle(exec, "exec")? };
        let mut kept = exec.blob.lock();
        let blob = match kept.take() {
            Some(blob) => blob,
            None => d.device.serialize(&*exec.exec)?,
        };
        // SAFETY: the host keeps to the contract of two-call functions.
        let filled = unsafe { fill_bytes(buf, cap, len, &blob) };
        if cap == 0 || filled.is_err() {
            *kept = Some(blob);
        }
        filled
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("serialize", device, err, body) }
}

unsafe extern "C" fn deserialize(
    device: *mut Device,
    key: *const BlobKeyV1,
    payload: *const u8,
    len: u64,
    out: *mut *mut Exec,
    err: *mut ErrorV1,
) -> i32 {
    let body = |d: &DeviceHandle| {
        check_out(out, "out")?;
        // SAFETY: the host passes NULL or a key, and as many bytes as it says.
        let (key, payload) = unsafe { (read(key, "key")?, bytes(payload, len, "payload")?) };
        let exec = d.device.deserialize(&blob_key(&key), payload)?;
        hand_out(out, ExecHandle::new(d, exec, None)?);
        Ok(())
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("deserialize", device, err, body) }
}

unsafe extern "C" fn exec_io(
    device: *mut Device,
    exec: *mut Exec,
    cap: u32,
    out: *mut IoReqV1,
    count: *mut u32,
    err: *mut ErrorV1,
) -> i32 {
    let body = |_: &DeviceHandle| {
        // SAFETY: the host passes NULL or an executable of this device.
        let exec: &ExecHandle = unsafe { handle(exec, "exec")? };
        // SAFETY: the host keeps to the contract of two-call functions.
        unsafe { fill(cap, out, count, &exec.io) }
    };
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("exec_io", device, err, body) }
}

unsafe extern "C" fn exec_release(_device: *mut Device, exec: *mut Exec) {
    // SAFETY: the host releases an executable once and does not use it again.
    unsafe { release::<_, ExecHandle>("exec_release", exec) };
}

unsafe extern "C" fn query_extension(device: *mut Device, name: Str, out: *mut ExtV1) -> i32 {
    // SAFETY: the host keeps to the contract of the table.
    unsafe { on_device("query_extension", device, std::ptr::null_mut(), |_| extensions::of_device(name, out)) }
}
