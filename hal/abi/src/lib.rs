//! `ottava-abi`: the plugin ABI as `#[repr(C)]` tables, constants and layout hashes.
//!
//! A driver is a shared library with one entry, [`EntryFn`] under the name [`ENTRY_SYMBOL`]: it takes a [`HostV1`] and
//! returns a [`DriverV1`], whose devices speak through a [`DeviceVtblV1`]. Rust vendors do not use this crate but
//! `ottava-plugin`, C vendors use `ottava_driver.h`, which is generated from it; only the kit, the loader and the
//! conformance suite see raw tables. It depends on no other crate of the project.
//!
//! | file | holds |
//! |---|---|
//! | [`constants`] | status codes, element types, kinds, flags: every named number |
//! | [`types`] | texts, slices, handles, errors |
//! | [`calls`] | the function tables of host, driver and device |
//! | [`structs`] | what calls take and return |
//! | [`program`] | the program view and the operator table |
//! | [`extensions`] | `ottava.profile/1`, `ottava.test_hooks/1`, `ottava.describe/1` |
//! | [`note`] | what a library says of itself before it is loaded |
//! | [`table`], [`registry`] | descriptions of all tables, and their hashes |
//! | [`header`] | the C header and the layout description, generated from them |
//!
//! **Who owns what.** Whoever makes a thing frees it. Handles are made and released by the driver's functions; structs
//! and arrays of a call belong to the caller and are valid until it returns, unless the callee's page says longer
//! (operator rows live until `close`, option texts until `shutdown`, names of kernels until `exec_release`). The driver
//! table and extension tables live as long as the process. Errors are memory of the caller: reporting one allocates
//! nothing.
//!
//! **Which thread may call what.** Functions of driver and device are thread-safe. `submit` is serialised by the caller
//! for each queue; `close`, `reset` and `shutdown` run alone. Callbacks (`log`, the one of `fence_notify`) come from any
//! thread, may not call the driver, and stop when `shutdown` returns. Nothing unwinds across the boundary.
//!
//! **Growth.** The tables never change within a major version; what comes later are extensions, found by name. This
//! version is a draft: notes state major 0, minor 9.
//!
//! Unsafe code is allowed here because the crate describes foreign memory; it is confined to zero values, the NULL check
//! and the note.
#![allow(unsafe_code)]
#![cfg_attr(feature = "rust-door", allow(non_local_definitions))] // abi_stable's derive needs it.

pub mod calls;
pub mod constants;
pub mod extensions;
pub mod header;
pub mod note;
pub mod program;
pub mod registry;
#[cfg(feature = "rust-door")]
pub mod root;
pub mod structs;
pub mod table;
pub mod types;

pub use calls::{DeviceVtblV1, DriverV1, HostV1};
pub use constants::{
    attr_type, blob_verdict, cmp, command, compile_flag, confidence, device_flag, device_kind, door, dtype, error_flag,
    fault, fused, handle_type, index, io_direction, kind, layout, link_mode, log_level, map_mode, memory_flag,
    operand_flag, option_type, priority, quant_flag, reason, record_kind, requant, row_flag, scheme, state, status,
    submit_flag, usage, verdict_flag,
};
pub use extensions::{
    DESCRIBE_NAME, DescribeV1, ExecKernelV1, PROFILE_NAME, ProfileCounterV1, ProfileRecordV1, ProfileV1,
    TEST_HOOKS_NAME, TestHooksV1,
};
pub use note::{AbiNote, ENTRY_SYMBOL, NOTE_SYMBOL, SECTION};
pub use program::{AttrV1, ConstV1, NodeV1, OpRowV1, OperandV1, PredicateV1, ProgramV1, QuantV1, ValueV1, VerdictV1};
pub use registry::{CORE_HASH, DESCRIBE_HASH, PROFILE_HASH, TEST_HOOKS_HASH};
pub use structs::{
    BindingV1, BlobKeyV1, BufferDescV1, CommandV1, CompileOptsV1, CostV1, DeviceInfoV1, FencePointV1, HostLinkV1,
    IoReqV1, KeyValueV1, MemoryTypeV1, OptionV1, SubmitV1,
};
pub use table::{Field, Plain, Table, first_null};
pub use types::{
    Buffer, Char, Device, ErrorV1, Exec, ExtV1, Fence, NotifyFn, Queue, Slice, SliceMut, Str, copy_text, text_of,
};

/// The function that a driver exports as [`ENTRY_SYMBOL`]. It is called once; `*out` receives a table that lives as long
/// as the process.
pub type EntryFn = unsafe extern "C" fn(host: *const HostV1, out: *mut *const DriverV1, err: *mut ErrorV1) -> i32;
