//! Runs whose transfers and arithmetic take turns: `overlap: None` of a configuration (`npu.md` section 4).
//!
//! Where the operands fit, the run is a cold start: fill both scratchpads at once through ports of their own, compute,
//! write the outputs. Where they do not, each fold waits for its tiles and for its outputs to be written.

use super::shape::product;
use super::{ArrayShape, Buffers, Dram, Gemm, Result, Run, Time, gemm_run, narrow};
use crate::config::Dataflow;

/// Runs a product without overlap.
///
/// A cold start takes `compute + P/bw + O/bw - 1` cycles and two latencies; P is the larger of what the operands load, each
/// padded to whole folds and at most half of its scratchpad.
pub fn cold_start_run(array: &ArrayShape, gemm: &Gemm, buffers: &Buffers, dram: Dram) -> Result<Run> {
    let run = gemm_run(array, gemm, buffers, dram)?;
    let halves = [buffers.a_bytes / 2, buffers.w_bytes / 2].map(u128::from);
    let operands = [product(&[gemm.m, gemm.k]), product(&[gemm.k, gemm.n])];
    if operands[0] > halves[0] || operands[1] > halves[1] {
        return serial_run(&run, dram);
    }
    let [a, w] = padded_operands(array, gemm);
    let prefetch = narrow(a.min(halves[0]).max(w.min(halves[1])), "prefetched bytes")?;
    let load = dram.transfer(prefetch)?;
    let store = dram.transfer(narrow(outputs(array, gemm), "stored bytes")?)?;
    // The last cycle of the load is the first one of the array.
    in_turn(&run, load.since(Time::from_cycles(1)?), store)
}

/// `run` as it is when no transfer hides behind the array: each fold loads, computes, stores.
pub fn serial_run(run: &Run, dram: Dram) -> Result<Run> {
    let latencies = Time::from_cycles(dram.latency)?.times(run.folds)?;
    let load = dram.stream(run.traffic.loads()?)?.plus(latencies)?;
    let store = dram.stream(run.traffic.stores()?)?.plus(latencies)?;
    in_turn(run, load, store)
}

fn in_turn(run: &Run, load: Time, store: Time) -> Result<Run> {
    let total = Time::from_cycles(run.compute)?.plus(load)?.plus(store)?;
    Ok(Run { total, wait_in: load, wait_out: Time::ZERO, drain: store, ..*run })
}

/// A' and W': the operands, padded to whole folds.
fn padded_operands(array: &ArrayShape, &Gemm { m, n, k }: &Gemm) -> [u128; 2] {
    let (r, c) = (array.rows, array.cols);
    let pad = |dim: u64, to: u64| dim.div_ceil(to) * to;
    match array.dataflow {
        Dataflow::Os => [product(&[pad(m, r), k]), product(&[k, pad(n, c)])],
        Dataflow::Ws => [product(&[m, pad(k, r)]), product(&[k, pad(n, c)])],
        Dataflow::Is => [product(&[k, pad(m, c)]), product(&[pad(k, r), n])],
    }
}

/// Outputs that are written; a dataflow with partial sums writes them once per row fold.
fn outputs(array: &ArrayShape, &Gemm { m, n, k }: &Gemm) -> u128 {
    match array.dataflow {
        Dataflow::Os => product(&[m, n]),
        Dataflow::Ws | Dataflow::Is => product(&[m, n, k.div_ceil(array.rows)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analytic::Bandwidth;
    use crate::config::Timing;

    const ARRAY: ArrayShape =
        ArrayShape { rows: 16, cols: 16, dataflow: Dataflow::Os, timing: Timing::FoldSerial, ports: None };
    const BUFFERS: Buffers = Buffers { a_bytes: 1 << 18, w_bytes: 1 << 18, acc_bytes: 1 << 16 };

    fn run(gemm: Gemm, buffers: &Buffers, bytes: u64, latency: u64) -> Run {
        let dram = Dram { bandwidth: Some(Bandwidth::from_bytes_per_cycle(bytes).unwrap()), latency };
        cold_start_run(&ARRAY, &gemm, buffers, dram).unwrap()
    }

    #[test]
    fn one_element_loads_a_padded_column() {
        let one = Gemm::new(1, 1, 1);
        // 31 cycles of the array, 16 bytes in, 1 byte out.
        assert_eq!(run(one, &BUFFERS, 1, 0).total, Time::from_cycles(31 + 16 + 1 - 1).unwrap());
        assert_eq!(run(one, &BUFFERS, 16, 0).total.parts(), (31 + 1 - 1) * 256 + 16);
    }

    #[test]
    fn operands_that_do_not_fit_are_loaded_fold_by_fold() {
        let small = Buffers { a_bytes: 64, w_bytes: 64, acc_bytes: 1 << 16 };
        let run = run(Gemm::new(32, 16, 10), &small, 1, 7);
        // Two folds of 10 + 30 cycles; 320 + 160 bytes in, 512 out, seven cycles before each transfer.
        assert_eq!(run.total, Time::from_cycles(80 + 480 + 14 + 512 + 14).unwrap());
        assert_eq!((run.wait_in.floor(), run.drain.floor()), (494, 526));
    }
}
