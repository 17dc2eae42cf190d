//! Lookup tables of unary operators (numerics.md section 6).
//!
//! * (C1) 8 bits: `T[q] = Quantize(f32(f(f64(Dequantize(q)))))`, `f` in f64. Exact by construction: the compiler
//!   builds the table, a device only looks up. The index is the *byte* of `q`, so -1 as s8 is entry 255.
//! * (C2) 16 bits: 513 entries, `u = q + 32768`, `i = u >> 7`, `r = u & 127`,
//!   `y = T[i] + (((T[i+1] - T[i]) * r + 64) >> 7)`. Exact given the table.
//! * (C3) The 16-bit table: `T[i] = sat(rne(f(x_i) / ys) + zy)` in f64, at `x_i = (128 i - 32768 - zx) * xs`.

use super::quantize::{Affine, Target};
use super::round::sat_rne_zp;

/// Entries of a 16-bit table.
pub const LUT16_LEN: usize = 513;

/// (C1) Builds the 256 bytes of an 8-bit table.
///
/// `signed_in` says how a byte is read; the output is s8 or u8 as `to.lo` and `to.hi` say, stored as its byte.
pub fn build_lut8(f: impl Fn(f64) -> f64, from: Affine, signed_in: bool, to: Target, table: &mut [u8; 256]) {
    for (entry, byte) in table.iter_mut().zip(0..=u8::MAX) {
        let q = if signed_in { i32::from(byte as i8) } else { i32::from(byte) };
        let y = f(f64::from(from.dequantize(q))) as f32;
        *entry = to.quantize(y) as u8;
    }
}

/// (C1) The value of `byte` in an 8-bit table.
#[inline]
pub fn lut8(table: &[u8; 256], byte: u8) -> u8 {
    table[usize::from(byte)]
}

/// (C3) Builds a 16-bit table for s16 input and output.
pub fn build_lut16(f: impl Fn(f64) -> f64, from: Affine, to: Target, table: &mut [i16; LUT16_LEN]) {
    for (entry, i) in table.iter_mut().zip(0_i32..) {
        let x = (f64::from(128 * i - 32768) - f64::from(from.zp)) * f64::from(from.scale);
        *entry = sat_rne_zp(f(x) / f64::from(to.scale), to.zp, to.lo.max(-32768), to.hi.min(32767)) as i16;
    }
}

/// (C2) The interpolated value of `q`. The result lies between two entries, so it needs no saturation.
#[inline]
pub fn lut16(table: &[i16; LUT16_LEN], q: i16) -> i16 {
    let u = (i32::from(q) + 32768) as usize;
    let (i, r) = (u >> 7, (u & 127) as i32);
    let (low, high) = (i32::from(table[i]), i32::from(table[i + 1]));
    (low + (((high - low) * r + 64) >> 7)) as i16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;
    use crate::refmath::unary::{gelu_f64, sigmoid_f64};

    const S8: Target = Target { scale: 1.0, zp: 0, lo: -128, hi: 127 };
    const S16: Target = Target { scale: 1.0, zp: 0, lo: -32768, hi: 32767 };

    #[test]
    fn c1_index_is_the_byte() {
        let unit = Affine { scale: 1.0, zp: 0 };
        let mut table = [0; 256];
        build_lut8(|x| x, unit, true, S8, &mut table);
        for byte in 0..=u8::MAX {
            assert_eq!(lut8(&table, byte), byte, "the identity keeps each byte");
        }
        build_lut8(|x| x - 128.0, unit, false, S8, &mut table);
        assert_eq!([lut8(&table, 0), lut8(&table, 128), lut8(&table, 255)], [0x80, 0, 127]);
    }

    #[test]
    fn c1_quantizes_what_f_returns() {
        // u8 sigmoid, zero point 128, scale 1/16, output scale 1/256: values by hand.
        let from = Affine { scale: 0.0625, zp: 128 };
        let to = Target { scale: 1.0 / 256.0, zp: 0, lo: 0, hi: 255 };
        let mut table = [0; 256];
        build_lut8(sigmoid_f64, from, false, to, &mut table);
        assert_eq!([table[128], table[0], table[255]], [128, 0, 255]);
        // sigmoid(1) = 0.7310586 = 187.15 / 256.
        assert_eq!(table[144], 187);
        build_lut8(f64::ln, from, false, S8, &mut table);
        assert_eq!(table[0] as i8, -128, "log of a negative value is NaN: the least value");
        assert_eq!(table[128] as i8, -128, "log 0 = -inf");
    }

    #[test]
    fn c2_interpolates_between_entries() {
        let mut table = [0_i16; LUT16_LEN];
        table[256] = 100;
        table[257] = 228;
        assert_eq!([lut16(&table, 0), lut16(&table, 1), lut16(&table, 127)], [100, 101, 227]);
        table[0] = -32768;
        table[1] = 32767;
        assert_eq!(lut16(&table, -32768), -32768);
        assert_eq!(lut16(&table, -32768 + 127), 32255, "-32768 + (65535 * 127 + 64) / 128");
        table[512] = 7;
        table[511] = -7;
        assert_eq!(lut16(&table, 32767), 7, "-7 + (14 * 127 + 64) / 128 = 7");
    }

    #[test]
    fn c2_equals_floor_division() {
        let mut rng = Rng::new(101);
        let mut table = [0_i16; LUT16_LEN];
        table.fill_with(|| rng.next_u32() as i16);
        for q in i16::MIN..=i16::MAX {
            let u = i64::from(q) + 32768;
            let (i, r) = ((u / 128) as usize, u % 128);
            let (low, high) = (i64::from(table[i]), i64::from(table[i + 1]));
            let expect = low + ((high - low) * r + 64).div_euclid(128);
            assert_eq!(i64::from(lut16(&table, q)), expect);
        }
    }

    /// The largest error in output units over every input.
    fn worst(f: fn(f64) -> f64, xs: f32, ys: f32) -> f64 {
        let mut table = [0; LUT16_LEN];
        build_lut16(f, Affine { scale: xs, zp: 0 }, Target { scale: ys, ..S16 }, &mut table);
        (i16::MIN..=i16::MAX).fold(0.0, |worst: f64, q| {
            let real = (f(f64::from(q) * f64::from(xs)) / f64::from(ys)).clamp(-32768.0, 32767.0);
            worst.max((f64::from(lut16(&table, q)) - real).abs())
        })
    }

    #[test]
    fn c2_errors_are_as_stated() {
        let check = |f: fn(f64) -> f64, y_max: f32, limit: f64| {
            let error = worst(f, 8.0 / 32768.0, y_max / 32768.0);
            assert!(error <= limit, "{error} > {limit}");
        };
        // 1.1, 1.4 and 3.8 when rounded to one decimal.
        check(gelu_f64, 8.0, 1.15);
        check(sigmoid_f64, 1.0, 1.45);
        check(libm::tanh, 1.0, 3.85);
    }

    #[test]
    fn c3_table_saturates_and_shifts() {
        let mut table = [0; LUT16_LEN];
        build_lut16(|x| x * 2.0, Affine { scale: 1.0, zp: 0 }, S16, &mut table);
        assert_eq!([table[0], table[256], table[512]], [-32768, 0, 32767]);
        build_lut16(|x| x, Affine { scale: 1.0, zp: 100 }, Target { zp: 7, ..S16 }, &mut table);
        assert_eq!(table[256], -93);
    }
}
