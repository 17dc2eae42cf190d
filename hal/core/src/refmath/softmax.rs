//! `softmax_lut`: Softmax of 8-bit rows in integers (numerics.md section 6).
//!
//! * (C1) `T[k] = floor(exp(-k*xs) * 2^23 + 0.5)`, k = 0..=255, u32, computed in f64; `P = rne(2^16 / ys)`, `P < 2^32`.
//! * (C2) Per row: `m = max q`, `e_j = T[m - q_j]`, `S = sum of e_j` in u64; rows are shorter than 2^24.
//! * (C3) `y_j = sat((2*P*e_j + S*2^16) div (S*2^17) + zy)`, all in u64.
//! * (C4) A masked element has `e_j = 0` and does not take part in the maximum; a fully masked row is uniform.

use super::error::{RefmathError, check_scale};
use super::quantize::Target;
use super::stored::Stored;

/// The first row length that is not supported (C2).
pub const SOFTMAX_ROW_LIMIT: usize = 1 << 24;

/// The constants of a `softmax_lut` operator.
#[derive(Clone, Debug, PartialEq)]
pub struct SoftmaxLut {
    /// (C1) `T`.
    pub table: [u32; 256],
    /// (C1) `P`.
    pub multiplier: u32,
    /// The zero point of the output.
    pub zy: i32,
    /// The least output value.
    pub lo: i32,
    /// The greatest output value.
    pub hi: i32,
}

impl SoftmaxLut {
    /// (C1) Computes the constants for input scale `xs` and the output `to`.
    pub fn new(xs: f32, to: Target) -> Result<Self, RefmathError> {
        check_scale(xs)?;
        check_scale(to.scale)?;
        let mut table = [0; 256];
        build_softmax_table(xs, &mut table);
        let multiplier = softmax_multiplier(to.scale)?;
        Ok(Self { table, multiplier, zy: to.zp, lo: to.lo, hi: to.hi })
    }

    /// (C2, C3, C4) The Softmax of one row into `out`.
    ///
    /// `masked[j]` excludes element j. Fails, before it writes anything, if the lengths differ or the row is too long.
    /// The elements are 8-bit values; a larger difference from the maximum counts as 255.
    pub fn row<X: Stored, Y: Stored>(
        &self,
        x: &[X],
        masked: Option<&[bool]>,
        out: &mut [Y],
    ) -> Result<(), RefmathError> {
        check_row(x.len(), masked.map(<[bool]>::len), out.len())?;
        let is_masked = |j: usize| masked.is_some_and(|m| m[j]);
        let open = (0..x.len()).filter(|&j| !is_masked(j));
        // None: a fully masked row, in which every element counts the same.
        let max = open.map(|j| x[j].into()).max();
        let e = |j: usize| match max {
            None => self.table[0],
            Some(_) if is_masked(j) => 0,
            Some(m) => self.exp(m, x[j].into()),
        };
        let sum = (0..x.len()).map(|j| u64::from(e(j))).sum();
        for (j, y) in out.iter_mut().enumerate() {
            *y = Y::from_i32(self.divide(e(j), sum));
        }
        Ok(())
    }

    /// (C2) `T[m - q]`.
    #[inline]
    pub fn exp(&self, m: i32, q: i32) -> u32 {
        let difference = (i64::from(m) - i64::from(q)).clamp(0, 255);
        self.table[difference as usize]
    }

    /// (C3) The output for one `e` and the row's sum. Contract: `e <= sum`, `2^23 <= sum < 2^47`.
    #[inline]
    pub fn divide(&self, e: u32, sum: u64) -> i32 {
        // sum < 2^47 keeps the divisor inside u64; the dividend is below 2^57 + 2^63.
        let quotient = (2 * u64::from(self.multiplier) * u64::from(e)).saturating_add(sum << 16) / (sum << 17).max(1);
        let y = quotient as i64 + i64::from(self.zy);
        y.max(i64::from(self.lo)).min(i64::from(self.hi)) as i32
    }
}

/// (C1) Fills the exponential table: `floor(exp(-k * xs) * 2^23 + 0.5)`.
pub fn build_softmax_table(xs: f32, table: &mut [u32; 256]) {
    for (entry, k) in table.iter_mut().zip(0_u32..) {
        let e = libm::exp(-f64::from(k) * f64::from(xs));
        *entry = libm::floor(e * 8_388_608.0 + 0.5) as u32;
    }
}

/// (C1) `P = rne(2^16 / ys)`; an error from `2^32` on.
pub fn softmax_multiplier(ys: f32) -> Result<u32, RefmathError> {
    let p = libm::rint(65536.0 / f64::from(ys));
    let limit = 4_294_967_296.0;
    if (0.0..limit).contains(&p) {
        return Ok(p as u32);
    }
    Err(RefmathError::Bound { what: "the multiplier 2^16 / ys of softmax_lut", found: p, limit })
}

fn check_row(n: usize, mask: Option<usize>, out: usize) -> Result<(), RefmathError> {
    let length = |what, found| Err(RefmathError::Length { what, found, expected: n });
    match mask {
        _ if out != n => length("the output row of softmax_lut", out),
        Some(found) if found != n => length("the mask of softmax_lut", found),
        _ if n >= SOFTMAX_ROW_LIMIT => {
            let what = "the row length of softmax_lut";
            Err(RefmathError::Bound { what, found: n as f64, limit: SOFTMAX_ROW_LIMIT as f64 })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refmath::testing::Rng;

    const U8: Target = Target { scale: 1.0 / 256.0, zp: 0, lo: 0, hi: 255 };
    const S8: Target = Target { scale: 1.0 / 256.0, zp: -128, lo: -128, hi: 127 };

    fn lut(xs: f32, to: Target) -> SoftmaxLut {
        SoftmaxLut::new(xs, to).expect("valid scales")
    }

    #[test]
    fn c1_constants() {
        let lut = lut(0.1, U8);
        assert_eq!(lut.multiplier, 1 << 24);
        assert_eq!(lut.table[0], 1 << 23);
        // exp(-1.0000000149) * 2^23 = 3085996.24, with xs = 0.1f32.
        assert_eq!(lut.table[10], 3_085_996);
        assert!(lut.table.windows(2).all(|w| w[0] >= w[1]));
        assert!(SoftmaxLut::new(0.0, U8).is_err());
        assert!(SoftmaxLut::new(0.1, Target { scale: 1e-6, ..U8 }).is_err(), "P >= 2^32");
        assert_eq!(softmax_multiplier(1.0 / 65535.0), Ok(4_294_901_761), "2^32 - 2^16 + 1");
    }

    #[test]
    fn c3_uniform_rows() {
        let lut = lut(0.05, S8);
        let mut y = [0_i8; 4];
        lut.row(&[7_i8; 4], None, &mut y).expect("equal lengths");
        assert_eq!(y, [-64; 4], "64 - 128");
        let mut one = [0_i8; 1];
        lut.row(&[-128_i8], None, &mut one).expect("equal lengths");
        assert_eq!(one, [127], "256 saturates");
        let mut empty = [0_i8; 0];
        assert_eq!(lut.row(&[0_i8; 0], None, &mut empty), Ok(()));
    }

    #[test]
    fn c3_equals_exact_arithmetic() {
        let mut rng = Rng::new(111);
        let (mut x, mut y) = ([0_u8; 19], [0_u8; 19]);
        for _ in 0..5000 {
            let to = Target { scale: rng.real(0.0005, 0.01) as f32, zp: rng.int(0, 30), ..U8 };
            let lut = lut(rng.scale(), to);
            x.fill_with(|| rng.int(0, 255) as u8);
            lut.row(&x, None, &mut y).expect("equal lengths");
            let m = i32::from(x.iter().copied().max().unwrap_or(0));
            let e = |q: u8| i128::from(lut.table[(m - i32::from(q)) as usize]);
            let sum: i128 = x.iter().map(|&q| e(q)).sum();
            for (q, got) in x.into_iter().zip(y) {
                // floor(P*e / (S * 2^16) + 1/2).
                let real = (i128::from(lut.multiplier) * e(q) * 2 + (sum << 16)).div_euclid(sum << 17);
                assert_eq!(i128::from(got), (real + i128::from(to.zp)).clamp(0, 255));
            }
        }
    }

    #[test]
    fn within_one_of_real_arithmetic() {
        let mut rng = Rng::new(112);
        let (mut x, mut y) = ([0_i8; 64], [0_i8; 64]);
        for _ in 0..2000 {
            let xs = rng.real(0.001, 0.5) as f32;
            let n = rng.int(1, 64) as usize;
            x.fill_with(|| rng.int(-128, 127) as i8);
            lut(xs, S8).row(&x[..n], None, &mut y[..n]).expect("equal lengths");
            let exp = |q: i8| libm::exp(f64::from(q) * f64::from(xs));
            let sum: f64 = x[..n].iter().map(|&q| exp(q)).sum();
            for j in 0..n {
                let real = (exp(x[j]) / sum * 256.0).round_ties_even() - 128.0;
                assert!((f64::from(y[j]) - real.min(127.0)).abs() <= 1.0, "{} {real}", y[j]);
            }
        }
    }

    #[test]
    fn c4_masks() {
        let lut = lut(0.05, U8);
        let x = [255_u8, 10, 20, 10];
        let mut y = [9_u8; 4];
        lut.row(&x, Some(&[true, false, true, false]), &mut y).expect("equal lengths");
        assert_eq!(y, [0, 128, 0, 128], "the masked maximum has no influence");
        lut.row(&x, Some(&[true; 4]), &mut y).expect("equal lengths");
        assert_eq!(y, [64; 4], "fully masked: uniform");
        let mut without = [0_u8; 4];
        lut.row(&x, Some(&[false; 4]), &mut y).expect("equal lengths");
        lut.row(&x, None, &mut without).expect("equal lengths");
        assert_eq!(y, without);
    }

    #[test]
    fn lengths_are_checked() {
        let lut = lut(0.05, U8);
        let mut y = [9_u8; 3];
        assert!(lut.row(&[1_u8, 2], None, &mut y).is_err());
        assert!(lut.row(&[1_u8, 2, 3], Some(&[true]), &mut y).is_err());
        assert_eq!(y, [9; 3], "nothing written");
        assert!(check_row(SOFTMAX_ROW_LIMIT, None, SOFTMAX_ROW_LIMIT).is_err());
    }
}
