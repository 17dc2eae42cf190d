//! Memory-limited cycles against tables: S5 and S6 of `npu.md` section 10, and laws of the recurrence (S7).

mod common;

use common::{Row, table_or_skip};
use ottava_npu::analytic::{ArrayShape, Bandwidth, Buffers, Dram, Gemm, Run, Time, bounds, cold_start_run, gemm_run};
use ottava_npu::config::{Dataflow, Timing};

/// S5: the cold start is that of the table within 3 cycles, but for three rows that are named.
#[test]
fn s5_cold_start_is_that_of_the_table() {
    let Some(table) = table_or_skip("s5_cold_start_is_that_of_the_table", "tables/scalesim3_user_bw.csv") else {
        return;
    };
    let exception = |row: &Row| {
        (row.text("layer"), row.text("dataflow"), row.number("array_rows"), row.number("sram_kB_each"))
            == ("ic_s2short__scalesim_ceilM", "ws", 32, 16)
    };
    let (excepted, rows): (Vec<Row>, Vec<Row>) = table.rows().partition(exception);
    let largest = rows.iter().map(cold_start_error).max().unwrap();
    println!("S5: {} rows, largest difference {:.2} cycles", rows.len(), largest.parts() as f64 / 256.0);
    assert_eq!((rows.len(), excepted.len()), (625, 3));
    assert!(largest <= Time::from_cycles(3).unwrap());
}

/// Distance to the table, which prints the last index: one less than a length.
fn cold_start_error(row: &Row) -> Time {
    let bytes = row.number("sram_kB_each") * 1024;
    let buffers = Buffers { a_bytes: bytes, w_bytes: bytes, acc_bytes: 0 };
    let dram = dram(row.number("bw_words_per_cycle_per_port"), 0);
    let found = cold_start_run(&row.array(Timing::FoldSerial), &row.gemm(), &buffers, dram).unwrap().total;
    let expected = Time::from_cycles(row.number("Total Cycles (incl. prefetch)") + 1).unwrap();
    found.since(expected).max(expected.since(found))
}

/// S6: every row of the oracle: total, compute, bytes, both bounds and the label, exactly.
#[test]
fn s6_the_recurrence_is_the_oracle() {
    let Some(table) = table_or_skip("s6_the_recurrence_is_the_oracle", "oracle/bw_oracle.csv") else { return };
    for row in table.rows() {
        let dram = dram(row.number("bytes_per_cycle"), row.number("latency"));
        let kib = |column: &str| row.number(column) * 1024;
        let buffers = Buffers { a_bytes: kib("sram_a_kB"), w_bytes: kib("sram_w_kB"), acc_bytes: kib("acc_kB") };
        let run = gemm_run(&row.array(Timing::FoldSerial), &row.gemm(), &buffers, dram).unwrap();
        check_oracle_row(&row, &run, dram);
    }
    assert_eq!(table.len(), 3888);
    println!("S6: 3888 of 3888 rows equal, inside their bounds");
}

fn check_oracle_row(row: &Row, run: &Run, dram: Dram) {
    let place = format!("{} {:?}", row.text("layer"), row.array(Timing::FoldSerial));
    let (loads, stores) = (run.traffic.loads().unwrap(), run.traffic.stores().unwrap());
    let found = [run.total.round(), run.compute, loads, stores];
    let expected = ["total_cycles", "compute_cycles", "in_bytes", "out_bytes"].map(|column| row.number(column));
    assert_eq!(found, expected, "{place}");
    let limits = bounds(run, dram).unwrap();
    assert!(limits.lower <= run.total && run.total <= limits.upper, "{place}: {limits:?}");
    assert_eq!(limits.lower.round(), row.number("lower_bound"), "{place}");
    // The allowance for rounding is two parts per fold.
    let allowance = Time::from_parts(2 * run.folds);
    let upper = limits.upper.since(allowance);
    assert_eq!(upper.round(), row.number("upper_bound"), "{place}");
    let compute_bound = limits.lower == Time::from_cycles(run.compute).unwrap();
    assert_eq!(if compute_bound { "compute" } else { "memory" }, row.text("bound"), "{place}");
}

fn dram(bytes_per_cycle: u64, latency: u64) -> Dram {
    Dram { bandwidth: Some(Bandwidth::from_bytes_per_cycle(bytes_per_cycle).unwrap()), latency }
}

const BUFFERS: Buffers = Buffers { a_bytes: 1 << 14, w_bytes: 1 << 14, acc_bytes: 1 << 12 };

/// Shapes that are resident and that are not, with whole and with cut folds, on each dataflow.
fn cases() -> impl Iterator<Item = (ArrayShape, Gemm)> {
    let gemms = [(1, 1, 1), (196, 64, 576), (49, 512, 300), (100, 10, 1000), (17, 33, 65), (900, 1, 9)];
    let dataflows = [Dataflow::Os, Dataflow::Ws, Dataflow::Is];
    let timings = [Timing::FoldSerial, Timing::EdgeTrim, Timing::Pipelined];
    let arrays = dataflows.into_iter().flat_map(move |dataflow| {
        timings.map(|timing| ArrayShape { rows: 16, cols: 8, dataflow, timing, ports: None })
    });
    arrays.flat_map(move |array| gemms.map(|(m, n, k)| (array, Gemm::new(m, n, k))))
}

/// S7: more bandwidth, less latency and larger memories never take longer; reasons and busy cycles add up.
#[test]
fn s7_the_recurrence_is_monotone_and_accounts_for_every_cycle() {
    println!("S7: the recurrence, {} shapes on 9 arrays: monotone, every cycle accounted for", cases().count() / 9);
    for (array, gemm) in cases() {
        let run = |buffers: Buffers, bytes, latency| {
            let run = gemm_run(&array, &gemm, &buffers, dram(bytes, latency)).unwrap();
            let parts = [Time::from_cycles(run.compute).unwrap(), run.wait_in, run.wait_out, run.drain];
            assert_eq!(parts.iter().map(|t| t.parts()).sum::<u64>(), run.total.parts(), "{array:?} {gemm:?}");
            run.total
        };
        let place = format!("{array:?} {gemm:?}");
        for bytes in [1, 2, 4, 8, 16, 32] {
            assert!(run(BUFFERS, 2 * bytes, 20) <= run(BUFFERS, bytes, 20), "bandwidth {bytes}, {place}");
            assert!(run(BUFFERS, bytes, 10) <= run(BUFFERS, bytes, 100), "latency at {bytes}, {place}");
            let large = Buffers { a_bytes: 1 << 20, w_bytes: 1 << 20, acc_bytes: 1 << 20 };
            assert!(run(large, bytes, 20) <= run(BUFFERS, bytes, 20), "memories at {bytes}, {place}");
        }
    }
}

/// S7: an endless bandwidth leaves the array's cycles within 0.1 %, a tiny one the transfer's within 1 %.
#[test]
fn s7_the_limits_of_the_recurrence_are_array_and_channel() {
    let mut worst = (0.0_f64, 0.0_f64);
    for (array, gemm) in cases() {
        let fast = gemm_run(&array, &gemm, &BUFFERS, dram(1 << 30, 0)).unwrap();
        let slack = Time::from_cycles(fast.compute / 1000).unwrap().plus(Time::from_parts(2 * fast.folds)).unwrap();
        let compute = Time::from_cycles(fast.compute).unwrap();
        assert!(fast.total.since(compute) <= slack, "{array:?} {gemm:?}");
        let part = |time: Time, of: Time| time.parts() as f64 / of.parts().max(1) as f64;
        worst.0 = worst.0.max(part(fast.total.since(compute), compute));
        let slow = Dram { bandwidth: Bandwidth::from_f64(1.0 / 4096.0), latency: 0 };
        let run = gemm_run(&array, &gemm, &BUFFERS, slow).unwrap();
        let stream = bounds(&run, slow).unwrap().lower;
        assert!(run.total.since(stream).parts() <= stream.parts() / 100, "{array:?} {gemm:?}");
        worst.1 = worst.1.max(part(run.total.since(stream), stream));
    }
    println!(
        "S7: limits, largest {:.4} % above the array, {:.3} % above the channel",
        worst.0 * 100.0,
        worst.1 * 100.0
    );
}
