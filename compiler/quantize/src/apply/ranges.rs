//! Ranges of activations from the calibration, and the parameters of a group of values.

use std::collections::BTreeMap;

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{DataType, ValueId};

use super::kinds::{fixed_range, scaling};
use super::plan::{Fate, Plan};
use crate::calibration::Calibration;
use crate::error::{Error, Result};
use crate::observers::Observer;
use crate::params::{Range, params_for};
use crate::recipe::{Activations, Recipe};

/// Scale and zero point of a value, and its storage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ValueParams {
    /// Storage.
    pub dtype: DataType,
    /// Scale.
    pub scale: f32,
    /// Zero point.
    pub zero_point: i32,
    /// The range that was chosen, before it was widened to hold 0.
    pub range: (f64, f64),
}

/// Looks ranges up.
pub(crate) struct Ranges<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) calibration: &'a Calibration,
    pub(crate) recipe: &'a Recipe,
}

impl Ranges<'_> {
    /// The range of a value, by the observer of `activations`; of a constant, its extremes.
    pub(crate) fn range(&self, id: ValueId, activations: &Activations, notes: &mut Vec<Diagnostic>) -> Result<Range> {
        let name = self.graph.name_of(id);
        if self.graph.constant(id).is_some() {
            return self.constant_range(id).ok_or_else(|| Error::BadWeights {
                tensor: name.to_owned(),
                found: "a value that is not finite".to_owned(),
                expected: "finite constants".to_owned(),
            });
        }
        let no_data =
            |reason: &str, help| Err(Error::NoData { tensor: name.to_owned(), reason: reason.to_owned(), help });
        let Some(stats) = self.calibration.get(name) else {
            return no_data(
                "the calibration does not know it",
                "collect the calibration on this model, with this recipe (`calibrate --recipe`)",
            );
        };
        let target = target_of(activations)?;
        let Some(choice) = activations.observer.choose(stats, target) else {
            return match stats.histogram.finite() {
                0 => no_data("no finite value was observed", "check the input data and the model for NaN"),
                _ => no_data("the moving average was not collected", "calibrate with this observer"),
            };
        };
        if let Some(note) = choice.note {
            notes.push(Diagnostic::note("Q0103", name, note));
        }
        let (lo, hi) = stats.stretch.unwrap_or((1.0, 1.0));
        Ok(Range { lo: lo * choice.range.lo, hi: hi * choice.range.hi })
    }

    /// Parameters of one value by itself.
    pub(crate) fn own_params(&self, id: ValueId, activations: &Activations) -> Result<ValueParams> {
        let range = self.range(id, activations, &mut Vec::new())?;
        let chosen = params_for(range, target_of(activations)?);
        let (dtype, range) = (activations.dtype, (range.lo, range.hi));
        Ok(ValueParams { dtype, scale: chosen.scale, zero_point: chosen.zero_point, range })
    }

    fn constant_range(&self, id: ValueId) -> Option<Range> {
        let values = self.graph.constant(id)?.to_f32s().ok()?;
        let start = Range { lo: f64::INFINITY, hi: f64::NEG_INFINITY };
        let range = values.iter().fold(start, |r, &v| r.union(Range { lo: v.into(), hi: v.into() }));
        (range.lo.is_finite() && range.hi.is_finite() && values.iter().all(|v| v.is_finite())).then_some(range)
    }

    /// How many times the largest of these values' ranges exceeds the smallest; all-zero ones count for nothing.
    pub(crate) fn ratio(&self, values: &[ValueId]) -> Option<f64> {
        let mut notes = Vec::new();
        let reaches = values.iter().filter_map(|id| self.range(*id, &self.recipe.activations, &mut notes).ok());
        let reaches: Vec<f64> = reaches.map(Range::reach).filter(|r| *r > 0.0).collect();
        let largest = reaches.iter().copied().reduce(f64::max)?;
        let smallest = reaches.iter().copied().reduce(f64::min)?;
        (reaches.len() > 1).then_some(largest / smallest)
    }

    /// Parameters of every quantized group, by its representative.
    pub(crate) fn group_params(
        &self,
        plan: &Plan,
        notes: &mut Vec<Diagnostic>,
    ) -> Result<BTreeMap<usize, ValueParams>> {
        let mut params = BTreeMap::new();
        for (root, sources) in self.sources(plan) {
            let activations = self.widened(plan, root, self.activations_of(plan, root, &sources));
            let mut range: Option<Range> = None;
            for id in sources {
                let own = match self.defined_range(plan, id, &activations) {
                    Some(range) => range,
                    None => self.range(id, &activations, notes)?,
                };
                range = Some(range.map_or(own, |r| r.union(own)));
            }
            let range = range.unwrap_or(Range { lo: 0.0, hi: 0.0 });
            let chosen = params_for(range, target_of(&activations)?);
            if chosen.constant {
                let name = self.graph.name_of(ValueId(root));
                notes.push(Diagnostic::warning("Q0101", name, "it is zero on all calibration data and takes scale 1"));
            }
            let (dtype, range) = (activations.dtype, (range.lo, range.hi));
            params.insert(root, ValueParams { dtype, scale: chosen.scale, zero_point: chosen.zero_point, range });
        }
        self.scale_in_proportion(plan, &mut params);
        Ok(params)
    }

    /// The stream of residuals in 16 bits over its whole range, unless the recipe says otherwise.
    fn widened(&self, plan: &Plan, root: usize, activations: Activations) -> Activations {
        let default = activations == self.recipe.activations && activations.dtype.bits() == 8;
        if default && plan.is_stream(self.graph, root) {
            return Activations { dtype: DataType::S16, symmetric: true, observer: Observer::MinMax };
        }
        activations
    }

    /// What a positive constant scales takes the parameters of its source, scaled: the integers are the same.
    fn scale_in_proportion(&self, plan: &Plan, params: &mut BTreeMap<usize, ValueParams>) {
        for (idx, node) in self.graph.nodes.iter().enumerate() {
            let Some((slot, factor)) = scaling(self.graph, node).filter(|_| plan.fates[idx] == Fate::Quantized) else {
                continue;
            };
            let (Some(x), out) = (node.input(slot), node.outputs[0]) else { continue };
            let (from, to) = (plan.groups.find(x), plan.groups.find(out));
            // A value of a larger group shares its parameters with others.
            let alone = !plan.is_inner(out) && !plan.is_shared(out);
            let Some(source) = params.get(&from).copied().filter(|_| alone && from != to) else { continue };
            let scale = (f64::from(source.scale) * factor) as f32;
            let same_type = params.get(&to).is_some_and(|p| p.dtype == source.dtype);
            if same_type && scale.is_normal() {
                let range = (source.range.0 * factor, source.range.1 * factor);
                params.insert(to, ValueParams { scale, range, ..source });
            }
        }
    }

    /// By group: the values that no mover of the group computes. The range of the others follows from theirs.
    fn sources(&self, plan: &Plan) -> BTreeMap<usize, Vec<ValueId>> {
        let mut sources: BTreeMap<usize, Vec<ValueId>> = BTreeMap::new();
        for id in (0..self.graph.values.len()).map(ValueId).filter(|id| plan.is_quantized(*id)) {
            let moved = plan.uses.producer(id).is_some_and(|p| plan.fates[p] == Fate::Mover);
            let list = sources.entry(plan.groups.find(id)).or_default();
            if !moved {
                list.push(id);
            }
        }
        for (idx, node) in self.graph.nodes.iter().enumerate().filter(|(idx, _)| plan.fates[*idx] == Fate::Mover) {
            let root = plan.groups.find(node.outputs[0]);
            let Some(list) = sources.get_mut(&root) else { continue };
            let data = super::kinds::data_slots(self.graph, node, &plan.kinds[idx]);
            let data = data.iter().filter_map(|&slot| node.input(slot));
            list.extend(data.filter(|id| self.graph.constant(*id).is_some()));
        }
        sources
    }

    /// The range that the producer's function has by definition.
    fn defined_range(&self, plan: &Plan, id: ValueId, activations: &Activations) -> Option<Range> {
        let producer = plan.uses.producer(id).filter(|p| plan.fates[*p] == Fate::Quantized)?;
        let steps = activations.target()?.grid.steps();
        let (lo, hi) = fixed_range(&self.graph.nodes[producer].op, steps)?;
        Some(Range { lo, hi })
    }

    /// The recipe's choice for a group: that of the node which computes its first value; where that is no integer
    /// operator, that of the first integer operator which reads the group.
    fn activations_of(&self, plan: &Plan, root: usize, sources: &[ValueId]) -> Activations {
        let writer = sources.iter().find_map(|id| plan.uses.producer(*id).and_then(|idx| plan.head_of(idx)));
        let reads = |node: &ottava_hal::Node| node.inputs.iter().flatten().any(|id| plan.groups.find(*id) == root);
        let reader = || {
            let mut integer = (0..self.graph.nodes.len()).filter_map(|idx| Some((idx, plan.head_of(idx)?)));
            integer.find(|(idx, _)| reads(&self.graph.nodes[*idx])).map(|(_, head)| head)
        };
        let node = writer.or_else(reader).map(|idx| self.graph.nodes[idx].name.as_str());
        node.and_then(|name| self.recipe.for_node(name).activations).unwrap_or(self.recipe.activations)
    }
}

fn target_of(activations: &Activations) -> Result<crate::params::Target> {
    activations.target().ok_or_else(|| Error::Unsupported {
        what: format!("activations in {}", activations.dtype),
        reason: "the quantizer writes integer activations only".to_owned(),
        help: "take U8, S8, U16 or S16, or keep the nodes in Float".to_owned(),
    })
}
