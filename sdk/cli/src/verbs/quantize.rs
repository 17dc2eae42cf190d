//! `ottava quantize`: a float model into an ordinary quantized ONNX file.

mod page;

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, refuse_same};
use crate::text::{bytes, table};
use crate::ui::Answer;
use ottava::{
    DataType, Granularity, Model, QuantizeOptions, QuantizedModel, Recipe, Source, ValidateOptions, Validation,
};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Quantize a float model; the result loads in other runtimes too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava quantize model.onnx --data images.npz -o model_int8.onnx
  ottava quantize model.onnx --calibration model.calib --method mse -o model_int8.onnx
  ottava quantize model.onnx --dynamic -o model_int8.onnx
  ottava quantize model.onnx --dynamic --weights s4 --block 32 -o model_int4.onnx")]
#[command(group(clap::ArgGroup::new("source").required(true).args(["data", "calibration", "dynamic"])))]
pub struct Args {
    /// The float model.
    model: PathBuf,
    /// Calibration data.
    #[arg(long, value_name = "D")]
    data: Option<PathBuf>,
    /// Statistics collected by `calibrate`. Nothing is run then: no error is measured and no tensor is kept in more bits.
    #[arg(long, value_name = "S.calib")]
    calibration: Option<PathBuf>,
    /// Quantize activations at run time; needs no data.
    #[arg(long)]
    dynamic: bool,
    /// Where the quantized model goes.
    #[arg(short, long, value_name = "OUT.onnx")]
    output: PathBuf,
    /// Start from this recipe instead of the defaults.
    #[arg(long, value_name = "R.ron")]
    recipe: Option<PathBuf>,
    /// Where to write the complete recipe that was used.
    #[arg(long, value_name = "R.ron")]
    save_recipe: Option<PathBuf>,
    /// How ranges are chosen [default: percentile 99.999].
    #[arg(long, value_name = "METHOD", value_parser = clap::builder::PossibleValuesParser::new(ottava::METHODS.iter().map(|m| m.name)))]
    method: Option<String>,
    /// Storage of activations [default: u8].
    #[arg(long, value_name = "TYPE", value_parser = clap::builder::PossibleValuesParser::new(["u8", "s8", "u16", "s16", "f16", "bf16"]))]
    activations: Option<String>,
    /// Storage of weights [default: s8].
    #[arg(long, value_name = "TYPE", value_parser = clap::builder::PossibleValuesParser::new(["s8", "u8", "s4", "u4"]))]
    weights: Option<String>,
    /// One scale per weight tensor instead of one per output channel.
    #[arg(long)]
    per_tensor: bool,
    /// One scale for so many consecutive weights along the reduction: stored as integers, computed with as floats.
    #[arg(long, value_name = "N", conflicts_with = "per_tensor")]
    block: Option<std::num::NonZeroUsize>,
    /// Zero points in the middle of the range.
    #[arg(long)]
    symmetric: bool,
    /// Quantize everything, and fail if a node would stay in float.
    #[arg(long)]
    integer_only: bool,
    /// Keep in float what it takes for the output to reach this signal-to-noise ratio, in decibel.
    #[arg(long, value_name = "DB", requires = "data", value_parser = crate::options::finite, allow_negative_numbers = true)]
    target_sqnr: Option<f64>,
    /// At most this share of the multiply-accumulates may stay in float, 0 to 1.
    #[arg(long, value_name = "SHARE", value_parser = crate::options::share, allow_negative_numbers = true)]
    max_float_macs: Option<f64>,
    /// Quantize by the recipe alone, however large the error; what no chosen device has is an error.
    #[arg(long, conflicts_with = "target_sqnr")]
    strict: bool,
    /// Form of the file [default: qdq].
    #[arg(long, value_name = "FORM", value_parser = clap::builder::PossibleValuesParser::new(["qdq", "qoperator"]))]
    format: Option<String>,
    /// Where to write a report: precisions with reasons, ranges, errors of the layers, the recipe.
    #[arg(long, value_name = "R.html")]
    report: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

fn dtype(name: &str) -> Result<DataType> {
    name.parse().map_err(Failure::Usage)
}

/// Flags that would change nothing are refused.
fn check_used(args: &Args) -> Result<()> {
    let source = if args.dynamic { "--dynamic" } else { "--calibration" };
    let n = &args.network;
    let of_runs = [
        ("--threads", n.device.threads.is_some()),
        ("--isa", n.device.isa.is_some()),
        ("--batch", n.batch.is_some()),
        ("--dim", !n.dim.is_empty()),
        ("--affine", n.affine.is_some()),
    ];
    let of_ranges = [
        ("--method", args.method.is_some()),
        ("--activations", args.activations.as_deref().is_some_and(|name| !["u8", "f16", "bf16"].contains(&name))),
        ("--symmetric", args.symmetric),
    ];
    let without_data = of_runs.into_iter().filter(|_| args.data.is_none());
    let unused = without_data.chain(of_ranges.into_iter().filter(|_| args.dynamic)).find(|(_, is_given)| *is_given);
    match unused {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::Usage(format!("`{flag}` has no effect with `{source}`; leave it out"))),
    }
}

/// The recipe: that of the file or the default, changed by the options.
fn recipe(args: &Args) -> Result<Recipe> {
    let mut recipe = match &args.recipe {
        Some(path) => crate::files::recipe(path)?,
        None => Recipe::default(),
    };
    if let Some(method) = args.method.as_deref().and_then(ottava::method) {
        recipe.activations.observer = method.default;
    }
    if let Some(name) = &args.activations {
        recipe.activations.dtype = dtype(name)?;
    }
    if let Some(name) = &args.weights {
        recipe.weights.dtype = dtype(name)?;
    }
    if args.per_tensor {
        recipe.weights.granularity = Granularity::PerTensor;
    }
    if let Some(block) = args.block {
        recipe.weights.granularity = Granularity::Blocked(block.get());
    }
    recipe.activations.symmetric |= args.symmetric;
    recipe.integer_only |= args.integer_only;
    recipe.target_sqnr_db = args.target_sqnr.or(recipe.target_sqnr_db);
    recipe.max_float_macs = args.max_float_macs.or(recipe.max_float_macs);
    Ok(recipe)
}

fn quantize(args: &Args, cx: &Context, model: &Model, recipe: Recipe) -> Result<QuantizedModel> {
    let preprocess = recipe.preprocess;
    let session = args.network.session(&cx.registry, model)?;
    let options = QuantizeOptions { recipe, session, strict: args.strict };
    let bar = cx.ui.bar("calibrate");
    let mut progress = bar.callback();
    let mut go = |source: Source| model.quantize(source, &cx.registry, &options, &mut progress);
    Ok(match (&args.data, &args.calibration) {
        (Some(path), _) => {
            let data = crate::files::data(path, preprocess.as_ref())?;
            go(Source::Data { data: &data, affine: args.network.affine })?
        }
        (None, Some(path)) => {
            crate::files::check_data(path)?;
            go(Source::Calibration(&ottava::load_calibration(path)?))?
        }
        (None, None) => go(Source::Dynamic)?,
    })
}

/// Quantizes and writes.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    check_used(args)?;
    let inputs: Vec<&Path> = [Some(&args.model), args.data.as_ref(), args.calibration.as_ref(), args.recipe.as_ref()]
        .into_iter()
        .flatten()
        .map(PathBuf::as_path)
        .collect();
    let mut taken = inputs.clone();
    for output in std::iter::once(&args.output).chain(&args.save_recipe).chain(&args.report) {
        refuse_same(output, &inputs, cx)?;
        if taken.contains(&output.as_path()) {
            let what = format!("`{}` is named for two files; the second would replace the first", output.display());
            return Err(Failure::Usage(what));
        }
        taken.push(output);
    }
    let recipe = recipe(args)?;
    let model = cx.load(&args.model)?;
    cx.ui.diagnostics(&model.diagnostics);
    let mut quantized = quantize(args, cx, &model, recipe.clone())?;
    if args.format.as_deref() == Some("qoperator") {
        quantized = quantized.into_qoperator()?;
    }
    cx.ui.diagnostics(&quantized.diagnostics);
    quantized.save(&args.output)?;
    if let Some(path) = &args.save_recipe {
        crate::options::write_file(path, quantized.report.recipe.as_bytes())?;
    }
    if let Some(path) = &args.report {
        let validation = validation(args, cx, (&model, &quantized.model), &recipe)?;
        let findings = page::Findings { model: &model, quantized: &quantized, recipe: &recipe, validation };
        crate::options::write_file(path, ottava::page::render(&page::page(&findings)).as_bytes())?;
    }
    Ok(answer(args, &model, &quantized))
}

/// Rows of the calibration data on which the report measures errors.
const REPORT_ROWS: usize = 32;

/// The errors of the layers on calibration data, if there are data.
fn validation(
    args: &Args,
    cx: &Context,
    (float, quantized): (&Model, &Model),
    recipe: &Recipe,
) -> Result<Option<Validation>> {
    let Some(path) = &args.data else { return Ok(None) };
    let data = crate::files::data(path, recipe.preprocess.as_ref())?;
    let mut session = args.network.session(&cx.registry, float)?;
    // Here a device would be compared with the reference bit by bit; the report is about the numbers alone.
    session.device = None;
    let options = ValidateOptions { limit: Some(REPORT_ROWS), affine: args.network.affine, session };
    let bar = cx.ui.bar("report");
    Ok(Some(ottava::validate(quantized, float, &data, &cx.registry, &options, &mut bar.callback())?))
}

fn answer(args: &Args, model: &Model, q: &QuantizedModel) -> Answer {
    let (report, size) = (&q.report, q.bytes.len());
    let mut text = format!(
        "{}: {} nodes quantized, {} in float; {} -> {}\n",
        args.output.display(),
        report.quantized.len(),
        report.float.len(),
        bytes(model.size_bytes),
        bytes(size as u64)
    );
    if !report.float.is_empty() {
        text.push_str(&format!("{:.1} % of the multiply-accumulates stay in float\n", 100.0 * q.float_macs()));
    }
    if !report.float.is_empty() {
        let rows = report.float.iter().map(|n| vec![n.name.clone(), n.op.clone(), n.reason.clone()]);
        text.push('\n');
        text.push_str(&table(&["in float", "operator", "reason"], &[], rows));
    }
    let wide: Vec<_> = q.mixed.iter().flat_map(ottava::MixedPrecision::wide).collect();
    if !wide.is_empty() {
        let rows = wide.iter().map(|(value, reason)| vec![(*value).to_owned(), reason.clone()]);
        text.push('\n');
        text.push_str(&table(&["in s16", "reason"], &[], rows));
    }
    let float: Vec<_> =
        report.float.iter().map(|n| json!({ "name": n.name, "op": n.op, "reason": n.reason })).collect();
    let mixed = q.mixed.as_ref().map(|m| {
        json!({
            "target_db": m.target_db, "before_db": m.before_db, "after_db": m.after_db, "reached": m.reached,
            "trials": m.trials, "exceptions": m.exceptions.len(),
            "s16": m.wide().map(|(value, _)| value).collect::<Vec<_>>(),
        })
    });
    let json = json!({
        "nodes_quantized": report.quantized.len(), "nodes_float": float, "size_bytes": size, "recipe": report.recipe,
        "float_macs": q.float_macs(), "mixed_precision": mixed,
    });
    Answer::new(text, json)
}
