//! The element types of ONNX tensors (`TensorProto.DataType`), with their names and sizes.

use ottava_hal::DataType;

/// One element type of the ONNX format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs, reason = "the variants are the element types themselves")]
pub enum ElemType {
    F32,
    U8,
    S8,
    U16,
    S16,
    S32,
    S64,
    Str,
    Bool,
    F16,
    F64,
    U32,
    U64,
    C64,
    C128,
    Bf16,
    F8E4M3Fn,
    F8E4M3Fnuz,
    F8E5M2,
    F8E5M2Fnuz,
    U4,
    S4,
    F4E2M1,
    F8E8M0,
    U2,
    S2,
}

/// Which repeated field of a `TensorProto` stores the elements when `raw_data` does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Floats,
    Int32s,
    Int64s,
    Doubles,
    Uint64s,
    Strings,
}

use ElemType as E;
use Store as S;

/// Type, number in the format, name in the format, bits per element, typed field. In order of number.
const TABLE: &[(ElemType, i32, &str, u32, Store)] = &[
    (E::F32, 1, "FLOAT", 32, S::Floats),
    (E::U8, 2, "UINT8", 8, S::Int32s),
    (E::S8, 3, "INT8", 8, S::Int32s),
    (E::U16, 4, "UINT16", 16, S::Int32s),
    (E::S16, 5, "INT16", 16, S::Int32s),
    (E::S32, 6, "INT32", 32, S::Int32s),
    (E::S64, 7, "INT64", 64, S::Int64s),
    (E::Str, 8, "STRING", 0, S::Strings),
    (E::Bool, 9, "BOOL", 8, S::Int32s),
    (E::F16, 10, "FLOAT16", 16, S::Int32s),
    (E::F64, 11, "DOUBLE", 64, S::Doubles),
    (E::U32, 12, "UINT32", 32, S::Uint64s),
    (E::U64, 13, "UINT64", 64, S::Uint64s),
    (E::C64, 14, "COMPLEX64", 64, S::Floats),
    (E::C128, 15, "COMPLEX128", 128, S::Doubles),
    (E::Bf16, 16, "BFLOAT16", 16, S::Int32s),
    (E::F8E4M3Fn, 17, "FLOAT8E4M3FN", 8, S::Int32s),
    (E::F8E4M3Fnuz, 18, "FLOAT8E4M3FNUZ", 8, S::Int32s),
    (E::F8E5M2, 19, "FLOAT8E5M2", 8, S::Int32s),
    (E::F8E5M2Fnuz, 20, "FLOAT8E5M2FNUZ", 8, S::Int32s),
    (E::U4, 21, "UINT4", 4, S::Int32s),
    (E::S4, 22, "INT4", 4, S::Int32s),
    (E::F4E2M1, 23, "FLOAT4E2M1", 4, S::Int32s),
    (E::F8E8M0, 24, "FLOAT8E8M0", 8, S::Int32s),
    (E::U2, 25, "UINT2", 2, S::Int32s),
    (E::S2, 26, "INT2", 2, S::Int32s),
];

/// The types that the format and the graph share.
const PAIRS: &[(ElemType, DataType)] = &[
    (E::F32, DataType::F32),
    (E::U8, DataType::U8),
    (E::S8, DataType::S8),
    (E::U16, DataType::U16),
    (E::S16, DataType::S16),
    (E::S32, DataType::S32),
    (E::S64, DataType::S64),
    (E::Bool, DataType::Bool),
    (E::F16, DataType::F16),
    (E::F64, DataType::F64),
    (E::U32, DataType::U32),
    (E::U64, DataType::U64),
    (E::Bf16, DataType::BF16),
    (E::U4, DataType::U4),
    (E::S4, DataType::S4),
];

impl ElemType {
    /// The type that the format numbers `code`, if there is one (0 is "undefined").
    pub fn from_code(code: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    /// The format's number of this type.
    pub fn code(self) -> i32 {
        self.row().1
    }

    /// The format's name of this type, e.g. `FLOAT16`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    /// Bits of one element; types below 8 bits are packed, the first element in the lowest bits.
    /// Strings have no fixed size and report 0.
    pub fn bits(self) -> u32 {
        self.row().3
    }

    /// The typed field that holds elements of this type.
    pub(crate) fn store(self) -> Store {
        self.row().4
    }

    /// Bytes that a packed tensor of these dimensions takes, or `None` where that exceeds 64 bits.
    pub fn byte_len(self, dims: &[usize]) -> Option<usize> {
        let count = dims.iter().try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?))?;
        let bits = count.checked_mul(u64::from(self.bits()))?;
        usize::try_from(bits.div_ceil(8)).ok()
    }

    /// The element type of the graph, for types that it has.
    pub fn dtype(self) -> Option<DataType> {
        PAIRS.iter().find(|(elem, _)| *elem == self).map(|&(_, dtype)| dtype)
    }

    /// The format's type for an element type of the graph.
    pub fn of(dtype: DataType) -> Self {
        let pair = PAIRS.iter().find(|(_, d)| *d == dtype);
        pair.expect("the format has every element type of the graph; a test holds the table to it").0
    }

    fn row(self) -> &'static (ElemType, i32, &'static str, u32, Store) {
        // The table is in the order of the variants; the test below holds it there.
        &TABLE[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_variants() {
        for (position, row) in TABLE.iter().enumerate() {
            assert_eq!(row.0 as usize, position, "{}", row.2);
            assert_eq!(row.1 as usize, position + 1, "{}", row.2);
            assert_eq!(ElemType::from_code(row.1), Some(row.0));
        }
        assert_eq!(ElemType::from_code(0), None);
        assert_eq!(ElemType::from_code(27), None);
        assert_eq!(ElemType::from_code(-1), None);
    }

    #[test]
    fn every_type_of_the_graph_has_its_counterpart() {
        for dtype in DataType::ALL {
            let elem = ElemType::of(dtype);
            assert_eq!((elem.dtype(), elem.bits() as usize), (Some(dtype), dtype.bits()));
        }
        assert_eq!(ElemType::F8E5M2.dtype(), None);
    }

    #[test]
    fn byte_len_rounds_up_and_does_not_overflow() {
        assert_eq!(ElemType::S4.byte_len(&[3]), Some(2));
        assert_eq!(ElemType::U2.byte_len(&[5]), Some(2));
        assert_eq!(ElemType::F32.byte_len(&[]), Some(4));
        assert_eq!(ElemType::F32.byte_len(&[0, 7]), Some(0));
        assert_eq!(ElemType::S8.byte_len(&[usize::MAX, 2]), None);
        assert_eq!(ElemType::F64.byte_len(&[1 << 62]), None);
    }
}
