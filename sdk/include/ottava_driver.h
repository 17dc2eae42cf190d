/* ottava_driver.h: the plugin ABI of Ottava.
 *
 * Generated from the crate ottava-abi; do not edit. A driver is a shared library that exports one function,
 * ottava_driver_entry_v1, and one constant, ottava_abi_note; OTTAVA_EXPORT_DRIVER at the end of this file writes both.
 *
 * Rules. Every function returns a status code (OTTAVA_OK is 0) except the ones that close or release. No function
 * pointer in a table is NULL. Every struct passed by pointer begins { size, kind }; whoever receives it checks both.
 * Two-call functions are first asked with cap 0 for the count. Nothing is freed by the other side. Functions may be
 * called from any thread at the same time; submit is serialised by the host for each queue; close, reset and shutdown
 * run alone. No exception leaves a function: see OTTAVA_GUARD. Padding is zero. Enumerations are open: values that
 * are not known are refused with words, never assumed away.
 */
#ifndef OTTAVA_DRIVER_H
#define OTTAVA_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
#include <exception>
#define OTTAVA_ASSERT(condition, what) static_assert(condition, what)
#define OTTAVA_EXTERN_C extern "C"
extern "C" {
#else
#define OTTAVA_ASSERT(condition, what) _Static_assert(condition, what)
#define OTTAVA_EXTERN_C
#endif

OTTAVA_ASSERT(sizeof(void*) == 8, "Ottava drivers are 64-bit libraries");

/* Version of this header. Major 0 is the draft of major 1. */
#define OTTAVA_ABI_MAJOR 0u
#define OTTAVA_ABI_MINOR 9u
#define OTTAVA_ABI_PATCH 0u

/* Hash of all core tables, the layout check when a driver is loaded. */
#define OTTAVA_CORE_HASH UINT64_C(0xd9a5725e811b97bd)
/* Extension `ottava.profile/1`: its name, and the hash of its tables. */
#define OTTAVA_PROFILE_NAME "ottava.profile/1"
#define OTTAVA_PROFILE_HASH UINT64_C(0x8e39aebe86a5c21f)
/* Extension `ottava.test_hooks/1`: its name, and the hash of its tables. */
#define OTTAVA_TEST_HOOKS_NAME "ottava.test_hooks/1"
#define OTTAVA_TEST_HOOKS_HASH UINT64_C(0xe698b3fe47919ffc)
/* Extension `ottava.describe/1`: its name, and the hash of its tables. */
#define OTTAVA_DESCRIBE_NAME "ottava.describe/1"
#define OTTAVA_DESCRIBE_HASH UINT64_C(0x35ce2639505881e8)
/* Hash of each table. */
#define OTTAVA_STR_HASH UINT64_C(0xf00684d0b8f396e7)
#define OTTAVA_SLICE_HASH UINT64_C(0x3b98cb4ae3cd7f97)
#define OTTAVA_SLICE_MUT_HASH UINT64_C(0xce4cfa6207bd35d1)
#define OTTAVA_ERROR_V1_HASH UINT64_C(0x0dfb44bf7e936897)
#define OTTAVA_EXT_V1_HASH UINT64_C(0xb717f5be446fed47)
#define OTTAVA_ABI_NOTE_V1_HASH UINT64_C(0xc056a4b8369a149a)
#define OTTAVA_KEY_VALUE_V1_HASH UINT64_C(0x5a586b32f44fc8cd)
#define OTTAVA_OPTION_V1_HASH UINT64_C(0xe0c16c0b4d3046ad)
#define OTTAVA_MEMORY_TYPE_V1_HASH UINT64_C(0x91171ce539ea7748)
#define OTTAVA_HOST_LINK_V1_HASH UINT64_C(0xe3dfccf1daf0bdc9)
#define OTTAVA_DEVICE_INFO_V1_HASH UINT64_C(0x5f5efb514dadde76)
#define OTTAVA_NODE_V1_HASH UINT64_C(0xb22de7752243cff9)
#define OTTAVA_VALUE_V1_HASH UINT64_C(0x004c5aad415d5b1a)
#define OTTAVA_QUANT_V1_HASH UINT64_C(0xa24edb47aa9f8253)
#define OTTAVA_ATTR_V1_HASH UINT64_C(0xb82d856f74e114e8)
#define OTTAVA_CONST_V1_HASH UINT64_C(0x1013df3c8203de67)
#define OTTAVA_PROGRAM_V1_HASH UINT64_C(0x7cab29142015c17d)
#define OTTAVA_OPERAND_V1_HASH UINT64_C(0x7cfb6713ce1494f0)
#define OTTAVA_PREDICATE_V1_HASH UINT64_C(0x81ec790c6a9fa815)
#define OTTAVA_OP_ROW_V1_HASH UINT64_C(0xed7cb789bf983e3f)
#define OTTAVA_VERDICT_V1_HASH UINT64_C(0x78f82fd372702235)
#define OTTAVA_COMPILE_OPTS_V1_HASH UINT64_C(0x7a130180d2eb9820)
#define OTTAVA_COST_V1_HASH UINT64_C(0x8986dc4658cb4a97)
#define OTTAVA_IO_REQ_V1_HASH UINT64_C(0xfa8889110bc23120)
#define OTTAVA_BLOB_KEY_V1_HASH UINT64_C(0xa3606f6d41eb6dc0)
#define OTTAVA_BUFFER_DESC_V1_HASH UINT64_C(0xfed82faff35ae9c7)
#define OTTAVA_BINDING_V1_HASH UINT64_C(0x78eaa64959452e95)
#define OTTAVA_FENCE_POINT_V1_HASH UINT64_C(0x0eb80c2a68e98127)
#define OTTAVA_COMMAND_V1_HASH UINT64_C(0x55b99c8330f98a96)
#define OTTAVA_SUBMIT_V1_HASH UINT64_C(0xfdfdcf760891e2c0)
#define OTTAVA_DEVICE_VTBL_V1_HASH UINT64_C(0x02eead2a56896440)
#define OTTAVA_HOST_V1_HASH UINT64_C(0x5660c9d1f17cabad)
#define OTTAVA_DRIVER_V1_HASH UINT64_C(0x26851e76b216127f)
#define OTTAVA_PROFILE_RECORD_V1_HASH UINT64_C(0x88aab4264a077ab9)
#define OTTAVA_PROFILE_COUNTER_V1_HASH UINT64_C(0xe7e5838c0ac6b90f)
#define OTTAVA_PROFILE_V1_HASH UINT64_C(0xc4086dd42ec0e729)
#define OTTAVA_TEST_HOOKS_V1_HASH UINT64_C(0x9db40dc1fa6283d5)
#define OTTAVA_EXEC_KERNEL_V1_HASH UINT64_C(0xa94bae93b4722568)
#define OTTAVA_DESCRIBE_V1_HASH UINT64_C(0x1887906e356f4507)

/* ---- Numbers ---- */

/* Status codes. A code other than OK always comes with a message. */
#define OTTAVA_OK INT32_C(0) /* Done. */
#define OTTAVA_INVALID_ARGUMENT INT32_C(1) /* The caller broke the contract; the message says how. */
#define OTTAVA_UNSUPPORTED INT32_C(2) /* Legal, but this driver or device does not do it. */
#define OTTAVA_OUT_OF_HOST_MEMORY INT32_C(3) /* The host's memory does not suffice. */
#define OTTAVA_OUT_OF_DEVICE_MEMORY INT32_C(4) /* The device's memory does not suffice. */
#define OTTAVA_TIMEOUT INT32_C(5) /* A wait or a deadline ran out. */
#define OTTAVA_CANCELLED INT32_C(6) /* Cancelled on request. */
#define OTTAVA_DEVICE_LOST INT32_C(7) /* The device is gone; see `reset`. */
#define OTTAVA_BUSY INT32_C(8) /* In use; a retry may succeed. */
#define OTTAVA_INCOMPATIBLE_BLOB INT32_C(9) /* A blob of another driver version or device. */
#define OTTAVA_CORRUPT_BLOB INT32_C(10) /* A damaged blob. */
#define OTTAVA_PANIC INT32_C(11) /* A panic or exception was caught; the device is poisoned. */
#define OTTAVA_INTERNAL INT32_C(12) /* A fault of the driver. */
#define OTTAVA_NOT_FOUND INT32_C(13) /* No such name, device or extension. */
#define OTTAVA_BUFFER_TOO_SMALL INT32_C(14) /* The array or buffer of a two-call function is too small; the count says what is needed. */
#define OTTAVA_LOAD_FAILED INT32_C(100) /* Loader: the library could not be opened. */
#define OTTAVA_ABI_RANGE INT32_C(101) /* Loader: the driver speaks another major version of this ABI. */
#define OTTAVA_LAYOUT_MISMATCH INT32_C(102) /* Loader: the driver was built against other table layouts. */
#define OTTAVA_NULL_ENTRY INT32_C(103) /* Loader: a function of a table is NULL. */
#define OTTAVA_POLICY_REFUSED INT32_C(104) /* Loader: policy forbids the library. */
#define OTTAVA_MANIFEST_INVALID INT32_C(105) /* Loader: the manifest is not valid. */

/* Values of the `kind` field; the last column of a struct's prefix `{ size, kind }`. */
#define OTTAVA_KIND_HOST UINT32_C(1) /* `ottava_host_v1` */
#define OTTAVA_KIND_DRIVER UINT32_C(2) /* `ottava_driver_v1` */
#define OTTAVA_KIND_DEVICE_VTBL UINT32_C(3) /* `ottava_device_vtbl_v1` */
#define OTTAVA_KIND_ERROR UINT32_C(4) /* `ottava_error_v1` */
#define OTTAVA_KIND_EXT UINT32_C(5) /* `ottava_ext_v1` */
#define OTTAVA_KIND_DEVICE_INFO UINT32_C(6) /* `ottava_device_info_v1` */
#define OTTAVA_KIND_PROGRAM UINT32_C(7) /* `ottava_program_v1` */
#define OTTAVA_KIND_COMPILE_OPTS UINT32_C(8) /* `ottava_compile_opts_v1` */
#define OTTAVA_KIND_COST UINT32_C(9) /* `ottava_cost_v1` */
#define OTTAVA_KIND_IO_REQ UINT32_C(10) /* `ottava_io_req_v1` */
#define OTTAVA_KIND_BLOB_KEY UINT32_C(11) /* `ottava_blob_key_v1` */
#define OTTAVA_KIND_BUFFER_DESC UINT32_C(12) /* `ottava_buffer_desc_v1` */
#define OTTAVA_KIND_SUBMIT UINT32_C(13) /* `ottava_submit_v1` */
#define OTTAVA_KIND_OPTION UINT32_C(14) /* `ottava_option_v1` */
#define OTTAVA_KIND_PROFILE UINT32_C(100) /* `ottava_profile_v1` */
#define OTTAVA_KIND_PROFILE_RECORD UINT32_C(101) /* `ottava_profile_record_v1` */
#define OTTAVA_KIND_PROFILE_COUNTER UINT32_C(102) /* `ottava_profile_counter_v1` */
#define OTTAVA_KIND_TEST_HOOKS UINT32_C(110) /* `ottava_test_hooks_v1` */
#define OTTAVA_KIND_DESCRIBE UINT32_C(120) /* `ottava_describe_v1` */
#define OTTAVA_KIND_EXEC_KERNEL UINT32_C(121) /* `ottava_exec_kernel_v1` */

/* Flags of an error. */
#define OTTAVA_ERROR_TRANSIENT UINT32_C(1) /* A retry may succeed. Errors without this flag are never retried. */
#define OTTAVA_ERROR_TRUNCATED UINT32_C(2) /* The message did not fit and is cut. */

/* Levels of `host.log`. */
#define OTTAVA_LOG_ERROR UINT32_C(1) /* A failure. */
#define OTTAVA_LOG_WARN UINT32_C(2) /* Something the user should know. */
#define OTTAVA_LOG_INFO UINT32_C(3) /* Progress. */
#define OTTAVA_LOG_DEBUG UINT32_C(4) /* For whoever looks for a fault. */
#define OTTAVA_LOG_TRACE UINT32_C(5) /* Everything. */

/* Kinds of devices. */
#define OTTAVA_DEVICE_CPU UINT32_C(1) /* The machine's own processor. */
#define OTTAVA_DEVICE_GPU UINT32_C(2) /* A graphics processor. */
#define OTTAVA_DEVICE_NPU UINT32_C(3) /* A neural accelerator. */
#define OTTAVA_DEVICE_DSP UINT32_C(4) /* A signal processor. */
#define OTTAVA_DEVICE_SIM UINT32_C(5) /* Something that simulates one of the others. */

/* Flags of a device. */
#define OTTAVA_DEVICE_FLAG_SYNC_ONLY UINT64_C(1) /* Fence functions return UNSUPPORTED; `submit` returns when the work is done. */
#define OTTAVA_DEVICE_FLAG_SIMULATED UINT64_C(2) /* Not real hardware: times are modelled. */
#define OTTAVA_DEVICE_FLAG_FLUSHES_DENORMALS UINT64_C(4) /* Float denormals become zero. */

/* Flags of a memory type. */
#define OTTAVA_MEMORY_DEVICE_LOCAL UINT64_C(1) /* Near the device. */
#define OTTAVA_MEMORY_HOST_VISIBLE UINT64_C(2) /* `map` is possible. */
#define OTTAVA_MEMORY_COHERENT UINT64_C(4) /* `map` and `unmap` need no invalidation or flush. */
#define OTTAVA_MEMORY_CACHED UINT64_C(8) /* The host's caches hold it. */

/* Bits of the import and export masks of a memory type. */
#define OTTAVA_HANDLE_HOST_POINTER UINT64_C(1) /* A pointer to host memory (`import_host`). */
#define OTTAVA_HANDLE_OPAQUE_FD UINT64_C(2) /* An opaque file descriptor (`ottava.memory_handles/1`). */
#define OTTAVA_HANDLE_DMA_BUF UINT64_C(4) /* A dma-buf (`ottava.memory_handles/1`). */

/* How a device reaches the host's memory. */
#define OTTAVA_LINK_NATIVE UINT32_C(1) /* The device works on host memory. */
#define OTTAVA_LINK_IMPORT UINT32_C(2) /* Host memory can be imported. */
#define OTTAVA_LINK_COPY UINT32_C(3) /* Data is copied. */

/* Types of option values. */
#define OTTAVA_OPTION_STRING UINT32_C(1) /* Text. */
#define OTTAVA_OPTION_INT UINT32_C(2) /* A whole number. */
#define OTTAVA_OPTION_FLOAT UINT32_C(3) /* A real number. */
#define OTTAVA_OPTION_BOOL UINT32_C(4) /* `true` or `false`. */
#define OTTAVA_OPTION_ENUM UINT32_C(5) /* One of the allowed values. */

/* Flags of a compilation. */
#define OTTAVA_COMPILE_EXACT_ONLY UINT64_C(1) /* Refuse kernels whose integers are not those of the reference. */
#define OTTAVA_COMPILE_DEBUG UINT64_C(2) /* Keep the names of nodes. */

/* How far a cost can be trusted. */
#define OTTAVA_CONFIDENCE_DATASHEET UINT32_C(1) /* From a data sheet. */
#define OTTAVA_CONFIDENCE_SIMULATED UINT32_C(2) /* From a model of the machine. */
#define OTTAVA_CONFIDENCE_MEASURED UINT32_C(3) /* Measured. */

/* Answers of `check_blob`. */
#define OTTAVA_BLOB_OPTIMAL UINT32_C(0) /* As good as a new compilation. */
#define OTTAVA_BLOB_RECOMPILE_PREFERRED UINT32_C(1) /* Runs, but compiling anew would be better. */
#define OTTAVA_BLOB_INCOMPATIBLE UINT32_C(2) /* Does not run here. */

/* Which side of an executable a requirement speaks of. */
#define OTTAVA_IO_INPUT UINT32_C(1) /* An input of the program. */
#define OTTAVA_IO_OUTPUT UINT32_C(2) /* An output of the program. */

/* What a buffer is used for. */
#define OTTAVA_USAGE_INPUT UINT64_C(1) /* An input of an executable. */
#define OTTAVA_USAGE_OUTPUT UINT64_C(2) /* An output of an executable. */
#define OTTAVA_USAGE_CONST UINT64_C(4) /* Constant data. */
#define OTTAVA_USAGE_SCRATCH UINT64_C(8) /* Working memory. */
#define OTTAVA_USAGE_BRIDGE UINT64_C(16) /* Shared with another device. */

/* Modes of `map`. */
#define OTTAVA_MAP_READ UINT32_C(1) /* The host reads. */
#define OTTAVA_MAP_WRITE UINT32_C(2) /* The host writes all of the range. */
#define OTTAVA_MAP_READ_WRITE UINT32_C(3) /* The host reads and writes. */

/* Operations of a command. */
#define OTTAVA_COMMAND_DISPATCH UINT32_C(1) /* Run an executable. */
#define OTTAVA_COMMAND_COPY UINT32_C(2) /* Copy `len` bytes from `src` to `dst`. */
#define OTTAVA_COMMAND_FILL UINT32_C(3) /* Fill `len` bytes of `dst` with the little-endian bytes of `pattern`, repeated. */

/* Flags of a submission. */
#define OTTAVA_SUBMIT_PROFILE UINT64_C(1) /* Record the time of each node (`ottava.profile/1` reads it). */

/* Priorities of queues. */
#define OTTAVA_PRIORITY_LOW UINT32_C(0) /* Background work. */
#define OTTAVA_PRIORITY_NORMAL UINT32_C(1) /* Ordinary work. */
#define OTTAVA_PRIORITY_HIGH UINT32_C(2) /* Before everything else. */

/* Doors of a driver (bits of the note). */
#define OTTAVA_DOOR_C UINT32_C(1) /* `ottava_driver_entry_v1`. */
#define OTTAVA_DOOR_RUST UINT32_C(2) /* The abi_stable root module. */

/* Kinds of profile records. */
#define OTTAVA_RECORD_DISPATCH UINT32_C(1) /* A node or kernel ran. */
#define OTTAVA_RECORD_COPY UINT32_C(2) /* Data was moved. */
#define OTTAVA_RECORD_WAIT UINT32_C(3) /* The device waited. */
#define OTTAVA_RECORD_SUBMISSION UINT32_C(4) /* The submission as a whole: from its first command to the end of its last one. Always the first record. */

/* Faults that `ottava.test_hooks/1` injects. */
#define OTTAVA_FAULT_PANIC UINT32_C(1) /* The call panics. */
#define OTTAVA_FAULT_LOST UINT32_C(2) /* The device is lost. */
#define OTTAVA_FAULT_OOM UINT32_C(3) /* The call runs out of device memory. */
#define OTTAVA_FAULT_HANG UINT32_C(4) /* The submission does not finish until `clear`. */
#define OTTAVA_FAULT_DELAY UINT32_C(5) /* The submission takes a while longer; `seed` is the time in nanoseconds. */
#define OTTAVA_FAULT_BITFLIP UINT32_C(6) /* One bit of an output is wrong; `seed` chooses it. */

/* Element types. Nibbles are packed two per byte, the low one first. */
#define OTTAVA_DTYPE_S4 UINT32_C(1) /* Signed, 4 bits. */
#define OTTAVA_DTYPE_U4 UINT32_C(2) /* Unsigned, 4 bits. */
#define OTTAVA_DTYPE_S8 UINT32_C(3) /* Signed, 8 bits. */
#define OTTAVA_DTYPE_U8 UINT32_C(4) /* Unsigned, 8 bits. */
#define OTTAVA_DTYPE_S16 UINT32_C(5) /* Signed, 16 bits. */
#define OTTAVA_DTYPE_U16 UINT32_C(6) /* Unsigned, 16 bits. */
#define OTTAVA_DTYPE_S32 UINT32_C(7) /* Signed, 32 bits. */
#define OTTAVA_DTYPE_S64 UINT32_C(8) /* Signed, 64 bits. */
#define OTTAVA_DTYPE_F16 UINT32_C(9) /* IEEE half. */
#define OTTAVA_DTYPE_BF16 UINT32_C(10) /* bfloat16. */
#define OTTAVA_DTYPE_F32 UINT32_C(11) /* IEEE single. */
#define OTTAVA_DTYPE_BOOL8 UINT32_C(12) /* One byte, 0 or 1. */
#define OTTAVA_DTYPE_F64 UINT32_C(13) /* IEEE double. */
#define OTTAVA_DTYPE_U32 UINT32_C(14) /* Unsigned, 32 bits. */
#define OTTAVA_DTYPE_U64 UINT32_C(15) /* Unsigned, 64 bits. */

/* Layouts. Shapes are always in the operator's logical axis order. */
#define OTTAVA_LAYOUT_ROW_MAJOR UINT32_C(0) /* The last logical axis varies fastest. */
#define OTTAVA_LAYOUT_NCHW UINT32_C(1) /* Images, channels first. The same bytes as ROW_MAJOR. */
#define OTTAVA_LAYOUT_NHWC UINT32_C(2) /* Images, channels last: axis 1 varies fastest, the other axes keep their order. */
#define OTTAVA_LAYOUT_BLOCKED UINT32_C(3) /* Channels in blocks: argument 0 is the block of channels, argument 1 the block of batch. */
#define OTTAVA_LAYOUT_OPAQUE UINT32_C(4) /* A layout of the vendor: argument 0 is the vendor's id, argument 1 the vendor's number. */

/* Requantization modes (the numeric contract, section 3). */
#define OTTAVA_REQUANT_NONE UINT32_C(0) /* The node does not rescale integers. */
#define OTTAVA_REQUANT_FP32_RNE UINT32_C(1) /* f32 multiplier, round to nearest even. */
#define OTTAVA_REQUANT_Q31_DOUBLE UINT32_C(2) /* Q31 multiplier, two roundings. */
#define OTTAVA_REQUANT_Q31_SINGLE UINT32_C(3) /* Q31 multiplier, one rounding. */

/* Quantization schemes; bit n of a mask stands for value n. */
#define OTTAVA_SCHEME_PLAIN UINT32_C(0) /* Not quantized. Only in masks; a descriptor always has one of the others. */
#define OTTAVA_SCHEME_PER_TENSOR UINT32_C(1) /* One scale. */
#define OTTAVA_SCHEME_PER_AXIS UINT32_C(2) /* One scale per index of an axis. */
#define OTTAVA_SCHEME_BLOCKED UINT32_C(3) /* One scale per block along an axis. */

/* Flags of a quantization descriptor. */
#define OTTAVA_QUANT_SYMMETRIC UINT64_C(1) /* Every zero point is the neutral one of the storage (0; 128 for u8; 32768 for u16). */

/* What is fused into a node, and what a row of the operator table can fuse. */
#define OTTAVA_FUSED_ZP_BEFORE_ROUND UINT64_C(1) /* The zero point is added before rounding. */
#define OTTAVA_FUSED_CLAMP UINT64_C(2) /* Bounds of a quantized result: attributes `clamp_lo`, `clamp_hi`, integers of the output type. */
#define OTTAVA_FUSED_LUT UINT64_C(4) /* A table: attribute `lut`, an index of `consts`. */
#define OTTAVA_FUSED_RESIDUAL UINT64_C(8) /* The last input is added to the result. */
#define OTTAVA_FUSED_ACT UINT64_C(16) /* A float activation: attribute `act`, `Relu` or `Clip`; a Clip has `act_lo` and `act_hi`. */

/* Types of attributes. */
#define OTTAVA_ATTR_I64 UINT32_C(1) /* `value` is the integer. */
#define OTTAVA_ATTR_F32 UINT32_C(2) /* The low 32 bits of `value` are the bits of an f32. */
#define OTTAVA_ATTR_STR UINT32_C(3) /* UTF-8: `first` is an offset into `strings`, `count` the number of bytes. */
#define OTTAVA_ATTR_I64S UINT32_C(4) /* `count` numbers from index `first` of `dims`. */
#define OTTAVA_ATTR_F32S UINT32_C(5) /* `count` numbers from index `first` of `scales`. */
#define OTTAVA_ATTR_STRS UINT32_C(6) /* `count` texts: from index `first` of `edges` pairs of (offset into `strings`, number of bytes). */
#define OTTAVA_ATTR_TENSOR UINT32_C(7) /* A constant: `value` is an index of `values`. */

/* Comparisons of a predicate. */
#define OTTAVA_CMP_EQ UINT32_C(1) /* Equal to `lo`. */
#define OTTAVA_CMP_LE UINT32_C(2) /* At most `hi`. */
#define OTTAVA_CMP_GE UINT32_C(3) /* At least `lo`. */
#define OTTAVA_CMP_IN_RANGE UINT32_C(4) /* At least `lo` and at most `hi`. */
#define OTTAVA_CMP_MULTIPLE_OF UINT32_C(5) /* A multiple of `lo`. */

/* Flags of an operand of an operator row. */
#define OTTAVA_OPERAND_CONSTANT UINT64_C(1) /* Must be a constant. */
#define OTTAVA_OPERAND_OPTIONAL UINT64_C(2) /* May be absent. */

/* Flags of an operator row. */
#define OTTAVA_ROW_ASK_ASSESS UINT64_C(1) /* The row states less than the driver checks: a match is to be confirmed by `assess`. */
#define OTTAVA_ROW_DYNAMIC_SHAPES UINT64_C(2) /* Shapes may be symbolic. */

/* States of a verdict. */
#define OTTAVA_REJECTED UINT32_C(0) /* The device does not run the node; reason and words say why. */
#define OTTAVA_SUPPORTED UINT32_C(1) /* The device runs the node. */
#define OTTAVA_ONLY_IN_GROUP UINT32_C(2) /* The device runs the node only together with the others of its group. */

/* Flags of a verdict. */
#define OTTAVA_VERDICT_EXACT UINT64_C(1) /* Integer results equal the reference bit for bit. */

/* Why a node is rejected. */
#define OTTAVA_REASON_OP_UNKNOWN UINT32_C(1) /* No such operator here. */
#define OTTAVA_REASON_OP_VERSION UINT32_C(2) /* Another version of the operator. */
#define OTTAVA_REASON_DTYPE UINT32_C(3) /* Element type. */
#define OTTAVA_REASON_QUANT_SCHEME UINT32_C(4) /* Quantization scheme. */
#define OTTAVA_REASON_QUANT_AXIS UINT32_C(5) /* Quantization axis. */
#define OTTAVA_REASON_REQUANT_MODE UINT32_C(6) /* Requantization mode. */
#define OTTAVA_REASON_LAYOUT UINT32_C(7) /* Layout. */
#define OTTAVA_REASON_RANK UINT32_C(8) /* Number of axes. */
#define OTTAVA_REASON_SHAPE_LIMIT UINT32_C(9) /* An extent is too large, too small or not aligned. */
#define OTTAVA_REASON_DYNAMIC_SHAPE UINT32_C(10) /* A shape is not known before the run. */
#define OTTAVA_REASON_ATTR_VALUE UINT32_C(11) /* Value of an attribute. */
#define OTTAVA_REASON_CONST_REQUIRED UINT32_C(12) /* An operand must be constant. */
#define OTTAVA_REASON_FUSION_REQUIRED UINT32_C(13) /* Runs only fused, or not with this fusion. */
#define OTTAVA_REASON_MEMORY UINT32_C(14) /* Does not fit into the device's memory. */
#define OTTAVA_REASON_ACC_OVERFLOW UINT32_C(15) /* The accumulator may overflow. */
#define OTTAVA_REASON_PRECISION UINT32_C(16) /* The result would be less exact than asked for. */
#define OTTAVA_REASON_POLICY UINT32_C(17) /* Forbidden by configuration. */
#define OTTAVA_REASON_OTHER UINT32_C(18) /* Anything else; the words say what. */

/* Indices that stand for nothing. */
#define OTTAVA_INDEX_NONE UINT32_C(4294967295) /* No such thing: an absent input, a plain tensor's quantization, a value that is not constant, unknown rank. */

/* ---- Handles ---- */

/* An open device: from `open` until `close`. */
typedef struct ottava_device ottava_device;
/* Memory of a device: from `alloc` or `import_host` until `buffer_release`. */
typedef struct ottava_buffer ottava_buffer;
/* A compiled program, immutable: from `compile` or `deserialize` until `exec_release`. */
typedef struct ottava_exec ottava_exec;
/* A queue: from `queue_create` until `queue_release`. */
typedef struct ottava_queue ottava_queue;
/* A timeline: from `fence_create` until `fence_release`. */
typedef struct ottava_fence ottava_fence;

/* ---- Tables ---- */

typedef struct ottava_str ottava_str;
typedef struct ottava_slice ottava_slice;
typedef struct ottava_slice_mut ottava_slice_mut;
typedef struct ottava_error_v1 ottava_error_v1;
typedef struct ottava_ext_v1 ottava_ext_v1;
typedef struct ottava_abi_note_v1 ottava_abi_note_v1;
typedef struct ottava_key_value_v1 ottava_key_value_v1;
typedef struct ottava_option_v1 ottava_option_v1;
typedef struct ottava_memory_type_v1 ottava_memory_type_v1;
typedef struct ottava_host_link_v1 ottava_host_link_v1;
typedef struct ottava_device_info_v1 ottava_device_info_v1;
typedef struct ottava_node_v1 ottava_node_v1;
typedef struct ottava_value_v1 ottava_value_v1;
typedef struct ottava_quant_v1 ottava_quant_v1;
typedef struct ottava_attr_v1 ottava_attr_v1;
typedef struct ottava_const_v1 ottava_const_v1;
typedef struct ottava_program_v1 ottava_program_v1;
typedef struct ottava_operand_v1 ottava_operand_v1;
typedef struct ottava_predicate_v1 ottava_predicate_v1;
typedef struct ottava_op_row_v1 ottava_op_row_v1;
typedef struct ottava_verdict_v1 ottava_verdict_v1;
typedef struct ottava_compile_opts_v1 ottava_compile_opts_v1;
typedef struct ottava_cost_v1 ottava_cost_v1;
typedef struct ottava_io_req_v1 ottava_io_req_v1;
typedef struct ottava_blob_key_v1 ottava_blob_key_v1;
typedef struct ottava_buffer_desc_v1 ottava_buffer_desc_v1;
typedef struct ottava_binding_v1 ottava_binding_v1;
typedef struct ottava_fence_point_v1 ottava_fence_point_v1;
typedef struct ottava_command_v1 ottava_command_v1;
typedef struct ottava_submit_v1 ottava_submit_v1;
typedef struct ottava_device_vtbl_v1 ottava_device_vtbl_v1;
typedef struct ottava_host_v1 ottava_host_v1;
typedef struct ottava_driver_v1 ottava_driver_v1;
typedef struct ottava_profile_record_v1 ottava_profile_record_v1;
typedef struct ottava_profile_counter_v1 ottava_profile_counter_v1;
typedef struct ottava_profile_v1 ottava_profile_v1;
typedef struct ottava_test_hooks_v1 ottava_test_hooks_v1;
typedef struct ottava_exec_kernel_v1 ottava_exec_kernel_v1;
typedef struct ottava_describe_v1 ottava_describe_v1;

/* UTF-8 text without a terminating zero. An empty text may have a NULL pointer. */
struct ottava_str {
    /* First byte. */
    const char* ptr;
    /* Number of bytes. */
    uint64_t len;
};

/* Elements to read. Element `i` begins `i * stride` bytes after `ptr`; a reader uses the stride, never its own size. */
struct ottava_slice {
    /* First element; may be NULL if `len` is 0. */
    const void* ptr;
    /* Number of elements. */
    uint64_t len;
    /* Bytes from one element to the next. */
    uint32_t stride;
    /* Zero. */
    uint32_t pad;
};

/* Elements to write. */
struct ottava_slice_mut {
    /* First element; may be NULL if `len` is 0. */
    void* ptr;
    /* Number of elements. */
    uint64_t len;
    /* Bytes from one element to the next. */
    uint32_t stride;
    /* Zero. */
    uint32_t pad;
};

/* An error. The caller provides the memory and fills `size` and `kind`; whoever fails fills the rest. */
struct ottava_error_v1 {
    /* `sizeof(ottava_error_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_ERROR`. */
    uint32_t kind;
    /* The status code that the call returned. */
    int32_t code;
    /* `OTTAVA_ERROR_*`. */
    uint32_t flags;
    /* Id of the node that is concerned, else `OTTAVA_INDEX_NONE`. */
    uint32_t node;
    /* `OTTAVA_REASON_*` of an UNSUPPORTED, else 0. */
    uint32_t reason;
    /* A number of the vendor's own. */
    int64_t vendor_code;
    /* What happened, in words. Never empty for a code other than OK. */
    char message[256];
};

/* An extension that was asked for by name. */
struct ottava_ext_v1 {
    /* `sizeof(ottava_ext_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_EXT`. */
    uint32_t kind;
    /* The extension's table, which lives as long as the driver. */
    const void* table;
    /* abi_stable's layout of the table, or NULL. */
    const void* rust_layout;
    /* The extension's hash (`OTTAVA_<NAME>_HASH`). */
    uint64_t layout_hash;
};

/* The note. */
struct ottava_abi_note_v1 {
    /* `OTTAVAv1`. */
    char magic[8];
    /* Smallest major version that the driver speaks. */
    uint32_t major_min;
    /* Largest major version that the driver speaks. */
    uint32_t major_max;
    /* Version of the SDK that the driver was built with. */
    uint32_t sdk_major;
    /* Its minor version. */
    uint32_t sdk_minor;
    /* Its patch. */
    uint32_t sdk_patch;
    /* `OTTAVA_DOOR_*`. */
    uint32_t doors;
    /* `OTTAVA_CORE_HASH` of the SDK. */
    uint64_t core_hash;
    /* Name of the driver. */
    char name[32];
    /* Version of the driver. */
    char version[16];
};

/* An option's value. */
struct ottava_key_value_v1 {
    /* Key. */
    ottava_str key;
    /* Value. */
    ottava_str value;
};

/* One option that a driver knows. The texts belong to the driver and live until `shutdown`. */
struct ottava_option_v1 {
    /* `sizeof(ottava_option_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_OPTION`. */
    uint32_t kind;
    /* Key. */
    ottava_str key;
    /* `OTTAVA_OPTION_*`. */
    uint32_t value_type;
    /* Zero. */
    uint32_t pad;
    /* Value that is taken when the key is absent. */
    ottava_str default_value;
    /* Allowed values; none if any value of the type is.
       Of ottava_str. */
    ottava_slice allowed;
    /* One line of help. */
    ottava_str help;
};

/* A kind of memory. */
struct ottava_memory_type_v1 {
    /* `OTTAVA_MEMORY_*`. */
    uint64_t flags;
    /* Size; 0 if unknown. */
    uint64_t bytes;
    /* Alignment of buffers, a power of two. */
    uint64_t alignment;
    /* `OTTAVA_HANDLE_*` that can be imported. */
    uint64_t import_mask;
    /* `OTTAVA_HANDLE_*` that can be exported. */
    uint64_t export_mask;
};

/* How a device reaches the host's memory. */
struct ottava_host_link_v1 {
    /* `OTTAVA_LINK_*`. */
    uint32_t mode;
    /* Zero. */
    uint32_t pad;
    /* Bandwidth; 0 if unknown or native. */
    double bytes_per_s;
    /* Fixed cost of a submission or copy. */
    uint64_t latency_ns;
};

/* What a device is. */
struct ottava_device_info_v1 {
    /* `sizeof(ottava_device_info_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_DEVICE_INFO`. */
    uint32_t kind;
    /* Stable across runs and ordinals. */
    uint8_t uuid[16];
    /* Position in the enumeration. */
    uint32_t ordinal;
    /* `OTTAVA_DEVICE_*`. */
    uint32_t device_kind;
    /* Revision of the hardware; a part of the keys of blobs. */
    uint32_t hw_rev;
    /* Number of queues that work side by side. */
    uint32_t n_queues;
    /* Name for people. */
    char name[64];
    /* Version of the vendor's driver underneath; empty if there is none. */
    char driver_version[16];
    /* `OTTAVA_DEVICE_FLAG_*`. */
    uint64_t flags;
    /* Largest buffer; 0 if only memory limits it. */
    uint64_t max_buffer;
    /* Alignment of bindings' offsets, a power of two. */
    uint64_t alignment;
    /* Peak operations per second on s8; 0 if unknown. */
    double peak_s8;
    /* Peak operations per second on s16; 0 if unknown. */
    double peak_s16;
    /* Peak operations per second on f16; 0 if unknown. */
    double peak_f16;
    /* Peak operations per second on f32; 0 if unknown. */
    double peak_f32;
    /* Number of memory types that are filled in. */
    uint32_t n_memory_types;
    /* Zero. */
    uint32_t pad;
    /* Memory types. */
    ottava_memory_type_v1 memory_types[8];
    /* Link to the host. */
    ottava_host_link_v1 link;
};

/* One operator. */
struct ottava_node_v1 {
    /* Name of the operator (ONNX names), an offset into `strings`. */
    uint32_t op;
    /* Domain, an offset into `strings`; empty for ONNX. */
    uint32_t domain;
    /* Name of the node, an offset into `strings`. */
    uint32_t name;
    /* Version of the operator set whose meaning the node has. */
    uint32_t op_version;
    /* Id, the same in assess, estimate, compile and profiles. */
    uint32_t id;
    /* First input, an index of `edges`. */
    uint32_t in_first;
    /* Number of inputs; an absent one is `OTTAVA_INDEX_NONE`. */
    uint32_t in_count;
    /* First output, an index of `edges`. */
    uint32_t out_first;
    /* Number of outputs. */
    uint32_t out_count;
    /* First attribute, an index of `attrs`. */
    uint32_t attr_first;
    /* Number of attributes. */
    uint32_t attr_count;
    /* `OTTAVA_REQUANT_*`. */
    uint32_t requant_mode;
    /* `OTTAVA_FUSED_*`. */
    uint64_t flags;
};

/* A tensor that flows through the program. */
struct ottava_value_v1 {
    /* Name, an offset into `strings`. */
    uint32_t name;
    /* `OTTAVA_DTYPE_*`. */
    uint32_t dtype;
    /* `OTTAVA_LAYOUT_*`. */
    uint32_t layout;
    /* First argument of the layout. */
    uint32_t layout_arg0;
    /* Second argument of the layout. */
    uint32_t layout_arg1;
    /* Number of axes; `OTTAVA_INDEX_NONE` if unknown. */
    uint32_t rank;
    /* First extent, an index of `dims`. An extent below 0 is the symbol number -1 - extent: the program's attribute
       of that number has its name and is an I64S of its smallest and largest value. */
    uint32_t dim_first;
    /* Index of `quants`; `OTTAVA_INDEX_NONE` for a plain tensor. */
    uint32_t quant;
    /* Index of `consts`; `OTTAVA_INDEX_NONE` for a tensor that is computed. */
    uint32_t const_idx;
    /* Zero. */
    uint32_t pad;
};

/* How a tensor is quantized: real = (q - zero point) * scale. */
struct ottava_quant_v1 {
    /* `OTTAVA_SCHEME_*`. */
    uint32_t scheme;
    /* Axis of PER_AXIS and BLOCKED. */
    uint32_t axis;
    /* Elements of a block of BLOCKED. */
    uint32_t block;
    /* `OTTAVA_DTYPE_*` of the stored integers. */
    uint32_t storage;
    /* First scale, an index of `scales`. */
    uint32_t scale_first;
    /* Number of scales. */
    uint32_t scale_count;
    /* First zero point, an index of `zps`. */
    uint32_t zp_first;
    /* Number of zero points. */
    uint32_t zp_count;
    /* `OTTAVA_QUANT_*`. */
    uint64_t flags;
};

/* An attribute. What `first`, `count` and `value` mean, the type says. */
struct ottava_attr_v1 {
    /* Name, an offset into `strings`. */
    uint32_t name;
    /* `OTTAVA_ATTR_*`. */
    uint32_t attr_type;
    /* First element. */
    uint32_t first;
    /* Number of elements. */
    uint32_t count;
    /* A single value. */
    int64_t value;
};

/* Data of a constant: borrowed memory or a part of a mapped file. */
struct ottava_const_v1 {
    /* Index of the value. */
    uint32_t value;
    /* File that holds the data too, or -1. */
    int32_t fd;
    /* The bytes, little endian. */
    const uint8_t* ptr;
    /* Number of bytes. */
    uint64_t len;
    /* Where the data begins in the file. */
    uint64_t fd_offset;
};

/* A program. */
struct ottava_program_v1 {
    /* `sizeof(ottava_program_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_PROGRAM`. */
    uint32_t kind;
    /* Version of this view: 1. */
    uint32_t ir_version;
    /* Zero. */
    uint32_t flags;
    /* Name of the model or partition, an offset into `strings`. */
    uint32_t name;
    /* First attribute of the program (the symbols), an index of `attrs`. */
    uint32_t attr_first;
    /* Number of attributes of the program. */
    uint32_t attr_count;
    /* Zero. */
    uint32_t pad;
    /* Operators.
       Of ottava_node_v1. */
    ottava_slice nodes;
    /* Tensors.
       Of ottava_value_v1. */
    ottava_slice values;
    /* Quantization descriptors.
       Of ottava_quant_v1. */
    ottava_slice quants;
    /* Attributes.
       Of ottava_attr_v1. */
    ottava_slice attrs;
    /* Constants.
       Of ottava_const_v1. */
    ottava_slice consts;
    /* Pool of value indices and other u32.
       Of uint32_t. */
    ottava_slice edges;
    /* Pool of extents and other i64.
       Of int64_t. */
    ottava_slice dims;
    /* Pool of scales and other f32.
       Of float. */
    ottava_slice scales;
    /* Pool of zero points.
       Of int32_t. */
    ottava_slice zps;
    /* Pool of names. */
    ottava_str strings;
    /* Values that the caller provides.
       Of uint32_t. */
    ottava_slice inputs;
    /* Values that the caller receives.
       Of uint32_t. */
    ottava_slice outputs;
};

/* What an operator row accepts for one operand. */
struct ottava_operand_v1 {
    /* Bit n: element type n. 0 accepts every type. */
    uint64_t dtypes;
    /* Bit n: quantization scheme n. 0 accepts every scheme. */
    uint64_t schemes;
    /* `OTTAVA_OPERAND_*`. */
    uint64_t flags;
};

/* A further condition of an operator row. */
struct ottava_predicate_v1 {
    /* Name of an attribute, or `dim:<operand>:<axis>`; a negative axis counts from the end. */
    ottava_str subject;
    /* `OTTAVA_CMP_*`. */
    uint32_t cmp;
    /* `OTTAVA_REASON_*` when it does not hold. */
    uint32_t reason;
    /* Lower bound, or the only one. */
    int64_t lo;
    /* Upper bound. */
    int64_t hi;
    /* The condition in words. */
    ottava_str text;
};

/* One supported form of an operator. Rows are alternatives. All of it belongs to the driver until `close`. */
struct ottava_op_row_v1 {
    /* Operator. */
    ottava_str op;
    /* Domain; empty for ONNX. */
    ottava_str domain;
    /* First version. */
    uint32_t version_min;
    /* Last version. */
    uint32_t version_max;
    /* Inputs; the last one repeats.
       Of ottava_operand_v1. */
    ottava_slice inputs;
    /* Outputs; the last one repeats.
       Of ottava_operand_v1. */
    ottava_slice outputs;
    /* Bit n: requantization mode n. A node without a mode is always accepted. */
    uint64_t requant_modes;
    /* Bit n: layout n. 0 stands for ROW_MAJOR and NCHW. */
    uint64_t layouts;
    /* Smallest rank of the first input. */
    uint32_t rank_min;
    /* Largest rank of the first input. */
    uint32_t rank_max;
    /* Further conditions; all must hold.
       Of ottava_predicate_v1. */
    ottava_slice predicates;
    /* `OTTAVA_FUSED_*` that the row can fuse. */
    uint64_t fused;
    /* 1: integer results equal the reference bit for bit. */
    uint32_t exact;
    /* Zero. */
    uint32_t pad;
    /* `OTTAVA_ROW_*`. */
    uint64_t flags;
};

/* A device's answer for one node. */
struct ottava_verdict_v1 {
    /* Id of the node. */
    uint32_t node;
    /* `OTTAVA_REJECTED`, `OTTAVA_SUPPORTED`, `OTTAVA_ONLY_IN_GROUP`. */
    uint32_t state;
    /* `OTTAVA_REASON_*` of a rejection; never 0 there. */
    uint32_t reason;
    /* Nodes of one group belong together; 0 for none. */
    uint32_t group;
    /* The limit that was exceeded, if it is a number. */
    int64_t limit;
    /* What was found instead. */
    int64_t actual;
    /* `OTTAVA_VERDICT_*`. */
    uint64_t flags;
    /* The same in words; never empty in a rejection. */
    char detail[96];
};

/* Choices of one compilation. */
struct ottava_compile_opts_v1 {
    /* `sizeof(ottava_compile_opts_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_COMPILE_OPTS`. */
    uint32_t kind;
    /* 0 fast to compile, 1 usual, 2 fast to run. */
    uint32_t opt_level;
    /* Zero. */
    uint32_t pad;
    /* Time that the compilation may take; 0 for any. */
    uint64_t budget_ms;
    /* `OTTAVA_COMPILE_*`. */
    uint64_t flags;
};

/* What a program is expected to cost. */
struct ottava_cost_v1 {
    /* `sizeof(ottava_cost_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_COST`. */
    uint32_t kind;
    /* Time of one run without the cost of a submission, which is the link's latency. */
    uint64_t time_ns;
    /* Energy of one run; 0 if unknown. */
    uint64_t energy_pj;
    /* Working memory. */
    uint64_t workspace_bytes;
    /* Packed weights. */
    uint64_t weight_bytes;
    /* `OTTAVA_CONFIDENCE_*`. */
    uint32_t confidence;
    /* Zero. */
    uint32_t pad;
};

/* What an executable asks of the buffer of one input or output. */
struct ottava_io_req_v1 {
    /* `sizeof(ottava_io_req_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_IO_REQ`. */
    uint32_t kind;
    /* Index of the value in the program. */
    uint32_t value;
    /* `OTTAVA_IO_*`. */
    uint32_t direction;
    /* `OTTAVA_LAYOUT_*` that is required. */
    uint32_t layout;
    /* First argument of the layout. */
    uint32_t layout_arg0;
    /* Second argument of the layout. */
    uint32_t layout_arg1;
    /* Zero. */
    uint32_t pad;
    /* Alignment of the binding's offset, a power of two. */
    uint64_t alignment;
    /* Bytes that follow each row and are not used. */
    uint64_t row_padding;
    /* Bit n: memory type n will do. */
    uint64_t memory_types;
    /* Size of the binding. */
    uint64_t bytes;
};

/* What a compiled program was made of and for. The host writes it before the driver's bytes and checks it after. */
struct ottava_blob_key_v1 {
    /* `sizeof(ottava_blob_key_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_BLOB_KEY`. */
    uint32_t kind;
    /* `OTTABLOB`. */
    char magic[8];
    /* Name of the driver. */
    char driver_name[32];
    /* Version of the driver. */
    char driver_version[16];
    /* The device's uuid. */
    uint8_t device_uuid[16];
    /* The device's hardware revision. */
    uint32_t hw_rev;
    /* Version of the program view. */
    uint32_t ir_version;
    /* `OTTAVA_CORE_HASH` of the driver. */
    uint64_t core_hash;
    /* Hash of the operator schemas. */
    uint64_t op_schema_hash;
    /* Hash of the program's bytes. */
    uint64_t program_hash;
    /* Hash of the quantization parameters. */
    uint64_t quant_hash;
    /* Hash of the device's options. */
    uint64_t options_hash;
    /* Number of the driver's bytes. */
    uint64_t payload_len;
    /* SHA-256 of the driver's bytes. */
    uint8_t payload_sha256[32];
};

/* A buffer that is wanted. */
struct ottava_buffer_desc_v1 {
    /* `sizeof(ottava_buffer_desc_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_BUFFER_DESC`. */
    uint32_t kind;
    /* Size; 0 is valid. */
    uint64_t bytes;
    /* Index of the memory type. */
    uint32_t memory_type;
    /* Zero. */
    uint32_t pad;
    /* Alignment, a power of two; 0 for the memory type's own. */
    uint64_t alignment;
    /* `OTTAVA_USAGE_*`. */
    uint64_t usage;
};

/* A part of a buffer. */
struct ottava_binding_v1 {
    /* The buffer. */
    ottava_buffer* buffer;
    /* First byte. */
    uint64_t offset;
    /* Number of bytes. */
    uint64_t len;
};

/* A point on a timeline. */
struct ottava_fence_point_v1 {
    /* The timeline. */
    ottava_fence* fence;
    /* The value. */
    uint64_t value;
};

/* One command. Fields that its operation does not use are zero. */
struct ottava_command_v1 {
    /* `OTTAVA_COMMAND_*`. */
    uint32_t op;
    /* Zero. */
    uint32_t pad;
    /* DISPATCH: what runs. */
    ottava_exec* exec;
    /* DISPATCH: one binding per requirement of `exec_io`, in its order.
       Of ottava_binding_v1. */
    ottava_slice bindings;
    /* COPY: source. */
    ottava_buffer* src;
    /* COPY: first byte of the source. */
    uint64_t src_off;
    /* COPY, FILL: destination. */
    ottava_buffer* dst;
    /* COPY, FILL: first byte of the destination. */
    uint64_t dst_off;
    /* COPY, FILL: number of bytes. */
    uint64_t len;
    /* FILL: four bytes, the lowest first. */
    uint32_t pattern;
    /* Zero. */
    uint32_t pad2;
};

/* A submission. Everything it refers to is retained by the driver until its signals have fired. */
struct ottava_submit_v1 {
    /* `sizeof(ottava_submit_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_SUBMIT`. */
    uint32_t kind;
    /* Run in order.
       Of ottava_command_v1. */
    ottava_slice commands;
    /* Points that must be reached before the first command runs.
       Of ottava_fence_point_v1. */
    ottava_slice waits;
    /* Points that are reached after the last command; they fail if a wait or a command failed.
       Of ottava_fence_point_v1. */
    ottava_slice signals;
    /* Time of the host's clock (`now_ns`) after which the submission fails with TIMEOUT; 0 for none. */
    uint64_t deadline_ns;
    /* `OTTAVA_SUBMIT_*`. */
    uint64_t flags;
    /* Receives the submission's number, which grows within a queue; may be NULL. */
    uint64_t* submission;
};

/* Functions of a device. */
struct ottava_device_vtbl_v1 {
    /* `sizeof(ottava_device_vtbl_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_DEVICE_VTBL`. */
    uint32_t kind;
    /* Frees the device. Everything made by it has been released. */
    void (*close)(ottava_device* device);
    /* Tries once to revive a lost device. Buffers and executables stay invalid, releasing them stays legal. */
    int32_t (*reset)(ottava_device* device, ottava_error_v1* err);
    /* The operator table; it belongs to the driver and does not change until `close`. */
    int32_t (*op_table)(ottava_device* device, ottava_slice* rows);
    /* One verdict per node, in the order of the nodes, into the host's array. */
    int32_t (*assess)(ottava_device* device, const ottava_program_v1* program, ottava_slice_mut verdicts, ottava_error_v1* err);
    /* What the program would cost here. */
    int32_t (*estimate)(ottava_device* device, const ottava_program_v1* program, ottava_cost_v1* out, ottava_error_v1* err);
    /* Compiles a program. Constants are copied or packed: the view is gone after the call. */
    int32_t (*compile)(ottava_device* device, const ottava_program_v1* program, const ottava_compile_opts_v1* opts, ottava_exec** out, ottava_error_v1* err);
    /* The executable as bytes; two-call: `len` is the number of bytes. */
    int32_t (*serialize)(ottava_device* device, ottava_exec* exec, uint8_t* buf, uint64_t cap, uint64_t* len, ottava_error_v1* err);
    /* An executable from bytes whose hash the host has checked; the driver still treats them as hostile. */
    int32_t (*deserialize)(ottava_device* device, const ottava_blob_key_v1* key, const uint8_t* bytes, uint64_t len, ottava_exec** out, ottava_error_v1* err);
    /* Requirements of inputs, then of outputs, in program order; two-call. */
    int32_t (*exec_io)(ottava_device* device, ottava_exec* exec, uint32_t cap, ottava_io_req_v1* out, uint32_t* count, ottava_error_v1* err);
    /* Gives an executable back. Submissions in flight keep what they need. */
    void (*exec_release)(ottava_device* device, ottava_exec* exec);
    /* Allocates a buffer, filled with zeros. */
    int32_t (*alloc)(ottava_device* device, const ottava_buffer_desc_v1* desc, ottava_buffer** out, ottava_error_v1* err);
    /* A buffer over the host's memory, which stays valid until the buffer is released and its work is done. */
    int32_t (*import_host)(ottava_device* device, void* ptr, uint64_t len, const ottava_buffer_desc_v1* desc, ottava_buffer** out, ottava_error_v1* err);
    /* Gives a buffer back. Submissions in flight keep what they need. */
    void (*buffer_release)(ottava_device* device, ottava_buffer* buffer);
    /* Makes a range visible to the host until `unmap`. One range of a buffer at a time. */
    int32_t (*map)(ottava_device* device, ottava_buffer* buffer, uint64_t off, uint64_t len, uint32_t mode, void** out, ottava_error_v1* err);
    /* Ends `map`; what the host wrote is visible to the device afterwards. */
    int32_t (*unmap)(ottava_device* device, ottava_buffer* buffer, ottava_error_v1* err);
    /* Creates a queue. Submissions of one queue run in order. */
    int32_t (*queue_create)(ottava_device* device, uint32_t priority, ottava_queue** out, ottava_error_v1* err);
    /* Gives a queue back; what was submitted still runs. */
    void (*queue_release)(ottava_device* device, ottava_queue* queue);
    /* Submits work. An error means that nothing was submitted and no fence will change; later failures go to the
       signals. SYNC_ONLY devices have no signals and return the failure of the work itself. */
    int32_t (*submit)(ottava_device* device, ottava_queue* queue, const ottava_submit_v1* submit, ottava_error_v1* err);
    /* Creates a timeline that stands at `initial`. */
    int32_t (*fence_create)(ottava_device* device, uint64_t initial, ottava_fence** out, ottava_error_v1* err);
    /* Gives a timeline back. */
    void (*fence_release)(ottava_device* device, ottava_fence* fence);
    /* The value that was reached, and the code with which the timeline failed (OK if it did not). */
    int32_t (*fence_query)(ottava_device* device, ottava_fence* fence, uint64_t* value, int32_t* failure);
    /* Waits until the value is reached, the timeline fails, or the time is over (TIMEOUT). */
    int32_t (*fence_wait)(ottava_device* device, ottava_fence* fence, uint64_t value, uint64_t timeout_ns, ottava_error_v1* err);
    /* Advances the timeline; a value that is not larger than the current one is INVALID_ARGUMENT. */
    int32_t (*fence_signal)(ottava_device* device, ottava_fence* fence, uint64_t value, ottava_error_v1* err);
    /* Fails the timeline for good. The first code stays. */
    int32_t (*fence_fail)(ottava_device* device, ottava_fence* fence, int32_t code, ottava_error_v1* err);
    /* Calls `done` once when the value is reached (OK) or the timeline fails (its code), at once if it already is. */
    int32_t (*fence_notify)(ottava_device* device, ottava_fence* fence, uint64_t value, void (*done)(void* user, int32_t code), void* user, ottava_error_v1* err);
    /* An extension by name, or NOT_FOUND. */
    int32_t (*query_extension)(ottava_device* device, ottava_str name, ottava_ext_v1* out);
};

/* What the host gives to a driver. Valid until `shutdown` returns. */
struct ottava_host_v1 {
    /* `sizeof(ottava_host_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_HOST`. */
    uint32_t kind;
    /* First argument of every function of this table. */
    void* user;
    /* Folder of the driver's library. */
    ottava_str plugin_dir;
    /* Minor version of the host's ABI. */
    uint32_t abi_minor;
    /* Zero. */
    uint32_t pad;
    /* The driver's options, as the application's configuration gives them.
       Of ottava_key_value_v1. */
    ottava_slice options;
    /* Takes a line of the driver's log, from any thread. Must not be called from a callback. */
    void (*log)(void* user, uint32_t level, ottava_str target, ottava_str message);
    /* The host's monotonic clock, nanoseconds. */
    uint64_t (*now_ns)(void* user);
    /* An extension of the host by name, or NOT_FOUND. */
    int32_t (*query_extension)(void* user, ottava_str name, ottava_ext_v1* out);
};

/* What a driver gives to the host. Belongs to the driver and lives as long as the process. */
struct ottava_driver_v1 {
    /* `sizeof(ottava_driver_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_DRIVER`. */
    uint32_t kind;
    /* First argument of every function of this table. */
    void* ctx;
    /* Short name, unique in a process. */
    ottava_str name;
    /* Who makes it. */
    ottava_str vendor;
    /* Its version. */
    ottava_str version;
    /* Functions of every device of this driver. */
    const ottava_device_vtbl_v1* device;
    /* Devices that are present; two-call. None is a valid answer. */
    int32_t (*enumerate)(void* ctx, uint32_t cap, ottava_device_info_v1* out, uint32_t* count, ottava_error_v1* err);
    /* Options that `open` understands; two-call. */
    int32_t (*option_schema)(void* ctx, uint32_t cap, ottava_option_v1* out, uint32_t* count, ottava_error_v1* err);
    /* Opens a device. The host closes it with `close`. */
    int32_t (*open)(void* ctx, const uint8_t uuid[16], ottava_slice options, ottava_device** out, ottava_error_v1* err);
    /* Whether a blob of this key would run; no device is opened. The verdict is one of `OTTAVA_BLOB_*`; `err` has words. */
    int32_t (*check_blob)(void* ctx, const ottava_blob_key_v1* key, uint32_t* verdict, ottava_error_v1* err);
    /* An extension by name, or NOT_FOUND. */
    int32_t (*query_extension)(void* ctx, ottava_str name, ottava_ext_v1* out);
    /* The last call: every device is closed; joins threads and makes no callback afterwards. */
    void (*shutdown)(void* ctx);
};

/* One span of time on a device. */
struct ottava_profile_record_v1 {
    /* `sizeof(ottava_profile_record_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_PROFILE_RECORD`. */
    uint32_t kind;
    /* Id of the node in the program that was compiled, or `OTTAVA_INDEX_NONE`. */
    uint32_t node;
    /* `OTTAVA_RECORD_*`. */
    uint32_t record_kind;
    /* Begin, ticks of the device's clock. */
    uint64_t start;
    /* End, ticks of the device's clock. */
    uint64_t end;
    /* Bytes moved; 0 if unknown. */
    uint64_t bytes;
    /* First counter of this record in the answer of `counters`. */
    uint32_t counter_first;
    /* Number of counters. */
    uint32_t counter_count;
    /* Name of the node, or of what the driver made of it; cut if it does not fit. */
    char label[96];
    /* Kernel that ran; cut if it does not fit. */
    char kernel[48];
};

/* A named number of a record. */
struct ottava_profile_counter_v1 {
    /* `sizeof(ottava_profile_counter_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_PROFILE_COUNTER`. */
    uint32_t kind;
    /* Name, such as `macs` or `dma_read_bytes`. */
    char name[48];
    /* Value. */
    uint64_t value;
};

/* Times of one submission. Asked of a device. */
struct ottava_profile_v1 {
    /* `sizeof(ottava_profile_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_PROFILE`. */
    uint32_t kind;
    /* Switches recording on (1) or off (0) for submissions with `OTTAVA_SUBMIT_PROFILE`. On at the start. */
    int32_t (*enable)(ottava_device* device, uint64_t flags, ottava_error_v1* err);
    /* Records of a finished submission; two-call. They are kept until the next profiled submission of the queue. */
    int32_t (*read)(ottava_device* device, ottava_queue* queue, uint64_t submission, uint32_t cap, ottava_profile_record_v1* out, uint32_t* count, ottava_error_v1* err);
    /* The device's clock and the host's clock at the same moment; two readings give the rate. */
    int32_t (*clock)(ottava_device* device, uint64_t* device_ticks, uint64_t* host_ns, ottava_error_v1* err);
    /* Counters that the records of a submission refer to; two-call. */
    int32_t (*counters)(ottava_device* device, ottava_queue* queue, uint64_t submission, uint32_t cap, ottava_profile_counter_v1* out, uint32_t* count, ottava_error_v1* err);
};

/* Faults on request, for conformance tests. Asked of a device; a driver may refuse. */
struct ottava_test_hooks_v1 {
    /* `sizeof(ottava_test_hooks_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_TEST_HOOKS`. */
    uint32_t kind;
    /* Lets the submission that follows `after_calls` others fail as `OTTAVA_FAULT_*` says. */
    int32_t (*inject)(ottava_device* device, uint32_t fault, uint64_t after_calls, uint64_t seed, ottava_error_v1* err);
    /* Takes back what was injected and has not struck; ends a HANG. */
    int32_t (*clear)(ottava_device* device, ottava_error_v1* err);
};

/* The kernel that was chosen for a node. The texts belong to the driver and live until `exec_release`. */
struct ottava_exec_kernel_v1 {
    /* `sizeof(ottava_exec_kernel_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_EXEC_KERNEL`. */
    uint32_t kind;
    /* Name of the node, or of what the driver made of it. */
    ottava_str node;
    /* The kernel. */
    ottava_str kernel;
};

/* Texts for people: the driver's own words for its devices and kernels. Asked of the driver or a device. */
struct ottava_describe_v1 {
    /* `sizeof(ottava_describe_v1)`. */
    uint32_t size;
    /* `OTTAVA_KIND_DESCRIBE`. */
    uint32_t kind;
    /* Lines `key=value` about a device of the driver's `ctx`, at least `id`, `isa` and `threads`; two-call: `len`
       is the number of bytes. */
    int32_t (*device_text)(void* ctx, const uint8_t uuid[16], uint8_t* buf, uint64_t cap, uint64_t* len, ottava_error_v1* err);
    /* The same lines about an open device, whose options may have changed it; also `name` and `hw_rev`; two-call. */
    int32_t (*open_text)(ottava_device* device, uint8_t* buf, uint64_t cap, uint64_t* len, ottava_error_v1* err);
    /* Lines `key=value` about an executable, at least `arena_bytes`; two-call. */
    int32_t (*exec_text)(ottava_device* device, ottava_exec* exec, uint8_t* buf, uint64_t cap, uint64_t* len, ottava_error_v1* err);
    /* The kernel of each node that runs; two-call. */
    int32_t (*exec_kernels)(ottava_device* device, ottava_exec* exec, uint32_t cap, ottava_exec_kernel_v1* out, uint32_t* count, ottava_error_v1* err);
};

/* ---- Layout: every size and offset as in Rust ---- */

OTTAVA_ASSERT(sizeof(ottava_str) == 16, "ottava_str");
OTTAVA_ASSERT(offsetof(ottava_str, ptr) == 0, "ottava_str.ptr");
OTTAVA_ASSERT(offsetof(ottava_str, len) == 8, "ottava_str.len");

OTTAVA_ASSERT(sizeof(ottava_slice) == 24, "ottava_slice");
OTTAVA_ASSERT(offsetof(ottava_slice, ptr) == 0, "ottava_slice.ptr");
OTTAVA_ASSERT(offsetof(ottava_slice, len) == 8, "ottava_slice.len");
OTTAVA_ASSERT(offsetof(ottava_slice, stride) == 16, "ottava_slice.stride");
OTTAVA_ASSERT(offsetof(ottava_slice, pad) == 20, "ottava_slice.pad");

OTTAVA_ASSERT(sizeof(ottava_slice_mut) == 24, "ottava_slice_mut");
OTTAVA_ASSERT(offsetof(ottava_slice_mut, ptr) == 0, "ottava_slice_mut.ptr");
OTTAVA_ASSERT(offsetof(ottava_slice_mut, len) == 8, "ottava_slice_mut.len");
OTTAVA_ASSERT(offsetof(ottava_slice_mut, stride) == 16, "ottava_slice_mut.stride");
OTTAVA_ASSERT(offsetof(ottava_slice_mut, pad) == 20, "ottava_slice_mut.pad");

OTTAVA_ASSERT(sizeof(ottava_error_v1) == 288, "ottava_error_v1");
OTTAVA_ASSERT(offsetof(ottava_error_v1, size) == 0, "ottava_error_v1.size");
OTTAVA_ASSERT(offsetof(ottava_error_v1, kind) == 4, "ottava_error_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_error_v1, code) == 8, "ottava_error_v1.code");
OTTAVA_ASSERT(offsetof(ottava_error_v1, flags) == 12, "ottava_error_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_error_v1, node) == 16, "ottava_error_v1.node");
OTTAVA_ASSERT(offsetof(ottava_error_v1, reason) == 20, "ottava_error_v1.reason");
OTTAVA_ASSERT(offsetof(ottava_error_v1, vendor_code) == 24, "ottava_error_v1.vendor_code");
OTTAVA_ASSERT(offsetof(ottava_error_v1, message) == 32, "ottava_error_v1.message");

OTTAVA_ASSERT(sizeof(ottava_ext_v1) == 32, "ottava_ext_v1");
OTTAVA_ASSERT(offsetof(ottava_ext_v1, size) == 0, "ottava_ext_v1.size");
OTTAVA_ASSERT(offsetof(ottava_ext_v1, kind) == 4, "ottava_ext_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_ext_v1, table) == 8, "ottava_ext_v1.table");
OTTAVA_ASSERT(offsetof(ottava_ext_v1, rust_layout) == 16, "ottava_ext_v1.rust_layout");
OTTAVA_ASSERT(offsetof(ottava_ext_v1, layout_hash) == 24, "ottava_ext_v1.layout_hash");

OTTAVA_ASSERT(sizeof(ottava_abi_note_v1) == 88, "ottava_abi_note_v1");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, magic) == 0, "ottava_abi_note_v1.magic");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, major_min) == 8, "ottava_abi_note_v1.major_min");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, major_max) == 12, "ottava_abi_note_v1.major_max");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, sdk_major) == 16, "ottava_abi_note_v1.sdk_major");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, sdk_minor) == 20, "ottava_abi_note_v1.sdk_minor");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, sdk_patch) == 24, "ottava_abi_note_v1.sdk_patch");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, doors) == 28, "ottava_abi_note_v1.doors");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, core_hash) == 32, "ottava_abi_note_v1.core_hash");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, name) == 40, "ottava_abi_note_v1.name");
OTTAVA_ASSERT(offsetof(ottava_abi_note_v1, version) == 72, "ottava_abi_note_v1.version");

OTTAVA_ASSERT(sizeof(ottava_key_value_v1) == 32, "ottava_key_value_v1");
OTTAVA_ASSERT(offsetof(ottava_key_value_v1, key) == 0, "ottava_key_value_v1.key");
OTTAVA_ASSERT(offsetof(ottava_key_value_v1, value) == 16, "ottava_key_value_v1.value");

OTTAVA_ASSERT(sizeof(ottava_option_v1) == 88, "ottava_option_v1");
OTTAVA_ASSERT(offsetof(ottava_option_v1, size) == 0, "ottava_option_v1.size");
OTTAVA_ASSERT(offsetof(ottava_option_v1, kind) == 4, "ottava_option_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_option_v1, key) == 8, "ottava_option_v1.key");
OTTAVA_ASSERT(offsetof(ottava_option_v1, value_type) == 24, "ottava_option_v1.value_type");
OTTAVA_ASSERT(offsetof(ottava_option_v1, pad) == 28, "ottava_option_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_option_v1, default_value) == 32, "ottava_option_v1.default_value");
OTTAVA_ASSERT(offsetof(ottava_option_v1, allowed) == 48, "ottava_option_v1.allowed");
OTTAVA_ASSERT(offsetof(ottava_option_v1, help) == 72, "ottava_option_v1.help");

OTTAVA_ASSERT(sizeof(ottava_memory_type_v1) == 40, "ottava_memory_type_v1");
OTTAVA_ASSERT(offsetof(ottava_memory_type_v1, flags) == 0, "ottava_memory_type_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_memory_type_v1, bytes) == 8, "ottava_memory_type_v1.bytes");
OTTAVA_ASSERT(offsetof(ottava_memory_type_v1, alignment) == 16, "ottava_memory_type_v1.alignment");
OTTAVA_ASSERT(offsetof(ottava_memory_type_v1, import_mask) == 24, "ottava_memory_type_v1.import_mask");
OTTAVA_ASSERT(offsetof(ottava_memory_type_v1, export_mask) == 32, "ottava_memory_type_v1.export_mask");

OTTAVA_ASSERT(sizeof(ottava_host_link_v1) == 24, "ottava_host_link_v1");
OTTAVA_ASSERT(offsetof(ottava_host_link_v1, mode) == 0, "ottava_host_link_v1.mode");
OTTAVA_ASSERT(offsetof(ottava_host_link_v1, pad) == 4, "ottava_host_link_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_host_link_v1, bytes_per_s) == 8, "ottava_host_link_v1.bytes_per_s");
OTTAVA_ASSERT(offsetof(ottava_host_link_v1, latency_ns) == 16, "ottava_host_link_v1.latency_ns");

OTTAVA_ASSERT(sizeof(ottava_device_info_v1) == 528, "ottava_device_info_v1");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, size) == 0, "ottava_device_info_v1.size");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, kind) == 4, "ottava_device_info_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, uuid) == 8, "ottava_device_info_v1.uuid");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, ordinal) == 24, "ottava_device_info_v1.ordinal");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, device_kind) == 28, "ottava_device_info_v1.device_kind");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, hw_rev) == 32, "ottava_device_info_v1.hw_rev");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, n_queues) == 36, "ottava_device_info_v1.n_queues");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, name) == 40, "ottava_device_info_v1.name");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, driver_version) == 104, "ottava_device_info_v1.driver_version");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, flags) == 120, "ottava_device_info_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, max_buffer) == 128, "ottava_device_info_v1.max_buffer");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, alignment) == 136, "ottava_device_info_v1.alignment");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, peak_s8) == 144, "ottava_device_info_v1.peak_s8");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, peak_s16) == 152, "ottava_device_info_v1.peak_s16");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, peak_f16) == 160, "ottava_device_info_v1.peak_f16");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, peak_f32) == 168, "ottava_device_info_v1.peak_f32");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, n_memory_types) == 176, "ottava_device_info_v1.n_memory_types");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, pad) == 180, "ottava_device_info_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, memory_types) == 184, "ottava_device_info_v1.memory_types");
OTTAVA_ASSERT(offsetof(ottava_device_info_v1, link) == 504, "ottava_device_info_v1.link");

OTTAVA_ASSERT(sizeof(ottava_node_v1) == 56, "ottava_node_v1");
OTTAVA_ASSERT(offsetof(ottava_node_v1, op) == 0, "ottava_node_v1.op");
OTTAVA_ASSERT(offsetof(ottava_node_v1, domain) == 4, "ottava_node_v1.domain");
OTTAVA_ASSERT(offsetof(ottava_node_v1, name) == 8, "ottava_node_v1.name");
OTTAVA_ASSERT(offsetof(ottava_node_v1, op_version) == 12, "ottava_node_v1.op_version");
OTTAVA_ASSERT(offsetof(ottava_node_v1, id) == 16, "ottava_node_v1.id");
OTTAVA_ASSERT(offsetof(ottava_node_v1, in_first) == 20, "ottava_node_v1.in_first");
OTTAVA_ASSERT(offsetof(ottava_node_v1, in_count) == 24, "ottava_node_v1.in_count");
OTTAVA_ASSERT(offsetof(ottava_node_v1, out_first) == 28, "ottava_node_v1.out_first");
OTTAVA_ASSERT(offsetof(ottava_node_v1, out_count) == 32, "ottava_node_v1.out_count");
OTTAVA_ASSERT(offsetof(ottava_node_v1, attr_first) == 36, "ottava_node_v1.attr_first");
OTTAVA_ASSERT(offsetof(ottava_node_v1, attr_count) == 40, "ottava_node_v1.attr_count");
OTTAVA_ASSERT(offsetof(ottava_node_v1, requant_mode) == 44, "ottava_node_v1.requant_mode");
OTTAVA_ASSERT(offsetof(ottava_node_v1, flags) == 48, "ottava_node_v1.flags");

OTTAVA_ASSERT(sizeof(ottava_value_v1) == 40, "ottava_value_v1");
OTTAVA_ASSERT(offsetof(ottava_value_v1, name) == 0, "ottava_value_v1.name");
OTTAVA_ASSERT(offsetof(ottava_value_v1, dtype) == 4, "ottava_value_v1.dtype");
OTTAVA_ASSERT(offsetof(ottava_value_v1, layout) == 8, "ottava_value_v1.layout");
OTTAVA_ASSERT(offsetof(ottava_value_v1, layout_arg0) == 12, "ottava_value_v1.layout_arg0");
OTTAVA_ASSERT(offsetof(ottava_value_v1, layout_arg1) == 16, "ottava_value_v1.layout_arg1");
OTTAVA_ASSERT(offsetof(ottava_value_v1, rank) == 20, "ottava_value_v1.rank");
OTTAVA_ASSERT(offsetof(ottava_value_v1, dim_first) == 24, "ottava_value_v1.dim_first");
OTTAVA_ASSERT(offsetof(ottava_value_v1, quant) == 28, "ottava_value_v1.quant");
OTTAVA_ASSERT(offsetof(ottava_value_v1, const_idx) == 32, "ottava_value_v1.const_idx");
OTTAVA_ASSERT(offsetof(ottava_value_v1, pad) == 36, "ottava_value_v1.pad");

OTTAVA_ASSERT(sizeof(ottava_quant_v1) == 40, "ottava_quant_v1");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, scheme) == 0, "ottava_quant_v1.scheme");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, axis) == 4, "ottava_quant_v1.axis");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, block) == 8, "ottava_quant_v1.block");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, storage) == 12, "ottava_quant_v1.storage");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, scale_first) == 16, "ottava_quant_v1.scale_first");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, scale_count) == 20, "ottava_quant_v1.scale_count");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, zp_first) == 24, "ottava_quant_v1.zp_first");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, zp_count) == 28, "ottava_quant_v1.zp_count");
OTTAVA_ASSERT(offsetof(ottava_quant_v1, flags) == 32, "ottava_quant_v1.flags");

OTTAVA_ASSERT(sizeof(ottava_attr_v1) == 24, "ottava_attr_v1");
OTTAVA_ASSERT(offsetof(ottava_attr_v1, name) == 0, "ottava_attr_v1.name");
OTTAVA_ASSERT(offsetof(ottava_attr_v1, attr_type) == 4, "ottava_attr_v1.attr_type");
OTTAVA_ASSERT(offsetof(ottava_attr_v1, first) == 8, "ottava_attr_v1.first");
OTTAVA_ASSERT(offsetof(ottava_attr_v1, count) == 12, "ottava_attr_v1.count");
OTTAVA_ASSERT(offsetof(ottava_attr_v1, value) == 16, "ottava_attr_v1.value");

OTTAVA_ASSERT(sizeof(ottava_const_v1) == 32, "ottava_const_v1");
OTTAVA_ASSERT(offsetof(ottava_const_v1, value) == 0, "ottava_const_v1.value");
OTTAVA_ASSERT(offsetof(ottava_const_v1, fd) == 4, "ottava_const_v1.fd");
OTTAVA_ASSERT(offsetof(ottava_const_v1, ptr) == 8, "ottava_const_v1.ptr");
OTTAVA_ASSERT(offsetof(ottava_const_v1, len) == 16, "ottava_const_v1.len");
OTTAVA_ASSERT(offsetof(ottava_const_v1, fd_offset) == 24, "ottava_const_v1.fd_offset");

OTTAVA_ASSERT(sizeof(ottava_program_v1) == 312, "ottava_program_v1");
OTTAVA_ASSERT(offsetof(ottava_program_v1, size) == 0, "ottava_program_v1.size");
OTTAVA_ASSERT(offsetof(ottava_program_v1, kind) == 4, "ottava_program_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_program_v1, ir_version) == 8, "ottava_program_v1.ir_version");
OTTAVA_ASSERT(offsetof(ottava_program_v1, flags) == 12, "ottava_program_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_program_v1, name) == 16, "ottava_program_v1.name");
OTTAVA_ASSERT(offsetof(ottava_program_v1, attr_first) == 20, "ottava_program_v1.attr_first");
OTTAVA_ASSERT(offsetof(ottava_program_v1, attr_count) == 24, "ottava_program_v1.attr_count");
OTTAVA_ASSERT(offsetof(ottava_program_v1, pad) == 28, "ottava_program_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_program_v1, nodes) == 32, "ottava_program_v1.nodes");
OTTAVA_ASSERT(offsetof(ottava_program_v1, values) == 56, "ottava_program_v1.values");
OTTAVA_ASSERT(offsetof(ottava_program_v1, quants) == 80, "ottava_program_v1.quants");
OTTAVA_ASSERT(offsetof(ottava_program_v1, attrs) == 104, "ottava_program_v1.attrs");
OTTAVA_ASSERT(offsetof(ottava_program_v1, consts) == 128, "ottava_program_v1.consts");
OTTAVA_ASSERT(offsetof(ottava_program_v1, edges) == 152, "ottava_program_v1.edges");
OTTAVA_ASSERT(offsetof(ottava_program_v1, dims) == 176, "ottava_program_v1.dims");
OTTAVA_ASSERT(offsetof(ottava_program_v1, scales) == 200, "ottava_program_v1.scales");
OTTAVA_ASSERT(offsetof(ottava_program_v1, zps) == 224, "ottava_program_v1.zps");
OTTAVA_ASSERT(offsetof(ottava_program_v1, strings) == 248, "ottava_program_v1.strings");
OTTAVA_ASSERT(offsetof(ottava_program_v1, inputs) == 264, "ottava_program_v1.inputs");
OTTAVA_ASSERT(offsetof(ottava_program_v1, outputs) == 288, "ottava_program_v1.outputs");

OTTAVA_ASSERT(sizeof(ottava_operand_v1) == 24, "ottava_operand_v1");
OTTAVA_ASSERT(offsetof(ottava_operand_v1, dtypes) == 0, "ottava_operand_v1.dtypes");
OTTAVA_ASSERT(offsetof(ottava_operand_v1, schemes) == 8, "ottava_operand_v1.schemes");
OTTAVA_ASSERT(offsetof(ottava_operand_v1, flags) == 16, "ottava_operand_v1.flags");

OTTAVA_ASSERT(sizeof(ottava_predicate_v1) == 56, "ottava_predicate_v1");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, subject) == 0, "ottava_predicate_v1.subject");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, cmp) == 16, "ottava_predicate_v1.cmp");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, reason) == 20, "ottava_predicate_v1.reason");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, lo) == 24, "ottava_predicate_v1.lo");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, hi) == 32, "ottava_predicate_v1.hi");
OTTAVA_ASSERT(offsetof(ottava_predicate_v1, text) == 40, "ottava_predicate_v1.text");

OTTAVA_ASSERT(sizeof(ottava_op_row_v1) == 160, "ottava_op_row_v1");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, op) == 0, "ottava_op_row_v1.op");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, domain) == 16, "ottava_op_row_v1.domain");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, version_min) == 32, "ottava_op_row_v1.version_min");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, version_max) == 36, "ottava_op_row_v1.version_max");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, inputs) == 40, "ottava_op_row_v1.inputs");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, outputs) == 64, "ottava_op_row_v1.outputs");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, requant_modes) == 88, "ottava_op_row_v1.requant_modes");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, layouts) == 96, "ottava_op_row_v1.layouts");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, rank_min) == 104, "ottava_op_row_v1.rank_min");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, rank_max) == 108, "ottava_op_row_v1.rank_max");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, predicates) == 112, "ottava_op_row_v1.predicates");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, fused) == 136, "ottava_op_row_v1.fused");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, exact) == 144, "ottava_op_row_v1.exact");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, pad) == 148, "ottava_op_row_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_op_row_v1, flags) == 152, "ottava_op_row_v1.flags");

OTTAVA_ASSERT(sizeof(ottava_verdict_v1) == 136, "ottava_verdict_v1");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, node) == 0, "ottava_verdict_v1.node");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, state) == 4, "ottava_verdict_v1.state");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, reason) == 8, "ottava_verdict_v1.reason");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, group) == 12, "ottava_verdict_v1.group");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, limit) == 16, "ottava_verdict_v1.limit");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, actual) == 24, "ottava_verdict_v1.actual");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, flags) == 32, "ottava_verdict_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_verdict_v1, detail) == 40, "ottava_verdict_v1.detail");

OTTAVA_ASSERT(sizeof(ottava_compile_opts_v1) == 32, "ottava_compile_opts_v1");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, size) == 0, "ottava_compile_opts_v1.size");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, kind) == 4, "ottava_compile_opts_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, opt_level) == 8, "ottava_compile_opts_v1.opt_level");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, pad) == 12, "ottava_compile_opts_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, budget_ms) == 16, "ottava_compile_opts_v1.budget_ms");
OTTAVA_ASSERT(offsetof(ottava_compile_opts_v1, flags) == 24, "ottava_compile_opts_v1.flags");

OTTAVA_ASSERT(sizeof(ottava_cost_v1) == 48, "ottava_cost_v1");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, size) == 0, "ottava_cost_v1.size");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, kind) == 4, "ottava_cost_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, time_ns) == 8, "ottava_cost_v1.time_ns");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, energy_pj) == 16, "ottava_cost_v1.energy_pj");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, workspace_bytes) == 24, "ottava_cost_v1.workspace_bytes");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, weight_bytes) == 32, "ottava_cost_v1.weight_bytes");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, confidence) == 40, "ottava_cost_v1.confidence");
OTTAVA_ASSERT(offsetof(ottava_cost_v1, pad) == 44, "ottava_cost_v1.pad");

OTTAVA_ASSERT(sizeof(ottava_io_req_v1) == 64, "ottava_io_req_v1");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, size) == 0, "ottava_io_req_v1.size");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, kind) == 4, "ottava_io_req_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, value) == 8, "ottava_io_req_v1.value");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, direction) == 12, "ottava_io_req_v1.direction");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, layout) == 16, "ottava_io_req_v1.layout");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, layout_arg0) == 20, "ottava_io_req_v1.layout_arg0");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, layout_arg1) == 24, "ottava_io_req_v1.layout_arg1");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, pad) == 28, "ottava_io_req_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, alignment) == 32, "ottava_io_req_v1.alignment");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, row_padding) == 40, "ottava_io_req_v1.row_padding");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, memory_types) == 48, "ottava_io_req_v1.memory_types");
OTTAVA_ASSERT(offsetof(ottava_io_req_v1, bytes) == 56, "ottava_io_req_v1.bytes");

OTTAVA_ASSERT(sizeof(ottava_blob_key_v1) == 168, "ottava_blob_key_v1");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, size) == 0, "ottava_blob_key_v1.size");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, kind) == 4, "ottava_blob_key_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, magic) == 8, "ottava_blob_key_v1.magic");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, driver_name) == 16, "ottava_blob_key_v1.driver_name");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, driver_version) == 48, "ottava_blob_key_v1.driver_version");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, device_uuid) == 64, "ottava_blob_key_v1.device_uuid");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, hw_rev) == 80, "ottava_blob_key_v1.hw_rev");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, ir_version) == 84, "ottava_blob_key_v1.ir_version");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, core_hash) == 88, "ottava_blob_key_v1.core_hash");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, op_schema_hash) == 96, "ottava_blob_key_v1.op_schema_hash");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, program_hash) == 104, "ottava_blob_key_v1.program_hash");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, quant_hash) == 112, "ottava_blob_key_v1.quant_hash");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, options_hash) == 120, "ottava_blob_key_v1.options_hash");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, payload_len) == 128, "ottava_blob_key_v1.payload_len");
OTTAVA_ASSERT(offsetof(ottava_blob_key_v1, payload_sha256) == 136, "ottava_blob_key_v1.payload_sha256");

OTTAVA_ASSERT(sizeof(ottava_buffer_desc_v1) == 40, "ottava_buffer_desc_v1");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, size) == 0, "ottava_buffer_desc_v1.size");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, kind) == 4, "ottava_buffer_desc_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, bytes) == 8, "ottava_buffer_desc_v1.bytes");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, memory_type) == 16, "ottava_buffer_desc_v1.memory_type");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, pad) == 20, "ottava_buffer_desc_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, alignment) == 24, "ottava_buffer_desc_v1.alignment");
OTTAVA_ASSERT(offsetof(ottava_buffer_desc_v1, usage) == 32, "ottava_buffer_desc_v1.usage");

OTTAVA_ASSERT(sizeof(ottava_binding_v1) == 24, "ottava_binding_v1");
OTTAVA_ASSERT(offsetof(ottava_binding_v1, buffer) == 0, "ottava_binding_v1.buffer");
OTTAVA_ASSERT(offsetof(ottava_binding_v1, offset) == 8, "ottava_binding_v1.offset");
OTTAVA_ASSERT(offsetof(ottava_binding_v1, len) == 16, "ottava_binding_v1.len");

OTTAVA_ASSERT(sizeof(ottava_fence_point_v1) == 16, "ottava_fence_point_v1");
OTTAVA_ASSERT(offsetof(ottava_fence_point_v1, fence) == 0, "ottava_fence_point_v1.fence");
OTTAVA_ASSERT(offsetof(ottava_fence_point_v1, value) == 8, "ottava_fence_point_v1.value");

OTTAVA_ASSERT(sizeof(ottava_command_v1) == 88, "ottava_command_v1");
OTTAVA_ASSERT(offsetof(ottava_command_v1, op) == 0, "ottava_command_v1.op");
OTTAVA_ASSERT(offsetof(ottava_command_v1, pad) == 4, "ottava_command_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_command_v1, exec) == 8, "ottava_command_v1.exec");
OTTAVA_ASSERT(offsetof(ottava_command_v1, bindings) == 16, "ottava_command_v1.bindings");
OTTAVA_ASSERT(offsetof(ottava_command_v1, src) == 40, "ottava_command_v1.src");
OTTAVA_ASSERT(offsetof(ottava_command_v1, src_off) == 48, "ottava_command_v1.src_off");
OTTAVA_ASSERT(offsetof(ottava_command_v1, dst) == 56, "ottava_command_v1.dst");
OTTAVA_ASSERT(offsetof(ottava_command_v1, dst_off) == 64, "ottava_command_v1.dst_off");
OTTAVA_ASSERT(offsetof(ottava_command_v1, len) == 72, "ottava_command_v1.len");
OTTAVA_ASSERT(offsetof(ottava_command_v1, pattern) == 80, "ottava_command_v1.pattern");
OTTAVA_ASSERT(offsetof(ottava_command_v1, pad2) == 84, "ottava_command_v1.pad2");

OTTAVA_ASSERT(sizeof(ottava_submit_v1) == 104, "ottava_submit_v1");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, size) == 0, "ottava_submit_v1.size");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, kind) == 4, "ottava_submit_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, commands) == 8, "ottava_submit_v1.commands");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, waits) == 32, "ottava_submit_v1.waits");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, signals) == 56, "ottava_submit_v1.signals");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, deadline_ns) == 80, "ottava_submit_v1.deadline_ns");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, flags) == 88, "ottava_submit_v1.flags");
OTTAVA_ASSERT(offsetof(ottava_submit_v1, submission) == 96, "ottava_submit_v1.submission");

OTTAVA_ASSERT(sizeof(ottava_device_vtbl_v1) == 216, "ottava_device_vtbl_v1");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, size) == 0, "ottava_device_vtbl_v1.size");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, kind) == 4, "ottava_device_vtbl_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, close) == 8, "ottava_device_vtbl_v1.close");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, reset) == 16, "ottava_device_vtbl_v1.reset");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, op_table) == 24, "ottava_device_vtbl_v1.op_table");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, assess) == 32, "ottava_device_vtbl_v1.assess");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, estimate) == 40, "ottava_device_vtbl_v1.estimate");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, compile) == 48, "ottava_device_vtbl_v1.compile");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, serialize) == 56, "ottava_device_vtbl_v1.serialize");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, deserialize) == 64, "ottava_device_vtbl_v1.deserialize");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, exec_io) == 72, "ottava_device_vtbl_v1.exec_io");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, exec_release) == 80, "ottava_device_vtbl_v1.exec_release");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, alloc) == 88, "ottava_device_vtbl_v1.alloc");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, import_host) == 96, "ottava_device_vtbl_v1.import_host");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, buffer_release) == 104, "ottava_device_vtbl_v1.buffer_release");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, map) == 112, "ottava_device_vtbl_v1.map");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, unmap) == 120, "ottava_device_vtbl_v1.unmap");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, queue_create) == 128, "ottava_device_vtbl_v1.queue_create");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, queue_release) == 136, "ottava_device_vtbl_v1.queue_release");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, submit) == 144, "ottava_device_vtbl_v1.submit");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_create) == 152, "ottava_device_vtbl_v1.fence_create");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_release) == 160, "ottava_device_vtbl_v1.fence_release");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_query) == 168, "ottava_device_vtbl_v1.fence_query");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_wait) == 176, "ottava_device_vtbl_v1.fence_wait");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_signal) == 184, "ottava_device_vtbl_v1.fence_signal");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_fail) == 192, "ottava_device_vtbl_v1.fence_fail");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, fence_notify) == 200, "ottava_device_vtbl_v1.fence_notify");
OTTAVA_ASSERT(offsetof(ottava_device_vtbl_v1, query_extension) == 208, "ottava_device_vtbl_v1.query_extension");

OTTAVA_ASSERT(sizeof(ottava_host_v1) == 88, "ottava_host_v1");
OTTAVA_ASSERT(offsetof(ottava_host_v1, size) == 0, "ottava_host_v1.size");
OTTAVA_ASSERT(offsetof(ottava_host_v1, kind) == 4, "ottava_host_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_host_v1, user) == 8, "ottava_host_v1.user");
OTTAVA_ASSERT(offsetof(ottava_host_v1, plugin_dir) == 16, "ottava_host_v1.plugin_dir");
OTTAVA_ASSERT(offsetof(ottava_host_v1, abi_minor) == 32, "ottava_host_v1.abi_minor");
OTTAVA_ASSERT(offsetof(ottava_host_v1, pad) == 36, "ottava_host_v1.pad");
OTTAVA_ASSERT(offsetof(ottava_host_v1, options) == 40, "ottava_host_v1.options");
OTTAVA_ASSERT(offsetof(ottava_host_v1, log) == 64, "ottava_host_v1.log");
OTTAVA_ASSERT(offsetof(ottava_host_v1, now_ns) == 72, "ottava_host_v1.now_ns");
OTTAVA_ASSERT(offsetof(ottava_host_v1, query_extension) == 80, "ottava_host_v1.query_extension");

OTTAVA_ASSERT(sizeof(ottava_driver_v1) == 120, "ottava_driver_v1");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, size) == 0, "ottava_driver_v1.size");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, kind) == 4, "ottava_driver_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, ctx) == 8, "ottava_driver_v1.ctx");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, name) == 16, "ottava_driver_v1.name");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, vendor) == 32, "ottava_driver_v1.vendor");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, version) == 48, "ottava_driver_v1.version");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, device) == 64, "ottava_driver_v1.device");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, enumerate) == 72, "ottava_driver_v1.enumerate");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, option_schema) == 80, "ottava_driver_v1.option_schema");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, open) == 88, "ottava_driver_v1.open");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, check_blob) == 96, "ottava_driver_v1.check_blob");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, query_extension) == 104, "ottava_driver_v1.query_extension");
OTTAVA_ASSERT(offsetof(ottava_driver_v1, shutdown) == 112, "ottava_driver_v1.shutdown");

OTTAVA_ASSERT(sizeof(ottava_profile_record_v1) == 192, "ottava_profile_record_v1");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, size) == 0, "ottava_profile_record_v1.size");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, kind) == 4, "ottava_profile_record_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, node) == 8, "ottava_profile_record_v1.node");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, record_kind) == 12, "ottava_profile_record_v1.record_kind");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, start) == 16, "ottava_profile_record_v1.start");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, end) == 24, "ottava_profile_record_v1.end");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, bytes) == 32, "ottava_profile_record_v1.bytes");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, counter_first) == 40, "ottava_profile_record_v1.counter_first");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, counter_count) == 44, "ottava_profile_record_v1.counter_count");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, label) == 48, "ottava_profile_record_v1.label");
OTTAVA_ASSERT(offsetof(ottava_profile_record_v1, kernel) == 144, "ottava_profile_record_v1.kernel");

OTTAVA_ASSERT(sizeof(ottava_profile_counter_v1) == 64, "ottava_profile_counter_v1");
OTTAVA_ASSERT(offsetof(ottava_profile_counter_v1, size) == 0, "ottava_profile_counter_v1.size");
OTTAVA_ASSERT(offsetof(ottava_profile_counter_v1, kind) == 4, "ottava_profile_counter_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_profile_counter_v1, name) == 8, "ottava_profile_counter_v1.name");
OTTAVA_ASSERT(offsetof(ottava_profile_counter_v1, value) == 56, "ottava_profile_counter_v1.value");

OTTAVA_ASSERT(sizeof(ottava_profile_v1) == 40, "ottava_profile_v1");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, size) == 0, "ottava_profile_v1.size");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, kind) == 4, "ottava_profile_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, enable) == 8, "ottava_profile_v1.enable");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, read) == 16, "ottava_profile_v1.read");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, clock) == 24, "ottava_profile_v1.clock");
OTTAVA_ASSERT(offsetof(ottava_profile_v1, counters) == 32, "ottava_profile_v1.counters");

OTTAVA_ASSERT(sizeof(ottava_test_hooks_v1) == 24, "ottava_test_hooks_v1");
OTTAVA_ASSERT(offsetof(ottava_test_hooks_v1, size) == 0, "ottava_test_hooks_v1.size");
OTTAVA_ASSERT(offsetof(ottava_test_hooks_v1, kind) == 4, "ottava_test_hooks_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_test_hooks_v1, inject) == 8, "ottava_test_hooks_v1.inject");
OTTAVA_ASSERT(offsetof(ottava_test_hooks_v1, clear) == 16, "ottava_test_hooks_v1.clear");

OTTAVA_ASSERT(sizeof(ottava_exec_kernel_v1) == 40, "ottava_exec_kernel_v1");
OTTAVA_ASSERT(offsetof(ottava_exec_kernel_v1, size) == 0, "ottava_exec_kernel_v1.size");
OTTAVA_ASSERT(offsetof(ottava_exec_kernel_v1, kind) == 4, "ottava_exec_kernel_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_exec_kernel_v1, node) == 8, "ottava_exec_kernel_v1.node");
OTTAVA_ASSERT(offsetof(ottava_exec_kernel_v1, kernel) == 24, "ottava_exec_kernel_v1.kernel");

OTTAVA_ASSERT(sizeof(ottava_describe_v1) == 40, "ottava_describe_v1");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, size) == 0, "ottava_describe_v1.size");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, kind) == 4, "ottava_describe_v1.kind");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, device_text) == 8, "ottava_describe_v1.device_text");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, open_text) == 16, "ottava_describe_v1.open_text");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, exec_text) == 24, "ottava_describe_v1.exec_text");
OTTAVA_ASSERT(offsetof(ottava_describe_v1, exec_kernels) == 32, "ottava_describe_v1.exec_kernels");

/* ---- Helpers ---- */

/* Element `i` of a slice; the caller knows that it exists. */
#define OTTAVA_AT(type, slice, i) \
    ((type*)(void*)((char*)(uintptr_t)(slice).ptr + (size_t)(i) * (slice).stride))

/* Whether a text equals a zero-terminated one. */
static inline int ottava_str_eq(ottava_str a, const char* b) {
    return a.len == strlen(b) && (a.len == 0 || memcmp(a.ptr, b, (size_t)a.len) == 0);
}

/* A view of a zero-terminated text. */
static inline ottava_str ottava_text(const char* text) {
    ottava_str s;
    s.ptr = text;
    s.len = strlen(text);
    return s;
}

/* A view of a string literal, as an initializer. */
#define OTTAVA_LITERAL(text) {text, sizeof(text) - 1}

/* A view of an array. */
static inline ottava_slice ottava_array(const void* ptr, uint64_t len, size_t stride) {
    ottava_slice s;
    s.ptr = ptr;
    s.len = len;
    s.stride = (uint32_t)stride;
    s.pad = 0;
    return s;
}

/* A name of the program view; zero-terminated. */
static inline const char* ottava_name(const ottava_program_v1* program, uint32_t offset) {
    return offset < program->strings.len ? program->strings.ptr + offset : "";
}

/* Node `i` of a program, or NULL. */
static inline const ottava_node_v1* ottava_node_at(const ottava_program_v1* program, uint64_t i) {
    return i < program->nodes.len ? OTTAVA_AT(const ottava_node_v1, program->nodes, i) : NULL;
}

/* Value `i` of a program, or NULL. */
static inline const ottava_value_v1* ottava_value_at(const ottava_program_v1* program, uint32_t i) {
    return i < program->values.len ? OTTAVA_AT(const ottava_value_v1, program->values, i) : NULL;
}

/* The value of edge `i` of a program, or NULL: inputs begin at node->in_first, outputs at node->out_first. */
static inline const ottava_value_v1* ottava_edge_at(const ottava_program_v1* program, uint64_t i) {
    return i < program->edges.len ? ottava_value_at(program, *OTTAVA_AT(const uint32_t, program->edges, i)) : NULL;
}

/* The quantization of a value, or NULL. */
static inline const ottava_quant_v1* ottava_quant_of(const ottava_program_v1* program, const ottava_value_v1* value) {
    return value && value->quant < program->quants.len ? OTTAVA_AT(const ottava_quant_v1, program->quants, value->quant)
                                                       : NULL;
}

/* Extent `axis` of a value; negative for a symbol, 0 if there is no such axis. */
static inline int64_t ottava_dim_of(const ottava_program_v1* program, const ottava_value_v1* value, uint32_t axis) {
    uint64_t i = value ? (uint64_t)value->dim_first + axis : 0;
    return value && axis < value->rank && i < program->dims.len ? *OTTAVA_AT(const int64_t, program->dims, i) : 0;
}

/* Number of elements of a value; 0 if an extent is 0 or symbolic, or there are more than fit. */
static inline uint64_t ottava_elements_of(const ottava_program_v1* program, const ottava_value_v1* value) {
    uint64_t n = value && value->rank != OTTAVA_INDEX_NONE ? 1 : 0;
    for (uint32_t a = 0; n && a < value->rank; a++) {
        int64_t dim = ottava_dim_of(program, value, a);
        n = dim <= 0 || n > (uint64_t)INT64_MAX / (uint64_t)dim ? 0 : n * (uint64_t)dim;
    }
    return n;
}

/* Fills an error and returns its code. */
static inline int32_t ottava_fail(ottava_error_v1* err, int32_t code, const char* message) {
    if (err) {
        size_t room = sizeof(err->message) - 1, len = strlen(message);
        err->code = code;
        err->flags = len > room ? OTTAVA_ERROR_TRUNCATED : 0;
        err->node = OTTAVA_INDEX_NONE;
        err->reason = 0;
        err->vendor_code = 0;
        memset(err->message, 0, sizeof(err->message));
        memcpy(err->message, message, len > room ? room : len);
    }
    return code;
}

/* ---- The entry ---- */

#if defined(__GNUC__)
#define OTTAVA_EXPORT __attribute__((visibility("default")))
#define OTTAVA_SECTION __attribute__((section(".ottava.abi"), used))
#else
#define OTTAVA_EXPORT
#define OTTAVA_SECTION
#endif

/* The one function that a driver exports. */
OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host, const ottava_driver_v1** out, ottava_error_v1* err);
OTTAVA_EXPORT extern const ottava_abi_note_v1 ottava_abi_note;

#ifdef __cplusplus
} /* extern "C" */

/* Runs a body; an exception becomes PANIC with its words.
 *   static int32_t submit(...) { OTTAVA_GUARD(err, { work(); return OTTAVA_OK; }) } */
#define OTTAVA_GUARD(err, ...)                                              \
    try __VA_ARGS__                                                         \
    catch (const std::exception& ottava_e_) {                               \
        return ottava_fail(err, OTTAVA_PANIC, ottava_e_.what());            \
    }                                                                       \
    catch (...) {                                                           \
        return ottava_fail(err, OTTAVA_PANIC, "an exception without words"); \
    }

namespace ottava {

/* The elements of a slice, for range-based for: `for (const auto& node : ottava::view<ottava_node_v1>(p->nodes))`. */
template <class T> class view {
  public:
    explicit view(const ottava_slice& slice) : slice_(slice) {}

    class iterator {
      public:
        iterator(const char* at, size_t stride) : at_(at), stride_(stride) {}
        const T& operator*() const { return *reinterpret_cast<const T*>(at_); }
        iterator& operator++() {
            at_ += stride_;
            return *this;
        }
        bool operator!=(const iterator& other) const { return at_ != other.at_; }

      private:
        const char* at_;
        size_t stride_;
    };

    iterator begin() const { return iterator(static_cast<const char*>(slice_.ptr), slice_.stride); }
    iterator end() const {
        return iterator(static_cast<const char*>(slice_.ptr) + static_cast<size_t>(slice_.len) * slice_.stride,
                        slice_.stride);
    }

  private:
    ottava_slice slice_;
};

} // namespace ottava
#endif

/* Writes note and entry of a driver. `name` (at most 31 bytes) and `version` (at most 15) are string literals, `entry`
 * is a function with the signature of ottava_driver_entry_v1. */
#define OTTAVA_EXPORT_DRIVER(name, version, entry)                                                              \
    OTTAVA_ASSERT(sizeof(name) <= 32, "the driver's name has at most 31 bytes");                                \
    OTTAVA_ASSERT(sizeof(version) <= 16, "the driver's version has at most 15 bytes");                          \
    OTTAVA_EXTERN_C OTTAVA_EXPORT OTTAVA_SECTION const ottava_abi_note_v1 ottava_abi_note = {                    \
        {'O', 'T', 'T', 'A', 'V', 'A', 'v', '1'}, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR, OTTAVA_ABI_MAJOR,         \
        OTTAVA_ABI_MINOR, OTTAVA_ABI_PATCH, OTTAVA_DOOR_C, OTTAVA_CORE_HASH, name, version};                    \
    OTTAVA_EXTERN_C OTTAVA_EXPORT int32_t ottava_driver_entry_v1(const ottava_host_v1* host,                    \
                                                                 const ottava_driver_v1** out,                  \
                                                                 ottava_error_v1* err) {                        \
        if (err && (err->size != sizeof(*err) || err->kind != OTTAVA_KIND_ERROR)) return OTTAVA_INVALID_ARGUMENT; \
        if (!host || !out || host->size != sizeof(*host) || host->kind != OTTAVA_KIND_HOST)                      \
            return ottava_fail(err, OTTAVA_INVALID_ARGUMENT, "entry: host or out is not what it should be");    \
        return (entry)(host, out, err);                                                                         \
    }

#endif /* OTTAVA_DRIVER_H */
