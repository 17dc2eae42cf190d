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
    /// Rows that count, for the metrics that are fractions.
    pub hits: usize,
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
    let run = |m: &Model, keep: bool, progress: &mut Progress| collect(m, data, registry, options, keep, progress);
    let (rows, mut result) = run(model, options.keep_outputs, progress)?;
    let Some(metric) = options.metric else { return Ok(result) };
    match metric {
        Metric::Top1 | Metric::Top5 => {
            let labels = labels(data, &result, options.limit)?;
            let k = if metric == Metric::Top1 { 1 } else { 5 };
            let hit = |(i, l): &(usize, &usize)| {
                if k == 1 { argmax(rows.row(*i)) == Some(**l) } else { in_top_k(rows.row(*i), **l, k) }
            };
            result.hits = labels.iter().enumerate().filter(hit).count();
            result.value = Some(share(result.hits, result.n));
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

fn labels(data: &Data, result: &Evaluation, limit: Option<usize>) -> Result<Vec<usize>> {
    // Labels are one per row of the data, also where only the first rows run.
    let all = match (&data.labels, limit) {
        (Some(l), Some(_)) => l.elements(),
        _ => result.n,
    };
    let mut labels = data.class_labels(all)?;
    if labels.len() < result.n {
        return data.class_labels(result.n);
    }
    labels.truncate(result.n);
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
    let same = |i: &usize| argmax(rows.row(*i)) == argmax(other.row(*i));
    result.hits = (0..result.n).filter(same).count();
    result.sqnr_db = Some(sums.sqnr_db());
    result.value = Some(match metric {
        Metric::Mse => sums.mse(),
        Metric::Cosine => sums.cosine(),
        _ => share(result.hits, result.n),
    });
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
            add_rows(&mut rows, &b, first_type.as_ref())?;
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

fn add_rows(rows: &mut Rows, b: &BatchOutput, ty: Option<&TensorType>) -> Result<()> {
    let fail = |what: String| Error::invalid(codes::DATA_SHAPE, format!("the first output: {what}"));
    let (Some(output), Some(ty)) = (b.outputs.first(), ty) else { return Err(fail("there is none".into())) };
    let values = real_values(output, ty.quant.as_deref()).map_err(|e| fail(e.to_string()))?;
    if b.count == 0 || values.len() % b.count != 0 {
        return Err(fail(format!("{} values do not divide into {} rows", values.len(), b.count)));
    }
    rows.len = values.len() / b.count;
    rows.values.extend(values);
    Ok(())
}
