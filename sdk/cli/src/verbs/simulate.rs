//! `ottava simulate`: how many cycles a chip takes, and where they go.

mod elsewhere;
mod merge;
mod model;
mod page;
mod shape;
mod speed;
mod sweep;
mod told;

use super::Context;
use crate::failure::{Failure, Result};
use crate::files::{MAX_SETTINGS, read_text};
use crate::options::{NetworkArgs, refuse_same, refuse_shared, shard, write_file};
use crate::text::{count, table};
use crate::ui::Answer;
use model::{OnChip, Workload, energy_json, energy_text};
use ottava_npu::config::{NpuConfig, Timing};
use ottava_npu::layers::{self, Layer, LayerReport, Report};
use ottava_npu::trace;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Simulate a list of layers, or a quantized model, on a chip, or on many.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava simulate layers.csv --npu edge16 -o cycles.csv
  ottava simulate --layers layers.csv --npu chip.ron --mode fold_serial -o cycles.csv --json
  ottava simulate model_int8.onnx --npu edge16 -o cycles.csv --report cycles.html --trace cycles.json
  ottava simulate model_int8.onnx --npu edge16 -o cycles.csv --speed 20 --threads 1 --json
  ottava simulate model_int8.onnx --npu edge16 --sweep sweep.ron -o points.csv --report sweep.html
  ottava simulate model_int8.onnx --npu edge16 --sweep sweep.ron --shard 2/8 --resume -o part2.csv
  ottava simulate --npu edge16 --sweep sweep.ron --merge part1.csv part2.csv -o points.csv")]
pub struct Args {
    /// A quantized model, whose int8 operators run on the simulated chip; or a list of layers that ends in `.csv`.
    #[arg(conflicts_with_all = ["layers", "merge"])]
    model: Option<PathBuf>,
    /// A list of layers: columns network, layer, kind, M, N, K, channels, count.
    #[arg(long, value_name = "L.csv", conflicts_with = "merge")]
    layers: Option<PathBuf>,
    /// The chip: a preset's name, or an `Npu(...)` file.
    #[arg(long, value_name = "N.ron", default_value = "edge16")]
    npu: String,
    /// How folds follow each other; the chip's own way if left out.
    #[arg(long, value_name = "MODE", value_enum)]
    mode: Option<Mode>,
    /// One row per layer, or per point of a sweep.
    #[arg(short, long, value_name = "OUT.csv")]
    output: PathBuf,
    /// Every configuration of a `Sweep(...)` file: lists or ranges of any keys of the chip.
    #[arg(long, value_name = "S.ron")]
    sweep: Option<PathBuf>,
    /// Keep the rows that OUT.csv has already, if they are results of the same.
    #[arg(long, requires = "sweep", conflicts_with = "merge")]
    resume: bool,
    /// Only part I of N of the points, I from 1 to N.
    #[arg(long, value_name = "I/N", value_parser = shard, requires = "sweep", conflicts_with = "merge")]
    shard: Option<ottava::Shard>,
    /// Join the tables of all shards.
    #[arg(long, value_name = "PART.csv", num_args = 1.., requires = "sweep")]
    merge: Vec<PathBuf>,
    /// A page with roofline, stalls and, of a sweep, all points; one file that loads nothing.
    #[arg(long, value_name = "R.html")]
    report: Option<PathBuf>,
    /// When every instruction and transfer runs, for Perfetto; of a model.
    #[arg(long, value_name = "T.json", conflicts_with_all = ["layers", "sweep"])]
    trace: Option<PathBuf>,
    /// Also measure the simulator itself, in so many slices of a tenth of a second; a model must give the bits of the
    /// reference first. Best with `--threads 1`.
    #[arg(long, value_name = "SLICES", conflicts_with = "sweep", value_parser = clap::value_parser!(u32).range(1..=1000))]
    speed: Option<u32>,
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

/// One layer or node, for drawings.
pub struct Simulated {
    name: String,
    macs: u64,
    total: u64,
    compute: u64,
    stalls: BTreeMap<&'static str, u64>,
    dram_bytes: u64,
    /// Whether the vector unit multiplies, not the array.
    on_vector_unit: bool,
}

impl Args {
    /// The file of layers, whichever way it is named.
    fn list(&self) -> Option<&Path> {
        let is_list = |p: &&PathBuf| p.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"));
        self.layers.as_ref().or(self.model.as_ref().filter(is_list)).map(PathBuf::as_path)
    }

    /// The file that is simulated.
    fn workload(&self) -> Result<&Path> {
        let path = self.list().or(self.model.as_deref());
        path.ok_or_else(|| Failure::Usage("name a model, or a list of layers: `--layers L.csv`".into()))
    }

    /// Nothing is written over what is read, and no two results have one name.
    fn check_files(&self, cx: &Context) -> Result<()> {
        let read = self.model.iter().chain(&self.layers).chain(&self.sweep).map(PathBuf::as_path);
        let read = read.chain([Path::new(&self.npu)]);
        let read: Vec<&Path> = read.chain(self.merge.iter().map(PathBuf::as_path)).collect();
        let named = [
            ("--output", Some(self.output.as_path())),
            ("--report", self.report.as_deref()),
            ("--trace", self.trace.as_deref()),
        ];
        let outputs: Vec<(&str, &Path)> = named.into_iter().filter_map(|(flag, path)| Some((flag, path?))).collect();
        refuse_shared(&outputs)?;
        outputs.iter().try_for_each(|(_, output)| refuse_same(output, &read, cx))
    }
}

/// Simulates.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    let mut config = chip(&args.npu)?;
    args.check_files(cx)?;
    if let Some(mode) = args.mode {
        config.array.timing = mode.into();
    }
    if let Some(spec) = &args.sweep {
        let (swept, answer) = sweep::run(args, spec, &config, cx)?;
        return reported(args, answer, || page::of_sweep(&swept, &config));
    }
    match args.list() {
        Some(list) => of_layers(args, list, &config, cx),
        None => of_model(args, args.workload()?, &config, cx),
    }
}

/// Writes the page, if one is wanted.
fn reported(args: &Args, mut answer: Answer, page: impl FnOnce() -> ottava::page::Page) -> Result<Answer> {
    if let Some(path) = &args.report {
        write_file(path, ottava::page::render(&page()).as_bytes())?;
        answer.text += &format!("report: {}\n", path.display());
        answer.json["report"] = json!(path);
    }
    Ok(answer)
}

/// The chip of a preset's name or of a file.
fn chip(text: &str) -> Result<NpuConfig> {
    let bad = |e: String| Failure::Error(ottava::Error::invalid(ottava::codes::CONFIG, e));
    if !text.ends_with(".ron") && !text.contains(std::path::is_separator) {
        return NpuConfig::preset(text).map_err(|e| bad(e.to_string()));
    }
    let content = read_text(Path::new(text), MAX_SETTINGS, ottava::codes::CONFIG)?;
    NpuConfig::parse(&content).map_err(|e| bad(e.in_file(text).to_string()))
}

/// The layers of a list.
fn read_list(list: &Path) -> Result<Vec<Layer>> {
    let text = read_text(list, layers::MAX_BYTES, ottava::codes::DATA_FILE)?;
    layers::parse(&text, &list.display().to_string()).map_err(|e| wrong_list(&e))
}

fn wrong_list(e: &layers::LayersError) -> Failure {
    Failure::Error(ottava::Error::invalid(ottava::codes::DATA_FILE, e.to_string()))
}

/// Says what a reader should know; the same for programs.
fn notes(text: Option<String>, cx: &Context) -> serde_json::Value {
    text.iter().for_each(|text| cx.ui.warn(text));
    text.iter().map(|text| json!({ "severity": "note", "message": text })).collect()
}

fn of_layers(args: &Args, list: &Path, config: &NpuConfig, cx: &Context) -> Result<Answer> {
    if args.trace.is_some() {
        return Err(Failure::Usage("a list of layers has closed forms and no instructions: no `--trace`".into()));
    }
    let parsed = read_list(list)?;
    let report = layers::simulate(&parsed, config, None).map_err(|e| wrong_list(&e))?;
    report.warnings.iter().for_each(|w| cx.ui.warn(w));
    let notes = notes(layers::ignored(config, []), cx);
    write_file(&args.output, report.csv().as_bytes())?;
    let energy = report.energy_fj(config);
    let text = human(&report, &args.output) + &format!("energy: {}\n", energy_text(config, energy));
    let mut json = json!(report);
    json["energy"] = energy_json(config, energy);
    json["diagnostics"] = notes;
    let mut answer = Answer::new(text, json);
    if let Some(slices) = args.speed {
        speed::of_layers(&parsed, config, slices, &mut answer)?;
    }
    reported(args, answer, || page::of_layers(list, &report, config))
}

/// A quantized model: the chip takes the int8 operators, the CPU the rest.
fn of_model(args: &Args, path: &Path, config: &NpuConfig, cx: &Context) -> Result<Answer> {
    let workload = Workload::load(args, path, cx)?;
    let on_chip = workload.on(config, cx, true)?;
    on_chip.doubt(config).iter().for_each(|w| cx.ui.warn(w));
    write_file(&args.output, on_chip.csv(config).as_bytes())?;
    let mut answer = on_chip.answer(config, &args.output);
    if let Some(path) = &args.trace {
        write_file(path, traced(&on_chip, config).as_bytes())?;
        answer.text += &format!("trace: {}\n", path.display());
        answer.json["trace"] = json!(path);
    }
    if let Some(slices) = args.speed {
        speed::of_model(&workload, config, slices, cx, &mut answer)?;
    }
    reported(args, answer, || page::of_model(&on_chip, config))
}

/// The partitions of a model one behind the other; what other devices do between them takes no time here.
fn traced(on_chip: &OnChip, config: &NpuConfig) -> String {
    let names: Vec<String> = on_chip.rows.iter().map(|r| r.node.clone()).collect();
    let mut offset = 0;
    let part = |(timed, first): &'_ (ottava_npu::timing::Timed, usize)| {
        let at = offset;
        offset += timed.timing.total_cycles;
        (at, *first)
    };
    let places: Vec<(u64, usize)> = on_chip.parts.iter().map(part).collect();
    let parts: Vec<trace::Part<'_>> = on_chip
        .parts
        .iter()
        .zip(&places)
        .map(|((timed, _), (offset, first))| trace::Part { timed, offset: *offset, nodes: &names[*first..] })
        .collect();
    trace::chrome(config, &parts)
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
