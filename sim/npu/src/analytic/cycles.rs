//! Array cycles of a layer in the three timing modes (`npu.md` section 3). Memory is not in these figures.

use super::shape::product;
use super::{ArrayShape, Error, Fold, Gemm, Result, narrow};
use crate::config::{Dataflow, Timing};

/// Tmin: cycles between two pipelined folds, whatever their size.
pub const PIPELINE_MIN_INTERVAL: u64 = 4;
/// Cycles that an output-stationary fold spends beside streaming, filling and draining, ports being wide enough.
const EDGE_TRIM_OVERHEAD: u64 = 3;
/// The same where the ports limit the stream.
const PORT_LIMITED_OVERHEAD: u64 = 1;

/// Array cycles of a whole product, from its first element in to its last element out.
pub fn compute_cycles(array: &ArrayShape, gemm: &Gemm) -> Result<u64> {
    let folds = array.folds(gemm)?;
    let mut total: u128 = 0;
    let mut first = 0;
    for (fold, n) in folds.kinds() {
        let cycles = fold_cycles(array, &Fold { row: 1, ..fold })?;
        total += u128::from(cycles) * n;
        if fold.is_first() {
            first = cycles;
        }
    }
    // Only the pipelined mode treats the first fold unlike its kind.
    if array.timing == Timing::Pipelined {
        let fold = folds.iter().next().ok_or(Error::Overflow { what: "number of folds" })?;
        total = total + u128::from(fold_cycles(array, &fold)?) - u128::from(first);
    }
    narrow(total, "number of compute cycles")
}

/// Array cycles that one fold adds. In the pipelined mode the first fold of a layer also fills and drains the array.
///
/// A port-limited stream takes `ceil((r+c)/ports)` cycles per step. The serial mode has no ports: its anchor has none.
pub fn fold_cycles(array: &ArrayShape, fold: &Fold) -> Result<u64> {
    let &ArrayShape { rows, cols, dataflow, timing, .. } = array.check()?;
    let cycles = match timing {
        Timing::FoldSerial => serial(dataflow, fold.t.into(), rows, cols),
        Timing::EdgeTrim => edge_trim(array, fold),
        Timing::Pipelined => {
            let t = streamed(array, fold.t, rows, cols);
            if fold.is_first() {
                serial(dataflow, t, rows, cols)
            } else {
                t.max(rows.into()).max(PIPELINE_MIN_INTERVAL.into())
            }
        }
    };
    narrow(cycles, "number of cycles of a fold")
}

/// Fill, stream and drain of `r` rows and `c` columns, one after the other.
fn serial(dataflow: Dataflow, t: u128, r: u64, c: u64) -> u128 {
    let skew = (u128::from(r) + u128::from(c)).saturating_sub(2);
    match dataflow {
        Dataflow::Os => t + skew,
        // The stationary operand is shifted in first, one row per cycle.
        Dataflow::Ws | Dataflow::Is => t + u128::from(r) + skew,
    }
}

fn edge_trim(array: &ArrayShape, fold: &Fold) -> u128 {
    let &Fold { r, c, t, .. } = fold;
    let stream = streamed(array, t, r, c);
    if array.dataflow != Dataflow::Os {
        return serial(array.dataflow, stream, r, c);
    }
    let limited = array.ports.is_some_and(|ports| ports < r.saturating_add(c));
    let overhead = if limited { PORT_LIMITED_OVERHEAD } else { EDGE_TRIM_OVERHEAD };
    stream + u128::from(r) + u128::from(c) + u128::from(overhead)
}

/// Cycles in which `t` steps enter `r` rows and `c` columns.
fn streamed(array: &ArrayShape, t: u64, r: u64, c: u64) -> u128 {
    let per_step = array.ports.map_or(1, |ports| r.saturating_add(c).div_ceil(ports));
    product(&[t, per_step])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(dataflow: Dataflow, timing: Timing) -> ArrayShape {
        ArrayShape { rows: 16, cols: 16, dataflow, timing, ports: None }
    }

    #[test]
    fn one_element_takes_the_way_through_the_array() {
        let one = Gemm::new(1, 1, 1);
        let cycles = |d, t| compute_cycles(&array(d, t), &one).unwrap();
        assert_eq!(cycles(Dataflow::Os, Timing::FoldSerial), 1 + 16 + 16 - 2);
        assert_eq!(cycles(Dataflow::Ws, Timing::FoldSerial), 1 + 32 + 16 - 2);
        assert_eq!(cycles(Dataflow::Is, Timing::EdgeTrim), 2);
        assert_eq!(cycles(Dataflow::Os, Timing::EdgeTrim), 1 + 2 + 3);
        assert_eq!(cycles(Dataflow::Os, Timing::Pipelined), 31);
    }

    #[test]
    fn the_sum_over_kinds_is_the_sum_over_folds() {
        for dataflow in [Dataflow::Os, Dataflow::Ws, Dataflow::Is] {
            for timing in [Timing::FoldSerial, Timing::EdgeTrim, Timing::Pipelined] {
                for ports in [None, Some(5)] {
                    let array = ArrayShape { ports, ..array(dataflow, timing) };
                    for gemm in [Gemm::new(33, 17, 50), Gemm::new(1, 1, 1), Gemm::new(16, 32, 3)] {
                        let folds = array.folds(&gemm).unwrap();
                        let sum: u64 = folds.iter().map(|f| fold_cycles(&array, &f).unwrap()).sum();
                        assert_eq!(sum, compute_cycles(&array, &gemm).unwrap(), "{array:?} {gemm:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn pipelined_folds_follow_each_other_at_the_interval() {
        let array = array(Dataflow::Ws, Timing::Pipelined);
        // 4 row folds, 2 column folds, 100 streamed rows.
        assert_eq!(compute_cycles(&array, &Gemm::new(100, 32, 64)).unwrap(), (100 + 32 + 16 - 2) + 7 * 100);
        // Short streams cannot hide the preload of 16 rows.
        assert_eq!(compute_cycles(&array, &Gemm::new(2, 32, 64)).unwrap(), (2 + 32 + 16 - 2) + 7 * 16);
    }

    #[test]
    fn ports_stretch_the_stream() {
        let limited = ArrayShape { ports: Some(8), ..array(Dataflow::Os, Timing::EdgeTrim) };
        assert_eq!(compute_cycles(&limited, &Gemm::new(16, 16, 10)).unwrap(), 10 * 4 + 32 + 1);
    }

    #[test]
    fn a_total_that_does_not_fit_is_an_error() {
        let array = array(Dataflow::Os, Timing::FoldSerial);
        let max = super::super::DIM_MAX;
        assert!(matches!(compute_cycles(&array, &Gemm::new(max, max, max)), Err(Error::Overflow { .. })));
    }
}
