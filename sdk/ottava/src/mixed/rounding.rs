//! Runs the float network over the calibration data so that the roundings of its weights can be learned.

use crate::batches::Progress;
use crate::calibrate::{CalibrateOptions, watch_values};
use crate::data::{Affine, Data, Feed};
use crate::error::Result;
use crate::model::Model;
use crate::quantize::quantize_error;
use crate::registry::Registry;
use crate::session::SessionOptions;
use ottava_graph::Graph;
use ottava_quantize::{Calibration, Learned, Learning, Recipe};

/// What the recipe asks to learn, on a canonical graph that stands for the model.
pub(crate) fn learn(
    (model, graph, registry): (&Model, &Graph, &Registry),
    session: &SessionOptions,
    (data, affine): (&Data, Option<Affine>),
    calibration: &Calibration,
    recipe: &Recipe,
    progress: &mut Progress,
) -> Result<Learned> {
    let fail = |e| quantize_error(e, model);
    let rows = Feed::new(data, &model.inputs(), affine)?.n_rows;
    let Some(mut learning) = Learning::new(graph, calibration, recipe, rows).map_err(fail)? else {
        return Ok(Learned::default());
    };
    let options = CalibrateOptions { affine, session: session.clone(), ..CalibrateOptions::default() };
    while let Some(values) = learning.next_round() {
        let each = |values: &[ottava_hal::Tensor], count| learning.observe(values, count);
        watch_values((model, graph, registry), values, data, &options, progress, each)?;
        learning.finish_round().map_err(fail)?;
    }
    Ok(learning.finish())
}
