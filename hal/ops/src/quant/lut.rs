//! Functions as tables (numerics.md section 6): of 8 bits `T[q] = Quantize(f32(f(f64(Dequantize(q)))))`, of 16 bits 513
//! entries and a straight line between two of them.

use crate::lookup;
use ottava_hal::refmath::lut::{LUT16_LEN, lut16};
use ottava_hal::refmath::quantize as q;
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Tensor, TensorType};

/// The table of a unary operator between two per-tensor quantizations; entry `i` belongs to the byte `i`, read as the
/// input's storage type.
pub fn table_for(node: &Node, input: &TensorType, output: &TensorType) -> Result<Tensor> {
    let op = lookup(&node.domain, &node.op)?;
    let per_tensor = |ty: &TensorType, what: &str| {
        let params = ty.quant.as_deref().and_then(QuantParams::as_per_tensor);
        params.ok_or_else(|| Error::invalid(format!("{}: the {what} must be quantized per tensor", node.full_op())))
    };
    let (in_scale, in_zp) = per_tensor(input, "input")?;
    let (out_scale, out_zp) = per_tensor(output, "output")?;
    let range =
        |ty: &TensorType| ty.dtype.storage_range().ok_or_else(|| Error::invalid(format!("{} is no storage", ty.dtype)));
    let ((lo_in, _), (lo, hi)) = (range(input)?, range(output)?);
    let mut table = Vec::with_capacity(256);
    for byte in 0..=255u8 {
        let code = if lo_in < 0 { i32::from(byte as i8) } else { i32::from(byte) };
        let x = f64::from(q::dequantize(code, in_zp, in_scale));
        let y = op.real(node, x)? as f32;
        table.push(i64::from(q::quantize_f32(y, out_scale, out_zp, lo, hi)));
    }
    Tensor::from_ints(output.dtype, &[256], &table)
}

/// Looks every value of `x` up: bytes in a table of 256 entries, s16 in one of 513.
pub fn apply(x: &Tensor, table: &Tensor) -> Result<Tensor> {
    if let (DataType::S16, DataType::S16, Ok(entries)) =
        (x.dtype(), table.dtype(), <&[i16; LUT16_LEN]>::try_from(table.as_slice::<i16>().unwrap_or(&[])))
    {
        let mut y = x.clone();
        y.as_slice_mut::<i16>()?.iter_mut().for_each(|q| *q = lut16(entries, *q));
        return Ok(y);
    }
    if x.dtype().bits() != 8 || table.elements() != 256 {
        return Err(Error::invalid(format!(
            "a table of {} entries on {}: needs 256 and 8 bits, or 513 and s16",
            table.elements(),
            x.dtype()
        )));
    }
    let width = table.dtype().bits() / 8;
    let entries = table.bytes();
    let bytes: Vec<u8> =
        x.bytes().iter().flat_map(|&b| entries[usize::from(b) * width..][..width].iter().copied()).collect();
    Tensor::from_bytes(table.dtype(), x.shape(), &bytes)
}
