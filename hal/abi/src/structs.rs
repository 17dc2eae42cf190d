//! What calls take and return: devices, options, compilation, cost, blobs, buffers, submissions.

use crate::table::tables;
use crate::types::{Buffer, Char, Exec, Fence, Slice, Str};

tables! {
    /// An option's value.
    data KeyValueV1 = "ottava_key_value_v1" {
        /// Key.
        key: Str,
        /// Value.
        value: Str,
    }

    /// One option that a driver knows. The texts belong to the driver and live until `shutdown`.
    data OptionV1 = "ottava_option_v1", kind OPTION {
        /// `sizeof(ottava_option_v1)`.
        size: u32,
        /// `OTTAVA_KIND_OPTION`.
        kind: u32,
        /// Key.
        key: Str,
        /// `OTTAVA_OPTION_*`.
        value_type: u32,
        /// Zero.
        pad: u32,
        /// Value that is taken when the key is absent.
        default_value: Str,
        /// Allowed values; none if any value of the type is.
        allowed: Slice<Str>,
        /// One line of help.
        help: Str,
    }

    /// A kind of memory.
    data MemoryTypeV1 = "ottava_memory_type_v1" {
        /// `OTTAVA_MEMORY_*`.
        flags: u64,
        /// Size; 0 if unknown.
        bytes: u64,
        /// Alignment of buffers, a power of two.
        alignment: u64,
        /// `OTTAVA_HANDLE_*` that can be imported.
        import_mask: u64,
        /// `OTTAVA_HANDLE_*` that can be exported.
        export_mask: u64,
    }

    /// How a device reaches the host's memory.
    data HostLinkV1 = "ottava_host_link_v1" {
        /// `OTTAVA_LINK_*`.
        mode: u32,
        /// Zero.
        pad: u32,
        /// Bandwidth; 0 if unknown or native.
        bytes_per_s: f64,
        /// Fixed cost of a submission or copy.
        latency_ns: u64,
    }

    /// What a device is.
    data DeviceInfoV1 = "ottava_device_info_v1", kind DEVICE_INFO {
        /// `sizeof(ottava_device_info_v1)`.
        size: u32,
        /// `OTTAVA_KIND_DEVICE_INFO`.
        kind: u32,
        /// Stable across runs and ordinals.
        uuid: [u8; 16],
        /// Position in the enumeration.
        ordinal: u32,
        /// `OTTAVA_DEVICE_*`.
        device_kind: u32,
        /// Revision of the hardware; a part of the keys of blobs.
        hw_rev: u32,
        /// Number of queues that work side by side.
        n_queues: u32,
        /// Name for people.
        name: [Char; 64],
        /// Version of the vendor's driver underneath; empty if there is none.
        driver_version: [Char; 16],
        /// `OTTAVA_DEVICE_FLAG_*`.
        flags: u64,
        /// Largest buffer; 0 if only memory limits it.
        max_buffer: u64,
        /// Alignment of bindings' offsets, a power of two.
        alignment: u64,
        /// Peak operations per second on s8; 0 if unknown.
        peak_s8: f64,
        /// Peak operations per second on s16; 0 if unknown.
        peak_s16: f64,
        /// Peak operations per second on f16; 0 if unknown.
        peak_f16: f64,
        /// Peak operations per second on f32; 0 if unknown.
        peak_f32: f64,
        /// Number of memory types that are filled in.
        n_memory_types: u32,
        /// Zero.
        pad: u32,
        /// Memory types.
        memory_types: [MemoryTypeV1; 8],
        /// Link to the host.
        link: HostLinkV1,
    }

    /// Choices of one compilation.
    data CompileOptsV1 = "ottava_compile_opts_v1", kind COMPILE_OPTS {
        /// `sizeof(ottava_compile_opts_v1)`.
        size: u32,
        /// `OTTAVA_KIND_COMPILE_OPTS`.
        kind: u32,
        /// 0 fast to compile, 1 usual, 2 fast to run.
        opt_level: u32,
        /// Zero.
        pad: u32,
        /// Time that the compilation may take; 0 for any.
        budget_ms: u64,
        /// `OTTAVA_COMPILE_*`.
        flags: u64,
    }

    /// What a program is expected to cost.
    data CostV1 = "ottava_cost_v1", kind COST {
        /// `sizeof(ottava_cost_v1)`.
        size: u32,
        /// `OTTAVA_KIND_COST`.
        kind: u32,
        /// Time of one run without the cost of a submission, which is the link's latency.
        time_ns: u64,
        /// Energy of one run; 0 if unknown.
        energy_pj: u64,
        /// Working memory.
        workspace_bytes: u64,
        /// Packed weights.
        weight_bytes: u64,
        /// `OTTAVA_CONFIDENCE_*`.
        confidence: u32,
        /// Zero.
        pad: u32,
    }

    /// What an executable asks of the buffer of one input or output.
    data IoReqV1 = "ottava_io_req_v1", kind IO_REQ {
        /// `sizeof(ottava_io_req_v1)`.
        size: u32,
        /// `OTTAVA_KIND_IO_REQ`.
        kind: u32,
        /// Index of the value in the program.
        value: u32,
        /// `OTTAVA_IO_*`.
        direction: u32,
        /// `OTTAVA_LAYOUT_*` that is required.
        layout: u32,
        /// First argument of the layout.
        layout_arg0: u32,
        /// Second argument of the layout.
        layout_arg1: u32,
        /// Zero.
        pad: u32,
        /// Alignment of the binding's offset, a power of two.
        alignment: u64,
        /// Bytes that follow each row and are not used.
        row_padding: u64,
        /// Bit n: memory type n will do.
        memory_types: u64,
        /// Size of the binding.
        bytes: u64,
    }

    /// What a compiled program was made of and for. The host writes it before the driver's bytes and checks it after.
    data BlobKeyV1 = "ottava_blob_key_v1", kind BLOB_KEY {
        /// `sizeof(ottava_blob_key_v1)`.
        size: u32,
        /// `OTTAVA_KIND_BLOB_KEY`.
        kind: u32,
        /// `OTTABLOB`.
        magic: [Char; 8],
        /// Name of the driver.
        driver_name: [Char; 32],
        /// Version of the driver.
        driver_version: [Char; 16],
        /// The device's uuid.
        device_uuid: [u8; 16],
        /// The device's hardware revision.
        hw_rev: u32,
        /// Version of the program view.
        ir_version: u32,
        /// `OTTAVA_CORE_HASH` of the driver.
        core_hash: u64,
        /// Hash of the operator schemas.
        op_schema_hash: u64,
        /// Hash of the program's bytes.
        program_hash: u64,
        /// Hash of the quantization parameters.
        quant_hash: u64,
        /// Hash of the device's options.
        options_hash: u64,
        /// Number of the driver's bytes.
        payload_len: u64,
        /// SHA-256 of the driver's bytes.
        payload_sha256: [u8; 32],
    }

    /// A buffer that is wanted.
    data BufferDescV1 = "ottava_buffer_desc_v1", kind BUFFER_DESC {
        /// `sizeof(ottava_buffer_desc_v1)`.
        size: u32,
        /// `OTTAVA_KIND_BUFFER_DESC`.
        kind: u32,
        /// Size; 0 is valid.
        bytes: u64,
        /// Index of the memory type.
        memory_type: u32,
        /// Zero.
        pad: u32,
        /// Alignment, a power of two; 0 for the memory type's own.
        alignment: u64,
        /// `OTTAVA_USAGE_*`.
        usage: u64,
    }

    /// A part of a buffer.
    data BindingV1 = "ottava_binding_v1" {
        /// The buffer.
        buffer: *mut Buffer,
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    }

    /// A point on a timeline.
    data FencePointV1 = "ottava_fence_point_v1" {
        /// The timeline.
        fence: *mut Fence,
        /// The value.
        value: u64,
    }

    /// One command. Fields that its operation does not use are zero.
    data CommandV1 = "ottava_command_v1" {
        /// `OTTAVA_COMMAND_*`.
        op: u32,
        /// Zero.
        pad: u32,
        /// DISPATCH: what runs.
        exec: *mut Exec,
        /// DISPATCH: one binding per requirement of `exec_io`, in its order.
        bindings: Slice<BindingV1>,
        /// COPY: source.
        src: *mut Buffer,
        /// COPY: first byte of the source.
        src_off: u64,
        /// COPY, FILL: destination.
        dst: *mut Buffer,
        /// COPY, FILL: first byte of the destination.
        dst_off: u64,
        /// COPY, FILL: number of bytes.
        len: u64,
        /// FILL: four bytes, the lowest first.
        pattern: u32,
        /// Zero.
        pad2: u32,
    }

    /// A submission. Everything it refers to is retained by the driver until its signals have fired.
    data SubmitV1 = "ottava_submit_v1", kind SUBMIT {
        /// `sizeof(ottava_submit_v1)`.
        size: u32,
        /// `OTTAVA_KIND_SUBMIT`.
        kind: u32,
        /// Run in order.
        commands: Slice<CommandV1>,
        /// Points that must be reached before the first command runs.
        waits: Slice<FencePointV1>,
        /// Points that are reached after the last command; they fail if a wait or a command failed.
        signals: Slice<FencePointV1>,
        /// Time of the host's clock (`now_ns`) after which the submission fails with TIMEOUT; 0 for none.
        deadline_ns: u64,
        /// `OTTAVA_SUBMIT_*`.
        flags: u64,
        /// Receives the submission's number, which grows within a queue; may be NULL.
        submission: *mut u64,
    }
}
