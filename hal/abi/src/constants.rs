//! Every number of the ABI that has a name. In Rust a group is a module, in C a prefix.
//!
//! Enums are open sets: a reader handles values that it does not know, it never assumes that there are none.

/// A named number.
#[derive(Debug, Clone, Copy)]
pub struct Constant {
    /// Name without the prefix of the group.
    pub name: &'static str,
    /// The value's bits.
    pub value: u64,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
}

/// Named numbers that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// Prefix of the names in C.
    pub prefix: &'static str,
    /// Rust type of the values.
    pub ty: &'static str,
    /// Lines of documentation.
    pub doc: &'static [&'static str],
    /// The numbers.
    pub items: &'static [Constant],
}

macro_rules! constants {
    ($(
        $(#[doc = $doc:literal])*
        $group:ident : $ty:ident, $prefix:literal {
            $( $(#[doc = $vdoc:literal])* $name:ident = $value:expr, )*
        }
    )*) => {
        $(
            $(#[doc = $doc])*
            pub mod $group {
                $( $(#[doc = $vdoc])* pub const $name: $ty = $value; )*

                /// The name of a value of this group.
                pub fn name(value: $ty) -> Option<&'static str> {
                    const ALL: &[($ty, &str)] = &[$(($name, stringify!($name))),*];
                    ALL.iter().find(|(v, _)| *v == value).map(|(_, name)| *name)
                }
            }
        )*

        /// Every group, for the C header.
        pub const GROUPS: &[Group] = &[$(
            Group {
                prefix: $prefix,
                ty: stringify!($ty),
                doc: &[$($doc),*],
                items: &[$( Constant { name: stringify!($name), value: $group::$name as u64, doc: &[$($vdoc),*] } ),*],
            }
        ),*];
    };
}

constants! {
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

    /// Element types. Nibbles are packed two per byte, the low one first.
    dtype: u32, "OTTAVA_DTYPE_" {
        /// Signed, 4 bits.
        S4 = 1,
        /// Unsigned, 4 bits.
        U4 = 2,
        /// Signed, 8 bits.
        S8 = 3,
        /// Unsigned, 8 bits.
        U8 = 4,
        /// Signed, 16 bits.
        S16 = 5,
        /// Unsigned, 16 bits.
        U16 = 6,
        /// Signed, 32 bits.
        S32 = 7,
        /// Signed, 64 bits.
        S64 = 8,
        /// IEEE half.
        F16 = 9,
        /// bfloat16.
        BF16 = 10,
        /// IEEE single.
        F32 = 11,
        /// One byte, 0 or 1.
        BOOL8 = 12,
        /// IEEE double.
        F64 = 13,
        /// Unsigned, 32 bits.
        U32 = 14,
        /// Unsigned, 64 bits.
        U64 = 15,
    }

    /// Layouts. Shapes are always in the operator's logical axis order.
    layout: u32, "OTTAVA_LAYOUT_" {
        /// The last logical axis varies fastest.
        ROW_MAJOR = 0,
        /// Images, channels first. The same bytes as ROW_MAJOR.
        NCHW = 1,
        /// Images, channels last: axis 1 varies fastest, the other axes keep their order.
        NHWC = 2,
        /// Channels in blocks: argument 0 is the block of channels, argument 1 the block of batch.
        BLOCKED = 3,
        /// A layout of the vendor: argument 0 is the vendor's id, argument 1 the vendor's number.
        OPAQUE = 4,
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

    /// Requantization modes (the numeric contract, section 3).
    requant: u32, "OTTAVA_REQUANT_" {
        /// The node does not rescale integers.
        NONE = 0,
        /// f32 multiplier, round to nearest even.
        FP32_RNE = 1,
        /// Q31 multiplier, two roundings.
        Q31_DOUBLE = 2,
        /// Q31 multiplier, one rounding.
        Q31_SINGLE = 3,
    }

    /// Quantization schemes; bit n of a mask stands for value n.
    scheme: u32, "OTTAVA_SCHEME_" {
        /// Not quantized. Only in masks; a descriptor always has one of the others.
        PLAIN = 0,
        /// One scale.
        PER_TENSOR = 1,
        /// One scale per index of an axis.
        PER_AXIS = 2,
        /// One scale per block along an axis.
        BLOCKED = 3,
    }

    /// Flags of a quantization descriptor.
    quant_flag: u64, "OTTAVA_QUANT_" {
        /// Every zero point is the neutral one of the storage (0; 128 for u8; 32768 for u16).
        SYMMETRIC = 1,
    }

    /// What is fused into a node, and what a row of the operator table can fuse.
    fused: u64, "OTTAVA_FUSED_" {
        /// The zero point is added before rounding.
        ZP_BEFORE_ROUND = 1,
        /// Bounds of a quantized result: attributes `clamp_lo`, `clamp_hi`, integers of the output type.
        CLAMP = 2,
        /// A table: attribute `lut`, an index of `consts`.
        LUT = 4,
        /// The last input is added to the result.
        RESIDUAL = 8,
        /// A float activation: attribute `act`, `Relu` or `Clip`; a Clip has `act_lo` and `act_hi`.
        ACT = 16,
    }

    /// Types of attributes.
    attr_type: u32, "OTTAVA_ATTR_" {
        /// `value` is the integer.
        I64 = 1,
        /// The low 32 bits of `value` are the bits of an f32.
        F32 = 2,
        /// UTF-8: `first` is an offset into `strings`, `count` the number of bytes.
        STR = 3,
        /// `count` numbers from index `first` of `dims`.
        I64S = 4,
        /// `count` numbers from index `first` of `scales`.
        F32S = 5,
        /// `count` texts: from index `first` of `edges` pairs of (offset into `strings`, number of bytes).
        STRS = 6,
        /// A constant: `value` is an index of `values`.
        TENSOR = 7,
    }

    /// Comparisons of a predicate.
    cmp: u32, "OTTAVA_CMP_" {
        /// Equal to `lo`.
        EQ = 1,
        /// At most `hi`.
        LE = 2,
        /// At least `lo`.
        GE = 3,
        /// At least `lo` and at most `hi`.
        IN_RANGE = 4,
        /// A multiple of `lo`.
        MULTIPLE_OF = 5,
    }

    /// Flags of an operand of an operator row.
    operand_flag: u64, "OTTAVA_OPERAND_" {
        /// Must be a constant.
        CONSTANT = 1,
        /// May be absent.
        OPTIONAL = 2,
    }

    /// Flags of an operator row.
    row_flag: u64, "OTTAVA_ROW_" {
        /// The row states less than the driver checks: a match is to be confirmed by `assess`.
        ASK_ASSESS = 1,
        /// Shapes may be symbolic.
        DYNAMIC_SHAPES = 2,
    }

    /// States of a verdict.
    state: u32, "OTTAVA_" {
        /// The device does not run the node; reason and words say why.
        REJECTED = 0,
        /// The device runs the node.
        SUPPORTED = 1,
        /// The device runs the node only together with the others of its group.
        ONLY_IN_GROUP = 2,
    }

    /// Flags of a verdict.
    verdict_flag: u64, "OTTAVA_VERDICT_" {
        /// Integer results equal the reference bit for bit.
        EXACT = 1,
    }

    /// Why a node is rejected.
    reason: u32, "OTTAVA_REASON_" {
        /// No such operator here.
        OP_UNKNOWN = 1,
        /// Another version of the operator.
        OP_VERSION = 2,
        /// Element type.
        DTYPE = 3,
        /// Quantization scheme.
        QUANT_SCHEME = 4,
        /// Quantization axis.
        QUANT_AXIS = 5,
        /// Requantization mode.
        REQUANT_MODE = 6,
        /// Layout.
        LAYOUT = 7,
        /// Number of axes.
        RANK = 8,
        /// An extent is too large, too small or not aligned.
        SHAPE_LIMIT = 9,
        /// A shape is not known before the run.
        DYNAMIC_SHAPE = 10,
        /// Value of an attribute.
        ATTR_VALUE = 11,
        /// An operand must be constant.
        CONST_REQUIRED = 12,
        /// Runs only fused, or not with this fusion.
        FUSION_REQUIRED = 13,
        /// Does not fit into the device's memory.
        MEMORY = 14,
        /// The accumulator may overflow.
        ACC_OVERFLOW = 15,
        /// The result would be less exact than asked for.
        PRECISION = 16,
        /// Forbidden by configuration.
        POLICY = 17,
        /// Anything else; the words say what.
        OTHER = 18,
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

    /// Indices that stand for nothing.
    index: u32, "OTTAVA_INDEX_" {
        /// No such thing: an absent input, a plain tensor's quantization, a value that is not constant, unknown rank.
        NONE = 0xFFFF_FFFF,
    }
}
