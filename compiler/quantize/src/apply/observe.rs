//! What to watch during calibration, and how to recognise the model later.

use ottava_graph::{Graph, Uses};
use ottava_hal::ValueId;

use super::kinds::{Kind, is_float, kind_of};
use crate::recipe::Recipe;

/// A value to observe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Observation {
    /// The value in the canonical float graph.
    pub value: ValueId,
    /// Its name, under which the calibration keeps it.
    pub name: String,
    /// The axis whose means bias correction needs; the shape is known once the batch is bound.
    pub channel_axis: Option<usize>,
    /// The observation, by its number in the list, that has the same values in another order: what is a function of the
    /// multiset of values is that one's.
    pub same_as: Option<usize>,
}

/// Every float value that a recipe may want to quantize: all but constants and what is fused away.
pub fn observations(graph: &Graph, recipe: &Recipe) -> Vec<Observation> {
    let uses = Uses::of(graph);
    let computed = |id: &ValueId| uses.producer(*id).is_some() || graph.inputs.contains(id);
    let ids = (0..graph.values.len()).map(ValueId);
    let ids: Vec<ValueId> = ids
        .filter(|id| computed(id) && graph.constant(*id).is_none() && is_float(graph, *id))
        .filter(|id| !is_fused_away(graph, &uses, recipe, *id))
        .collect();
    let observation = |value: &ValueId| Observation {
        value: *value,
        name: graph.name_of(*value).to_owned(),
        channel_axis: channel_axis(graph, &uses, *value),
        same_as: moved_from(graph, &uses, *value).filter_map(|from| ids.binary_search(&from).ok()).last(),
    };
    ids.iter().map(observation).collect()
}

/// The values that have the same elements as this one in another order, from the nearest to the farthest.
fn moved_from<'g>(graph: &'g Graph, uses: &'g Uses, id: ValueId) -> impl Iterator<Item = ValueId> + 'g {
    const MOVERS: [&str; 6] = ["Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"];
    let before = |id: &ValueId| {
        let node = &graph.nodes[uses.producer(*id)?];
        node.input(0).filter(|_| node.domain.is_empty() && MOVERS.contains(&node.op.as_str()))
    };
    std::iter::successors(before(&id), move |id| before(id))
}

/// Whether a Relu or Clip is all that reads the value, and the recipe makes neither it nor what computes the value a
/// float node. Then the range is taken behind the activation, or, where the operator stays in float, not at all; and the
/// float network that is observed may fuse the two as any other.
fn is_fused_away(graph: &Graph, uses: &Uses, recipe: &Recipe, id: ValueId) -> bool {
    let (Some(maker), Some(reader)) = (uses.producer(id), uses.only_reader(id)) else { return false };
    let kind = |idx: usize| kind_of(graph, &graph.nodes[idx]);
    let may_be_integer = |idx: usize| recipe.for_node(&graph.nodes[idx].name).activations.is_some();
    let fuses = kind(reader) == Kind::Clamp && may_be_integer(reader) && may_be_integer(maker);
    fuses
        && match kind(maker) {
            Kind::Product | Kind::Pointwise => true,
            Kind::Clamp => graph.nodes[maker].input(0).is_some_and(|x| is_fused_away(graph, uses, recipe, x)),
            _ => false,
        }
}

/// The input channels of the first product with constant weights that reads the value.
fn channel_axis(graph: &Graph, uses: &Uses, id: ValueId) -> Option<usize> {
    let rank = graph.ty(id).shape.rank();
    uses.readers(id).iter().find_map(|&(reader, slot)| {
        let node = &graph.nodes[reader];
        let constant = node.input(1).is_some_and(|w| graph.constant(w).is_some());
        if slot != 0 || !constant || kind_of(graph, node) != Kind::Product {
            return None;
        }
        match node.op.as_str() {
            "Conv" if rank >= 2 => Some(1),
            "MatMul" | "Gemm" if rank >= 1 => Some(rank - 1),
            _ => None,
        }
    })
}

/// A number that tells models apart: operators, names, edges and constants of the unbound canonical graph. Shapes of
/// computed values do not enter, so binding a batch size leaves it alone only as long as no constant depends on it; take
/// it before binding.
pub fn fingerprint(graph: &Graph) -> u64 {
    let mut text = Vec::new();
    for node in &graph.nodes {
        text.extend(node.full_op().bytes());
        text.extend(node.name.bytes());
        let inputs = node.inputs.iter().map(|id| id.map_or("", |id| graph.name_of(id)));
        for name in inputs.chain(node.outputs.iter().map(|id| graph.name_of(*id))) {
            text.push(0);
            text.extend(name.bytes());
        }
        text.extend(format!("{:?}", node.attrs).bytes());
    }
    let constants = graph.values.iter().filter_map(|v| v.constant.as_ref().map(|data| (&v.name, data)));
    let parts = constants.map(|(name, data)| (crate::fnv1a(name.as_bytes()), crate::fnv1a(data.bytes())));
    // A sum does not depend on the order of the values, which passes may change.
    let constants = parts.fold(0u64, |sum, (name, data)| sum.wrapping_add(name.rotate_left(23) ^ data));
    text.extend(constants.to_le_bytes());
    crate::fnv1a(&text)
}
