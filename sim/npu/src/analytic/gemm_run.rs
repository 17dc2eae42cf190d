//! What a product moves fold by fold, and its run through the two-buffer recurrence (`npu.md` section 4).
//!
//! Operands are one byte, accumulators four. Traffic counts operands in the form of the product: the left operand of a
//! convolution is counted with its window unrolled.

use super::shape::product;
use super::{
    ArrayShape, Dram, Error, Fold, Folds, Gemm, MAX_FOLDS, Result, Run, Traffic, TwoBuffers, fold_cycles, narrow,
};
use crate::config::{Dataflow, Sram};

/// Bytes of an accumulator.
const ACC_BYTES: u64 = 4;

/// Sizes of the memories on the chip.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Buffers {
    /// Scratchpad of the left operand; half of it holds one operand, the other half the next.
    pub a_bytes: u64,
    /// Scratchpad of the weights.
    pub w_bytes: u64,
    /// Accumulators.
    pub acc_bytes: u64,
}

impl From<&Sram> for Buffers {
    fn from(sram: &Sram) -> Self {
        let &Sram { a, w, acc } = sram;
        Self { a_bytes: a.bytes.into(), w_bytes: w.bytes.into(), acc_bytes: acc.bytes.into() }
    }
}

/// Runs a product over a memory: cycles, waiting by reason, bytes by kind.
pub fn gemm_run(array: &ArrayShape, gemm: &Gemm, buffers: &Buffers, dram: Dram) -> Result<Run> {
    let folds = array.folds(gemm)?;
    check_count(folds.count())?;
    let moves = Moves::new(array.dataflow, gemm, &folds, buffers);
    let mut state = TwoBuffers::new(dram);
    for fold in folds.iter() {
        state.fold(fold_cycles(array, &fold)?, &moves.of(&fold)?)?;
    }
    state.finish()
}

/// Refuses walks that would not end soon.
pub(super) fn check_count(folds: u128) -> Result<()> {
    if folds > MAX_FOLDS.into() { Err(Error::TooManyFolds { folds, limit: MAX_FOLDS }) } else { Ok(()) }
}

/// Which tiles a fold has to fetch and write.
struct Moves<'a> {
    dataflow: Dataflow,
    gemm: &'a Gemm,
    row_folds: u64,
    a_resident: bool,
    w_resident: bool,
    acc_bytes: u64,
}

impl<'a> Moves<'a> {
    fn new(dataflow: Dataflow, gemm: &'a Gemm, folds: &Folds, buffers: &Buffers) -> Self {
        let fits = |elements: &[u64], bytes: u64| product(elements) <= u128::from(bytes / 2);
        Self {
            dataflow,
            gemm,
            row_folds: folds.rows,
            a_resident: fits(&[gemm.m, gemm.k], buffers.a_bytes),
            w_resident: fits(&[gemm.k, gemm.n], buffers.w_bytes),
            acc_bytes: buffers.acc_bytes,
        }
    }

    /// Bytes of one fold.
    fn of(&self, fold: &Fold) -> Result<Traffic> {
        let &Gemm { m, n, k } = self.gemm;
        let &Fold { r, c, row, col, .. } = fold;
        // A tile that is named by its row fold comes again with each column fold, unless it is still there.
        let by_row = |resident: bool| col == 0 || !(resident || self.row_folds == 1);
        let (a, w) = match self.dataflow {
            // The weights are named by the column fold, which is the outer loop: each is fetched once.
            Dataflow::Os => (fetch(by_row(self.a_resident), r, k)?, fetch(row == 0, k, c)?),
            Dataflow::Ws => (fetch(by_row(self.a_resident), m, r)?, fetch(true, r, c)?),
            Dataflow::Is => (fetch(true, r, c)?, fetch(by_row(self.w_resident), r, n)?),
        };
        if self.dataflow == Dataflow::Os {
            return Ok(Traffic { a, w, out: fetch(true, r, c)?, ..Traffic::default() });
        }
        self.with_sums(fold, Traffic { a, w, ..Traffic::default() })
    }

    /// Adds the outputs of the last row fold, and the partial sums of the others where the accumulators are too small.
    fn with_sums(&self, fold: &Fold, loads: Traffic) -> Result<Traffic> {
        let outputs = product(&[fold.t, fold.c]);
        let sums = outputs * u128::from(ACC_BYTES);
        let spills = sums > self.acc_bytes.into();
        let last = fold.row + 1 == self.row_folds;
        let bytes = |yes: bool, bytes: u128| narrow(if yes { bytes } else { 0 }, "bytes of a fold");
        Ok(Traffic {
            psum_in: bytes(spills && fold.row > 0, sums)?,
            out: bytes(last, outputs)?,
            psum_out: bytes(spills && !last, sums)?,
            ..loads
        })
    }
}

/// Bytes of a tile that is fetched, or nothing.
fn fetch(needed: bool, rows: u64, cols: u64) -> Result<u64> {
    if needed { narrow(product(&[rows, cols]), "bytes of a tile") } else { Ok(0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytic::compute_cycles;
    use crate::config::Timing;

    const BUFFERS: Buffers = Buffers { a_bytes: 1 << 18, w_bytes: 1 << 18, acc_bytes: 1 << 16 };

    fn array(dataflow: Dataflow) -> ArrayShape {
        ArrayShape { rows: 16, cols: 16, dataflow, timing: Timing::FoldSerial, ports: None }
    }

    #[test]
    fn resident_operands_are_fetched_once() {
        let gemm = Gemm::new(64, 64, 64);
        for dataflow in [Dataflow::Os, Dataflow::Ws, Dataflow::Is] {
            let run = gemm_run(&array(dataflow), &gemm, &BUFFERS, Dram::UNLIMITED).unwrap();
            let expected = Traffic { a: 4096, w: 4096, out: 4096, ..Traffic::default() };
            assert_eq!(run.traffic, expected, "{dataflow:?}");
            assert_eq!(run.compute, compute_cycles(&array(dataflow), &gemm).unwrap());
        }
    }

    #[test]
    fn small_scratchpads_fetch_again() {
        let small = Buffers { a_bytes: 64, w_bytes: 64, acc_bytes: 1 << 16 };
        let gemm = Gemm::new(64, 64, 64);
        let traffic = |dataflow| gemm_run(&array(dataflow), &gemm, &small, Dram::UNLIMITED).unwrap().traffic;
        assert_eq!(traffic(Dataflow::Os).a, 4 * 4096);
        assert_eq!(traffic(Dataflow::Os).w, 4096);
        assert_eq!(traffic(Dataflow::Is).w, 4 * 4096);
    }

    #[test]
    fn small_accumulators_spill_partial_sums() {
        let small = Buffers { acc_bytes: 64 * 16 * 4 - 1, ..BUFFERS };
        let gemm = Gemm::new(64, 16, 64);
        let traffic = gemm_run(&array(Dataflow::Ws), &gemm, &small, Dram::UNLIMITED).unwrap().traffic;
        assert_eq!((traffic.psum_out, traffic.psum_in, traffic.out), (3 * 4096, 3 * 4096, 1024));
    }

    #[test]
    fn too_many_folds_are_refused() {
        let max = super::super::DIM_MAX;
        let run = gemm_run(&array(Dataflow::Os), &Gemm::new(max, max, 1), &BUFFERS, Dram::UNLIMITED);
        assert!(matches!(run, Err(Error::TooManyFolds { .. })));
    }
}
