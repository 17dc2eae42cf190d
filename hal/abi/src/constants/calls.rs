//! Numbers of calls: status codes, kinds of structs, devices, memory, submissions, extensions.

super::constants! {
    /// Status codes. A code other than OK always comes with a message.
    status: i32, "OTTAVA_" {
        /// Done.
        OK = 0,
        /// The caller broke the contract; the message says how.
        INVALID_ARGUMENT = 1,
        /// Legal, but this driver or device does not do it.
        UNSUPPORTED = 2,
        /// The host's memory does not suffice.
        OUT_OF_HOST_MEMORY = 3,
        /// The device's memory does not suffice.
        OUT_OF_DEVICE_MEMORY = 4,
        /// A wait or a deadline ran out.
        TIMEOUT = 5,
        /// Cancelled on request.
        CANCELLED = 6,
        /// The device is gone; see `reset`.
        DEVICE_LOST = 7,
        /// In use; a retry may succeed.
        BUSY = 8,
        /// A blob of another driver version or device.
        INCOMPATIBLE_BLOB = 9,
        /// A damaged blob.
        CORRUPT_BLOB = 10,
        /// A panic or exception was caught; the device is poisoned.
        PANIC = 11,
        /// A fault of the driver.
        INTERNAL = 12,
        /// No such name, device or extension.
        NOT_FOUND = 13,
        /// The array or buffer of a two-call function is too small; the count says what is needed.
        BUFFER_TOO_SMALL = 14,
        /// Loader: the library could not be opened.
        LOAD_FAILED = 100,
        /// Loader: the driver speaks another major version of this ABI.
        ABI_RANGE = 101,
        /// Loader: the driver was built against other table layouts.
        LAYOUT_MISMATCH = 102,
        /// Loader: a function of a table is NULL.
        NULL_ENTRY = 103,
        /// Loader: policy forbids the library.
        POLICY_REFUSED = 104,
        /// Loader: the manifest is not valid.
        MANIFEST_INVALID = 105,
    }

    /// Values of the `kind` field; the last column of a struct's prefix `{ size, kind }`.
    kind: u32, "OTTAVA_KIND_" {
        /// `ottava_host_v1`
        HOST = 1,
        /// `ottava_driver_v1`
        DRIVER = 2,
        /// `ottava_device_vtbl_v1`
        DEVICE_VTBL = 3,
        /// `ottava_error_v1`
        ERROR = 4,
        /// `ottava_ext_v1`
        EXT = 5,
        /// `ottava_device_info_v1`
        DEVICE_INFO = 6,
        /// `ottava_program_v1`
        PROGRAM = 7,
        /// `ottava_compile_opts_v1`
        COMPILE_OPTS = 8,
        /// `ottava_cost_v1`
        COST = 9,
        /// `ottava_io_req_v1`
        IO_REQ = 10,
        /// `ottava_blob_key_v1`
        BLOB_KEY = 11,
        /// `ottava_buffer_desc_v1`
        BUFFER_DESC = 12,
        /// `ottava_submit_v1`
        SUBMIT = 13,
        /// `ottava_option_v1`
        OPTION = 14,
        /// `ottava_profile_v1`
        PROFILE = 100,
        /// `ottava_profile_record_v1`
        PROFILE_RECORD = 101,
        /// `ottava_profile_counter_v1`
        PROFILE_COUNTER = 102,
        /// `ottava_test_hooks_v1`
        TEST_HOOKS = 110,
        /// `ottava_describe_v1`
        DESCRIBE = 120,
        /// `ottava_exec_kernel_v1`
        EXEC_KERNEL = 121,
    }

    /// Flags of an error.
    error_flag: u32, "OTTAVA_ERROR_" {
        /// A retry may succeed. Errors without this flag are never retried.
        TRANSIENT = 1,
        /// The message did not fit and is cut.
        TRUNCATED = 2,
    }

    /// Levels of `host.log`.
    log_level: u32, "OTTAVA_LOG_" {
        /// A failure.
        ERROR = 1,
        /// Something the user should know.
        WARN = 2,
        /// Progress.
        INFO = 3,
        /// For whoever looks for a fault.
        DEBUG = 4,
        /// Everything.
        TRACE = 5,
    }

    /// Kinds of devices.
    device_kind: u32, "OTTAVA_DEVICE_" {
        /// The machine's own processor.
        CPU = 1,
        /// A graphics processor.
        GPU = 2,
        /// A neural accelerator.
        NPU = 3,
        /// A signal processor.
        DSP = 4,
        /// Something that simulates one of the others.
        SIM = 5,
    }

    /// Flags of a device.
    device_flag: u64, "OTTAVA_DEVICE_FLAG_" {
        /// Fence functions return UNSUPPORTED; `submit` returns when the work is done.
        SYNC_ONLY = 1,
        /// Not real hardware: times are modelled.
        SIMULATED = 2,
        /// Float denormals become zero.
        FLUSHES_DENORMALS = 4,
    }

    /// Flags of a memory type.
    memory_flag: u64, "OTTAVA_MEMORY_" {
        /// Near the device.
        DEVICE_LOCAL = 1,
        /// `map` is possible.
        HOST_VISIBLE = 2,
        /// `map` and `unmap` need no invalidation or flush.
        COHERENT = 4,
        /// The host's caches hold it.
        CACHED = 8,
    }

    /// Bits of the import and export masks of a memory type.
    handle_type: u64, "OTTAVA_HANDLE_" {
        /// A pointer to host memory (`import_host`).
        HOST_POINTER = 1,
        /// An opaque file descriptor (`ottava.memory_handles/1`).
        OPAQUE_FD = 2,
        /// A dma-buf (`ottava.memory_handles/1`).
        DMA_BUF = 4,
    }

    /// How a device reaches the host's memory.
    link_mode: u32, "OTTAVA_LINK_" {
        /// The device works on host memory.
        NATIVE = 1,
        /// Host memory can be imported.
        IMPORT = 2,
        /// Data is copied.
        COPY = 3,
    }

    /// Types of option values.
    option_type: u32, "OTTAVA_OPTION_" {
        /// Text.
        STRING = 1,
        /// A whole number.
        INT = 2,
        /// A real number.
        FLOAT = 3,
        /// `true` or `false`.
        BOOL = 4,
        /// One of the allowed values.
        ENUM = 5,
    }

    /// Flags of a compilation.
    compile_flag: u64, "OTTAVA_COMPILE_" {
        /// Refuse kernels whose integers are not those of the reference.
        EXACT_ONLY = 1,
        /// Keep the names of nodes.
        DEBUG = 2,
    }

    /// How far a cost can be trusted.
    confidence: u32, "OTTAVA_CONFIDENCE_" {
        /// From a data sheet.
        DATASHEET = 1,
        /// From a model of the machine.
        SIMULATED = 2,
        /// Measured.
        MEASURED = 3,
    }

    /// Answers of `check_blob`.
    blob_verdict: u32, "OTTAVA_BLOB_" {
        /// As good as a new compilation.
        OPTIMAL = 0,
        /// Runs, but compiling anew would be better.
        RECOMPILE_PREFERRED = 1,
        /// Does not run here.
        INCOMPATIBLE = 2,
    }

    /// Which side of an executable a requirement speaks of.
    io_direction: u32, "OTTAVA_IO_" {
        /// An input of the program.
        INPUT = 1,
        /// An output of the program.
        OUTPUT = 2,
    }

    /// What a buffer is used for.
    usage: u64, "OTTAVA_USAGE_" {
        /// An input of an executable.
        INPUT = 1,
        /// An output of an executable.
        OUTPUT = 2,
        /// Constant data.
        CONST = 4,
        /// Working memory.
        SCRATCH = 8,
        /// Shared with another device.
        BRIDGE = 16,
    }

    /// Modes of `map`.
    map_mode: u32, "OTTAVA_MAP_" {
        /// The host reads.
        READ = 1,
        /// The host writes all of the range.
        WRITE = 2,
        /// The host reads and writes.
        READ_WRITE = 3,
    }

    /// Operations of a command.
    command: u32, "OTTAVA_COMMAND_" {
        /// Run an executable.
        DISPATCH = 1,
        /// Copy `len` bytes from `src` to `dst`.
        COPY = 2,
        /// Fill `len` bytes of `dst` with the little-endian bytes of `pattern`, repeated.
        FILL = 3,
    }

    /// Flags of a submission.
    submit_flag: u64, "OTTAVA_SUBMIT_" {
        /// Record the time of each node (`ottava.profile/1` reads it).
        PROFILE = 1,
    }

    /// Priorities of queues.
    priority: u32, "OTTAVA_PRIORITY_" {
        /// Background work.
        LOW = 0,
        /// Ordinary work.
        NORMAL = 1,
        /// Before everything else.
        HIGH = 2,
    }

    /// Doors of a driver (bits of the note).
    door: u32, "OTTAVA_DOOR_" {
        /// `ottava_driver_entry_v1`.
        C = 1,
        /// The abi_stable root module.
        RUST = 2,
    }

    /// Kinds of profile records.
    record_kind: u32, "OTTAVA_RECORD_" {
        /// A node or kernel ran.
        DISPATCH = 1,
        /// Data was moved.
        COPY = 2,
        /// The device waited.
        WAIT = 3,
        /// The submission as a whole: from its first command to the end of its last one. Always the first record.
        SUBMISSION = 4,
    }

    /// Faults that `ottava.test_hooks/1` injects.
    fault: u32, "OTTAVA_FAULT_" {
        /// The call panics.
        PANIC = 1,
        /// The device is lost.
        LOST = 2,
        /// The call runs out of device memory.
        OOM = 3,
        /// The submission does not finish until `clear`.
        HANG = 4,
        /// The submission takes a while longer; `seed` is the time in nanoseconds.
        DELAY = 5,
        /// One bit of an output is wrong; `seed` chooses it.
        BITFLIP = 6,
    }
}
