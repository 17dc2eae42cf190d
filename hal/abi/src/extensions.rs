//! The extensions of the first release. Each is a frozen table of its own, found by name with `query_extension`.
//!
//! | name | asked of | table |
//! |---|---|---|
//! | `ottava.profile/1` | a device | [`ProfileV1`] |
//! | `ottava.test_hooks/1` | a device | [`TestHooksV1`] |
//! | `ottava.describe/1` | the driver or a device | [`DescribeV1`] |

use crate::table::tables;
use crate::types::{Char, Device, ErrorV1, Exec, Queue, Str};
use core::ffi::c_void;

/// Name of [`ProfileV1`].
pub const PROFILE_NAME: &str = "ottava.profile/1";
/// Name of [`TestHooksV1`].
pub const TEST_HOOKS_NAME: &str = "ottava.test_hooks/1";
/// Name of [`DescribeV1`].
pub const DESCRIBE_NAME: &str = "ottava.describe/1";

tables! {
    /// Times of one submission. Asked of a device.
    calls ProfileV1 = "ottava_profile_v1", kind PROFILE {
        /// `sizeof(ottava_profile_v1)`.
        size: u32,
        /// `OTTAVA_KIND_PROFILE`.
        kind: u32,
        /// Switches recording on (1) or off (0) for submissions with `OTTAVA_SUBMIT_PROFILE`. On at the start.
        enable: unsafe extern "C" fn(device: *mut Device, flags: u64, err: *mut ErrorV1) -> i32,
        /// Records of a finished submission; two-call. They are kept until the next profiled submission of the queue.
        read: unsafe extern "C" fn(device: *mut Device, queue: *mut Queue, submission: u64, cap: u32, out: *mut ProfileRecordV1, count: *mut u32, err: *mut ErrorV1) -> i32,
        /// The device's clock and the host's clock at the same moment; two readings give the rate.
        clock: unsafe extern "C" fn(device: *mut Device, device_ticks: *mut u64, host_ns: *mut u64, err: *mut ErrorV1) -> i32,
        /// Counters that the records of a submission refer to; two-call.
        counters: unsafe extern "C" fn(device: *mut Device, queue: *mut Queue, submission: u64, cap: u32, out: *mut ProfileCounterV1, count: *mut u32, err: *mut ErrorV1) -> i32,
    }

    /// One span of time on a device.
    data ProfileRecordV1 = "ottava_profile_record_v1", kind PROFILE_RECORD {
        /// `sizeof(ottava_profile_record_v1)`.
        size: u32,
        /// `OTTAVA_KIND_PROFILE_RECORD`.
        kind: u32,
        /// Id of the node in the program that was compiled, or `OTTAVA_INDEX_NONE`.
        node: u32,
        /// `OTTAVA_RECORD_*`.
        record_kind: u32,
        /// Begin, ticks of the device's clock.
        start: u64,
        /// End, ticks of the device's clock.
        end: u64,
        /// Bytes moved; 0 if unknown.
        bytes: u64,
        /// First counter of this record in the answer of `counters`.
        counter_first: u32,
        /// Number of counters.
        counter_count: u32,
        /// Name of the node, or of what the driver made of it; cut if it does not fit.
        label: [Char; 96],
        /// Kernel that ran; cut if it does not fit.
        kernel: [Char; 48],
    }

    /// A named number of a record.
    data ProfileCounterV1 = "ottava_profile_counter_v1", kind PROFILE_COUNTER {
        /// `sizeof(ottava_profile_counter_v1)`.
        size: u32,
        /// `OTTAVA_KIND_PROFILE_COUNTER`.
        kind: u32,
        /// Name, such as `macs` or `dma_read_bytes`.
        name: [Char; 48],
        /// Value.
        value: u64,
    }

    /// Faults on request, for conformance tests. Asked of a device; a driver may refuse.
    calls TestHooksV1 = "ottava_test_hooks_v1", kind TEST_HOOKS {
        /// `sizeof(ottava_test_hooks_v1)`.
        size: u32,
        /// `OTTAVA_KIND_TEST_HOOKS`.
        kind: u32,
        /// Lets the submission that follows `after_calls` others fail as `OTTAVA_FAULT_*` says.
        inject: unsafe extern "C" fn(device: *mut Device, fault: u32, after_calls: u64, seed: u64, err: *mut ErrorV1) -> i32,
        /// Takes back what was injected and has not struck; ends a HANG.
        clear: unsafe extern "C" fn(device: *mut Device, err: *mut ErrorV1) -> i32,
    }

    /// Texts for people: the driver's own words for its devices and kernels. Asked of the driver or a device.
    calls DescribeV1 = "ottava_describe_v1", kind DESCRIBE {
        /// `sizeof(ottava_describe_v1)`.
        size: u32,
        /// `OTTAVA_KIND_DESCRIBE`.
        kind: u32,
        /// Lines `key=value` about a device of the driver's `ctx`, at least `id`, `isa` and `threads`; two-call: `len`
        /// is the number of bytes.
        device_text: unsafe extern "C" fn(ctx: *mut c_void, uuid: *const [u8; 16], buf: *mut u8, cap: u64, len: *mut u64, err: *mut ErrorV1) -> i32,
        /// The same lines about an open device, whose options may have changed it; also `name` and `hw_rev`; two-call.
        open_text: unsafe extern "C" fn(device: *mut Device, buf: *mut u8, cap: u64, len: *mut u64, err: *mut ErrorV1) -> i32,
        /// Lines `key=value` about an executable, at least `arena_bytes`; two-call.
        exec_text: unsafe extern "C" fn(device: *mut Device, exec: *mut Exec, buf: *mut u8, cap: u64, len: *mut u64, err: *mut ErrorV1) -> i32,
        /// The kernel of each node that runs; two-call.
        exec_kernels: unsafe extern "C" fn(device: *mut Device, exec: *mut Exec, cap: u32, out: *mut ExecKernelV1, count: *mut u32, err: *mut ErrorV1) -> i32,
    }

    /// The kernel that was chosen for a node. The texts belong to the driver and live until `exec_release`.
    data ExecKernelV1 = "ottava_exec_kernel_v1", kind EXEC_KERNEL {
        /// `sizeof(ottava_exec_kernel_v1)`.
        size: u32,
        /// `OTTAVA_KIND_EXEC_KERNEL`.
        kind: u32,
        /// Name of the node, or of what the driver made of it.
        node: Str,
        /// The kernel.
        kernel: Str,
    }
}
