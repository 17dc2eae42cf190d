//! Calibration in parts: the ranges of all rows, and those of each half, which are measured on the other half.

use crate::batches::Progress;
use crate::calibrate::{CalibrateOptions, calibrate_parts};
use crate::data::{Affine, Data, Feed};
use crate::error::{Error, Result, codes};
use crate::model::Model;
use crate::registry::Registry;
use crate::session::SessionOptions;
use ottava_graph::Graph;
use ottava_quantize::{Calibration, Observer, Recipe};

/// The statistics of the rows, part by part.
pub(crate) struct Statistics {
    all: Calibration,
    parts: Vec<Calibration>,
}

impl Statistics {
    /// Runs a canonical graph that stands for the model over the data.
    pub(crate) fn collect(
        (model, canonical, registry): (&Model, &Graph, &Registry),
        session: &SessionOptions,
        (data, affine): (&Data, Option<Affine>),
        recipe: &Recipe,
        progress: &mut Progress,
    ) -> Result<Self> {
        let feed = Feed::new(data, &model.inputs(), affine)?;
        // A moving average is of one series of samples, and so are the rows of a network with a state.
        let series = matches!(recipe.activations.observer, Observer::MovingAverage(_))
            || feed.has_state()
            || !model.states().is_empty();
        let n_parts = if series || feed.n_rows < 2 { 1 } else { 2 };
        let o = CalibrateOptions { affine, shard: None, recipe: recipe.clone(), session: session.clone() };
        let parts = calibrate_parts((model, canonical.clone()), data, registry, &o, n_parts, progress)?;
        Ok(Self { all: merged(&parts)?, parts })
    }

    /// The ranges of all rows.
    pub(crate) fn all(&self) -> &Calibration {
        &self.all
    }

    /// For each half of the rows the ranges of the other half; for rows that have no halves those of all.
    pub(crate) fn folds(&self) -> Result<Vec<Calibration>> {
        let (first, second) = self.parts.split_at(self.parts.len() / 2);
        let halves = if first.is_empty() { vec![second] } else { vec![second, first] };
        halves.into_iter().map(merged).collect()
    }
}

fn merged(parts: &[Calibration]) -> Result<Calibration> {
    let mut parts = parts.iter();
    let fail = |e: String| Error::invalid(codes::CALIBRATION, e);
    let mut all = parts.next().cloned().ok_or_else(|| fail("there are no statistics".to_owned()))?;
    for part in parts {
        all.merge(part).map_err(|e| fail(e.to_string()))?;
    }
    Ok(all)
}
