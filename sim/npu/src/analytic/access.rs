//! Accesses of the scratchpads, in elements, and utilisation (`npu.md` section 3).

use super::shape::product;
use super::{ArrayShape, Gemm, Result, narrow};
use crate::config::Dataflow;

/// Elements that a layer reads from and writes to the scratchpads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct SramAccesses {
    /// Reads of the left operand.
    pub a: u64,
    /// Reads of the weights.
    pub w: u64,
    /// Writes of outputs, partial sums included.
    pub o: u64,
}

impl SramAccesses {
    /// The accesses of `n` layers like this one.
    pub fn repeat(&self, n: u64) -> Result<Self> {
        let times = |count: u64| narrow(product(&[count, n]), "number of scratchpad accesses");
        Ok(Self { a: times(self.a)?, w: times(self.w)?, o: times(self.o)? })
    }
}

/// Scratchpad accesses of a product: what the dataflow keeps is read once, the rest once per fold.
pub fn sram_accesses(array: &ArrayShape, gemm: &Gemm) -> Result<SramAccesses> {
    let &ArrayShape { rows, cols, dataflow, .. } = array.check()?;
    let &Gemm { m, n, k } = gemm.check()?;
    let (a, w, o) = match dataflow {
        Dataflow::Os => (n.div_ceil(cols), m.div_ceil(rows), 1),
        Dataflow::Ws => (n.div_ceil(cols), 1, k.div_ceil(rows)),
        Dataflow::Is => (1, m.div_ceil(cols), k.div_ceil(rows)),
    };
    let count = |factors: &[u64]| narrow(product(factors), "number of scratchpad accesses");
    Ok(SramAccesses { a: count(&[m, k, a])?, w: count(&[k, n, w])?, o: count(&[m, n, o])? })
}

/// Share of the array's cycles that did a multiply-accumulate, 0 to 1; 0 where no cycle passed.
pub fn utilization(macs: u64, cycles: u64, rows: u64, cols: u64) -> f64 {
    let capacity = product(&[cycles, rows.min(super::ARRAY_MAX), cols.min(super::ARRAY_MAX)]);
    if capacity == 0 { 0.0 } else { macs as f64 / capacity as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Timing;

    #[test]
    fn what_stays_is_read_once() {
        let gemm = Gemm::new(20, 30, 40);
        let of = |dataflow| {
            let array = ArrayShape { rows: 8, cols: 16, dataflow, timing: Timing::Pipelined, ports: None };
            let SramAccesses { a, w, o } = sram_accesses(&array, &gemm).unwrap();
            (a, w, o)
        };
        assert_eq!(of(Dataflow::Os), (800 * 2, 1200 * 3, 600));
        assert_eq!(of(Dataflow::Ws), (800 * 2, 1200, 600 * 5));
        assert_eq!(of(Dataflow::Is), (800, 1200 * 2, 600 * 5));
    }

    #[test]
    fn utilisation_is_a_share() {
        assert_eq!(utilization(256, 1, 16, 16), 1.0);
        assert_eq!(utilization(64, 1, 16, 16), 0.25);
        assert_eq!(utilization(1, 0, 16, 16), 0.0);
    }
}
