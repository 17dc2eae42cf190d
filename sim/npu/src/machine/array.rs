//! Products on the array and depthwise convolutions: exact i32 sums of `(x - zx)(w - zw)`.
//!
//! Operands are widened to i16 once per instruction (`x - zx` has nine bits), so that the inner loop is a sum of two
//! products of 16-bit values, in the shape that compilers turn into one vector instruction: four columns side by side.
//! Sums wrap modulo 2^32; the verifier has proved that the final values fit.

use super::Exec;
use super::memory::{Chip, value};
use super::requant::wide;
use crate::isa::Dtype;
use crate::program::{Dwconv, Factor, Gemm, Tile};

impl Exec<'_, '_> {
    pub(super) fn gemm(&mut self, g: &Gemm) {
        if g.is_wide() {
            return self.gemm_wide(g);
        }
        let (k, n) = (g.w.k as usize, g.w.n as usize);
        let columns = n.div_ceil(COLUMNS);
        let weights = pack_pairs(&factor(&self.chip, &g.w), n);
        let mut sums = vec![[0_i32; COLUMNS]; columns];
        let mut x = vec![0_i16; k.next_multiple_of(2)];
        for m in 0..g.a.rows {
            let bytes = self.chip.row(&g.a, m).iter();
            let zp = g.input.affine.zp;
            // The choice of the type is outside the loop over bytes.
            if g.input.dtype == Dtype::U8 {
                x.iter_mut().zip(bytes).for_each(|(x, &b)| *x = (i32::from(b) - zp) as i16);
            } else {
                x.iter_mut().zip(bytes).for_each(|(x, &b)| *x = (i32::from(b as i8) - zp) as i16);
            }
            sums.fill([0; COLUMNS]);
            for (pair, row) in x.as_chunks().0.iter().zip(weights.chunks_exact(columns)) {
                if *pair != [0, 0] {
                    add_products(&mut sums, *pair, row);
                }
            }
            write(self.chip.acc_row_mut(&g.acc, m), sums.as_flattened(), g.accumulate);
        }
    }

    /// Rows of s16: sums of 64 bits, in pairs of accumulators.
    fn gemm_wide(&mut self, g: &Gemm) {
        let (weights, n) = (factor(&self.chip, &g.w), g.w.n as usize);
        let mut sums = vec![0_i64; n];
        for m in 0..g.a.rows {
            let row = self.chip.row(&g.a, m).as_chunks().0;
            sums.fill(0);
            for (x, weights) in row.iter().zip(weights.chunks_exact(n)) {
                let x = i32::from(i16::from_le_bytes(*x)) - g.input.affine.zp;
                // 17 bits times 9.
                let products = weights.iter().map(|&w| i64::from(x.wrapping_mul(w.into())));
                sums.iter_mut().zip(products).for_each(|(sum, p)| *sum = sum.wrapping_add(p));
            }
            for (pair, sum) in self.chip.acc_row_mut(&g.acc, m).as_chunks_mut().0.iter_mut().zip(&sums) {
                let base = if g.accumulate { wide(*pair) } else { 0 };
                let sum = base.wrapping_add(*sum);
                *pair = [sum as i32, (sum >> 32) as i32];
            }
        }
    }

    pub(super) fn dwconv(&mut self, d: &Dwconv) {
        let image = centred_tile(&self.chip, &d.image, d.input.dtype, d.input.affine.zp);
        let weights = centred_tile(&self.chip, &d.weights, d.weight_dtype, d.zw);
        let (channels, n) = (d.image.len as usize, d.weights.len as usize);
        let multiplier = d.multiplier as usize;
        let mut sums = vec![0_i32; n];
        for pixel in 0..d.acc.rows {
            let (oh, ow) = (pixel / d.window.ow, pixel % d.window.ow);
            let (rows, columns) = d.window.taps_inside(oh, ow);
            sums.fill(0);
            for kh in rows {
                for kw in columns.clone() {
                    let at = d.window.pixel(oh, ow, kh, kw) as usize * channels;
                    let tap = (kh as usize * d.window.kw as usize + kw as usize) * n;
                    let (x, w) = (&image[at..at + channels], &weights[tap..tap + n]);
                    add_depthwise(&mut sums, x, w, multiplier);
                }
            }
            write(self.chip.acc_row_mut(&d.acc, pixel), &sums, d.accumulate);
        }
    }
}

/// Columns that are worked on together.
const COLUMNS: usize = 4;

/// `sums[n] += a * w[n][0] + b * w[n][1]`, the weights of four columns side by side. Products of 16-bit values cannot
/// overflow; wrapping says so to builds that check. Inlined into a larger loop it is no longer seen as one instruction.
#[inline(never)]
fn add_products(sums: &mut [[i32; COLUMNS]], [a, b]: [i16; 2], weights: &[[i16; 2 * COLUMNS]]) {
    let x = [a, b, a, b, a, b, a, b];
    for (sums, w) in sums.iter_mut().zip(weights) {
        let products: [i32; 2 * COLUMNS] = std::array::from_fn(|i| i32::from(x[i]).wrapping_mul(i32::from(w[i])));
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum = sum.wrapping_add(products[2 * i].wrapping_add(products[2 * i + 1]));
        }
    }
}

/// One tap: output channel n sees input channel `n / multiplier`.
fn add_depthwise(sums: &mut [i32], x: &[i16], w: &[i16], multiplier: usize) {
    if multiplier == 1 {
        for ((sum, x), w) in sums.iter_mut().zip(x).zip(w) {
            *sum = sum.wrapping_add(i32::from(*x).wrapping_mul(i32::from(*w)));
        }
        return;
    }
    for ((sums, w), x) in sums.chunks_exact_mut(multiplier).zip(w.chunks_exact(multiplier)).zip(x) {
        for (sum, w) in sums.iter_mut().zip(w) {
            *sum = sum.wrapping_add(i32::from(*x).wrapping_mul(i32::from(*w)));
        }
    }
}

fn write(acc: &mut [i32], sums: &[i32], accumulate: bool) {
    if !accumulate {
        acc.copy_from_slice(&sums[..acc.len()]);
        return;
    }
    acc.iter_mut().zip(sums).for_each(|(acc, sum)| *acc = acc.wrapping_add(*sum));
}

/// `byte - zp`, within nine bits and a sign because zero points lie in the operand's range.
fn centre(byte: u8, dtype: Dtype, zp: i32) -> i16 {
    (value(byte, dtype) - zp) as i16
}

fn centred_tile(chip: &Chip, tile: &Tile, dtype: Dtype, zp: i32) -> Vec<i16> {
    let mut out = Vec::with_capacity(tile.units() as usize);
    (0..tile.rows).for_each(|i| out.extend(chip.row(tile, i).iter().map(|&b| centre(b, dtype, zp))));
    out
}

/// The preloaded operand, `[K][N]`, minus its zero point.
fn factor(chip: &Chip, w: &Factor) -> Vec<i16> {
    if w.dtype != Dtype::S4 {
        return centred_tile(chip, &w.tile, w.dtype, w.zp);
    }
    let n = w.n as usize;
    let mut out = Vec::with_capacity(w.k as usize * n);
    for i in 0..w.tile.rows {
        let nibbles = chip.row(&w.tile, i).iter().flat_map(|b| [b << 4, b & 0xF0]);
        out.extend(nibbles.take(n).map(|high| i16::from(high as i8 >> 4) - w.zp as i16));
    }
    out
}

/// Rows 2p and 2p + 1 of `[K][n]` side by side, in blocks of four columns; what is missing is zero.
fn pack_pairs(w: &[i16], n: usize) -> Vec<[i16; 2 * COLUMNS]> {
    let columns = n.div_ceil(COLUMNS);
    let mut out = Vec::with_capacity((w.len() / n.max(1)).div_ceil(2) * columns);
    for rows in w.chunks(2 * n) {
        let (first, second) = rows.split_at(n);
        out.extend((0..columns).map(|c| {
            let at = |row: &[i16], i: usize| row.get(c * COLUMNS + i).copied().unwrap_or(0);
            std::array::from_fn(|i| at(if i % 2 == 0 { first } else { second }, i / 2))
        }));
    }
    out
}
