//! Slices of the sums of a product.
//!
//! The sum of a convolution runs over (kernel row, kernel column, channel). A slice is a range of it that one im2col
//! transfer can fetch: whole kernel rows, or taps of one row, or channels of one tap.

use std::ops::Range;

/// A range of a sum.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice {
    /// First index of the sum.
    pub start: usize,
    /// Kernel rows.
    pub kh: Range<usize>,
    /// Kernel columns.
    pub kw: Range<usize>,
    /// Channels.
    pub c: Range<usize>,
}

impl Slice {
    /// Number of indices.
    pub(crate) fn len(&self) -> usize {
        self.kh.len() * self.kw.len() * self.c.len()
    }
}

/// Cuts a sum over `kh * kw * c` indices into slices of at most `most` (at least 1).
pub(crate) fn slices(kh: usize, kw: usize, c: usize, most: usize) -> Vec<Slice> {
    let mut out = Vec::new();
    let most = most.max(1);
    let rows = most / (kw * c);
    if rows > 0 {
        for y in (0..kh).step_by(rows) {
            out.push(Slice { start: y * kw * c, kh: y..kh.min(y + rows), kw: 0..kw, c: 0..c });
        }
        return out;
    }
    let taps = most / c;
    for y in 0..kh {
        for x in (0..kw).step_by(taps.max(1)) {
            let start = (y * kw + x) * c;
            if taps > 0 {
                out.push(Slice { start, kh: y..y + 1, kw: x..kw.min(x + taps), c: 0..c });
                continue;
            }
            for z in (0..c).step_by(most) {
                out.push(Slice { start: start + z, kh: y..y + 1, kw: x..x + 1, c: z..c.min(z + most) });
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_sum_in_order() {
        for (kh, kw, c) in [(1, 1, 7), (3, 3, 5), (2, 5, 1), (1, 3, 16)] {
            for most in 1..=kh * kw * c + 1 {
                let cut = slices(kh, kw, c, most);
                let mut next = 0;
                for slice in &cut {
                    assert_eq!(slice.start, next);
                    assert!((1..=most).contains(&slice.len()), "{slice:?} of at most {most}");
                    assert_eq!(slice.start, (slice.kh.start * kw + slice.kw.start) * c + slice.c.start);
                    next += slice.len();
                }
                assert_eq!(next, kh * kw * c);
            }
        }
    }
}
