//! The estimates of Arm's compiler for Ethos-U beside ours (S10 of the NPU's acceptance): the same nodes on the NPU, and
//! layers ranked alike. Absolute cycles are no measure: those estimates are the largest of five resource times.
//!
//! Ranks are compared over the layers of all networks together, on the configuration whose memory is one channel of 64
//! bits as in the preset (`Sram_Only`): in the others the weights come from a flash of an eighth of that rate.

use ottava::{Config, DeviceEntry, Model, Placement, SessionOptions};
use ottava_driver_npu::NpuDriver;
use ottava_e2e::assets::{models_or_skip, registry};
use ottava_e2e::spearman::spearman;
use std::path::Path;

/// File, and its name in the tables; the float network has another file format there.
const NETWORKS: &[(&str, &str)] = &[
    ("ad01_int8.tflite", "ad01_int8"),
    ("kws_dscnn_int8.tflite", "kws_dscnn_int8"),
    ("resnet8_cifar10_int8.tflite", "ic_resnet8_int8"),
    ("vww96_f32.onnx", "vww_float"),
];
const CONFIG: [&str; 3] = ["ethos-u55-256", "Ethos_U55_High_End_Embedded", "Sram_Only"];

/// Cycles of the layers with weights in execution order, and operators on other devices.
fn ours(models: &Path, file: &str) -> (Vec<f64>, Vec<String>) {
    // The tables take each operator by itself, with its operands in memory.
    let options = [("config", "ethos_u55"), ("fusion", "off")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let device = |id: &str, options: &[(String, String)]| DeviceEntry {
        id: id.to_owned(),
        driver: id.to_owned(),
        options: options.iter().cloned().collect(),
    };
    let config = Config {
        devices: vec![device("npu", &options), device("cpu", &[])],
        placement: Placement::Priority(vec!["npu".to_owned(), "cpu".to_owned()]),
        ..Config::default()
    };
    let model = Model::load(models.join(file)).expect(file);
    let compiled = ottava::compile(&model, &registry().configured(config), &SessionOptions::default()).expect(file);
    let chip = NpuDriver::new().open_npu("npu", &options.into()).expect("the preset");
    let (mut cycles, mut elsewhere) = (Vec::new(), Vec::new());
    for partition in &compiled.plan.partitions {
        if partition.device != "npu" {
            elsewhere.extend(partition.program.nodes.iter().map(|n| n.op.clone()));
            continue;
        }
        let nodes = chip.cycles(&partition.program).expect("times");
        cycles.extend(nodes.iter().filter(|n| n.macs > 0).map(|n| n.total as f64));
    }
    (cycles, elsewhere)
}

/// Cycles of the layers with weights in the table, and whether each operator runs on the NPU.
fn theirs(table: &str, network: &str) -> (Vec<f64>, Vec<bool>) {
    let mut lines = table.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().expect("a header");
    let at = |name: &str| header.iter().position(|h| *h == name).expect("a column");
    let columns = ["model", "accelerator", "system_config", "memory_mode"].map(at);
    let [original, target, cycles, macs] = ["Original Operator", "Target", "Op Cycles", "MAC Count"].map(at);
    let wanted = [network, CONFIG[0], CONFIG[1], CONFIG[2]];
    let rows: Vec<Vec<&str>> = lines.filter(|row| columns.iter().zip(wanted).all(|(c, w)| row[*c] == w)).collect();
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    let has_weights = |row: &&Vec<&str>| {
        ["Conv2D", "DepthwiseConv2D", "FullyConnected"].contains(&row[original]) && number(row[macs]) > 0.0
    };
    let layers = rows.iter().filter(has_weights).map(|row| number(row[cycles])).collect();
    (layers, rows.iter().map(|row| row[target] == "NPU").collect())
}

#[test]
fn s10_layers_rank_as_velas_estimates_and_run_where_it_says() {
    let test = "s10_layers_rank_as_velas_estimates_and_run_where_it_says";
    let Some(models) = models_or_skip(test) else { return };
    let path = models.join("../reference/npu/vela/vela5.2.0_per_layer.csv");
    let table = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (mut all_ours, mut all_theirs) = (Vec::new(), Vec::new());
    for (file, network) in NETWORKS {
        let (cycles, elsewhere) = ours(&models, file);
        let (estimates, on_npu) = theirs(&table, network);
        assert!(!on_npu.is_empty(), "{network} is in the table");
        if on_npu.iter().all(|yes| !yes) {
            println!("S10: {file}: all {} operators on the CPU, as in the table", elsewhere.len());
            assert!(cycles.is_empty(), "{file}");
            continue;
        }
        println!("S10: {file}: {} layers with weights, {} operators elsewhere", cycles.len(), elsewhere.len());
        assert!(on_npu.iter().all(|yes| *yes) && elsewhere.is_empty(), "{file}: {elsewhere:?}");
        assert_eq!(cycles.len(), estimates.len(), "{file}");
        println!("S10: {file}: Spearman {:.3} alone", spearman(&cycles, &estimates));
        all_ours.extend(cycles);
        all_theirs.extend(estimates);
    }
    let rank = spearman(&all_ours, &all_theirs);
    println!("S10: Spearman {rank:.3} over {} layers", all_ours.len());
    assert!(rank >= 0.8, "{rank}");
}
