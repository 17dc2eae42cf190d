//! Tensor types, and tensors in host memory.

use crate::element::{nibble_s4, pack_nibbles};
use crate::{DataType, Element, Error, Layout, QuantParams, Result, Shape};
use half::{bf16, f16};
use std::fmt;
use std::sync::Arc;

/// What a value is: element type, shape, layout and, if it is quantized, its parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorType {
    /// Element type; the storage type where `quant` is set.
    pub dtype: DataType,
    /// Logical shape.
    pub shape: Shape,
    /// Memory layout.
    pub layout: Layout,
    /// Present exactly where the integers stand for real numbers.
    pub quant: Option<Arc<QuantParams>>,
}

impl TensorType {
    /// A plain (not quantized) row-major type.
    pub fn new(dtype: DataType, shape: Shape) -> Self {
        Self { dtype, shape, layout: Layout::RowMajor, quant: None }
    }

    /// A plain type of fixed shape.
    pub fn fixed(dtype: DataType, dims: &[usize]) -> Self {
        Self::new(dtype, Shape::fixed(dims))
    }

    /// `self` with quantization parameters.
    pub fn quantized(mut self, quant: QuantParams) -> Self {
        self.quant = Some(Arc::new(quant));
        self
    }

    /// Bytes of a tensor of this type, if its shape is fixed.
    pub fn byte_len(&self) -> Option<usize> {
        self.dtype.byte_len(self.shape.elements()?)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.dtype, self.shape)
    }
}

/// A tensor in host memory: row-major, cheap to clone, aligned for every element type.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    dtype: DataType,
    shape: Vec<usize>,
    /// 8-byte words give the alignment; only the first `len` bytes count.
    words: Arc<Vec<u64>>,
    len: usize,
}

impl Tensor {
    /// A tensor of zero bytes. An error if its size overflows or cannot be allocated.
    pub fn zeros(dtype: DataType, shape: &[usize]) -> Result<Self> {
        let too_large = || Error::invalid(format!("a tensor {dtype}{shape:?} is too large for this machine"));
        let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
        let len = dtype.byte_len(n).filter(|&b| b <= isize::MAX as usize).ok_or_else(too_large)?;
        let n_words = len.div_ceil(8);
        let mut words = Vec::new();
        words.try_reserve_exact(n_words).map_err(|_| too_large())?;
        words.resize(n_words, 0u64);
        Ok(Self { dtype, shape: shape.to_vec(), words: Arc::new(words), len })
    }

    /// A tensor from its little-endian bytes; an error if their number does not fit type and shape.
    pub fn from_bytes(dtype: DataType, shape: &[usize], bytes: &[u8]) -> Result<Self> {
        let expected = TensorType::fixed(dtype, shape).byte_len();
        if expected != Some(bytes.len()) {
            let want = expected.map_or("an impossible number of".into(), |n| n.to_string());
            return Err(Error::invalid(format!("{dtype}{shape:?} needs {want} bytes, found {}", bytes.len())));
        }
        let mut tensor = Self::zeros(dtype, shape)?;
        tensor.bytes_mut().copy_from_slice(bytes);
        Ok(tensor)
    }

    /// A tensor from elements; an error if their number does not fit the shape.
    pub fn from_slice<T: Element>(shape: &[usize], elements: &[T]) -> Result<Self> {
        Self::from_bytes(T::TYPE, shape, bytemuck::cast_slice(elements))
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Self {
        Self::from_slice(&[], &[value]).expect("one element fits a scalar")
    }

    /// A boolean tensor.
    pub fn from_bools(shape: &[usize], values: &[bool]) -> Result<Self> {
        let bytes: Vec<u8> = values.iter().map(|&b| u8::from(b)).collect();
        Self::from_bytes(DataType::Bool, shape, &bytes)
    }

    /// A tensor of any integer type (or bool) from integers, which must be in the type's range.
    pub fn from_ints(dtype: DataType, shape: &[usize], values: &[i64]) -> Result<Self> {
        if let (Some((lo, hi)), Some(v)) = (dtype.int_range(), out_of_range(dtype, values)) {
            return Err(Error::invalid(format!("{v} is outside {lo}..{hi} of {dtype}")));
        }
        let bytes = match dtype {
            DataType::S4 | DataType::U4 => pack_nibbles(values),
            DataType::S8 | DataType::U8 | DataType::Bool => values.iter().map(|&v| v as u8).collect(),
            DataType::S16 | DataType::U16 => values.iter().flat_map(|&v| (v as u16).to_ne_bytes()).collect(),
            DataType::S32 | DataType::U32 => values.iter().flat_map(|&v| (v as u32).to_ne_bytes()).collect(),
            DataType::S64 | DataType::U64 => values.iter().flat_map(|&v| (v as u64).to_ne_bytes()).collect(),
            _ => return Err(Error::invalid(format!("{dtype} is not an integer type"))),
        };
        Self::from_bytes(dtype, shape, &bytes)
    }

    /// Element type.
    pub fn dtype(&self) -> DataType {
        self.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The plain type of this tensor.
    pub fn ty(&self) -> TensorType {
        TensorType::fixed(self.dtype, &self.shape)
    }

    /// The bytes, in the machine's order.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len]
    }

    /// The bytes for writing; copies them first if they are shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let words = Arc::make_mut(&mut self.words);
        &mut bytemuck::cast_slice_mut(words)[..self.len]
    }

    /// The elements; an error if the type differs. `u8` also views `bool`.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        if !self.views_as::<T>() {
            return Err(Error::invalid(format!("expected a tensor of {}, found {}", T::TYPE, self.dtype)));
        }
        Ok(bytemuck::cast_slice(self.bytes()))
    }

    /// The elements for writing; an error if the type differs.
    pub fn as_slice_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        if !self.views_as::<T>() {
            return Err(Error::invalid(format!("expected a tensor of {}, found {}", T::TYPE, self.dtype)));
        }
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()))
    }

    fn views_as<T: Element>(&self) -> bool {
        self.dtype == T::TYPE || (self.dtype == DataType::Bool && T::TYPE == DataType::U8)
    }

    /// The same bytes under another shape of as many elements.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if n != Some(self.elements()) {
            return Err(Error::invalid(format!("cannot reshape {:?} to {shape:?}", self.shape)));
        }
        Ok(Self { shape: shape.to_vec(), ..self.clone() })
    }

    /// All elements of an integer or boolean tensor as `i64` (u64 above `i64::MAX` wraps).
    pub fn to_ints(&self) -> Result<Vec<i64>> {
        let wide = |v: &[u8], f: &dyn Fn(u8) -> i64| -> Vec<i64> {
            v.iter().flat_map(|b| [f(b & 0x0f), f(b >> 4)]).take(self.elements()).collect()
        };
        Ok(match self.dtype {
            DataType::S4 => wide(self.bytes(), &nibble_s4),
            DataType::U4 => wide(self.bytes(), &|n| i64::from(n)),
            DataType::S8 => self.as_slice::<i8>()?.iter().map(|&v| v.into()).collect(),
            DataType::U8 | DataType::Bool => self.bytes().iter().map(|&v| v.into()).collect(),
            DataType::S16 => self.as_slice::<i16>()?.iter().map(|&v| v.into()).collect(),
            DataType::U16 => self.as_slice::<u16>()?.iter().map(|&v| v.into()).collect(),
            DataType::S32 => self.as_slice::<i32>()?.iter().map(|&v| v.into()).collect(),
            DataType::U32 => self.as_slice::<u32>()?.iter().map(|&v| v.into()).collect(),
            DataType::S64 => self.as_slice::<i64>()?.to_vec(),
            DataType::U64 => self.as_slice::<u64>()?.iter().map(|&v| v as i64).collect(),
            _ => return Err(Error::invalid(format!("expected an integer tensor, found {}", self.dtype))),
        })
    }

    /// All elements as `f32`; integers are rounded to nearest even, `f64` too.
    pub fn to_f32s(&self) -> Result<Vec<f32>> {
        Ok(match self.dtype {
            DataType::F32 => self.as_slice::<f32>()?.to_vec(),
            DataType::F16 => self.as_slice::<f16>()?.iter().map(|v| v.to_f32()).collect(),
            DataType::BF16 => self.as_slice::<bf16>()?.iter().map(|v| v.to_f32()).collect(),
            DataType::F64 => self.as_slice::<f64>()?.iter().map(|&v| v as f32).collect(),
            DataType::U64 => self.as_slice::<u64>()?.iter().map(|&v| v as f32).collect(),
            _ => self.to_ints()?.into_iter().map(|v| v as f32).collect(),
        })
    }

    /// A tensor of a float type from `f32` elements, each rounded to nearest even.
    pub fn from_f32s(dtype: DataType, shape: &[usize], values: &[f32]) -> Result<Self> {
        match dtype {
            DataType::F32 => Self::from_slice(shape, values),
            DataType::F16 => Self::from_slice(shape, &values.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>()),
            DataType::BF16 => Self::from_slice(shape, &values.iter().map(|&v| bf16::from_f32(v)).collect::<Vec<_>>()),
            DataType::F64 => Self::from_slice(shape, &values.iter().map(|&v| f64::from(v)).collect::<Vec<_>>()),
            _ => Err(Error::invalid(format!("{dtype} is not a float type"))),
        }
    }
}

fn out_of_range(dtype: DataType, values: &[i64]) -> Option<i64> {
    let (lo, hi) = match dtype {
        DataType::Bool => (0, 1),
        _ => dtype.int_range()?,
    };
    values.iter().copied().find(|v| !(lo..=hi).contains(v))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let preview = match self.dtype {
            t if t.is_float() => self.to_f32s().map(|v| format!("{:?}", &v[..v.len().min(16)])),
            _ => self.to_ints().map(|v| format!("{:?}", &v[..v.len().min(16)])),
        };
        write!(f, "{}{:?} {}", self.dtype, self.shape, preview.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_must_fit_type_and_shape() {
        let e = Tensor::from_bytes(DataType::F32, &[2], &[0; 7]).unwrap_err();
        assert_eq!(e.to_string(), "f32[2] needs 8 bytes, found 7");
        assert!(Tensor::zeros(DataType::F64, &[usize::MAX, 8]).is_err());
    }

    #[test]
    fn nibbles_unpack_low_first_with_sign() {
        let t = Tensor::from_ints(DataType::S4, &[3], &[-8, 7, -1]).unwrap();
        assert_eq!(t.bytes(), &[0x78, 0x0f]);
        assert_eq!(t.to_ints().unwrap(), [-8, 7, -1]);
        assert!(Tensor::from_ints(DataType::S4, &[1], &[8]).is_err());
    }

    #[test]
    fn wrong_element_type_is_an_error() {
        let t = Tensor::scalar(1.0f32);
        assert_eq!(t.as_slice::<i8>().unwrap_err().to_string(), "expected a tensor of s8, found f32");
    }
}
