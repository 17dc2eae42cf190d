//! The three tables of functions: host, driver, device.
//!
//! Every function returns a status code, except the ones that close or release. A function that fails fills `err`, which
//! may be NULL if the caller does not want to know. Two-call functions: the first call has `cap` 0 and learns the count,
//! the second one passes an array whose elements have `size` and `kind` filled in; too small an array is
//! BUFFER_TOO_SMALL and the count says what is needed.
//!
//! Driver and device functions may be called from any thread at the same time, except: `close`, `reset` and `shutdown`
//! are exclusive; `submit` is serialised by the caller for each queue. Whoever makes a thing frees it: a handle is
//! released by the function of its own table, no memory is ever freed by the other side.

use crate::program::{OpRowV1, ProgramV1, VerdictV1};
use crate::structs::{
    BlobKeyV1, BufferDescV1, CompileOptsV1, CostV1, DeviceInfoV1, IoReqV1, KeyValueV1, OptionV1, SubmitV1,
};
use crate::table::tables;
use crate::types::{Buffer, Device, ErrorV1, Exec, ExtV1, Fence, NotifyFn, Queue, Slice, SliceMut, Str};
use core::ffi::c_void;

tables! {
    /// What the host gives to a driver. Valid until `shutdown` returns.
    calls HostV1 = "ottava_host_v1", kind HOST {
        /// `sizeof(ottava_host_v1)`.
        size: u32,
        /// `OTTAVA_KIND_HOST`.
        kind: u32,
        /// First argument of every function of this table.
        user: *mut c_void,
        /// Folder of the driver's library.
        plugin_dir: Str,
        /// Minor version of the host's ABI.
        abi_minor: u32,
        /// Zero.
        pad: u32,
        /// The driver's options, as the application's configuration gives them.
        options: Slice<KeyValueV1>,
        /// Takes a line of the driver's log, from any thread. Must not be called from a callback.
        log: unsafe extern "C" fn(user: *mut c_void, level: u32, target: Str, message: Str),
        /// The host's monotonic clock, nanoseconds.
        now_ns: unsafe extern "C" fn(user: *mut c_void) -> u64,
        /// An extension of the host by name, or NOT_FOUND.
        query_extension: unsafe extern "C" fn(user: *mut c_void, name: Str, out: *mut ExtV1) -> i32,
    }

    /// What a driver gives to the host. Belongs to the driver and lives as long as the process.
    calls DriverV1 = "ottava_driver_v1", kind DRIVER {
        /// `sizeof(ottava_driver_v1)`.
        size: u32,
        /// `OTTAVA_KIND_DRIVER`.
        kind: u32,
        /// First argument of every function of this table.
        ctx: *mut c_void,
        /// Short name, unique in a process.
        name: Str,
        /// Who makes it.
        vendor: Str,
        /// Its version.
        version: Str,
        /// Functions of every device of this driver.
        device: *const DeviceVtblV1,
        /// Devices that are present; two-call. None is a valid answer.
        enumerate: unsafe extern "C" fn(ctx: *mut c_void, cap: u32, out: *mut DeviceInfoV1, count: *mut u32, err: *mut ErrorV1) -> i32,
        /// Options that `open` understands; two-call.
        option_schema: unsafe extern "C" fn(ctx: *mut c_void, cap: u32, out: *mut OptionV1, count: *mut u32, err: *mut ErrorV1) -> i32,
        /// Opens a device. The host closes it with `close`.
        open: unsafe extern "C" fn(ctx: *mut c_void, uuid: *const [u8; 16], options: Slice<KeyValueV1>, out: *mut *mut Device, err: *mut ErrorV1) -> i32,
        /// Whether a blob of this key would run; no device is opened. The verdict is one of `OTTAVA_BLOB_*`; `err` has words.
        check_blob: unsafe extern "C" fn(ctx: *mut c_void, key: *const BlobKeyV1, verdict: *mut u32, err: *mut ErrorV1) -> i32,
        /// An extension by name, or NOT_FOUND.
        query_extension: unsafe extern "C" fn(ctx: *mut c_void, name: Str, out: *mut ExtV1) -> i32,
        /// The last call: every device is closed; joins threads and makes no callback afterwards.
        shutdown: unsafe extern "C" fn(ctx: *mut c_void),
    }

    /// Functions of a device.
    calls DeviceVtblV1 = "ottava_device_vtbl_v1", kind DEVICE_VTBL {
        /// `sizeof(ottava_device_vtbl_v1)`.
        size: u32,
        /// `OTTAVA_KIND_DEVICE_VTBL`.
        kind: u32,
        /// Frees the device. Everything made by it has been released.
        close: unsafe extern "C" fn(device: *mut Device),
        /// Tries once to revive a lost device. Buffers and executables stay invalid, releasing them stays legal.
        reset: unsafe extern "C" fn(device: *mut Device, err: *mut ErrorV1) -> i32,
        /// The operator table; it belongs to the driver and does not change until `close`.
        op_table: unsafe extern "C" fn(device: *mut Device, rows: *mut Slice<OpRowV1>) -> i32,
        /// One verdict per node, in the order of the nodes, into the host's array.
        assess: unsafe extern "C" fn(device: *mut Device, program: *const ProgramV1, verdicts: SliceMut<VerdictV1>, err: *mut ErrorV1) -> i32,
        /// What the program would cost here.
        estimate: unsafe extern "C" fn(device: *mut Device, program: *const ProgramV1, out: *mut CostV1, err: *mut ErrorV1) -> i32,
        /// Compiles a program. Constants are copied or packed: the view is gone after the call.
        compile: unsafe extern "C" fn(device: *mut Device, program: *const ProgramV1, opts: *const CompileOptsV1, out: *mut *mut Exec, err: *mut ErrorV1) -> i32,
        /// The executable as bytes; two-call: `len` is the number of bytes.
        serialize: unsafe extern "C" fn(device: *mut Device, exec: *mut Exec, buf: *mut u8, cap: u64, len: *mut u64, err: *mut ErrorV1) -> i32,
        /// An executable from bytes whose hash the host has checked; the driver still treats them as hostile.
        deserialize: unsafe extern "C" fn(device: *mut Device, key: *const BlobKeyV1, bytes: *const u8, len: u64, out: *mut *mut Exec, err: *mut ErrorV1) -> i32,
        /// Requirements of inputs, then of outputs, in program order; two-call.
        exec_io: unsafe extern "C" fn(device: *mut Device, exec: *mut Exec, cap: u32, out: *mut IoReqV1, count: *mut u32, err: *mut ErrorV1) -> i32,
        /// Gives an executable back. Submissions in flight keep what they need.
        exec_release: unsafe extern "C" fn(device: *mut Device, exec: *mut Exec),
        /// Allocates a buffer, filled with zeros.
        alloc: unsafe extern "C" fn(device: *mut Device, desc: *const BufferDescV1, out: *mut *mut Buffer, err: *mut ErrorV1) -> i32,
        /// A buffer over the host's memory, which stays valid until the buffer is released and its work is done.
        import_host: unsafe extern "C" fn(device: *mut Device, ptr: *mut c_void, len: u64, desc: *const BufferDescV1, out: *mut *mut Buffer, err: *mut ErrorV1) -> i32,
        /// Gives a buffer back. Submissions in flight keep what they need.
        buffer_release: unsafe extern "C" fn(device: *mut Device, buffer: *mut Buffer),
        /// Makes a range visible to the host until `unmap`. One range of a buffer at a time.
        map: unsafe extern "C" fn(device: *mut Device, buffer: *mut Buffer, off: u64, len: u64, mode: u32, out: *mut *mut c_void, err: *mut ErrorV1) -> i32,
        /// Ends `map`; what the host wrote is visible to the device afterwards.
        unmap: unsafe extern "C" fn(device: *mut Device, buffer: *mut Buffer, err: *mut ErrorV1) -> i32,
        /// Creates a queue. Submissions of one queue run in order.
        queue_create: unsafe extern "C" fn(device: *mut Device, priority: u32, out: *mut *mut Queue, err: *mut ErrorV1) -> i32,
        /// Gives a queue back; what was submitted still runs.
        queue_release: unsafe extern "C" fn(device: *mut Device, queue: *mut Queue),
        /// Submits work. An error means that nothing was submitted and no fence will change; later failures go to the
        /// signals. SYNC_ONLY devices have no signals and return the failure of the work itself.
        submit: unsafe extern "C" fn(device: *mut Device, queue: *mut Queue, submit: *const SubmitV1, err: *mut ErrorV1) -> i32,
        /// Creates a timeline that stands at `initial`.
        fence_create: unsafe extern "C" fn(device: *mut Device, initial: u64, out: *mut *mut Fence, err: *mut ErrorV1) -> i32,
        /// Gives a timeline back.
        fence_release: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence),
        /// The value that was reached, and the code with which the timeline failed (OK if it did not).
        fence_query: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence, value: *mut u64, failure: *mut i32) -> i32,
        /// Waits until the value is reached, the timeline fails, or the time is over (TIMEOUT).
        fence_wait: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence, value: u64, timeout_ns: u64, err: *mut ErrorV1) -> i32,
        /// Advances the timeline; a value that is not larger than the current one is INVALID_ARGUMENT.
        fence_signal: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence, value: u64, err: *mut ErrorV1) -> i32,
        /// Fails the timeline for good. The first code stays.
        fence_fail: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence, code: i32, err: *mut ErrorV1) -> i32,
        /// Calls `done` once when the value is reached (OK) or the timeline fails (its code), at once if it already is.
        fence_notify: unsafe extern "C" fn(device: *mut Device, fence: *mut Fence, value: u64, done: NotifyFn, user: *mut c_void, err: *mut ErrorV1) -> i32,
        /// An extension by name, or NOT_FOUND.
        query_extension: unsafe extern "C" fn(device: *mut Device, name: Str, out: *mut ExtV1) -> i32,
    }
}
