//! A layer as a product of matrices, an array, and the folds that the one makes on the other (`npu.md` section 3).
//!
//! A product of M×K by K×N is mapped to (Sr, Sc, T): Sr runs along the rows of the array, Sc along its columns, T is
//! streamed. Where Sr or Sc is larger than the array, the product is cut into folds; column folds are the outer loop, row
//! folds the inner one.

use super::{Result, in_range, narrow};
use crate::config::{Array, Dataflow, Timing};

/// Largest M, N, K and number of channels.
pub const DIM_MAX: u64 = u32::MAX as u64;
/// Largest number of rows and columns of an array; wider than any chip, so that sweeps are not cut off.
pub const ARRAY_MAX: u64 = 1 << 16;

/// A systolic array, as far as its closed forms need it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ArrayShape {
    /// R, rows of processing elements.
    pub rows: u64,
    /// C, columns of processing elements.
    pub cols: u64,
    /// Which operand stays.
    pub dataflow: Dataflow,
    /// How folds follow each other.
    pub timing: Timing,
    /// Elements that enter the array per cycle; `None`: as many as the fold has rows and columns.
    pub ports: Option<u64>,
}

impl From<&Array> for ArrayShape {
    fn from(array: &Array) -> Self {
        let &Array { rows, cols, dataflow, timing, ports, .. } = array;
        Self { rows: rows.into(), cols: cols.into(), dataflow, timing, ports: ports.map(u64::from) }
    }
}

impl ArrayShape {
    /// The array, if its sizes are in range.
    pub fn check(&self) -> Result<&Self> {
        in_range(self.rows, ARRAY_MAX, "number of array rows")?;
        in_range(self.cols, ARRAY_MAX, "number of array columns")?;
        if let Some(ports) = self.ports {
            in_range(ports, 2 * ARRAY_MAX, "number of array ports")?;
        }
        Ok(self)
    }

    /// The folds of a product on this array.
    pub fn folds(&self, gemm: &Gemm) -> Result<Folds> {
        self.check()?;
        Ok(Folds::of(gemm.mapping(self.dataflow)?, self.rows, self.cols))
    }
}

/// A product of an M×K by a K×N matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Rows of the left matrix and of the output.
    pub m: u64,
    /// Columns of the right matrix and of the output.
    pub n: u64,
    /// Length of the sums.
    pub k: u64,
}

impl Gemm {
    /// A product; sizes are checked where they are used.
    pub const fn new(m: u64, n: u64, k: u64) -> Self {
        Self { m, n, k }
    }

    /// The product, if its sizes are in range.
    pub fn check(&self) -> Result<&Self> {
        in_range(self.m, DIM_MAX, "M")?;
        in_range(self.n, DIM_MAX, "N")?;
        in_range(self.k, DIM_MAX, "K")?;
        Ok(self)
    }

    /// Multiply-accumulates: M·N·K.
    pub fn macs(&self) -> Result<u64> {
        self.check()?;
        narrow(product(&[self.m, self.n, self.k]), "number of multiply-accumulates")
    }

    /// (Sr, Sc, T) under a dataflow.
    pub fn mapping(&self, dataflow: Dataflow) -> Result<Mapping> {
        let &Self { m, n, k } = self.check()?;
        Ok(match dataflow {
            Dataflow::Os => Mapping { sr: m, sc: n, t: k },
            Dataflow::Ws => Mapping { sr: k, sc: n, t: m },
            Dataflow::Is => Mapping { sr: k, sc: m, t: n },
        })
    }
}

/// Where the dimensions of a product lie on the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// Along the rows.
    pub sr: u64,
    /// Along the columns.
    pub sc: u64,
    /// Streamed, one step per cycle.
    pub t: u64,
}

/// One fold: the part of a layer that is in the array at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fold {
    /// Row fold, the inner loop.
    pub row: u64,
    /// Column fold, the outer loop.
    pub col: u64,
    /// Rows of the array in use.
    pub r: u64,
    /// Columns of the array in use.
    pub c: u64,
    /// Steps that are streamed.
    pub t: u64,
}

impl Fold {
    /// Whether nothing ran before this fold of its layer.
    pub fn is_first(&self) -> bool {
        self.row == 0 && self.col == 0
    }
}

/// All folds of a product on an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Folds {
    /// Row folds: ceil(Sr / R).
    pub rows: u64,
    /// Column folds: ceil(Sc / C).
    pub cols: u64,
    mapping: Mapping,
    array: (u64, u64),
}

impl Folds {
    fn of(mapping: Mapping, rows: u64, cols: u64) -> Self {
        let (row_folds, col_folds) = (mapping.sr.div_ceil(rows), mapping.sc.div_ceil(cols));
        Self { rows: row_folds, cols: col_folds, mapping, array: (rows, cols) }
    }

    /// Number of folds.
    pub fn count(&self) -> u128 {
        product(&[self.rows, self.cols])
    }

    /// The mapping that was cut.
    pub fn mapping(&self) -> Mapping {
        self.mapping
    }

    /// Share of the array that the folds fill on average, 0 to 1.
    pub fn efficiency(&self) -> f64 {
        let filled = product(&[self.mapping.sr, self.mapping.sc]) as f64;
        filled / (self.count() as f64 * product(&[self.array.0, self.array.1]) as f64)
    }

    /// Rows in use by row fold `row`; `row` is less than [`Self::rows`].
    pub fn r(&self, row: u64) -> u64 {
        self.array.0.min(self.mapping.sr - row * self.array.0)
    }

    /// Columns in use by column fold `col`; `col` is less than [`Self::cols`].
    pub fn c(&self, col: u64) -> u64 {
        self.array.1.min(self.mapping.sc - col * self.array.1)
    }

    /// The folds in the order in which they run.
    pub fn iter(&self) -> impl Iterator<Item = Fold> {
        let folds = *self;
        (0..folds.cols).flat_map(move |col| (0..folds.rows).map(move |row| folds.at(row, col)))
    }

    /// The at most four kinds of folds (full or cut, by rows and by columns), each with the number of its folds.
    pub fn kinds(&self) -> impl Iterator<Item = (Fold, u128)> {
        let folds = *self;
        // All but the last row and column folds are full; the last may be, and is a kind of its own all the same.
        let split = |n: u64| [(0, n - 1), (n - 1, 1)];
        let pairs = split(folds.cols).into_iter().flat_map(move |c| split(folds.rows).map(|r| (r, c)));
        pairs
            .filter(|&((_, n_rows), (_, n_cols))| n_rows > 0 && n_cols > 0)
            .map(move |((row, n_rows), (col, n_cols))| (folds.at(row, col), product(&[n_rows, n_cols])))
    }

    fn at(&self, row: u64, col: u64) -> Fold {
        Fold { row, col, r: self.r(row), c: self.c(col), t: self.mapping.t }
    }
}

/// Product of at most four numbers up to [`DIM_MAX`], which fits.
pub(super) fn product(factors: &[u64]) -> u128 {
    factors.iter().map(|&f| u128::from(f)).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WS_8X4: ArrayShape =
        ArrayShape { rows: 8, cols: 4, dataflow: Dataflow::Ws, timing: Timing::FoldSerial, ports: None };

    #[test]
    fn folds_cover_the_mapping_once() {
        let gemm = Gemm::new(7, 9, 19);
        let folds = WS_8X4.folds(&gemm).unwrap();
        assert_eq!((folds.rows, folds.cols, folds.count()), (3, 3, 9));
        let cells: u64 = folds.iter().map(|f| f.r * f.c).sum();
        assert_eq!(cells, 19 * 9);
        let order: Vec<_> = folds.iter().take(4).map(|f| (f.row, f.col)).collect();
        assert_eq!(order, [(0, 0), (1, 0), (2, 0), (0, 1)]);
    }

    #[test]
    fn kinds_stand_for_all_folds() {
        for gemm in [Gemm::new(7, 9, 19), Gemm::new(1, 4, 8), Gemm::new(5, 3, 70)] {
            let folds = WS_8X4.folds(&gemm).unwrap();
            let cells: u128 = folds.kinds().map(|(f, n)| u128::from(f.r * f.c) * n).sum();
            assert_eq!(cells, u128::from(gemm.k * gemm.n));
            assert_eq!(folds.kinds().map(|(_, n)| n).sum::<u128>(), folds.count());
        }
    }

    #[test]
    fn zero_and_huge_sizes_are_errors() {
        assert!(
            WS_8X4.folds(&Gemm::new(0, 1, 1)).unwrap_err().to_string().contains("M is 0; expected 1 to 4294967295")
        );
        assert!(WS_8X4.folds(&Gemm::new(1, 1 << 32, 1)).is_err());
        assert!(ArrayShape { rows: 0, ..WS_8X4 }.folds(&Gemm::new(1, 1, 1)).is_err());
        assert!(Gemm::new(DIM_MAX, DIM_MAX, DIM_MAX).macs().is_err());
    }
}
