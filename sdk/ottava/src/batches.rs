//! A network over data: sessions by batch size, rows in, rows out.

use crate::data::Feed;
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::{Session, SessionOptions};
use ottava_hal::{Tensor, TensorType};
use std::collections::BTreeMap;

/// How far a long task is: done and total, in samples.
pub type Progress<'a> = dyn FnMut(u64, u64) + 'a;

/// A model with its data, ready to run batch by batch.
pub struct Batches {
    /// Session for full batches.
    pub session: Session,
    /// Rows per run.
    pub batch: usize,
    feed: Feed,
    limit: Option<usize>,
}

/// Outputs of the rows of one batch.
pub struct BatchOutput {
    /// First row.
    pub start: usize,
    /// Number of rows.
    pub count: usize,
    /// Outputs in the model's order, the rows of the padding cut off.
    pub outputs: Vec<Tensor>,
    /// Time of the run, nanoseconds.
    pub ns: u64,
}

impl Batches {
    /// Compiles a model for the batch of the options (or the one that its file fixes) and matches the data to it.
    pub fn new(
        model: &Model,
        feed: Feed,
        registry: &Registry,
        options: &SessionOptions,
        limit: Option<usize>,
    ) -> Result<Self> {
        let options = with_data_dims(options, &feed);
        let batch = batch_size(model, &feed, asked_batch(model, &options)?)?;
        let session = Session::new(model, registry, &SessionOptions { batch, ..options })?;
        Ok(Self { session, batch, feed, limit })
    }

    /// Rows that will run.
    pub fn n_rows(&self) -> usize {
        self.feed.n_rows.min(self.limit.unwrap_or(usize::MAX))
    }

    /// Runs every batch and hands out its outputs.
    pub fn run(&self, progress: &mut Progress, mut each: impl FnMut(BatchOutput) -> Result<()>) -> Result<()> {
        let total = self.n_rows() as u64;
        for (start, count) in self.feed.batches(self.batch, self.limit) {
            let inputs = self.feed.batch(start, count, self.batch)?;
            let (outputs, report) = self.session.run_ordered(&inputs, false)?;
            let cut = |t: Tensor| first_rows(&t, self.batch, count);
            let outputs = outputs.into_iter().map(cut).collect::<Result<_>>()?;
            each(BatchOutput { start, count, outputs, ns: report.total_ns })?;
            progress((start + count) as u64, total);
        }
        Ok(())
    }
}

/// Symbols that the arrays decide, where the caller does not.
pub(crate) fn with_data_dims(options: &SessionOptions, feed: &Feed) -> SessionOptions {
    let mut options = options.clone();
    for (name, n) in &feed.dims {
        options.dims.entry(name.clone()).or_insert(*n);
    }
    options
}

/// Rows per run that the caller asks for, as a batch or as the value of a symbol on axis 0; 0 where it does not.
pub(crate) fn asked_batch(model: &Model, options: &SessionOptions) -> Result<usize> {
    let mut asked = options.batch;
    for symbol in model.batch_symbols() {
        let Some(&n) = options.dims.get(&symbol) else { continue };
        if asked != 0 && asked != n {
            return Err(Error::invalid(codes::MODEL_DIM, format!("the dimension `{symbol}` is the batch"))
                .in_file(&model.origin)
                .found(format!("{n} for the dimension, {asked} for the batch"))
                .expected("the same number"));
        }
        asked = n;
    }
    Ok(asked)
}

/// Rows per run: what the file fixes, else what was asked for. Asking for something else than the file fixes is an error.
pub(crate) fn batch_size(model: &Model, feed: &Feed, asked: usize) -> Result<usize> {
    match feed.fixed_batch {
        Some(k) if asked > 1 && asked != k => {
            Err(Error::invalid(codes::MODEL_DIM, format!("the model takes {k} rows at once, its file fixes that"))
                .in_file(&model.origin)
                .found(format!("a batch of {asked}"))
                .help("leave the batch out"))
        }
        Some(k) => Ok(k),
        None => Ok(asked.max(1)),
    }
}

/// The first rows of a tensor that is batched on axis 0; others pass as they are.
pub(crate) fn first_rows(tensor: &Tensor, batch: usize, count: usize) -> Result<Tensor> {
    if count == batch || tensor.shape().first() != Some(&batch) || tensor.dtype().bits() < 8 {
        return Ok(tensor.clone());
    }
    let mut shape = tensor.shape().to_vec();
    shape[0] = count;
    let bytes = &tensor.bytes()[..tensor.bytes().len() / batch * count];
    Tensor::from_bytes(tensor.dtype(), &shape, bytes).map_err(|e| Error::invalid(codes::DATA_SHAPE, e.to_string()))
}

/// All rows of each output, joined on axis 0.
pub(crate) fn join(parts: &[Vec<Tensor>], types: &[(String, TensorType)]) -> Result<BTreeMap<String, Tensor>> {
    let mut joined = BTreeMap::new();
    for (i, (name, _)) in types.iter().enumerate() {
        let pieces: Vec<&Tensor> = parts.iter().filter_map(|p| p.get(i)).collect();
        let Some(first) = pieces.first() else { continue };
        let fail = |what: &str| Error::invalid(codes::DATA_SHAPE, format!("output `{name}`: {what}"));
        let mut shape = first.shape().to_vec();
        let rows = shape.first_mut().ok_or_else(|| fail("a scalar has no rows to join"))?;
        *rows = pieces.iter().map(|t| t.shape().first().copied().unwrap_or(0)).sum();
        if pieces.iter().any(|t| t.shape().get(1..) != first.shape().get(1..)) {
            return Err(fail("its rows differ in shape from batch to batch"));
        }
        let bytes: Vec<u8> = pieces.iter().flat_map(|t| t.bytes()).copied().collect();
        joined
            .insert(name.clone(), Tensor::from_bytes(first.dtype(), &shape, &bytes).map_err(|e| fail(&e.to_string()))?);
    }
    Ok(joined)
}
