//! Numbers of the program view: element types, layouts, quantization, attributes, operator rows, verdicts.

super::constants! {
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

    /// Indices that stand for nothing.
    index: u32, "OTTAVA_INDEX_" {
        /// No such thing: an absent input, a plain tensor's quantization, a value that is not constant, unknown rank.
        NONE = 0xFFFF_FFFF,
    }
}
