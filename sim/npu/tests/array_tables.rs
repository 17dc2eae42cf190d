//! Array cycles and scratchpad accesses against published tables: S1 to S4 and S8 of `npu.md` section 10.

mod common;

use common::{Row, Table, table_or_skip};
use ottava_npu::analytic::{ArrayShape, Depthwise, DepthwiseMapping, compute_cycles, sram_accesses};
use ottava_npu::config::{Dataflow, Timing};
use std::collections::BTreeMap;

const CALC: &str = "tables/scalesim3_calc_sram256k.csv";
const MODULE: &str = "tables/scalesim3_compute_module.csv";
const STONNE: &str = "tables/stonne_tpu_os_dense.csv";

/// S1: every row, difference 0. The calc table prints the last line index, one less than a length.
#[test]
fn s1_serial_cycles_are_those_of_the_tables() {
    for (path, column, index, rows) in [(CALC, "Total Cycles", 1, 271), (MODULE, "demand_lines", 0, 501)] {
        let Some(table) = table_or_skip("s1_serial_cycles_are_those_of_the_tables", path) else { return };
        assert_eq!(table.len(), rows);
        for row in table.rows() {
            let cycles = compute_cycles(&row.array(Timing::FoldSerial), &row.gemm()).unwrap();
            assert_eq!(cycles, row.number(column) + index, "{path}: {}", row.text("layer"));
        }
        println!("S1 {path}: {rows} of {rows} rows equal");
    }
}

/// S2: every row, difference 0, apart from the F·(R+C) that the tables add to the outputs of `os`.
#[test]
fn s2_scratchpad_accesses_are_those_of_the_tables() {
    for path in [CALC, MODULE] {
        let Some(table) = table_or_skip("s2_scratchpad_accesses_are_those_of_the_tables", path) else { return };
        for row in table.rows() {
            let array = row.array(Timing::FoldSerial);
            let found = sram_accesses(&array, &row.gemm()).unwrap();
            let outputs = row.number("SRAM OFMAP Writes") - output_surplus(&array, &row);
            let expected = (row.number("SRAM IFMAP Reads"), row.number("SRAM Filter Reads"), outputs);
            assert_eq!((found.a, found.w, found.o), expected, "{path}: {}", row.text("layer"));
        }
        println!("S2 {path}: {0} of {0} rows equal, three counts each", table.len());
    }
}

fn output_surplus(array: &ArrayShape, row: &Row) -> u64 {
    let folds = u64::try_from(array.folds(&row.gemm()).unwrap().count()).unwrap();
    if array.dataflow == Dataflow::Os { folds * (array.rows + array.cols) } else { 0 }
}

/// S3: ports as wide as the array; mean at most 1 %, largest at most 6 %.
#[test]
fn s3_trimmed_folds_are_near_the_mesh_with_wide_ports() {
    let Some(table) = table_or_skip("s3_trimmed_folds_are_near_the_mesh_with_wide_ports", STONNE) else { return };
    let errors: Vec<f64> = stonne(&table, wide).collect();
    let (mean, max) = (errors.iter().sum::<f64>() / errors.len() as f64, largest(&errors));
    println!("S3: {} rows, mean {:.2} %, largest {:.2} %", errors.len(), mean * 100.0, max * 100.0);
    assert_eq!(errors.len(), 36);
    assert!(mean <= 0.01 && max <= 0.06, "mean {mean}, largest {max}");
}

/// S4: ports narrower than the array, whole tiles; at most 0.5 %.
#[test]
fn s4_port_limited_whole_tiles_are_those_of_the_mesh() {
    let Some(table) = table_or_skip("s4_port_limited_whole_tiles_are_those_of_the_mesh", STONNE) else { return };
    let whole = |row: &Row| {
        row.number("M").is_multiple_of(row.number("ms_rows")) && row.number("N").is_multiple_of(row.number("ms_cols"))
    };
    let errors: Vec<f64> = stonne(&table, |row| !wide(row) && whole(row)).collect();
    println!("S4: {} rows, largest {:.3} %", errors.len(), largest(&errors) * 100.0);
    assert_eq!(errors.len(), 14);
    assert!(largest(&errors) <= 0.005);
}

fn wide(row: &Row) -> bool {
    row.number("dn_bw") >= row.number("ms_rows") + row.number("ms_cols")
}

/// Relative error of the trimmed form on the chosen rows of the mesh's table.
fn stonne<'a>(table: &'a Table, choose: impl Fn(&Row) -> bool + 'a) -> impl Iterator<Item = f64> + 'a {
    table.rows().filter(move |row| choose(row)).map(|row| {
        let array = ArrayShape {
            rows: row.number("ms_rows"),
            cols: row.number("ms_cols"),
            dataflow: Dataflow::Os,
            timing: Timing::EdgeTrim,
            ports: Some(row.number("dn_bw")),
        };
        let cycles = compute_cycles(&array, &row.gemm()).unwrap() as f64;
        let reference = row.number("stonne_cycles") as f64;
        (cycles - reference).abs() / reference
    })
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().copied().fold(0.0, f64::max)
}

/// S8: whole networks, difference 0 in both modes.
#[test]
fn s8_networks_are_the_sum_of_their_layers() {
    let test = "s8_networks_are_the_sum_of_their_layers";
    let Some(networks) = table_or_skip(test, "tables/closed_form_networks.csv") else { return };
    let Some(layers) = table_or_skip(test, "topologies/layer_list.csv") else { return };
    let mut by_network: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
    for row in layers.rows() {
        by_network.entry(row.text("network")).or_default().push(row);
    }
    for row in networks.rows() {
        let layers = &by_network[row.text("network")];
        let total = |timing| -> u64 { layers.iter().map(|layer| all_channels(&row.array(timing), layer)).sum() };
        let place = format!("{} {:?}", row.text("network"), row.array(Timing::FoldSerial));
        let serial = row.number("cycles_fold_serial(=SCALE-Sim+1 per layer)");
        assert_eq!(total(Timing::FoldSerial), serial, "serial {place}");
        assert_eq!(total(Timing::Pipelined), row.number("cycles_pipelined_preload_hidden"), "pipelined {place}");
    }
    assert_eq!(networks.len(), 48);
    println!("S8: 48 of 48 networks equal, serial and pipelined");
}

/// Cycles of a layer, channel by channel, as often as the network has it.
fn all_channels(array: &ArrayShape, layer: &Row) -> u64 {
    let depthwise = Depthwise { gemm: layer.gemm(), channels: layer.number("channels") };
    let cost = depthwise.cost_of(array, DepthwiseMapping::PerChannel).unwrap();
    cost.cycles * layer.number("count")
}
