//! The event engine against the bandwidth oracle (S6 of `npu.md` section 10): every fold as a load, a product and a
//! store, double-buffered by tokens, on one channel without overlapping latencies.

mod common;

use common::{Row, table_or_skip};
use ottava_npu::NpuConfig;
use ottava_npu::analytic::{ArrayShape, Fold, Gemm, fold_cycles};
use ottava_npu::config::{Dataflow, Depth, Dma, Dram, Queues, Timing};
use ottava_npu::isa::{Opcode, Queue, Tokens};
use ottava_npu::program::{Step, Work};
use ottava_npu::timing::{Cost, simulate};

/// What one fold moves: bytes in, bytes out.
fn traffic(row: &Row, gemm: &Gemm, folds: (u64, u64), fold: &Fold) -> (u64, u64) {
    let fits = |elements: u64, column: &str| elements <= row.number(column) * 1024 / 2;
    let (a_stays, w_stays) = (fits(gemm.m * gemm.k, "sram_a_kB"), fits(gemm.k * gemm.n, "sram_w_kB"));
    let again = |stays: bool| fold.col == 0 || !(stays || folds.0 == 1);
    let when = |yes: bool, bytes: u64| if yes { bytes } else { 0 };
    let (r, c) = (fold.r, fold.c);
    match row.dataflow() {
        Dataflow::Os => (when(again(a_stays), r * gemm.k) + when(fold.row == 0, gemm.k * c), r * c),
        dataflow => {
            let moving = match dataflow {
                Dataflow::Ws => when(again(a_stays), gemm.m * r),
                _ => when(again(w_stays), r * gemm.n),
            };
            let sums = fold.t * c * 4;
            let spills = sums > row.number("acc_kB") * 1024;
            let last = fold.row + 1 == folds.0;
            let out = when(last, fold.t * c) + when(spills && !last, sums);
            (r * c + moving + when(spills && fold.row > 0, sums), out)
        }
    }
}

/// Steps of a layer: LD -> EX -> VEC (hands over) -> ST; EX frees the buffer of the fold before the last.
fn steps(row: &Row, array: &ArrayShape) -> (Vec<Step>, Vec<Cost>) {
    let gemm = row.gemm();
    let folds = array.folds(&gemm).unwrap();
    let (mut steps, mut costs) = (Vec::new(), Vec::new());
    let mut push = |op, queue, tokens, cycles, dma_bytes| {
        steps.push(Step { index: steps.len(), op, queue, tokens, node: None, work: Work::Nop });
        costs.push(Cost { cycles, hold: cycles, dma_bytes, ..Cost::default() });
    };
    let n = u64::try_from(folds.count()).unwrap();
    for (i, fold) in (0..).zip(folds.iter()) {
        let (bytes_in, bytes_out) = traffic(row, &gemm, (folds.rows, folds.cols), &fold);
        let load = Tokens { pop_next: i >= 2, push_next: true, ..Tokens::NONE };
        push(Opcode::Ld2d, Queue::Ld, load, 0, Some(bytes_in));
        let cycles = fold_cycles(array, &fold).unwrap();
        let product = Tokens { pop_prev: true, push_prev: i + 2 < n, push_next: bytes_out > 0, ..Tokens::NONE };
        push(Opcode::Gemm, Queue::Ex, product, cycles, None);
        if bytes_out > 0 {
            let through = Tokens { pop_prev: true, push_next: true, ..Tokens::NONE };
            push(Opcode::Nop, Queue::Vec, through, 0, None);
            let store = Tokens { pop_prev: true, ..Tokens::NONE };
            push(Opcode::St2d, Queue::St, store, 0, Some(bytes_out));
        }
    }
    (steps, costs)
}

fn device(row: &Row) -> NpuConfig {
    let base = NpuConfig::default();
    let deep = Depth { ld: 4096, ex: 4096, vec: 4096, st: 4096 };
    NpuConfig {
        dma: Dma { channels: 1, in_flight: 1, ..base.dma },
        queues: Queues { depth: deep, decode_cycles: 0 },
        dram: Dram::Simple { bytes_per_cycle: row.number("bytes_per_cycle") as f64, latency: row.number("latency") },
        ..base
    }
}

#[test]
fn s6_the_engine_is_within_two_percent_of_the_oracle() {
    let Some(table) = table_or_skip("s6_the_engine_is_within_two_percent_of_the_oracle", "oracle/bw_oracle.csv") else {
        return;
    };
    let (mut worst, mut checked) = (0.0_f64, 0);
    for row in table.rows() {
        let array = row.array(Timing::FoldSerial);
        let (steps, costs) = steps(&row, &array);
        let config = device(&row);
        let timing = simulate(&config, &steps, &vec![1; steps.len()], &costs).unwrap();
        let expected = row.number("total_cycles");
        let error = timing.total_cycles.abs_diff(expected) as f64 / expected as f64;
        let place = format!("{} {array:?} at {} B/cycle", row.text("layer"), row.number("bytes_per_cycle"));
        assert!(error <= 0.02, "{place}: {} instead of {expected}", timing.total_cycles);
        assert!(timing.adds_up(), "{place}");
        let rounding = 2 * steps.len() as u64;
        assert!(timing.total_cycles >= row.number("lower_bound"), "{place}: below the lower bound");
        assert!(timing.total_cycles <= row.number("upper_bound") + rounding, "{place}: above the upper bound");
        worst = worst.max(error);
        checked += 1;
    }
    println!("S6, engine: {checked} rows, largest difference {:.3} %", worst * 100.0);
    assert_eq!(checked, 3_888);
}
