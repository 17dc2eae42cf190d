//! `ottava simulate`: how many cycles a chip takes, and where they go.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same, write_file};
use crate::text::{count, table};
use crate::ui::Answer;
use ottava_npu::config::{NpuConfig, Timing};
use ottava_npu::layers::{self, LayerReport, Report};
use serde_json::json;
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
    if let Some(mode) = args.mode {
        config.array.timing = mode.into();
    }
    match (&args.layers, &args.model) {
        (Some(list), _) => of_layers(args, list, &config, cx),
        (None, Some(model)) => super::simulate_model::run(args.into(), model, &config, cx),
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
    let wrong = |e: layers::LayersError| {
        Failure::Error(ottava::Error::invalid(ottava::codes::DATA_FILE, e.to_string()))
    };
    let parsed = layers::parse(&text, &name).map_err(wrong)?;
    let report = layers::simulate(&parsed, config, None).map_err(wrong)?;
    report.warnings.iter().for_each(|w| cx.ui.warn(w));
    write_file(&args.output, report.csv().as_bytes())?;
    Ok(Answer::new(human(&report, &args.output), json!(report)))
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
