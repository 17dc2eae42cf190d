//! `simulate --layers` against the table whose columns it writes, and its sums against whole networks.

mod common;

use common::{Row, Table, table_or_skip, text_or_skip};
use ottava_npu::NpuConfig;
use ottava_npu::config::{Array, Dataflow, Depthwise, Timing};
use ottava_npu::layers::{Layer, Report, parse, simulate};
use std::collections::BTreeMap;
use std::fmt::Write;

const CALC: &str = "tables/scalesim3_calc_sram256k.csv";
const LAYERS: &str = "topologies/layer_list.csv";
const NETWORKS: &str = "tables/closed_form_networks.csv";

fn config(rows: u64, cols: u64, dataflow: Dataflow) -> NpuConfig {
    let [rows, cols] = [rows, cols].map(|n| u32::try_from(n).unwrap());
    let array = Array { rows, cols, dataflow, depthwise: Depthwise::PerChannel, ..Array::default() };
    NpuConfig { array, ..NpuConfig::default() }
}

/// The rows of the table by array and dataflow: each group is one call of the command.
fn groups(table: &Table) -> BTreeMap<(u64, u64, Dataflow), Vec<Row<'_>>> {
    let mut groups: BTreeMap<_, Vec<Row>> = BTreeMap::new();
    for row in table.rows() {
        let array = (row.number("array_rows"), row.number("array_cols"), row.dataflow());
        groups.entry(array).or_default().push(row);
    }
    groups
}

/// A list of layers as a user would write it, one channel per depthwise row.
fn list(rows: &[Row]) -> String {
    let mut text = "network,layer,kind,M,N,K,channels,count\n".to_owned();
    for row in rows {
        let cells = ["set", "layer", "kind", "M", "N", "K"].map(|column| row.text(column));
        writeln!(text, "{},1,1", cells.join(",")).unwrap();
    }
    text
}

/// Column `name` of a CSV text whose cells need no quotes.
fn column<'a>(csv: &'a str, name: &str) -> Vec<&'a str> {
    let mut lines = csv.lines();
    let at = lines.next().unwrap().split(',').position(|column| column == name).expect(name);
    lines.map(|line| line.split(',').nth(at).unwrap()).collect()
}

/// All 271 rows: cycles, counts, efficiency and utilisation as the table has them, whatever the memory of the device.
#[test]
fn the_written_table_is_the_published_one() {
    let Some(table) = table_or_skip("the_written_table_is_the_published_one", CALC) else { return };
    let mut compared = 0;
    for ((rows, cols, dataflow), group) in groups(&table) {
        let layers = parse(&list(&group), "layers.csv").unwrap();
        let config = config(rows, cols, dataflow);
        let csv = simulate(&layers, &config, Some(Timing::FoldSerial)).unwrap().csv();
        for exact in ["layer", "Total Cycles", "closed_form_cycles_per_ch", "SRAM IFMAP Reads", "SRAM Filter Reads"] {
            let expected: Vec<&str> = group.iter().map(|row| row.text(exact)).collect();
            assert_eq!(column(&csv, exact), expected, "{exact} on {rows}x{cols} {dataflow:?}");
        }
        check_outputs(&csv, &group);
        check_shares(&csv, &group);
        compared += group.len();
    }
    assert_eq!(compared, 271);
    println!("simulate --layers: {compared} of 271 rows equal the table");
}

/// Outputs, without the F·(R+C) that the table adds for `os`.
fn check_outputs(csv: &str, group: &[Row]) {
    for (found, row) in column(csv, "SRAM OFMAP Writes").into_iter().zip(group) {
        let array = row.array(Timing::FoldSerial);
        let folds = u64::try_from(array.folds(&row.gemm()).unwrap().count()).unwrap();
        let surplus = if array.dataflow == Dataflow::Os { folds * (array.rows + array.cols) } else { 0 };
        assert_eq!(found.parse::<u64>().unwrap() + surplus, row.number("SRAM OFMAP Writes"), "{}", row.text("layer"));
    }
}

/// Percentages, of which `Overall Util %` counts one channel of a depthwise layer, as the list does.
fn check_shares(csv: &str, group: &[Row]) {
    for name in ["Overall Util %", "Mapping Efficiency %"] {
        for (found, row) in column(csv, name).into_iter().zip(group) {
            let [found, expected] = [found, row.text(name)].map(|text| text.parse::<f64>().unwrap());
            assert!(
                (found - expected).abs() <= 1e-9 * expected,
                "{name} of {}: {found}, {expected}",
                row.text("layer")
            );
        }
    }
}

/// The list of networks: sums are those of the closed table, each layer as often as its network has it.
#[test]
fn networks_sum_up_to_the_published_totals() {
    let test = "networks_sum_up_to_the_published_totals";
    let Some(text) = text_or_skip(test, LAYERS) else { return };
    let Some(table) = table_or_skip(test, NETWORKS) else { return };
    let layers = parse(&text, "layer_list.csv").unwrap();
    for ((rows, cols, dataflow), group) in groups(&table) {
        let config = config(rows, cols, dataflow);
        let report = |mode| simulate(&layers, &config, Some(mode)).unwrap();
        let (serial, pipelined) = (report(Timing::FoldSerial), report(Timing::Pipelined));
        for row in group {
            let name = row.text("network");
            let totals = |report: &Report| report.networks.iter().find(|n| n.name == name).unwrap().totals;
            assert_eq!(totals(&serial).macs, row.number("total_macs"), "{name}");
            let cycles = row.number("cycles_fold_serial(=SCALE-Sim+1 per layer)");
            assert_eq!(totals(&serial).compute_cycles, cycles, "{name}");
            let cycles = row.number("cycles_pipelined_preload_hidden");
            assert_eq!(totals(&pipelined).compute_cycles, cycles, "{name}");
        }
        check_sums(&serial);
        check_sums(&pipelined);
    }
    println!("simulate --layers: 48 of 48 network totals equal the table");
}

/// Busy cycles and reasons are the total, in each layer and in all sums.
fn check_sums(report: &Report) {
    let all = report.layers.iter().map(|l| &l.totals).chain(report.networks.iter().map(|n| &n.totals));
    for totals in all.chain([&report.totals]) {
        assert_eq!(totals.compute_cycles + totals.stall_cycles.sum(), totals.total_cycles);
        assert!((0.0..=1.0).contains(&totals.utilization));
    }
    let sum: u64 = report.networks.iter().map(|n| n.totals.total_cycles).sum();
    assert_eq!(sum, report.totals.total_cycles);
}

fn depthwise() -> Vec<Layer> {
    parse("layer,kind,M,N,K,channels\ndw,dw,100,1,9,64\n", "layers.csv").unwrap()
}

/// The choice is the configuration's, and the report names it.
#[test]
fn depthwise_layers_run_as_the_configuration_says() {
    let run = |depthwise_policy| {
        let mut config = config(32, 32, Dataflow::Ws);
        config.array.depthwise = depthwise_policy;
        let report = simulate(&depthwise(), &config, Some(Timing::FoldSerial)).unwrap();
        (report.layers[0].mapping.clone(), report.layers[0].totals.compute_cycles)
    };
    let fold = 100 + 2 * 32 + 32 - 2;
    assert_eq!(run(Depthwise::PerChannel), ("per_channel".to_owned(), 64 * fold));
    assert_eq!(run(Depthwise::Packed), ("packed(3)".to_owned(), 22 * fold));
    assert_eq!(run(Depthwise::Vector), ("vector(16)".to_owned(), 3600));
    assert_eq!(run(Depthwise::Best), ("vector(16)".to_owned(), 3600));
}

/// Without overlap the incl.-prefetch column is the cold start; with it, waiting is less.
#[test]
fn transfers_that_take_turns_take_longer() {
    let layers = parse("layer,kind,M,N,K\na,gemm,196,64,576\n", "layers.csv").unwrap();
    let run = |preset: &str| {
        let mut config = NpuConfig::preset(preset).unwrap();
        config.array.dataflow = Dataflow::Os;
        simulate(&layers, &config, Some(Timing::FoldSerial)).unwrap().totals
    };
    let cold = run("scalesim");
    // 7·2 folds of 576 + 62 cycles; the left operand, padded to 224 rows, through 10 bytes per cycle; then the outputs.
    let (compute, load, store) = (14 * (576 + 62), 224.0f64 * 576.0 / 10.0, 196.0 * 64.0 / 10.0);
    assert_eq!(cold.compute_cycles, compute);
    assert_eq!(cold.total_cycles, (compute as f64 + load + store - 1.0).ceil() as u64);
    assert!(run("edge32").stall_cycles.sum() < cold.stall_cycles.sum());
}

/// A small network that looks too good is reported with a doubt.
#[test]
fn a_small_network_without_idle_elements_is_doubted() {
    let layers = parse("network,layer,kind,M,N,K\nnet,a,gemm,65536,16,16\n", "layers.csv").unwrap();
    let mut config = config(16, 16, Dataflow::Ws);
    config.dram = ottava_npu::config::Dram::Simple { bytes_per_cycle: 1e6, latency: 0 };
    let report = simulate(&layers, &config, Some(Timing::Pipelined)).unwrap();
    assert!(report.totals.utilization > 0.9, "{}", report.totals.utilization);
    assert!(report.warnings[0].contains("`net`"), "{:?}", report.warnings);
}

/// The document has the keys that others rely on, sums beside `layers` and not below another key.
#[test]
fn the_document_has_its_keys() {
    let report = simulate(&depthwise(), &NpuConfig::default(), None).unwrap();
    let text = ron::to_string(&report).unwrap();
    let document: ron::Map = ron::from_str(&text).unwrap();
    let keys: Vec<ron::Value> = document.keys().cloned().collect();
    for key in ["total_cycles", "compute_cycles", "stall_cycles", "dram_bytes", "macs", "utilization", "layers"] {
        assert!(keys.contains(&ron::Value::String(key.to_owned())), "{key} in {text}");
    }
}

/// Sizes that no sum can hold are errors that name the layer.
#[test]
fn layers_beyond_all_sums_are_named() {
    let text = "layer,kind,M,N,K\nhuge,gemm,4294967295,4294967295,4294967295\n";
    let error = simulate(&parse(text, "l.csv").unwrap(), &NpuConfig::default(), None).unwrap_err().to_string();
    assert!(error.starts_with("layer `huge` (line 2): "), "{error}");
}

/// Layers of one shape are computed once and reported each under its name and count.
#[test]
fn layers_of_one_shape_keep_their_names_and_counts() {
    let text = "network,layer,kind,M,N,K,channels,count\nx,a,gemm,50,60,70,1,1\ny,b,gemm,50,60,70,1,3\n\
                x,c,conv,50,60,70,1,1\nx,d,gemm,50,60,70,2,1\n";
    let layers = parse(text, "l.csv").unwrap();
    let report = simulate(&layers, &NpuConfig::default(), None).unwrap();
    for (layer, together) in layers.iter().zip(&report.layers) {
        let alone = simulate(std::slice::from_ref(layer), &NpuConfig::default(), None).unwrap();
        assert_eq!(&alone.layers[0], together);
        assert_eq!((&together.name, together.count), (&layer.name, layer.count));
    }
    let names: Vec<&str> = report.networks.iter().map(|n| n.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(report.networks[1].totals.macs, 3 * 50 * 60 * 70);
    assert_eq!(report.networks[0].totals.macs, 4 * 50 * 60 * 70);
}
