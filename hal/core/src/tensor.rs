//! Tensor types, and tensors in host memory.

use crate::element::{nibble_s4, pack_nibbles};
use crate::{DataType, Dim, Element, Error, Layout, QuantParams, Result, Shape, Status};
use half::{bf16, f16};
use std::fmt;
use std::sync::Arc;

/// The only dimension of a shape of unknown rank.
const UNRANKED: &str = "...";

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

    /// A plain type of which not even the number of dimensions is known; it prints as `f32[...]`.
    pub fn unranked(dtype: DataType) -> Self {
        Self::new(dtype, Shape(vec![Dim::Sym(UNRANKED.into())]))
    }

    /// Whether this is [`Self::unranked`].
    pub fn is_unranked(&self) -> bool {
        matches!(self.shape.0.as_slice(), [Dim::Sym(s)] if &**s == UNRANKED)
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

/// Memory that several tensors share, a mapped file for example. The bytes never change and never move.
pub type SharedBytes = Arc<dyn AsRef<[u8]> + Send + Sync>;

/// A tensor in host memory: row-major, cheap to clone, aligned for every element type.
#[derive(Clone)]
pub struct Tensor {
    dtype: DataType,
    shape: Vec<usize>,
    words: Words,
    len: usize,
}

impl AsRef<[u8]> for Tensor {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// Where the bytes of a tensor are.
#[derive(Clone)]
enum Words {
    /// 8-byte words give the alignment; only the first `len` bytes count.
    Owned(Arc<Vec<u64>>),
    /// `len` bytes from an offset, aligned to 8 bytes.
    Shared(SharedBytes, usize),
}

impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype && self.shape == other.shape && self.bytes() == other.bytes()
    }
}

impl Tensor {
    /// A tensor of zero bytes. An error if its size overflows or cannot be allocated.
    pub fn zeros(dtype: DataType, shape: &[usize]) -> Result<Self> {
        let too_large = || Error::invalid(format!("a tensor {dtype}{shape:?} is too large for this machine"));
        let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
        let len = dtype.byte_len(n).filter(|&b| b <= isize::MAX as usize).ok_or_else(too_large)?;
        let n_words = len.div_ceil(8);
        let mut words = Self::buffer(n_words)?;
        words.resize(n_words, 0u64);
        Ok(Self { dtype, shape: shape.to_vec(), words: Words::Owned(Arc::new(words)), len })
    }

    /// An empty vector with room for `n` elements; running out of memory is an error, not the end of the process.
    pub fn buffer<T>(n: usize) -> Result<Vec<T>> {
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(n).map_err(|_| {
            let bytes = n.saturating_mul(size_of::<T>());
            Error::failed(Status::OutOfHostMemory, format!("no memory for {bytes} bytes; use a smaller shape or batch"))
        })?;
        Ok(buffer)
    }

    /// The elements of an iterator of known length, by [`Self::buffer`].
    pub fn collect<T>(elements: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
        let mut buffer = Self::buffer(elements.len())?;
        buffer.extend(elements);
        Ok(buffer)
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

    /// A tensor of shared memory, from byte `offset` on. Memory that is not aligned to 8 bytes is copied.
    pub fn from_shared(dtype: DataType, shape: &[usize], bytes: SharedBytes, offset: usize) -> Result<Self> {
        let len = TensorType::fixed(dtype, shape).byte_len();
        let outside = || Error::invalid(format!("{dtype}{shape:?} at byte {offset} is outside the memory it is in"));
        let end = len.and_then(|n| n.checked_add(offset)).ok_or_else(outside)?;
        let range = (*bytes).as_ref().get(offset..end).ok_or_else(outside)?;
        if !range.as_ptr().cast::<u64>().is_aligned() {
            return Self::from_bytes(dtype, shape, range);
        }
        Ok(Self { dtype, shape: shape.to_vec(), words: Words::Shared(bytes, offset), len: end - offset })
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
        let bytes = Self::collect(values.iter().map(|&b| u8::from(b)))?;
        Self::from_bytes(DataType::Bool, shape, &bytes)
    }

    /// A tensor of any integer type (or bool) from integers, which must be in the type's range.
    pub fn from_ints(dtype: DataType, shape: &[usize], values: &[i64]) -> Result<Self> {
        if let (Some((lo, hi)), Some(v)) = (dtype.int_range(), out_of_range(dtype, values)) {
            return Err(Error::invalid(format!("{v} is outside {lo}..{hi} of {dtype}")));
        }
        match dtype {
            DataType::S4 | DataType::U4 => Self::from_bytes(dtype, shape, &pack_nibbles(values)),
            DataType::S8 | DataType::U8 | DataType::Bool => {
                Self::from_bytes(dtype, shape, &Self::collect(values.iter().map(|&v| v as u8))?)
            }
            DataType::S16 | DataType::U16 => Self::narrowed(dtype, shape, values, |v| v as u16),
            DataType::S32 | DataType::U32 => Self::narrowed(dtype, shape, values, |v| v as u32),
            DataType::S64 | DataType::U64 => Self::narrowed(dtype, shape, values, |v| v as u64),
            _ => Err(Error::invalid(format!("{dtype} is not an integer type"))),
        }
    }

    /// The bits of each value, cut to the width of the type.
    fn narrowed<T: bytemuck::Pod>(
        dtype: DataType,
        shape: &[usize],
        values: &[i64],
        bits: impl Fn(i64) -> T,
    ) -> Result<Self> {
        let bits = Self::collect(values.iter().map(|&v| bits(v)))?;
        Self::from_bytes(dtype, shape, bytemuck::cast_slice(&bits))
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
        match &self.words {
            Words::Owned(words) => &bytemuck::cast_slice(words)[..self.len],
            Words::Shared(bytes, at) => &(**bytes).as_ref()[*at..*at + self.len],
        }
    }

    /// The bytes for writing; copies them first if they are shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Words::Shared(bytes, at) = &self.words {
            self.words = Words::Owned(Arc::new(words_of(&(**bytes).as_ref()[*at..*at + self.len])));
        }
        match &mut self.words {
            Words::Owned(words) => &mut bytemuck::cast_slice_mut(Arc::make_mut(words).as_mut_slice())[..self.len],
            Words::Shared(..) => &mut [],
        }
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
        match self.dtype {
            DataType::S4 => self.nibbles(nibble_s4),
            DataType::U4 => self.nibbles(i64::from),
            DataType::S8 => Self::collect(self.as_slice::<i8>()?.iter().map(|&v| v.into())),
            DataType::U8 | DataType::Bool => Self::collect(self.bytes().iter().map(|&v| v.into())),
            DataType::S16 => Self::collect(self.as_slice::<i16>()?.iter().map(|&v| v.into())),
            DataType::U16 => Self::collect(self.as_slice::<u16>()?.iter().map(|&v| v.into())),
            DataType::S32 => Self::collect(self.as_slice::<i32>()?.iter().map(|&v| v.into())),
            DataType::U32 => Self::collect(self.as_slice::<u32>()?.iter().map(|&v| v.into())),
            DataType::S64 => Self::collect(self.as_slice::<i64>()?.iter().copied()),
            DataType::U64 => Self::collect(self.as_slice::<u64>()?.iter().map(|&v| v as i64)),
            _ => Err(Error::invalid(format!("expected an integer tensor, found {}", self.dtype))),
        }
    }

    /// The nibbles, low one of each byte first.
    fn nibbles(&self, widen: impl Fn(u8) -> i64) -> Result<Vec<i64>> {
        let mut ints = Self::buffer(self.elements())?;
        let both = self.bytes().iter().flat_map(|b| [widen(b & 0x0f), widen(b >> 4)]);
        ints.extend(both.take(self.elements()));
        Ok(ints)
    }

    /// All elements as `f32`; integers are rounded to nearest even, `f64` too.
    pub fn to_f32s(&self) -> Result<Vec<f32>> {
        match self.dtype {
            DataType::F32 => Self::collect(self.as_slice::<f32>()?.iter().copied()),
            DataType::F16 => Self::collect(self.as_slice::<f16>()?.iter().map(|v| v.to_f32())),
            DataType::BF16 => Self::collect(self.as_slice::<bf16>()?.iter().map(|v| v.to_f32())),
            DataType::F64 => Self::collect(self.as_slice::<f64>()?.iter().map(|&v| v as f32)),
            DataType::U64 => Self::collect(self.as_slice::<u64>()?.iter().map(|&v| v as f32)),
            _ => Self::collect(self.to_ints()?.into_iter().map(|v| v as f32)),
        }
    }

    /// A tensor of a float type from `f32` elements, each rounded to nearest even.
    pub fn from_f32s(dtype: DataType, shape: &[usize], values: &[f32]) -> Result<Self> {
        match dtype {
            DataType::F32 => Self::from_slice(shape, values),
            DataType::F16 => Self::from_slice(shape, &Self::collect(values.iter().map(|&v| f16::from_f32(v)))?),
            DataType::BF16 => Self::from_slice(shape, &Self::collect(values.iter().map(|&v| bf16::from_f32(v)))?),
            DataType::F64 => Self::from_slice(shape, &Self::collect(values.iter().map(|&v| f64::from(v)))?),
            _ => Err(Error::invalid(format!("{dtype} is not a float type"))),
        }
    }
}

/// Bytes in 8-byte words, the last one filled up with zeros.
fn words_of(bytes: &[u8]) -> Vec<u64> {
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
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
    fn memory_that_is_not_there_is_a_failure() {
        let most = isize::MAX as usize / 8;
        for e in [Tensor::buffer::<u64>(most).unwrap_err(), Tensor::zeros(DataType::U64, &[most]).unwrap_err()] {
            assert_eq!(e.status(), Status::OutOfHostMemory, "{e}");
        }
    }

    #[test]
    fn integers_keep_their_bits() {
        let t = Tensor::from_ints(DataType::S16, &[2], &[-2, 300]).unwrap();
        assert_eq!((t.bytes(), t.to_ints().unwrap()), (&[0xfe, 0xff, 0x2c, 0x01][..], vec![-2, 300]));
        assert_eq!(Tensor::from_ints(DataType::U32, &[1], &[4_000_000_000]).unwrap().to_f32s().unwrap(), [4e9]);
    }

    #[test]
    fn shared_memory_is_viewed_and_copied_on_write() {
        let shared: SharedBytes = Arc::new((0..32u8).collect::<Vec<_>>());
        let at = (8 - (*shared).as_ref().as_ptr() as usize % 8) % 8;
        for offset in [at, at + 1] {
            let mut t = Tensor::from_shared(DataType::U8, &[3], shared.clone(), offset).unwrap();
            assert_eq!(t.bytes(), &(*shared).as_ref()[offset..offset + 3]);
            t.bytes_mut()[0] = 99;
            assert_eq!(t.bytes()[0], 99);
            assert_eq!((*shared).as_ref()[offset], offset as u8);
        }
        assert!(Tensor::from_shared(DataType::U8, &[3], shared.clone(), 30).is_err());
        assert!(Tensor::from_shared(DataType::U64, &[usize::MAX], shared, 8).is_err());
    }

    #[test]
    fn a_type_may_have_no_rank() {
        let ty = TensorType::unranked(DataType::S64);
        assert_eq!((ty.to_string().as_str(), ty.is_unranked(), ty.byte_len()), ("s64[...]", true, None));
        assert!(!TensorType::fixed(DataType::S64, &[]).is_unranked());
    }

    #[test]
    fn wrong_element_type_is_an_error() {
        let t = Tensor::scalar(1.0f32);
        assert_eq!(t.as_slice::<i8>().unwrap_err().to_string(), "expected a tensor of s8, found f32");
    }
}
