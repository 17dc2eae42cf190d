//! `lut_u8_u8_portable`.

/// `out[i] = table[x[i]]` over slices of one length.
pub(crate) fn run(table: &[u8; 256], x: &[u8], out: &mut [u8]) {
    for (y, x) in out.iter_mut().zip(x) {
        *y = table[usize::from(*x)];
    }
}
