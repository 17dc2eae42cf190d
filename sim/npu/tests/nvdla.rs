//! The NVDLA performance sheet and the figures of its primer (S9 of `npu.md` section 10).
//!
//! The sheet is a model of another machine, and the test applies its conventions to our cycles: 3x3 convolutions as
//! Winograd products (16 of them over quarter as many pixels, 2.25 times fewer multiplications), and in its ResNet-50
//! part half rate for layers with 64 filters. Traffic is the sheet's own column; what this simulator counts itself is
//! printed beside, with windows unrolled as its closed forms do.

mod common;

use common::{Row, table_or_skip, text_or_skip};
use ottava_npu::analytic::{ArrayShape, Buffers, Dram, Gemm, compute_cycles, gemm_run};
use ottava_npu::config::{Dataflow, NpuConfig, Timing};
use std::collections::BTreeMap;

const SHEET: &str = "anchors/nvdla_spreadsheet_per_layer.csv";

fn array(rows: u64, cols: u64) -> ArrayShape {
    ArrayShape { rows, cols, dataflow: Dataflow::Ws, timing: Timing::Pipelined, ports: None }
}

/// The products of a layer of the sheet, and how many of them there are.
fn products(row: &Row, winograd: bool) -> (Gemm, u64) {
    let n = |column: &str| row.number(column);
    let (p, q, r, s) = (n("P"), n("Q"), n("R"), n("S"));
    if winograd && (r, s) == (3, 3) {
        return (Gemm::new(p.div_ceil(2) * q.div_ceil(2), n("K"), n("C")), 16);
    }
    (Gemm::new(p * q, n("K"), n("C") * r * s), 1)
}

/// Array cycles of a layer under the sheet's conventions, or plainly.
fn cycles(row: &Row, conventions: bool) -> u64 {
    let (gemm, count) = products(row, conventions);
    let halved = conventions && row.text("network") == "ResNet50" && row.number("K") == 64;
    compute_cycles(&array(64, 32), &gemm).unwrap() * count * if halved { 2 } else { 1 }
}

/// Right labels among all, and among those that the array bounds.
fn labels(rows: &[Row], label: impl Fn(&Row) -> bool) -> (usize, usize) {
    let right = |row: &&Row| label(row) == (row.text("long_pole") == "MAC");
    let by_array = |row: &&Row| row.text("long_pole") == "MAC";
    (rows.iter().filter(right).count(), rows.iter().filter(by_array).filter(right).count())
}

#[test]
fn s9_layers_are_bound_by_what_the_sheet_says() {
    let Some(table) = table_or_skip("s9_layers_are_bound_by_what_the_sheet_says", SHEET) else { return };
    let rows: Vec<Row> = table.rows().collect();
    let dram = |row: &Row| row.text("dram_cycles").parse::<f64>().unwrap();
    let (right, by_array) = labels(&rows, |row| cycles(row, true) as f64 > dram(row));
    let plain = labels(&rows, |row| cycles(row, false) as f64 > dram(row));
    let n_by_array = rows.iter().filter(|row| row.text("long_pole") == "MAC").count();
    let share = 100.0 * right as f64 / rows.len() as f64;
    println!("S9: {right} of {} labels ({share:.1} %), {by_array} of {n_by_array} that the array bounds", rows.len());
    println!("S9: without the sheet's conventions {} and {}", plain.0, plain.1);
    let (own, own_array) = labels(&rows, |row| own_traffic(row).0 > own_traffic(row).1);
    println!("S9: with this simulator's own traffic {own} and {own_array}; windows are unrolled in it");
    assert_eq!((rows.len(), n_by_array), (104, 10));
    assert!(share >= 95.0 && by_array >= 9, "{right} and {by_array}");
}

/// Array cycles, and bytes over bandwidth of the closed forms, at the sheet's 10 bytes per cycle and 512 kB.
fn own_traffic(row: &Row) -> (u64, u64) {
    let (gemm, count) = products(row, true);
    let buffers = Buffers { a_bytes: 262_144, w_bytes: 262_144, acc_bytes: 131_072 };
    let run = gemm_run(&array(64, 32), &gemm, &buffers, Dram::UNLIMITED).unwrap();
    let bytes = run.traffic.loads().unwrap() + run.traffic.stores().unwrap();
    (cycles(row, true), bytes * count / 10)
}

/// MACs of the array as rows and columns, bytes per cycle, frames per second of the primer.
const CONFIGS: [(u64, u64, f64, f64); 7] = [
    (64, 32, 20.0, 269.0),
    (64, 16, 15.0, 153.0),
    (32, 16, 10.0, 93.0),
    (32, 8, 5.0, 46.0),
    (16, 8, 2.0, 20.0),
    (8, 8, 1.0, 7.3),
    (8, 4, 0.5, 3.6),
];

/// Product, bytes with each tensor once, and count of each layer of ResNet-50.
fn resnet50() -> Option<Vec<(Gemm, u64, u64)>> {
    let test = "s9_the_seven_configurations_keep_their_order";
    let list = table_or_skip(test, "topologies/layer_list.csv")?;
    let text = text_or_skip(test, "topologies/resnet50.csv")?;
    let inputs: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let n = |i: usize| cells.get(i)?.parse::<u64>().ok();
            Some((*cells.get(1)?, n(2)? * n(3)? * n(6)?))
        })
        .collect();
    let layer = |row: Row| {
        let gemm = row.gemm();
        // A product has no window: its rows are its input.
        let input = inputs.get(row.text("layer")).copied().unwrap_or(gemm.m * gemm.k);
        (gemm, input + gemm.k * gemm.n + gemm.m * gemm.n, row.number("count"))
    };
    Some(list.rows().filter(|row| row.text("network") == "resnet50").map(layer).collect())
}

#[test]
fn s9_the_seven_configurations_keep_their_order() {
    let Some(layers) = resnet50() else { return };
    let mut frames = Vec::new();
    for (rows, cols, bytes_per_cycle, expected) in CONFIGS {
        let one = |(gemm, bytes, count): &(Gemm, u64, u64)| {
            let compute = compute_cycles(&array(rows, cols), gemm).unwrap() as f64;
            compute.max(*bytes as f64 / bytes_per_cycle) * *count as f64
        };
        let found = 1e9 / layers.iter().map(one).sum::<f64>();
        let ratio = found / expected;
        let own = unrolled(&layers, rows, cols, bytes_per_cycle);
        println!(
            "S9: {:>4} MACs: {found:.1} frames/s, the primer {expected} (ratio {ratio:.2}); windows unrolled {own:.1}",
            rows * cols
        );
        assert!((0.5..=2.0).contains(&ratio), "{rows} x {cols}: {found} instead of {expected}");
        frames.push(found);
    }
    assert!(frames.windows(2).all(|pair| pair[0] > pair[1]), "{frames:?}");
}

/// Frames per second by the two-buffer recurrence, which loads windows unrolled.
fn unrolled(layers: &[(Gemm, u64, u64)], rows: u64, cols: u64, bytes_per_cycle: f64) -> f64 {
    let base = NpuConfig::preset("nvdla2048").unwrap();
    let dram = ottava_npu::config::Dram::Simple { bytes_per_cycle, latency: 100 };
    let (buffers, dram) = (Buffers::from(&base.sram), Dram::from(&dram));
    let one = |(gemm, _, count): &(Gemm, u64, u64)| {
        gemm_run(&array(rows, cols), gemm, &buffers, dram).unwrap().total.ceil() * count
    };
    1e9 / layers.iter().map(one).sum::<u64>() as f64
}
