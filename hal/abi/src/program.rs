//! The program view: a partition as read-only plain arrays, and the operator table that answers it.
//!
//! The host owns every array; they are valid until the call returns. Nodes are in topological order, values in SSA form,
//! indices are u32 and `OTTAVA_INDEX_NONE` stands for nothing. Names are offsets into `strings`, where each name ends
//! with a zero byte; the last byte of `strings` is zero. The same bytes are the form on disk, where every pointer is an
//! offset from the start.

use crate::table::tables;
use crate::types::{Char, Slice, Str};

tables! {
    /// One operator.
    data NodeV1 = "ottava_node_v1" {
        /// Name of the operator (ONNX names), an offset into `strings`.
        op: u32,
        /// Domain, an offset into `strings`; empty for ONNX.
        domain: u32,
        /// Name of the node, an offset into `strings`.
        name: u32,
        /// Version of the operator set whose meaning the node has.
        op_version: u32,
        /// Id, the same in assess, estimate, compile and profiles.
        id: u32,
        /// First input, an index of `edges`.
        in_first: u32,
        /// Number of inputs; an absent one is `OTTAVA_INDEX_NONE`.
        in_count: u32,
        /// First output, an index of `edges`.
        out_first: u32,
        /// Number of outputs.
        out_count: u32,
        /// First attribute, an index of `attrs`.
        attr_first: u32,
        /// Number of attributes.
        attr_count: u32,
        /// `OTTAVA_REQUANT_*`.
        requant_mode: u32,
        /// `OTTAVA_FUSED_*`.
        flags: u64,
    }

    /// A tensor that flows through the program.
    data ValueV1 = "ottava_value_v1" {
        /// Name, an offset into `strings`.
        name: u32,
        /// `OTTAVA_DTYPE_*`.
        dtype: u32,
        /// `OTTAVA_LAYOUT_*`.
        layout: u32,
        /// First argument of the layout.
        layout_arg0: u32,
        /// Second argument of the layout.
        layout_arg1: u32,
        /// Number of axes; `OTTAVA_INDEX_NONE` if unknown.
        rank: u32,
        /// First extent, an index of `dims`. An extent below 0 is the symbol number -1 - extent: the program's attribute
        /// of that number has its name and is an I64S of its smallest and largest value.
        dim_first: u32,
        /// Index of `quants`; `OTTAVA_INDEX_NONE` for a plain tensor.
        quant: u32,
        /// Index of `consts`; `OTTAVA_INDEX_NONE` for a tensor that is computed.
        const_idx: u32,
        /// Zero.
        pad: u32,
    }

    /// How a tensor is quantized: real = (q - zero point) * scale.
    data QuantV1 = "ottava_quant_v1" {
        /// `OTTAVA_SCHEME_*`.
        scheme: u32,
        /// Axis of PER_AXIS and BLOCKED.
        axis: u32,
        /// Elements of a block of BLOCKED.
        block: u32,
        /// `OTTAVA_DTYPE_*` of the stored integers.
        storage: u32,
        /// First scale, an index of `scales`.
        scale_first: u32,
        /// Number of scales.
        scale_count: u32,
        /// First zero point, an index of `zps`.
        zp_first: u32,
        /// Number of zero points.
        zp_count: u32,
        /// `OTTAVA_QUANT_*`.
        flags: u64,
    }

    /// An attribute. What `first`, `count` and `value` mean, the type says.
    data AttrV1 = "ottava_attr_v1" {
        /// Name, an offset into `strings`.
        name: u32,
        /// `OTTAVA_ATTR_*`.
        attr_type: u32,
        /// First element.
        first: u32,
        /// Number of elements.
        count: u32,
        /// A single value.
        value: i64,
    }

    /// Data of a constant: borrowed memory or a part of a mapped file.
    data ConstV1 = "ottava_const_v1" {
        /// Index of the value.
        value: u32,
        /// File that holds the data too, or -1.
        fd: i32,
        /// The bytes, little endian.
        ptr: *const u8,
        /// Number of bytes.
        len: u64,
        /// Where the data begins in the file.
        fd_offset: u64,
    }

    /// A program.
    data ProgramV1 = "ottava_program_v1", kind PROGRAM {
        /// `sizeof(ottava_program_v1)`.
        size: u32,
        /// `OTTAVA_KIND_PROGRAM`.
        kind: u32,
        /// Version of this view: 1.
        ir_version: u32,
        /// Zero.
        flags: u32,
        /// Name of the model or partition, an offset into `strings`.
        name: u32,
        /// First attribute of the program (the symbols), an index of `attrs`.
        attr_first: u32,
        /// Number of attributes of the program.
        attr_count: u32,
        /// Zero.
        pad: u32,
        /// Operators.
        nodes: Slice<NodeV1>,
        /// Tensors.
        values: Slice<ValueV1>,
        /// Quantization descriptors.
        quants: Slice<QuantV1>,
        /// Attributes.
        attrs: Slice<AttrV1>,
        /// Constants.
        consts: Slice<ConstV1>,
        /// Pool of value indices and other u32.
        edges: Slice<u32>,
        /// Pool of extents and other i64.
        dims: Slice<i64>,
        /// Pool of scales and other f32.
        scales: Slice<f32>,
        /// Pool of zero points.
        zps: Slice<i32>,
        /// Pool of names.
        strings: Str,
        /// Values that the caller provides.
        inputs: Slice<u32>,
        /// Values that the caller receives.
        outputs: Slice<u32>,
    }

    /// What an operator row accepts for one operand.
    data OperandV1 = "ottava_operand_v1" {
        /// Bit n: element type n. 0 accepts every type.
        dtypes: u64,
        /// Bit n: quantization scheme n. 0 accepts every scheme.
        schemes: u64,
        /// `OTTAVA_OPERAND_*`.
        flags: u64,
    }

    /// A further condition of an operator row.
    data PredicateV1 = "ottava_predicate_v1" {
        /// Name of an attribute, or `dim:<operand>:<axis>`; a negative axis counts from the end.
        subject: Str,
        /// `OTTAVA_CMP_*`.
        cmp: u32,
        /// `OTTAVA_REASON_*` when it does not hold.
        reason: u32,
        /// Lower bound, or the only one.
        lo: i64,
        /// Upper bound.
        hi: i64,
        /// The condition in words.
        text: Str,
    }

    /// One supported form of an operator. Rows are alternatives. All of it belongs to the driver until `close`.
    data OpRowV1 = "ottava_op_row_v1" {
        /// Operator.
        op: Str,
        /// Domain; empty for ONNX.
        domain: Str,
        /// First version.
        version_min: u32,
        /// Last version.
        version_max: u32,
        /// Inputs; the last one repeats.
        inputs: Slice<OperandV1>,
        /// Outputs; the last one repeats.
        outputs: Slice<OperandV1>,
        /// Bit n: requantization mode n. A node without a mode is always accepted.
        requant_modes: u64,
        /// Bit n: layout n. 0 stands for ROW_MAJOR and NCHW.
        layouts: u64,
        /// Smallest rank of the first input.
        rank_min: u32,
        /// Largest rank of the first input.
        rank_max: u32,
        /// Further conditions; all must hold.
        predicates: Slice<PredicateV1>,
        /// `OTTAVA_FUSED_*` that the row can fuse.
        fused: u64,
        /// 1: integer results equal the reference bit for bit.
        exact: u32,
        /// Zero.
        pad: u32,
        /// `OTTAVA_ROW_*`.
        flags: u64,
    }

    /// A device's answer for one node.
    data VerdictV1 = "ottava_verdict_v1" {
        /// Id of the node.
        node: u32,
        /// `OTTAVA_REJECTED`, `OTTAVA_SUPPORTED`, `OTTAVA_ONLY_IN_GROUP`.
        state: u32,
        /// `OTTAVA_REASON_*` of a rejection; never 0 there.
        reason: u32,
        /// Nodes of one group belong together; 0 for none.
        group: u32,
        /// The limit that was exceeded, if it is a number.
        limit: i64,
        /// What was found instead.
        actual: i64,
        /// `OTTAVA_VERDICT_*`.
        flags: u64,
        /// The same in words; never empty in a rejection.
        detail: [Char; 96],
    }
}
