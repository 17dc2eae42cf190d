//! `ottava simulate`: how many cycles a chip takes, and where they go.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same, write_file};
use crate::text::{count, table};
use crate::ui::Answer;
use ottava::{Config, DeviceEntry, Placement, Session};
use ottava_driver_npu::{NodeCycles, NpuDevice, NpuDriver};
use ottava_npu::config::{NpuConfig, Timing};
use ottava_npu::layers::{self, LayerReport, Report};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Simulate a list of layers, or a quantized model, on a chip.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava simulate --layers layers.csv --npu edge16 -o cycles.csv
  ottava simulate --layers layers.csv --npu chip.ron --mode fold_serial -o cycles.csv --json
  ottava simulate model_int8.onnx --npu edge16 -o cycles.csv")]
pub struct Args {
    /// A quantized model; its int8 operators run on the simulated chip. Or give `--layers`.
    #[arg(conflicts_with = "layers")]
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
    let read = args.model.iter().chain(&args.layers).map(PathBuf::as_path).chain([Path::new(&args.npu)]);
    refuse_same(&args.output, &read.collect::<Vec<_>>(), cx)?;
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
    let bad = |code: &str, e: String| Failure::Error(ottava::Error::invalid(code, e).in_file(list));
    let size = std::fs::metadata(list).map_or(0, |m| if m.is_file() { m.len() } else { u64::MAX });
    if size > layers::MAX_BYTES {
        let what = format!("not a file of at most {} MiB", layers::MAX_BYTES >> 20);
        return Err(bad(ottava::codes::DATA_FILE, what));
    }
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

/// A quantized model: the chip takes the int8 operators, the CPU the rest.
fn of_model(args: &Args, path: &Path, config: &NpuConfig, cx: &Context) -> Result<Answer> {
    let chip = tempfile(config)?;
    let model = cx.load(path)?;
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
    let options = [("config".to_owned(), chip.path().display().to_string())].into();
    let failed = |e: ottava::HalError| Failure::Error(ottava::Error::from(e));
    let device = NpuDriver::new().open_npu("npu", &options).map_err(failed)?;
    let rows = model_rows(&session, &device)?;
    write_file(&args.output, model_csv(&rows, config).as_bytes())?;
    let others = session.plan().partitions.iter().filter(|p| p.device != "npu");
    let elsewhere = others.map(|p| p.program.nodes.len()).sum();
    Ok(model_answer(&rows, elsewhere, config, &args.output))
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

/// What one node of the chip takes, from the timing of its command stream.
fn model_rows(session: &Session, chip: &NpuDevice) -> Result<Vec<NodeCycles>> {
    let on_chip = session.plan().partitions.iter().filter(|p| p.device == "npu");
    let cycles = |p: &ottava::Partition| {
        let failed = |e: ottava::HalError| Failure::Error(ottava::Error::from(e));
        chip.cycles(&p.program).map_err(failed)
    };
    Ok(on_chip.map(cycles).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Stalls of several nodes, by reason.
fn stalls<'a>(rows: impl Iterator<Item = &'a NodeCycles>) -> BTreeMap<&'static str, u64> {
    let mut sum = BTreeMap::new();
    for (reason, n) in rows.flat_map(|r| &r.stalls) {
        *sum.entry(*reason).or_insert(0) += n;
    }
    sum
}

fn utilization(macs: u64, cycles: u64, config: &NpuConfig) -> f64 {
    if cycles == 0 { 0.0 } else { macs as f64 / (cycles as f64 * config.n_elements() as f64) }
}

fn model_csv(rows: &[NodeCycles], config: &NpuConfig) -> String {
    let reasons: Vec<&str> = stalls(rows.iter()).into_keys().collect();
    let mut text = String::from("layer,macs,Total Cycles,compute");
    reasons.iter().for_each(|r| text += &format!(",{r}"));
    text += ",Overall Util %,dram_bytes\n";
    for r in rows {
        let name = r.node.replace('"', "\"\"");
        text += &format!("\"{name}\",{},{},{}", r.macs, r.total, r.compute);
        reasons.iter().for_each(|reason| text += &format!(",{}", r.stalls.get(reason).copied().unwrap_or(0)));
        text += &format!(",{:.3},{}\n", utilization(r.macs, r.total, config) * 100.0, r.dram_bytes);
    }
    text
}

fn model_answer(rows: &[NodeCycles], elsewhere: usize, config: &NpuConfig, output: &Path) -> Answer {
    let sum = |of: fn(&NodeCycles) -> u64| rows.iter().map(of).fold(0, u64::saturating_add);
    let (total, compute, macs) = (sum(|r| r.total), sum(|r| r.compute), sum(|r| r.macs));
    let stalled = stalls(rows.iter());
    let share = utilization(macs, total, config);
    let cells = |r: &NodeCycles| {
        let worst = r.stalls.iter().max_by_key(|(_, n)| **n).filter(|(_, n)| **n > 0);
        let worst = worst.map_or("-".to_owned(), |(reason, n)| format!("{reason} {n}"));
        let share = format!("{:.1} %", utilization(r.macs, r.total, config) * 100.0);
        vec![r.node.clone(), count(r.macs), r.total.to_string(), r.compute.to_string(), worst, share]
    };
    let header = ["node", "MACs", "cycles", "computing", "longest stall", "utilization"];
    let mut text = table(&header, &[1, 2, 3, 5], rows.iter().map(cells));
    let list: Vec<String> = stalled.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    text += &format!(
        "\n{}: {total} cycles, {compute} of them computing, {:.1} % of its peak\nstalls: {}\n",
        config.name,
        share * 100.0,
        list.join(", ")
    );
    text += &format!("{elsewhere} nodes run on other devices\nwritten: {}\n", output.display());
    let layer = |r: &NodeCycles| {
        json!({
            "name": r.node, "macs": r.macs, "total_cycles": r.total, "compute_cycles": r.compute,
            "stall_cycles": r.stalls, "dram_bytes": r.dram_bytes, "utilization": utilization(r.macs, r.total, config),
        })
    };
    let json = json!({
        "total_cycles": total, "compute_cycles": compute, "stall_cycles": stalled, "dram_bytes": sum(|r| r.dram_bytes),
        "macs": macs, "utilization": share, "layers": rows.iter().map(layer).collect::<Vec<_>>(),
        "nodes_elsewhere": elsewhere,
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
