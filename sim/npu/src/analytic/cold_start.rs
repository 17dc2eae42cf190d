//! The form without overlap (`npu.md` section 4): fill the buffers, compute, write the outputs.
//!
//! It is the reading of a scratchpad machine whose operands fit half of their scratchpad; where they do not fit, use the
//! two-buffer recurrence.

use super::shape::product;
use super::{ArrayShape, Bandwidth, Buffers, Gemm, Result, Time, compute_cycles, narrow};
use crate::config::Dataflow;

/// Cycles of a layer that first loads, then computes, then stores: `compute + P/bw + O/bw - 1`.
///
/// P is the larger of what each operand loads into its half; both have a port of their own, of `bandwidth` each.
pub fn cold_start_cycles(array: &ArrayShape, gemm: &Gemm, buffers: &Buffers, bandwidth: Bandwidth) -> Result<Time> {
    let compute = Time::from_cycles(compute_cycles(array, gemm)?)?;
    let [a, w] = padded_operands(array, gemm);
    let prefetch = a.min((buffers.a_bytes / 2).into()).max(w.min((buffers.w_bytes / 2).into()));
    let load = bandwidth.transfer(narrow(prefetch, "prefetched bytes")?)?;
    let store = bandwidth.transfer(narrow(outputs(array, gemm), "stored bytes")?)?;
    let total = compute.plus(load)?.plus(store)?;
    // The last cycle of the load is the first one of the array.
    Ok(total.since(Time::from_cycles(1)?))
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
    use crate::config::Timing;

    #[test]
    fn one_element_loads_a_padded_column() {
        let array = ArrayShape {
            rows: 16,
            cols: 16,
            dataflow: Dataflow::Os,
            timing: Timing::FoldSerial,
            ports: None,
        };
        let buffers = Buffers { a_bytes: 1 << 18, w_bytes: 1 << 18, acc_bytes: 1 << 16 };
        let cycles = |bytes| {
            let bandwidth = Bandwidth::from_bytes_per_cycle(bytes).unwrap();
            cold_start_cycles(&array, &Gemm::new(1, 1, 1), &buffers, bandwidth).unwrap()
        };
        // 31 cycles of the array, 16 bytes in, 1 byte out.
        assert_eq!(cycles(1), Time::from_cycles(31 + 16 + 1 - 1).unwrap());
        assert_eq!(cycles(16).parts(), (31 + 1 - 1) * 256 + 16);
    }
}
