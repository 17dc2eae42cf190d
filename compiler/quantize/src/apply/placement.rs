//! What the search for mixed precision asks about a plan: which values would be quantized, and who reads them as
//! integers.

use ottava_graph::Graph;
use ottava_hal::ValueId;

use super::fingerprint;
use super::kinds::data_slots;
use super::plan::Plan;
use super::ranges::Ranges;
use crate::calibration::Calibration;
use crate::error::Result;
use crate::recipe::Recipe;

/// The quantizer's decisions on a graph, not carried out.
pub(crate) struct Placement {
    plan: Plan,
}

impl Placement {
    pub(crate) fn new(graph: &Graph, calibration: &Calibration, recipe: &Recipe) -> Result<Self> {
        calibration.expect_model(fingerprint(graph))?;
        let ranges = Ranges { graph, calibration, recipe };
        Ok(Self { plan: Plan::new(graph, recipe, &ranges) })
    }

    /// The group of values that a quantized, computed value shares its parameters with.
    pub(crate) fn group(&self, graph: &Graph, id: ValueId) -> Option<usize> {
        let quantized = graph.constant(id).is_none() && self.plan.is_quantized(id);
        quantized.then(|| self.plan.groups.find(id))
    }

    /// The integer operator whose choice of activations holds for a value, with what is fused into it.
    pub(crate) fn writer(&self, id: ValueId) -> Option<usize> {
        self.plan.head_of(self.plan.uses.producer(id)?)
    }

    /// The nodes that read a value as integers, movers among them.
    pub(crate) fn readers(&self, graph: &Graph, id: ValueId) -> Vec<usize> {
        let reads = |&(idx, slot): &(usize, usize)| {
            let is_data = data_slots(graph, &graph.nodes[idx], &self.plan.kinds[idx]).contains(&slot);
            (is_data && self.plan.reads_integers(graph, idx)).then_some(idx)
        };
        self.plan.uses.readers(id).iter().filter_map(reads).collect()
    }
}
