//! Corrections of what quantization changes, one file and one line of [`TABLE`] each.
//!
//! Some rewrite the float network before it is quantized, in the order of the recipe: what it computes stays the same,
//! and its values become easier to quantize. Others change the integer constants of a product, in the order of the table:
//! first how weights round, then the bias that makes up for it.

mod bias;
mod equalize;
mod gram;
mod learned_rounding;
mod noise;
mod rescale;
mod rounding;
mod smooth;

pub(crate) use bias::mean_error;
pub use learned_rounding::{Learned, Learning};
pub(crate) use rescale::Rewrite;

use ottava_graph::{Diagnostic, Graph};
use std::collections::BTreeSet;

use crate::apply::fingerprint;
use crate::calibration::Calibration;
use crate::error::Result;
use crate::recipe::{Correction, Recipe};

/// What a correction works on.
enum Work {
    /// The float network.
    Network(fn(&mut Rewrite, &Recipe, Correction) -> Result<()>),
    /// The integer constants of a product; carried out where these are made.
    Constants,
}

/// One line: the name in the recipe, and the work.
struct Line {
    name: &'static str,
    work: Work,
}

/// Every correction.
const TABLE: &[Line] = &[
    Line { name: "BiasCorrection", work: Work::Constants },
    Line { name: "CrossLayerEqualization", work: Work::Network(equalize::equalize) },
    Line { name: "LearnedRounding", work: Work::Constants },
    Line { name: "Smooth", work: Work::Network(smooth::smooth) },
];

/// A float network, ready to be quantized, with the statistics of its values.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The network; what it computes is what the original computes.
    pub graph: Graph,
    /// Its statistics. After a rewrite they are derived from those of the original network; running the data again gives
    /// exact ones.
    pub calibration: Calibration,
    /// What was done.
    pub diagnostics: Vec<Diagnostic>,
    /// Whether the network was rewritten.
    pub rewritten: bool,
    /// Values whose channels were rescaled: their numbers are no longer those of the original network.
    pub rescaled: BTreeSet<String>,
}

/// Whether a correction changes the float network, as opposed to integer constants.
pub(crate) fn rewrites_network(correction: Correction) -> bool {
    TABLE.iter().any(|line| line.name == correction.name() && matches!(line.work, Work::Network(_)))
}

/// Applies the corrections that rewrite the float network.
pub fn prepare(graph: &Graph, calibration: &Calibration, recipe: &Recipe) -> Result<Prepared> {
    calibration.expect_model(fingerprint(graph))?;
    let mut rewrite = Rewrite::new(graph, calibration);
    for correction in &recipe.corrections {
        let line = TABLE.iter().find(|line| line.name == correction.name());
        if let Some(Line { work: Work::Network(work), .. }) = line {
            work(&mut rewrite, recipe, *correction)?;
        }
    }
    Ok(rewrite.finish(graph, calibration))
}

#[cfg(test)]
mod tests;
