//! `ottava simulate`: how many cycles a chip takes, and where they go.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same, write_file};
use crate::text::{count, table};
use crate::ui::Answer;
use ottava::{Config, DeviceEntry, Model, NodeTime, Placement, RunReport, Session};
use ottava_npu::config::{NpuConfig, Timing};
use ottava_npu::layers::{self, LayerReport, Report};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Simulate a list of layers, or a quantized model, on a chip.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava simulate --layers layers.csv --npu edge16 -o cycles.csv
  ottava simulate --layers layers.csv --npu chip.ron --mode fold_serial -o cycles.csv --json
  ottava simulate model_int8.onnx --npu edge16 -o cycles.csv")]
pub struct Args {
    /// A quantized model; its int8 operators run on the simulated chip.
    #[arg(required_unless_present = "layers", conflicts_with = "layers")]
    model: Option<PathBuf>,
    /// A list of layers: columns network, layer, kind, M, N, K, channels, count.
    #[arg(long, value_name = "L.csv")]
    layers: Option<PathBuf>,
    /// The chip: a preset's name, or an `Npu(...)` file.
    #[arg(long, value_name = "N.ron", default_value = "edge16")]
    npu: String,
    /// How folds follow each other; the chip's own way if left out.
    #[arg(long, value_name = "MODE", value_enum)]
    mode: Option<Mode>,
    /// One row per layer.
    #[arg(short, long, value_name = "OUT.csv")]
    output: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Timing modes by their names.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
enum Mode {
    /// Each fold takes the whole array and starts after the one before.
    FoldSerial,
    /// Each fold takes the rows and columns that it uses.
    EdgeTrim,
    /// Folds overlap.
    Pipelined,
}

impl From<Mode> for Timing {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::FoldSerial => Self::FoldSerial,
            Mode::EdgeTrim => Self::EdgeTrim,
            Mode::Pipelined => Self::Pipelined,
        }
    }
}

/// Simulates.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let mut config = chip(&args.npu)?;
    let read = [Some(Path::new(&args.npu)), cx.registry.config.file.as_deref()];
    refuse_same(&args.output, &read.into_iter().flatten().collect::<Vec<_>>())?;
    if let Some(mode) = args.mode {
        config.array.timing = mode.into();
    }
    match (&args.layers, &args.model) {
        (Some(list), _) => of_layers(args, list, &config, cx),
        (None, Some(model)) => of_model(args, model, &config, cx),
        (None, None) => Err(Failure::Usage("name a model, or a list of layers: `--layers L.csv`".into())),
    }
}

/// The chip of a preset's name or of a file.
fn chip(text: &str) -> Result<NpuConfig> {
    let bad = |e: String| Failure::Error(ottava::Error::invalid(ottava::codes::CONFIG, e));
    if !text.ends_with(".ron") && !text.contains(std::path::is_separator) {
        return NpuConfig::preset(text).map_err(|e| bad(e.to_string()));
    }
    let content = std::fs::read_to_string(text).map_err(|e| bad(format!("{text}: cannot read the file: {e}")))?;
    NpuConfig::parse(&content).map_err(|e| bad(e.in_file(text).to_string()))
}

fn of_layers(args: &Args, list: &Path, config: &NpuConfig, cx: &Context) -> Result<Answer> {
    refuse_same(&args.output, &[list])?;
    let bad = |code: &str, e: String| Failure::Error(ottava::Error::invalid(code, e).in_file(list));
    let text = std::fs::read_to_string(list).map_err(|e| bad(ottava::codes::DATA_FILE, format!("cannot read: {e}")))?;
    let name = list.display().to_string();
    let wrong =
        |e: layers::LayersError| Failure::Error(ottava::Error::invalid(ottava::codes::DATA_FILE, e.to_string()));
    let parsed = layers::parse(&text, &name).map_err(wrong)?;
    let report = layers::simulate(&parsed, config, None).map_err(wrong)?;
    report.warnings.iter().for_each(|w| cx.ui.warn(w));
    write_file(&args.output, report.csv().as_bytes())?;
    Ok(Answer::new(human(&report, &args.output), json!(report)))
}

/// One inference of a quantized model: the chip takes the int8 operators, the CPU the rest.
fn of_model(args: &Args, path: &Path, config: &NpuConfig, cx: &Context) -> Result<Answer> {
    refuse_same(&args.output, &[path])?;
    let chip = tempfile(config)?;
    let model = Model::load(path)?;
    model.expect_graph()?;
    let device = |id: &str, options: &[(&str, String)]| DeviceEntry {
        id: id.to_owned(),
        driver: id.to_owned(),
        options: options.iter().map(|(k, v)| ((*k).to_owned(), v.clone())).collect(),
    };
    let chip_path = chip.path().display().to_string();
    let both = Config {
        devices: vec![device("npu", &[("config", chip_path)]), device("cpu", &[])],
        placement: Placement::Priority(vec!["npu".to_owned(), "cpu".to_owned()]),
        ..Config::default()
    };
    let registry = cx.registry.clone().configured(both);
    let options = args.network.session(&registry, &model)?;
    let session = Session::new(&model, &registry, &options)?;
    cx.ui.diagnostics(&session.report().diagnostics);
    let inputs = super::bench::random_inputs(&session)?;
    let (_, report) = session.run_ordered(&inputs, true)?;
    let rows = model_rows(&session, &report, config);
    write_file(&args.output, model_csv(&rows).as_bytes())?;
    Ok(model_answer(&rows, &report, config, &args.output))
}

/// The chip as a file, which is how a device is told about it.
fn tempfile(config: &NpuConfig) -> Result<tempfile::NamedTempFile> {
    let fail = |e: std::io::Error| {
        Failure::Error(ottava::Error::invalid(ottava::codes::DATA_WRITE, format!("cannot write a temporary file: {e}")))
    };
    let mut file = tempfile::Builder::new().suffix(".ron").tempfile().map_err(fail)?;
    file.write_all(config.to_ron().as_bytes()).map_err(fail)?;
    Ok(file)
}

/// What one node took.
struct NodeRow {
    name: String,
    device: String,
    kernel: String,
    macs: u64,
    cycles: u64,
    utilization: f64,
    bytes: u64,
}

fn model_rows(session: &Session, report: &RunReport, config: &NpuConfig) -> Vec<NodeRow> {
    let macs = ottava::node_macs(session.plan());
    let row = |device: &str, n: &NodeTime| {
        let macs = macs.get(&n.node).copied().unwrap_or(0);
        let peak = n.cycles as f64 * config.n_elements() as f64;
        NodeRow {
            name: n.node.clone(),
            device: device.to_owned(),
            kernel: n.kernel.clone(),
            macs,
            cycles: n.cycles,
            utilization: if n.cycles == 0 { 0.0 } else { macs as f64 / peak },
            bytes: n.bytes,
        }
    };
    report.partitions.iter().flat_map(|p| p.nodes.iter().map(|n| row(&p.device, n)).collect::<Vec<_>>()).collect()
}

fn model_csv(rows: &[NodeRow]) -> String {
    let mut text = String::from("layer,device,kernel,macs,Total Cycles,Overall Util %,bytes\n");
    for r in rows {
        let quoted = |s: &str| format!("\"{}\"", s.replace('"', "\"\""));
        let util = r.utilization * 100.0;
        text += &format!(
            "{},{},{},{},{},{util:.3},{}\n",
            quoted(&r.name),
            quoted(&r.device),
            quoted(&r.kernel),
            r.macs,
            r.cycles,
            r.bytes
        );
    }
    text
}

fn model_answer(rows: &[NodeRow], report: &RunReport, config: &NpuConfig, output: &Path) -> Answer {
    let on_chip = || rows.iter().filter(|r| r.cycles > 0);
    let cycles: u64 = on_chip().map(|r| r.cycles).sum();
    let macs: u64 = on_chip().map(|r| r.macs).sum();
    let dram: u64 = on_chip().map(|r| r.bytes).sum();
    let utilization = if cycles == 0 { 0.0 } else { macs as f64 / (cycles as f64 * config.n_elements() as f64) };
    let cells = |r: &NodeRow| {
        let share = if r.cycles == 0 { "-".to_owned() } else { format!("{:.1} %", r.utilization * 100.0) };
        vec![r.name.clone(), r.device.clone(), r.kernel.clone(), count(r.macs), r.cycles.to_string(), share]
    };
    let header = ["node", "device", "kernel", "MACs", "cycles", "utilization"];
    let mut text = table(&header, &[3, 4, 5], rows.iter().map(cells));
    text += &format!(
        "\n{}: {cycles} cycles on the chip, {:.1} % of its peak; {} partitions\nwritten: {}\n",
        config.name,
        utilization * 100.0,
        report.partitions.len(),
        output.display()
    );
    let layers: Vec<_> = rows
        .iter()
        .map(|r| {
            json!({
                "name": r.name, "device": r.device, "kernel": r.kernel, "macs": r.macs, "total_cycles": r.cycles,
                "utilization": r.utilization, "bytes": r.bytes,
            })
        })
        .collect();
    let json = json!({
        "total_cycles": cycles, "dram_bytes": dram, "macs": macs, "utilization": utilization, "layers": layers,
    });
    Answer::new(text, json)
}

fn row(l: &LayerReport) -> Vec<String> {
    let t = &l.totals;
    vec![
        l.name.clone(),
        l.mapping.clone(),
        count(t.macs),
        t.total_cycles.to_string(),
        (t.total_cycles - t.compute_cycles.min(t.total_cycles)).to_string(),
        format!("{:.1} %", t.utilization * 100.0),
        count(t.dram_bytes),
    ]
}

fn human(report: &Report, output: &Path) -> String {
    let header = ["layer", "mapping", "MACs", "cycles", "stalled", "utilization", "DRAM bytes"];
    let mut text = table(&header, &[2, 3, 4, 5, 6], report.layers.iter().map(row));
    let t = &report.totals;
    text += &format!(
        "\n{}x{} array, {}, {}: {} cycles, {} of them computing, {:.1} % of its peak\nwritten: {}\n",
        report.array_rows,
        report.array_cols,
        report.dataflow,
        report.mode,
        t.total_cycles,
        t.compute_cycles,
        t.utilization * 100.0,
        output.display()
    );
    text
}
