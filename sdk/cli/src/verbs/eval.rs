//! `ottava eval`: accuracy on labelled data, or agreement with another model.

use super::Context;
use crate::failure::{Failure, Result};
use crate::options::{NetworkArgs, finite, preprocess, refuse_same, rows};
use crate::text::{decibels, number};
use crate::ui::Answer;
use ottava::{Data, EvaluateOptions, Evaluation, Metric, Model};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Measure a model over data.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ottava eval model.onnx --data test.npz
  ottava eval model_int8.onnx --data test.npz --metric agree --against model.onnx --min 0.97
  ottava eval model.onnx --data test.npz --outputs outputs.npz")]
pub struct Args {
    /// The model.
    model: PathBuf,
    /// Data.
    #[arg(long, value_name = "D.npz")]
    data: PathBuf,
    /// Rows at most.
    #[arg(long, value_name = "N", value_parser = rows())]
    limit: Option<usize>,
    /// What is measured [default: agree with `--against`, else top1 where there is a label per row].
    #[arg(long, value_enum)]
    metric: Option<MetricArg>,
    /// The other model, for agree, cosine and mse.
    #[arg(long, value_name = "MODEL")]
    against: Option<PathBuf>,
    /// Keep all outputs, for metrics of your own.
    #[arg(long, value_name = "OUT.npz")]
    outputs: Option<PathBuf>,
    /// Exit with 1 if the value is below this one (for mse: above).
    #[arg(long, value_name = "VALUE", value_parser = finite)]
    min: Option<f64>,
    /// Recipe whose `preprocess` block prepares a folder of images.
    #[arg(long, value_name = "R.ron")]
    recipe: Option<PathBuf>,
    #[command(flatten)]
    network: NetworkArgs,
}

/// Metrics by their names on the command line.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
#[allow(missing_docs)] // The names are those of `ottava::Metric`.
enum MetricArg {
    Top1,
    Top5,
    Mse,
    Cosine,
    Agree,
}

impl From<MetricArg> for Metric {
    fn from(m: MetricArg) -> Self {
        match m {
            MetricArg::Top1 => Self::Top1,
            MetricArg::Top5 => Self::Top5,
            MetricArg::Mse => Self::Mse,
            MetricArg::Cosine => Self::Cosine,
            MetricArg::Agree => Self::Agree,
        }
    }
}

/// The metric that was asked for, or the one that fits the data.
fn metric(args: &Args, data: &Data) -> Result<Option<Metric>> {
    if let Some(m) = args.metric {
        return Ok(Some(m.into()));
    }
    if args.against.is_some() {
        return Ok(Some(Metric::Agree));
    }
    let rows = data.arrays.values().next().and_then(|a| a.shape().first().copied()).unwrap_or(0);
    match data.class_labels(rows) {
        Ok(_) => Ok(Some(Metric::Top1)),
        Err(_) if args.outputs.is_some() => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// What can be said to be wrong before anything is read.
fn check(args: &Args, cx: &Context) -> Result<()> {
    if matches!(args.metric, Some(MetricArg::Cosine | MetricArg::Agree)) && args.against.is_none() {
        return Err(Failure::Usage("this metric compares with another model; name it: `--against MODEL`".to_owned()));
    }
    let Some(output) = &args.outputs else { return Ok(()) };
    let inputs: Vec<&Path> =
        [&args.model, &args.data].into_iter().chain(&args.against).chain(&args.recipe).map(PathBuf::as_path).collect();
    refuse_same(output, &inputs, cx)
}

/// Evaluates.
pub fn run(args: &Args, cx: &Context) -> Result<Answer> {
    check(args, cx)?;
    let model = cx.load(&args.model)?;
    let data = crate::files::data(&args.data, preprocess(args.recipe.as_ref())?.as_ref())?;
    let metric = metric(args, &data)?;
    if args.min.is_some() && metric.is_none() {
        return Err(Failure::Usage("`--min` needs a metric".to_owned()));
    }
    let against = args.against.as_ref().map(Model::load).transpose()?;
    let options = EvaluateOptions {
        metric,
        limit: args.limit,
        affine: args.network.affine,
        keep_outputs: args.outputs.is_some(),
        session: args.network.session(&cx.registry, &model)?,
    };
    let bar = cx.ui.bar("eval");
    let result = ottava::evaluate(&model, &data, &cx.registry, &options, against.as_ref(), &mut bar.callback())?;
    drop(bar);
    cx.ui.diagnostics(&result.diagnostics);
    if let Some(path) = &args.outputs {
        ottava::save_npz(path, &result.outputs)?;
    }
    Ok(answer(args, metric, &result))
}

fn answer(args: &Args, metric: Option<Metric>, r: &Evaluation) -> Answer {
    let value = r.value.unwrap_or(f64::NAN);
    let counted = matches!(metric, Some(Metric::Top1 | Metric::Top5 | Metric::Agree));
    let mut text = match metric {
        None => format!("{} samples", r.n),
        Some(m) if counted => format!("{} {:.2} % ({} of {})", m.name(), value * 100.0, r.hits, r.n),
        Some(m) => format!("{} {value:.6} over {} samples", m.name(), r.n),
    };
    if let Some(db) = r.sqnr_db {
        text.push_str(&format!(", SQNR {}", decibels(db)));
    }
    text.push_str(&format!(", {:.3} ms per sample on {}", r.ms_per_sample, r.devices.join(", ")));
    let json = json!({
        "metric": metric.map(Metric::name), "value": r.value.map(number), "n": r.n,
        "hits": counted.then_some(r.hits), "nan_rows": r.nan_rows, "sqnr_db": r.sqnr_db.map(number), "ms_per_sample": r.ms_per_sample,
        "devices": r.devices,
    });
    let is_missed = |min: f64| if matches!(metric, Some(Metric::Mse)) { value > min } else { value < min };
    let missed = args.min.filter(|min| value.is_nan() || is_missed(*min));
    let name = metric.map_or("", Metric::name);
    Answer { text, json, failed: missed.map(|min| format!("{name} is {value}, `--min` asks for {min}")) }
}
