//! 8-bit functions as tables (numerics.md section 6): `T[q] = Quantize(f32(f(f64(Dequantize(q)))))`.

use crate::lookup;
use ottava_hal::refmath::quantize as q;
use ottava_hal::{Error, Node, QuantParams, Result, Tensor, TensorType};

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

/// Looks every byte of `x` up in a table of 256 entries.
pub fn apply(x: &Tensor, table: &Tensor) -> Result<Tensor> {
    if x.dtype().bits() != 8 || table.elements() != 256 {
        return Err(Error::invalid(format!(
            "a table of {} entries on {}: needs 256 and 8 bits",
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
