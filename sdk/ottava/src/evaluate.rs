//! Accuracy on labelled data, and agreement with another model.

use crate::batches::{BatchOutput, Batches, Progress, join};
use crate::data::{Affine, Data, Feed};
use crate::error::{Error, Result, codes};
use crate::metrics::{Sums, argmax, in_top_k};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::SessionOptions;
use ottava_graph::Diagnostic;
use ottava_hal::{Tensor, TensorType};
use ottava_validate::real_values;
use std::collections::BTreeMap;

/// What is measured, on the first output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Share of rows whose largest value is at the label.
    Top1,
    /// Share of rows whose label is among the five largest values.
    Top5,
    /// Mean squared difference to the other model, or to labels of the output's size.
    Mse,
    /// Cosine of the angle to the other model's outputs.
    Cosine,
    /// Share of rows with the same largest value as the other model.
    Agree,
}

impl Metric {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Top1 => "top1",
            Self::Top5 => "top5",
            Self::Mse => "mse",
            Self::Cosine => "cosine",
            Self::Agree => "agree",
        }
    }
}

/// How to evaluate.
#[derive(Debug, Clone, Default)]
pub struct EvaluateOptions {
    /// What is measured; `None` for outputs alone.
    pub metric: Option<Metric>,
    /// Rows at most.
    pub limit: Option<usize>,
    /// How rows are fed.
    pub affine: Option<Affine>,
    /// Keep all outputs.
    pub keep_outputs: bool,
    /// Compilation.
    pub session: SessionOptions,
}

/// What was measured.
#[derive(Debug, Clone, Default)]
pub struct Evaluation {
    /// The value; a fraction for `top1`, `top5`, `agree`; `None` without a metric.
    pub value: Option<f64>,
    /// Rows.
    pub n: usize,
    /// Rows that count, for the metrics that are fractions. A row with a NaN never does.
    pub hits: usize,
    /// Rows whose first output (of either model) holds a NaN.
    pub nan_rows: usize,
    /// Signal-to-noise ratio against the other model or the labels, decibel.
    pub sqnr_db: Option<f64>,
    /// Time of the runs per row, milliseconds.
    pub ms_per_sample: f64,
    /// All outputs by name, if they were kept.
    pub outputs: BTreeMap<String, Tensor>,
    /// Devices that ran, in the order of their partitions.
    pub devices: Vec<String>,
    /// What the compiler found worth saying: what fell back, was cast or kept in float, and why.
    pub diagnostics: Vec<Diagnostic>,
}

/// Real rows of the first output of every sample.
struct Rows {
    values: Vec<f32>,
    /// Values per row.
    len: usize,
}

impl Rows {
    fn row(&self, i: usize) -> &[f32] {
        self.values.get(i * self.len..(i + 1) * self.len).unwrap_or_default()
    }

    fn has_nan(&self, i: usize) -> bool {
        self.row(i).iter().any(|v| v.is_nan())
    }
}

/// Runs a model over data and measures it. `against` gives the other model for `agree`, `cosine` and `mse`.
pub fn evaluate(
    model: &Model,
    data: &Data,
    registry: &Registry,
    options: &EvaluateOptions,
    against: Option<&Model>,
    progress: &mut Progress,
) -> Result<Evaluation> {
    check(options, against)?;
    // Checked before anything runs.
    let labels = match options.metric {
        Some(Metric::Top1 | Metric::Top5) => labels(model, data, options)?,
        _ => Vec::new(),
    };
    let run = |m: &Model, keep: bool, progress: &mut Progress| collect(m, data, registry, options, keep, progress);
    let (rows, mut result) = run(model, options.keep_outputs, progress)?;
    let Some(metric) = options.metric else { return Ok(result) };
    match metric {
        Metric::Top1 | Metric::Top5 => {
            let k = if metric == Metric::Top1 { 1 } else { 5 };
            let nan = nan_rows(&[&rows], result.n);
            let hit = |(i, l): &(usize, &usize)| {
                let right = || if k == 1 { argmax(rows.row(*i)) == Some(**l) } else { in_top_k(rows.row(*i), **l, k) };
                !nan[*i] && right()
            };
            result.hits = labels.iter().enumerate().filter(hit).count();
            result.value = Some(share(result.hits, result.n));
            note_nan(&nan, &mut result);
        }
        Metric::Mse | Metric::Cosine | Metric::Agree => {
            let other = match against {
                Some(m) => run(m, false, progress)?.0,
                None => label_rows(data, &rows)?,
            };
            compare(metric, &rows, &other, &mut result)?;
        }
    }
    Ok(result)
}

fn check(options: &EvaluateOptions, against: Option<&Model>) -> Result<()> {
    let needs_model = matches!(options.metric, Some(Metric::Cosine | Metric::Agree));
    if needs_model && against.is_none() {
        return Err(Error::invalid(codes::DATA_LABELS, "this metric compares with another model")
            .help("name it: `--against MODEL`"));
    }
    Ok(())
}

fn share(hits: usize, n: usize) -> f64 {
    if n == 0 { 0.0 } else { hits as f64 / n as f64 }
}

/// Which rows hold a NaN on any side.
fn nan_rows(sides: &[&Rows], n: usize) -> Vec<bool> {
    (0..n).map(|i| sides.iter().any(|side| side.has_nan(i))).collect()
}

/// Counts rows with NaN, and says so.
fn note_nan(nan: &[bool], result: &mut Evaluation) {
    result.nan_rows = nan.iter().filter(|is_nan| **is_nan).count();
    if result.nan_rows > 0 {
        let message = format!("{} of {} rows hold NaN in the first output", result.nan_rows, result.n);
        let help = "they never count as hits; look for infinite or missing numbers in the data and the model";
        result.diagnostics.push(Diagnostic::warning(codes::DATA_NAN, "", message).with_help(help));
    }
}

fn labels(model: &Model, data: &Data, options: &EvaluateOptions) -> Result<Vec<usize>> {
    let n_rows = Feed::new(data, &model.inputs(), options.affine)?.n_rows;
    let n = n_rows.min(options.limit.unwrap_or(usize::MAX));
    // Labels are one per row of the data, also where only the first rows run.
    let all = match (&data.labels, options.limit) {
        (Some(l), Some(_)) => l.elements(),
        _ => n,
    };
    let mut labels = data.class_labels(all)?;
    if labels.len() < n {
        return data.class_labels(n);
    }
    labels.truncate(n);
    Ok(labels)
}

/// Labels of the size of the output, as the other side of a regression.
fn label_rows(data: &Data, rows: &Rows) -> Result<Rows> {
    let fail = |what: &str| Error::invalid(codes::DATA_LABELS, what).in_file(&data.origin);
    let labels =
        data.labels.as_ref().ok_or_else(|| fail("there is nothing to compare with").help("use `--against MODEL`"))?;
    let values = labels.to_f32s().map_err(|e| fail(&e.to_string()))?;
    if values.len() < rows.values.len() {
        return Err(fail("the labels do not have the output's size")
            .found(values.len())
            .expected(rows.values.len())
            .help("compare with another model by `--against`, or keep the outputs with `--outputs`"));
    }
    Ok(Rows { values, len: rows.len })
}

fn compare(metric: Metric, rows: &Rows, other: &Rows, result: &mut Evaluation) -> Result<()> {
    if other.len != rows.len || other.values.len() < rows.values.len() {
        return Err(Error::invalid(codes::DATA_SHAPE, "the two models' first outputs differ in size")
            .found(format!("{} values per row", rows.len))
            .expected(format!("{} values per row", other.len)));
    }
    let mut sums = Sums::default();
    sums.add(&other.values, &rows.values);
    let nan = nan_rows(&[rows, other], result.n);
    let same = |i: &usize| !nan[*i] && argmax(rows.row(*i)) == argmax(other.row(*i));
    result.hits = (0..result.n).filter(same).count();
    result.sqnr_db = Some(sums.sqnr_db());
    result.value = Some(match metric {
        Metric::Mse => sums.mse(),
        Metric::Cosine => sums.cosine(),
        _ => share(result.hits, result.n),
    });
    note_nan(&nan, result);
    Ok(())
}

fn collect(
    model: &Model,
    data: &Data,
    registry: &Registry,
    options: &EvaluateOptions,
    keep: bool,
    progress: &mut Progress,
) -> Result<(Rows, Evaluation)> {
    let feed = Feed::new(data, &model.inputs(), options.affine)?;
    let batches = Batches::new(model, feed, registry, &options.session, options.limit)?;
    let mut rows = Rows { values: Vec::new(), len: 0 };
    let mut evaluation = Evaluation::default();
    let (mut kept, mut ns) = (Vec::new(), 0u64);
    let first_type = batches.session.outputs().first().map(|(_, ty)| ty.clone());
    batches.run(progress, |b: BatchOutput| {
        if options.metric.is_some() {
            add_rows(&mut rows, &b, batches.batch, first_type.as_ref()).map_err(|e| e.in_file(&model.origin))?;
        }
        evaluation.n += b.count;
        ns = ns.saturating_add(b.ns);
        if keep {
            kept.push(b.outputs);
        }
        Ok(())
    })?;
    evaluation.ms_per_sample = if evaluation.n == 0 { 0.0 } else { ns as f64 / 1e6 / evaluation.n as f64 };
    evaluation.outputs = join(&kept, batches.session.outputs())?;
    evaluation.devices = batches.session.report().devices().into_iter().map(str::to_owned).collect();
    evaluation.diagnostics.clone_from(&batches.session.report().diagnostics);
    Ok((rows, evaluation))
}

/// Adds the rows of a batch. The output of a batch of one belongs to its row whatever its shape; others must be batched on
/// axis 0.
fn add_rows(rows: &mut Rows, b: &BatchOutput, batch: usize, ty: Option<&TensorType>) -> Result<()> {
    let fail = |what: String| Error::invalid(codes::DATA_SHAPE, format!("the first output: {what}"));
    let (Some(output), Some(ty)) = (b.outputs.first(), ty) else { return Err(fail("there is none".into())) };
    if b.count == 0 || (batch > 1 && output.shape().first() != Some(&b.count)) {
        return Err(fail("its axis 0 is not the batch".into())
            .found(format!("{:?}", output.shape()))
            .expected(format!("{} rows", b.count))
            .help("evaluate it with `--batch 1`, or export the model with the batch on axis 0"));
    }
    let values = real_values(output, ty.quant.as_deref()).map_err(|e| fail(e.to_string()))?;
    if values.len() % b.count != 0 {
        return Err(fail(format!("{} values do not divide into {} rows", values.len(), b.count)));
    }
    rows.len = values.len() / b.count;
    rows.values.extend(values);
    Ok(())
}

#[cfg(test)]
#[path = "evaluate_tests.rs"]
mod tests;
