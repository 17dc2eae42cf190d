//! `.npy` arrays into tensors and back. The header is read by `npyz`, which is only handed headers that are small, flat
//! and of a size that the file can hold; elements are read as bytes, so that every type (f16 too) takes one path.

use crate::error::{Error, Result, codes};
use npyz::{DType, Endianness, NpyHeader, Order, TypeChar};
use ottava_hal::{DataType, Tensor};
use std::io::{Cursor, Read};

/// Real headers take about 128 bytes.
const MAX_HEADER: usize = 1 << 14;

fn damaged(what: impl Into<String>) -> Error {
    Error::invalid(codes::DATA_FILE, what).help("write the array again with `numpy.save` or `numpy.savez`")
}

/// Reads one array. `available` bounds what the source can hold, in bytes.
pub(crate) fn read(mut source: impl Read, available: u64) -> Result<Tensor> {
    let header = read_header(&mut source)?;
    let dtype = data_type(&header.dtype())?;
    if header.order() == Order::Fortran && header.shape().len() > 1 {
        return Err(Error::unsupported(codes::DATA_FILE, "the array is stored in column-major (Fortran) order")
            .help("store `numpy.ascontiguousarray(x)`"));
    }
    let too_large = || damaged(format!("the header promises {:?} elements of {dtype}", header.shape()));
    let shape: Option<Vec<usize>> = header.shape().iter().map(|&d| usize::try_from(d).ok()).collect();
    let shape = shape.ok_or_else(too_large)?;
    let n = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d)).ok_or_else(too_large)?;
    let len = dtype.byte_len(n).ok_or_else(too_large)?;
    if len as u64 > available {
        return Err(too_large().found(format!("room for {available} bytes in the file")).expected(format!("{len}")));
    }
    let mut bytes = Vec::new();
    let limit = len as u64;
    source.by_ref().take(limit).read_to_end(&mut bytes).map_err(|e| damaged(format!("cannot read the array: {e}")))?;
    if bytes.len() < len {
        return Err(damaged("the array is cut short").found(format!("{} bytes", bytes.len())).expected(len));
    }
    finish(&header.dtype(), dtype, &shape, bytes)
}

fn finish(stored: &DType, dtype: DataType, shape: &[usize], mut bytes: Vec<u8>) -> Result<Tensor> {
    if let DType::Plain(t) = stored
        && t.endianness() == Endianness::Big
    {
        let width = (dtype.bits() / 8).max(1);
        bytes.chunks_exact_mut(width).for_each(<[u8]>::reverse);
    }
    if dtype == DataType::Bool {
        bytes.iter_mut().for_each(|b| *b = u8::from(*b != 0));
    }
    Tensor::from_bytes(dtype, shape, &bytes).map_err(|e| damaged(e.to_string()))
}

fn read_header(source: &mut impl Read) -> Result<NpyHeader> {
    let mut exactly = |n: usize| -> Result<Vec<u8>> {
        let mut part = vec![0; n];
        source.read_exact(&mut part).map_err(|e| damaged(format!("the array's header is cut short: {e}")))?;
        Ok(part)
    };
    let mut head = exactly(8)?;
    if !head.starts_with(b"\x93NUMPY") {
        return Err(damaged("this is not an array of NumPy").expected("a file that begins with `\\x93NUMPY`"));
    }
    let len_bytes = exactly(if head[6] == 1 { 2 } else { 4 })?;
    let len = len_bytes.iter().rev().fold(0usize, |n, &b| (n << 8) | usize::from(b));
    if len > MAX_HEADER {
        return Err(damaged(format!("the array's header says that it is {len} bytes long")));
    }
    let text = exactly(len)?;
    check_header_text(&text)?;
    head.extend(len_bytes);
    head.extend(text);
    NpyHeader::from_reader(Cursor::new(head)).map_err(|e| damaged(format!("the array's header: {e}")))
}

/// The header's parser recurses on nesting and multiplies the extents; both are bounded here first.
fn check_header_text(text: &[u8]) -> Result<()> {
    let (mut depth, mut product, mut number) = (0i32, 1u64, None::<u64>);
    for &b in text.iter().chain(b" ") {
        if b.is_ascii_digit() {
            number = Some(number.unwrap_or(0).saturating_mul(10).saturating_add(u64::from(b - b'0')));
            continue;
        }
        let factor = number.take().unwrap_or(1).max(1);
        product = product.checked_mul(factor).ok_or_else(|| damaged("the array's extents overflow"))?;
        depth += i32::from(b"([{".contains(&b)) - i32::from(b")]}".contains(&b));
        if depth > 4 {
            return Err(damaged("the array's header is nested too deeply"));
        }
    }
    if product > i64::MAX as u64 { Err(damaged("the array's extents overflow")) } else { Ok(()) }
}

fn data_type(stored: &DType) -> Result<DataType> {
    let unknown = || {
        Error::unsupported(codes::DATA_DTYPE, format!("arrays of {} are not read", stored.descr()))
            .expected("bool, an integer, f16, f32 or f64")
            .help("convert it with `.astype(...)`")
    };
    let DType::Plain(t) = stored else { return Err(unknown()) };
    Ok(match (t.type_char(), t.size_field()) {
        (TypeChar::Bool, 1) => DataType::Bool,
        (TypeChar::Int, 1) => DataType::S8,
        (TypeChar::Int, 2) => DataType::S16,
        (TypeChar::Int, 4) => DataType::S32,
        (TypeChar::Int, 8) => DataType::S64,
        (TypeChar::Uint, 1) => DataType::U8,
        (TypeChar::Uint, 2) => DataType::U16,
        (TypeChar::Uint, 4) => DataType::U32,
        (TypeChar::Uint, 8) => DataType::U64,
        (TypeChar::Float, 2) => DataType::F16,
        (TypeChar::Float, 4) => DataType::F32,
        (TypeChar::Float, 8) => DataType::F64,
        _ => return Err(unknown()),
    })
}

/// NumPy's name of a type, and the tensor to store (types that NumPy lacks are widened without loss).
fn storable(tensor: &Tensor) -> Result<(&'static str, Tensor)> {
    let failed = |e: ottava_hal::Error| Error::invalid(codes::DATA_WRITE, e.to_string());
    let as_ints = |t| tensor.to_ints().and_then(|v| Tensor::from_ints(t, tensor.shape(), &v)).map_err(failed);
    Ok(match tensor.dtype() {
        DataType::S4 => ("|i1", as_ints(DataType::S8)?),
        DataType::U4 => ("|u1", as_ints(DataType::U8)?),
        DataType::BF16 => {
            let wide = tensor.to_f32s().and_then(|v| Tensor::from_slice(tensor.shape(), &v)).map_err(failed)?;
            ("<f4", wide)
        }
        DataType::Bool => ("|b1", tensor.clone()),
        DataType::S8 => ("|i1", tensor.clone()),
        DataType::U8 => ("|u1", tensor.clone()),
        DataType::S16 => ("<i2", tensor.clone()),
        DataType::U16 => ("<u2", tensor.clone()),
        DataType::S32 => ("<i4", tensor.clone()),
        DataType::U32 => ("<u4", tensor.clone()),
        DataType::S64 => ("<i8", tensor.clone()),
        DataType::U64 => ("<u8", tensor.clone()),
        DataType::F16 => ("<f2", tensor.clone()),
        DataType::F32 => ("<f4", tensor.clone()),
        DataType::F64 => ("<f8", tensor.clone()),
    })
}

/// The bytes of a `.npy` file.
pub(crate) fn to_bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    let (descr, stored) = storable(tensor)?;
    let mut shape: String = stored.shape().iter().map(|d| format!("{d}, ")).collect();
    if stored.shape().len() != 1 {
        shape = shape.trim_end_matches(", ").to_owned();
    }
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", shape.trim_end());
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64, after a line feed.
    let padded = (10 + text.len() + 1).next_multiple_of(64) - 11;
    let header_len = u16::try_from(padded + 1).map_err(|_| damaged("the array has too many dimensions"))?;
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend(header_len.to_le_bytes());
    out.extend(format!("{text:<padded$}\n").as_bytes());
    out.extend(stored.bytes());
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    fn round_trip(t: &Tensor) -> Tensor {
        let bytes = to_bytes(t).unwrap();
        read(bytes.as_slice(), bytes.len() as u64).unwrap()
    }

    fn with_header(text: &str, data: &[u8]) -> Result<Tensor> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(data);
        read(bytes.as_slice(), data.len() as u64)
    }

    #[test]
    fn arrays_round_trip() {
        let f = Tensor::from_slice(&[2, 1], &[1.5f32, -0.0]).unwrap();
        assert_eq!(round_trip(&f), f);
        let h = Tensor::from_slice(&[2], &[f16::from_f32(0.5), f16::INFINITY]).unwrap();
        assert_eq!(round_trip(&h), h);
        for t in [Tensor::scalar(7i64), Tensor::from_bools(&[3], &[true, false, true]).unwrap()] {
            assert_eq!(round_trip(&t), t);
        }
        let nibbles = Tensor::from_ints(DataType::S4, &[3], &[-8, 7, 1]).unwrap();
        assert_eq!(round_trip(&nibbles), Tensor::from_ints(DataType::S8, &[3], &[-8, 7, 1]).unwrap());
    }

    #[test]
    fn big_endian_is_turned() {
        let t = with_header("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", &[1, 2, 0xff, 0xfe]);
        assert_eq!(t.unwrap().to_ints().unwrap(), [0x102, -2]);
    }

    #[test]
    fn damaged_files_are_errors() {
        let bytes = to_bytes(&Tensor::from_slice(&[4], &[1.0f32; 4]).unwrap()).unwrap();
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut], cut as u64).is_err(), "{cut} bytes");
        }
        let huge = "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296), }";
        assert!(with_header(huge, &[]).unwrap_err().to_string().contains("overflow"));
        let large = "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }";
        assert!(with_header(large, &[0; 8]).unwrap_err().to_string().contains("promises"));
        assert!(with_header(&"(".repeat(9000), &[]).unwrap_err().to_string().contains("nested"));
        let text = "{'descr': '<U3', 'fortran_order': False, 'shape': (1,), }";
        assert!(with_header(text, &[0; 12]).unwrap_err().to_string().contains("not read"));
        let fortran = "{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2), }";
        assert!(with_header(fortran, &[0; 8]).unwrap_err().to_string().contains("column-major"));
    }
}
