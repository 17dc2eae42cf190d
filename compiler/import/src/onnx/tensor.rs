//! Stored tensors (`TensorProto`) as packed little-endian bytes, and back.
//!
//! The format stores elements as `raw_data`, in one of six typed fields, or in a file beside the model.
//! All three become the same bytes here: little-endian, row-major, types below 8 bits packed with the first
//! element in the lowest bits and zero in the bits behind the last one. The number of bytes is compared with
//! the dimensions before anything is allocated.
use super::elem::{ElemType, Store};
use super::external::ExternalData;
use super::proto::TensorProto;
use super::proto::tensor_proto::DataLocation;
use crate::ImportError;
use ottava_hal::Tensor;
use prost::bytes::Bytes;
use std::sync::Arc;

/// Dimensions that a tensor may have.
const MAX_RANK: usize = 32;

/// A tensor as the format means it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnnxTensor {
    /// Its name; may be empty.
    pub name: String,
    /// The element type.
    pub elem: ElemType,
    /// The dimensions; empty for a scalar.
    pub dims: Vec<usize>,
    /// The elements: `elem.byte_len(&dims)` little-endian bytes.
    pub bytes: Bytes,
    /// Whether the bytes lie in a file beside the model. Tensors view them there where alignment allows it.
    pub mapped: bool,
}

impl OnnxTensor {
    /// Reads a stored tensor. `external` opens the files beside the model.
    pub fn from_proto(proto: &TensorProto, external: &mut ExternalData) -> Result<Self, ImportError> {
        let reader = Reader { proto, name: if proto.name.is_empty() { "(unnamed)" } else { &proto.name } };
        let elem = reader.elem()?;
        let dims = reader.dims()?;
        let len = elem.byte_len(&dims).ok_or_else(|| {
            reader.error(format!("dimensions {dims:?} of {}", elem.name()), "a tensor that a machine can address")
        })?;
        let bytes = if proto.data_location == DataLocation::External as i32 {
            external.read(reader.name, &proto.external_data, len)?
        } else {
            reader.stored(elem, &dims, len)?
        };
        let mapped = proto.data_location == DataLocation::External as i32;
        let bytes = reader.canonical(elem, &dims, bytes)?;
        Ok(Self { name: proto.name.clone(), elem, bytes, dims, mapped })
    }

    /// The stored form, as raw bytes.
    pub fn to_proto(&self) -> TensorProto {
        TensorProto {
            name: self.name.clone(),
            data_type: self.elem.code(),
            dims: self.dims.iter().map(|&d| i64::try_from(d).unwrap_or(i64::MAX)).collect(),
            raw_data: Some(self.bytes.clone()),
            ..Default::default()
        }
    }

    /// The tensor in host memory. Types that only the format knows (8-bit floats and the like) are refused.
    pub fn to_tensor(&self) -> Result<Tensor, ImportError> {
        let name = if self.name.is_empty() { "(unnamed)" } else { &self.name };
        let dtype = self.elem.dtype().ok_or_else(|| ImportError::UnsupportedTensor {
            tensor: name.to_owned(),
            what: format!("element type {}", self.elem.name()),
            help: "store it as FLOAT16, FLOAT or an integer type",
        })?;
        let tensor = match self.mapped {
            true => Tensor::from_shared(dtype, &self.dims, Arc::new(self.bytes.clone()), 0),
            false => Tensor::from_bytes(dtype, &self.dims, &self.bytes),
        };
        tensor.map_err(|e| ImportError::tensor(name, e.to_string(), "a tensor that a machine can hold"))
    }

    /// A tensor in host memory, under a name.
    pub fn from_tensor(name: &str, tensor: &Tensor) -> Self {
        Self {
            name: name.to_owned(),
            elem: ElemType::of(tensor.dtype()),
            dims: tensor.shape().to_vec(),
            bytes: Bytes::copy_from_slice(tensor.bytes()),
            mapped: false,
        }
    }

    /// A file that holds this tensor alone, as in the ONNX test vectors.
    pub fn to_file(&self) -> Vec<u8> {
        super::decode::encode(&self.to_proto())
    }
}

struct Reader<'a> {
    proto: &'a TensorProto,
    name: &'a str,
}

impl Reader<'_> {
    fn error(&self, found: impl Into<String>, expected: impl Into<String>) -> ImportError {
        ImportError::tensor(self.name, found, expected)
    }

    fn unsupported(&self, what: impl Into<String>, help: &'static str) -> ImportError {
        ImportError::UnsupportedTensor { tensor: self.name.to_owned(), what: what.into(), help }
    }

    fn elem(&self) -> Result<ElemType, ImportError> {
        let code = self.proto.data_type;
        let elem = ElemType::from_code(code);
        let elem =
            elem.ok_or_else(|| self.error(format!("element type {code}"), "a type from 1 (FLOAT) to 26 (INT2)"))?;
        match elem {
            ElemType::Str | ElemType::C64 | ElemType::C128 => {
                Err(self.unsupported(format!("element type {}", elem.name()), "remove it from the network"))
            }
            _ if self.proto.segment.is_some() => {
                Err(self.unsupported("storage in segments", "store the tensor as a whole or as external data"))
            }
            _ => Ok(elem),
        }
    }

    fn dims(&self) -> Result<Vec<usize>, ImportError> {
        let dims = &self.proto.dims;
        if dims.len() > MAX_RANK {
            return Err(self.error(format!("{} dimensions", dims.len()), format!("at most {MAX_RANK}")));
        }
        let dim = |&d: &i64| usize::try_from(d).map_err(|_| self.error(format!("dimension {d}"), "0 or more"));
        dims.iter().map(dim).collect()
    }

    /// The bytes inside the message: raw, or from the typed field of `elem`.
    fn stored(&self, elem: ElemType, dims: &[usize], len: usize) -> Result<Bytes, ImportError> {
        let (field, count) = self.typed(elem.store());
        let raw = self.proto.raw_data.as_ref().filter(|raw| !raw.is_empty() || count == 0);
        if let Some(raw) = raw {
            if count > 0 {
                return Err(self.error(format!("both raw_data and {field}"), "one of them"));
            }
            return match raw.len() == len {
                true => Ok(raw.clone()),
                false => Err(self.error(format!("{} bytes of raw_data", raw.len()), self.size(elem, dims, len))),
            };
        }
        // Types below 8 bits store one packed byte per int32.
        let width = (elem.bits() / 8).max(1) as usize;
        if count.checked_mul(width) != Some(len) {
            let size = self.size(elem, dims, len);
            return Err(self.error(format!("{count} elements of {field}"), format!("{} for {size}", len / width)));
        }
        self.convert(elem, width).map(Bytes::from)
    }

    fn size(&self, elem: ElemType, dims: &[usize], len: usize) -> String {
        format!("{len} bytes for {} {dims:?}", elem.name())
    }

    /// Name and length of a typed field.
    fn typed(&self, store: Store) -> (&'static str, usize) {
        let p = self.proto;
        match store {
            Store::Floats => ("float_data", p.float_data.len()),
            Store::Int32s => ("int32_data", p.int32_data.len()),
            Store::Int64s => ("int64_data", p.int64_data.len()),
            Store::Doubles => ("double_data", p.double_data.len()),
            Store::Uint64s => ("uint64_data", p.uint64_data.len()),
            Store::Strings => ("string_data", p.string_data.len()),
        }
    }

    /// The elements of the typed field as bytes, `width` each; a value that does not fit is an error.
    fn convert(&self, elem: ElemType, width: usize) -> Result<Vec<u8>, ImportError> {
        let p = self.proto;
        Ok(match elem.store() {
            Store::Floats => p.float_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Store::Doubles => p.double_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Store::Int64s => p.int64_data.iter().flat_map(|v| v.to_le_bytes()).collect(),
            Store::Strings => Vec::new(),
            Store::Uint64s => {
                self.fits(elem, p.uint64_data.iter().map(|&v| i128::from(v)))?;
                p.uint64_data.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect()
            }
            Store::Int32s => {
                self.fits(elem, p.int32_data.iter().map(|&v| i128::from(v)))?;
                p.int32_data.iter().flat_map(|v| v.to_le_bytes().into_iter().take(width)).collect()
            }
        })
    }

    fn fits(&self, elem: ElemType, values: impl Iterator<Item = i128>) -> Result<(), ImportError> {
        let bits = elem.bits().max(8);
        let (low, high) = match elem {
            ElemType::S8 | ElemType::S16 | ElemType::S32 => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            _ => (0, (1i128 << bits) - 1),
        };
        match values.enumerate().find(|(_, v)| !(low..=high).contains(v)) {
            Some((idx, v)) => {
                Err(self.error(format!("element {idx} is {v}"), format!("{low} to {high} for {}", elem.name())))
            }
            None => Ok(()),
        }
    }

    /// Clears the unused bits of a packed type's last byte; checks that booleans are 0 or 1.
    fn canonical(&self, elem: ElemType, dims: &[usize], bytes: Bytes) -> Result<Bytes, ImportError> {
        if elem == ElemType::Bool
            && let Some(idx) = bytes.iter().position(|&b| b > 1)
        {
            return Err(self.error(format!("element {idx} is {}", bytes[idx]), "0 or 1 for BOOL"));
        }
        let Some(&last) = bytes.last() else { return Ok(bytes) };
        // Only whether the count fills the last byte matters, so wrapping arithmetic is exact enough.
        let used = dims.iter().fold(1usize, |n, &d| n.wrapping_mul(d)).wrapping_mul(elem.bits() as usize) % 8;
        if used == 0 || last >> used == 0 {
            return Ok(bytes);
        }
        let mut copy = bytes.to_vec();
        if let Some(last) = copy.last_mut() {
            *last &= (1 << used) - 1;
        }
        Ok(copy.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proto(elem: ElemType, dims: &[i64]) -> TensorProto {
        TensorProto { name: "w".into(), data_type: elem.code(), dims: dims.to_vec(), ..Default::default() }
    }

    fn read(proto: TensorProto) -> Result<OnnxTensor, String> {
        OnnxTensor::from_proto(&proto, &mut ExternalData::none()).map_err(|e| e.to_string())
    }

    fn check(proto: TensorProto, bytes: &[u8]) {
        assert_eq!(&read(proto).expect("a valid tensor").bytes[..], bytes);
    }

    fn refuse(proto: TensorProto, parts: &[&str]) {
        let text = read(proto).expect_err("an invalid tensor");
        assert!(text.starts_with("tensor `w`: "), "{text}");
        parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is not in: {text}"));
    }

    #[test]
    fn typed_fields_become_little_endian_bytes() {
        check(
            TensorProto { float_data: vec![1.0, -2.0], ..proto(ElemType::F32, &[2]) },
            &[0, 0, 128, 63, 0, 0, 0, 192],
        );
        check(TensorProto { int32_data: vec![-1, 127], ..proto(ElemType::S8, &[2]) }, &[255, 127]);
        check(TensorProto { int32_data: vec![255, 0], ..proto(ElemType::U8, &[1, 2]) }, &[255, 0]);
        check(TensorProto { int32_data: vec![-2], ..proto(ElemType::S16, &[1]) }, &[254, 255]);
        check(TensorProto { int32_data: vec![-2], ..proto(ElemType::S32, &[]) }, &[254, 255, 255, 255]);
        check(TensorProto { int32_data: vec![0x3c00], ..proto(ElemType::F16, &[1]) }, &[0, 0x3c]);
        check(TensorProto { int32_data: vec![0xbf80], ..proto(ElemType::Bf16, &[1]) }, &[0x80, 0xbf]);
        check(TensorProto { int32_data: vec![1, 0], ..proto(ElemType::Bool, &[2]) }, &[1, 0]);
        check(TensorProto { int64_data: vec![-1], ..proto(ElemType::S64, &[1]) }, &[255; 8]);
        check(TensorProto { uint64_data: vec![7], ..proto(ElemType::U32, &[1]) }, &[7, 0, 0, 0]);
        check(TensorProto { double_data: vec![1.0], ..proto(ElemType::F64, &[1]) }, &[0, 0, 0, 0, 0, 0, 240, 63]);
        check(proto(ElemType::F32, &[0, 3]), &[]);
    }

    #[test]
    fn nibbles_are_packed_low_first_and_the_last_one_is_zero() {
        check(TensorProto { int32_data: vec![0x21, 0xf3], ..proto(ElemType::S4, &[3]) }, &[0x21, 0x03]);
        let raw = TensorProto { raw_data: Some(Bytes::from_static(&[0x21, 0xf3])), ..proto(ElemType::U4, &[3]) };
        check(raw, &[0x21, 0x03]);
        let even = TensorProto { raw_data: Some(Bytes::from_static(&[0x21, 0xf3])), ..proto(ElemType::U4, &[2, 2]) };
        check(even, &[0x21, 0xf3]);
    }

    #[test]
    fn sizes_are_checked_before_anything_is_allocated() {
        let huge = [1 << 30, 1 << 20];
        refuse(proto(ElemType::F32, &huge), &["0 elements of float_data", "1125899906842624 for"]);
        refuse(proto(ElemType::F32, &[i64::MAX, i64::MAX]), &["a tensor that a machine can address"]);
        refuse(proto(ElemType::F32, &[-1]), &["dimension -1", "0 or more"]);
        refuse(proto(ElemType::F32, &[1; 33]), &["33 dimensions"]);
        let raw = TensorProto { raw_data: Some(Bytes::from_static(&[0; 7])), ..proto(ElemType::F32, &[2]) };
        refuse(raw, &["7 bytes of raw_data", "8 bytes for FLOAT [2]"]);
        let empty = TensorProto { raw_data: Some(Bytes::new()), ..proto(ElemType::F32, &[2]) };
        refuse(empty, &["0 bytes of raw_data", "8 bytes"]);
        refuse(
            TensorProto { int32_data: vec![1], ..proto(ElemType::S4, &[3]) },
            &["1 elements of int32_data", "2 for"],
        );
    }

    #[test]
    fn values_that_do_not_fit_are_errors() {
        refuse(
            TensorProto { int32_data: vec![0, 300], ..proto(ElemType::U8, &[2]) },
            &["element 1 is 300", "0 to 255"],
        );
        refuse(TensorProto { int32_data: vec![-129], ..proto(ElemType::S8, &[1]) }, &["-128 to 127 for INT8"]);
        refuse(TensorProto { int32_data: vec![2], ..proto(ElemType::Bool, &[1]) }, &["element 0 is 2", "0 or 1"]);
        refuse(TensorProto { uint64_data: vec![1 << 32], ..proto(ElemType::U32, &[1]) }, &["4294967295 for UINT32"]);
    }

    #[test]
    fn unread_kinds_are_refused_by_name() {
        refuse(proto(ElemType::Str, &[1]), &["STRING is not supported"]);
        refuse(proto(ElemType::C64, &[1]), &["COMPLEX64 is not supported"]);
        refuse(TensorProto { data_type: 99, name: "w".into(), ..Default::default() }, &["element type 99"]);
        let both = TensorProto {
            float_data: vec![1.0],
            raw_data: Some(Bytes::from_static(&[0; 4])),
            ..proto(ElemType::F32, &[1])
        };
        refuse(both, &["both raw_data and float_data"]);
    }

    #[test]
    fn a_tensor_file_comes_back() {
        let tensor = OnnxTensor {
            name: "x".into(),
            elem: ElemType::S16,
            dims: vec![2, 1],
            bytes: vec![1, 2, 3, 4].into(),
            mapped: false,
        };
        let back = super::super::decode_tensor_file(tensor.to_file().into(), "x.pb").expect("well-formed");
        assert_eq!(back, tensor);
    }
}
