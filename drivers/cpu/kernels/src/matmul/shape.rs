//! Extents and strides of a batch of products.

use alloc::format;
use alloc::vec::Vec;

use crate::error::{KernelError, Result, check_len, product};

/// How one operand of a batch is read: product `i` has its element (row, column) at `first[i] + row * rows + column * columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides {
    /// First element of the matrix of each product.
    pub first: Vec<usize>,
    /// Elements between neighbouring rows.
    pub rows: usize,
    /// Elements between neighbouring columns.
    pub columns: usize,
}

/// A batch of products `[m, k] x [k, n]`.
///
/// The output is row-major `[product / side][row][product % side][column]`: with `side` = 1 the products lie one after another, with
/// `side` = heads each output row holds the rows of all heads side by side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatMulShape {
    /// Rows of the left operand.
    pub m: usize,
    /// Columns of the left and rows of the right operand.
    pub k: usize,
    /// Columns of the right operand.
    pub n: usize,
    /// The left operand, `m` rows of `k` columns.
    pub a: Strides,
    /// The right operand, `k` rows of `n` columns.
    pub b: Strides,
    /// Products side by side in the output.
    pub side: usize,
}

/// Operand matrices that are packed once each, and which of them a product uses.
pub(super) struct Distinct {
    pub(super) first: Vec<usize>,
    pub(super) of: Vec<usize>,
}

impl Strides {
    /// Elements that `rows` x `columns` matrices reach.
    fn extent(&self, what: &'static str, rows: usize, columns: usize) -> Result<usize> {
        let far = |n: usize, stride: usize| product(what, &[n - 1, stride]);
        let inside = far(rows, self.rows)?.checked_add(far(columns, self.columns)?);
        let last = self.first.iter().copied().max().unwrap_or(0);
        let end = inside.and_then(|n| n.checked_add(last)).and_then(|n| n.checked_add(1));
        end.ok_or(KernelError::Overflow { what })
    }

    pub(super) fn distinct(&self) -> Distinct {
        let mut first = self.first.clone();
        first.sort_unstable();
        first.dedup();
        let of = self.first.iter().map(|at| first.binary_search(at).unwrap_or(0)).collect();
        Distinct { first, of }
    }
}

impl MatMulShape {
    /// Number of products.
    pub(super) fn products(&self) -> usize {
        self.a.first.len()
    }

    /// Multiply-adds of the batch.
    pub fn macs(&self) -> usize {
        [self.m, self.k, self.n].iter().fold(self.products(), |p, n| p.saturating_mul(*n))
    }

    /// Elements that the operands must hold at least, and the output exactly.
    pub(super) fn check(&self) -> Result<[usize; 3]> {
        let n = self.products();
        if self.m == 0 || self.k == 0 || self.n == 0 || n == 0 {
            return Err(KernelError::Shape { what: format!("{n} products {} x {} x {}", self.m, self.k, self.n) });
        }
        check_len("the right matrices", self.b.first.len(), n)?;
        if self.side == 0 || !n.is_multiple_of(self.side) {
            return Err(KernelError::Shape { what: format!("{n} products in rows of {}", self.side) });
        }
        let a = self.a.extent("the left operand", self.m, self.k)?;
        let b = self.b.extent("the right operand", self.k, self.n)?;
        Ok([a, b, product("the output", &[n, self.m, self.n])?])
    }

    /// Elements between neighbouring rows of a product in the output.
    pub(super) fn out_stride(&self) -> usize {
        self.side * self.n
    }

    /// Where row `row` of product `i` begins in the output.
    pub(super) fn out_at(&self, i: usize, row: usize) -> usize {
        ((i / self.side * self.m + row) * self.side + i % self.side) * self.n
    }
}

/// `Err` unless an operand reaches as far as its strides.
pub(super) fn check_reach(what: &'static str, found: usize, expected: usize) -> Result<()> {
    if found >= expected { Ok(()) } else { Err(KernelError::Length { what, found, expected }) }
}
