//! Packing along strides: rows of 16-bit words for the left operand, panels of sixteen columns for the right one.
//!
//! Words come in pairs of neighbouring k, as `vpmaddwd` takes them. A missing last k is zero in both operands.

use crate::gemm::COLS;
use crate::vectorize::Vectorize;

/// Words of a pair of k's in a panel.
pub(super) const STEP: usize = 2 * COLS;

/// One row of the left operand: `out[k] = x[k] - zero`.
pub(super) struct Row<'a> {
    /// From the row's first element on.
    pub(super) x: &'a [u8],
    pub(super) stride: usize,
    pub(super) k: usize,
    pub(super) zero: i16,
    /// `k` words, or one more, which becomes zero.
    pub(super) out: &'a mut [i16],
}

impl Vectorize for Row<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let (words, last) = self.out.split_at_mut(self.k);
        if self.stride == 1 {
            for (y, x) in words.iter_mut().zip(&self.x[..self.k]) {
                *y = i16::from(*x) - self.zero;
            }
        } else {
            for (i, y) in words.iter_mut().enumerate() {
                *y = i16::from(self.x[i * self.stride]) - self.zero;
            }
        }
        last.fill(0);
    }
}

/// One panel of the right operand: `out[k / 2][column][k % 2] = x - zero`.
pub(super) struct Panel<'a> {
    /// From the panel's first element on.
    pub(super) x: &'a [u8],
    /// Elements between neighbouring k's and between neighbouring columns.
    pub(super) strides: [usize; 2],
    pub(super) k: usize,
    pub(super) cols: usize,
    pub(super) zero: i16,
    pub(super) out: &'a mut [i16],
}

impl Vectorize for Panel<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        match self.strides {
            [rows, 1] if self.cols == COLS => self.pack_rows(rows),
            [1, columns] => self.pack_columns(columns),
            _ => self.pack_anywhere(),
        }
    }
}

impl Panel<'_> {
    /// Sixteen neighbouring columns of two k's are interleaved.
    #[inline(always)]
    fn pack_rows(self, stride: usize) {
        let zero = self.zero;
        for (i, step) in self.out.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
            let row = |k: usize| self.x[k * stride..].first_chunk::<COLS>();
            let (even, odd) = (row(2 * i), if 2 * i + 1 < self.k { row(2 * i + 1) } else { None });
            let Some(even) = even else { return };
            for c in 0..COLS {
                step[2 * c] = i16::from(even[c]) - zero;
            }
            for c in 0..COLS {
                step[2 * c + 1] = odd.map_or(0, |row| i16::from(row[c]) - zero);
            }
        }
    }

    /// The k's of a column are neighbours. Columns that do not exist are zero.
    #[inline(always)]
    fn pack_columns(self, stride: usize) {
        let zero = self.zero;
        let steps = self.out.as_chunks_mut::<STEP>().0;
        for c in 0..COLS {
            if c >= self.cols {
                steps.iter_mut().for_each(|step| step[2 * c..][..2].fill(0));
                continue;
            }
            let column = &self.x[c * stride..][..self.k];
            let (pairs, last) = column.as_chunks::<2>();
            for (step, [even, odd]) in steps.iter_mut().zip(pairs) {
                step[2 * c] = i16::from(*even) - zero;
                step[2 * c + 1] = i16::from(*odd) - zero;
            }
            if let ([x], Some(step)) = (last, steps.last_mut()) {
                step[2 * c] = i16::from(*x) - zero;
                step[2 * c + 1] = 0;
            }
        }
    }

    #[inline(always)]
    fn pack_anywhere(self) {
        let [down, across] = self.strides;
        for (i, step) in self.out.as_chunks_mut::<STEP>().0.iter_mut().enumerate() {
            for (j, word) in step.iter_mut().enumerate() {
                let (k, c) = (2 * i + j % 2, j / 2);
                let inside = k < self.k && c < self.cols;
                *word = if inside { i16::from(self.x[k * down + c * across]) - self.zero } else { 0 };
            }
        }
    }
}
