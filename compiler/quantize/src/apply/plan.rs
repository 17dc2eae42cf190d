//! Which nodes become integer operators, which values they leave unquantized inside a fused chain, and which values share
//! parameters.
//!
//! One pass over the nodes in topological order:
//!
//! * a product (Conv, ConvTranspose, Gemm, MatMul) is quantized unless the recipe or its form forbids it;
//! * arithmetic, averages and table functions are quantized where everything they read comes out of quantized
//!   convolutions. Behind matrix products alone (transformers, dense layers) they stay in float: there 8 bits cost accuracy
//!   and save next to nothing;
//! * Softmax, and table functions behind a matrix product, are quantized where they feed the outputs of the network;
//! * behind a product follow, without quantization in between and where the value has a single reader: a constant bias, a
//!   residual sum, a Relu or Clip (numerics, section 4);
//! * movers share the parameters of both sides and are quantized where a neighbour is.
//!
//! A recipe with `integer_only` quantizes everything that has an integer form. Then a mask before Softmax and the mask of a
//! mean are flags that the integer operator reads (numerics, section 4), and what is computed only for them is no float.

use ottava_graph::{Graph, Uses, masks};
use ottava_hal::{Node, ValueId};

use super::blocked::blocked;
use super::groups::Groups;
use super::half;
use super::kinds::{Kind, data_slots, is_float, is_norm, kind_of};
use super::ranges::Ranges;
use crate::recipe::Recipe;

/// Inputs of a concatenation whose ranges differ by more than this keep parameters of their own.
const MAX_RATIO: f64 = 16.0;

/// What happens to one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// An integer operator.
    Quantized,
    /// A mover; quantized if its group is.
    Mover,
    /// Part of the chain that starts at this node, or of the form that ends there.
    FusedInto(usize),
    /// Computes a mask that integer operators read as flags.
    Mask,
    /// Stays in float, for this reason.
    Float(String),
}

/// What the quantizer will do.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) uses: Uses,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) fates: Vec<Fate>,
    /// The constant bias that an Add behind a matrix product adds: (product, Add, constant).
    pub(crate) biases: Vec<(usize, usize, ValueId)>,
    pub(crate) groups: Groups,
    /// By representative: whether the group is quantized.
    pub(crate) active: Vec<bool>,
    /// Values inside a fused chain: never quantized.
    inner: Vec<bool>,
    /// Values that come out of quantized operators, possibly through movers.
    typed: Vec<bool>,
    /// Of these, the ones that come out of convolutions.
    trunk: Vec<bool>,
    /// Whether everything that has an integer form takes it.
    everywhere: bool,
}

impl Plan {
    pub(crate) fn new(graph: &Graph, recipe: &Recipe, ranges: &Ranges<'_>) -> Self {
        let n = graph.values.len();
        let mut plan = Self {
            uses: Uses::of(graph),
            kinds: graph.nodes.iter().map(|node| kind_of(graph, node)).collect(),
            fates: vec![Fate::Float(String::new()); graph.nodes.len()],
            biases: Vec::new(),
            groups: Groups::new(n),
            active: vec![false; n],
            inner: vec![false; n],
            typed: vec![false; n],
            trunk: vec![false; n],
            everywhere: recipe.integer_only,
        };
        let mut decided = vec![false; graph.nodes.len()];
        if plan.everywhere {
            plan.take_masks(graph, recipe, &mut decided);
        }
        for idx in 0..graph.nodes.len() {
            if !decided[idx] {
                plan.decide(graph, recipe, ranges, idx, &mut decided);
            }
        }
        plan.activate(graph, recipe);
        plan
    }

    /// Whether a value gets quantization parameters.
    pub(crate) fn is_quantized(&self, id: ValueId) -> bool {
        !self.inner[id.0] && self.active[self.groups.find(id)]
    }

    /// Whether a value lies inside a fused chain.
    pub(crate) fn is_inner(&self, id: ValueId) -> bool {
        self.inner[id.0]
    }

    /// Whether other values share the parameters of this one.
    pub(crate) fn is_shared(&self, id: ValueId) -> bool {
        let root = self.groups.find(id);
        (0..self.inner.len()).any(|other| other != id.0 && self.groups.find(ValueId(other)) == root)
    }

    /// The integer operator that a node is or is a part of.
    pub(crate) fn head_of(&self, idx: usize) -> Option<usize> {
        match self.fates[idx] {
            Fate::Quantized => Some(idx),
            Fate::FusedInto(head) => Some(head),
            _ => None,
        }
    }

    /// Whether the node reads its data as integers.
    pub(crate) fn reads_integers(&self, graph: &Graph, idx: usize) -> bool {
        match self.fates[idx] {
            Fate::Quantized | Fate::FusedInto(_) => true,
            Fate::Mover => graph.nodes[idx].outputs.first().is_some_and(|out| self.is_quantized(*out)),
            Fate::Mask | Fate::Float(_) => false,
        }
    }

    /// Whether a group holds sums that only normalizations and further sums read: the stream of residuals of a
    /// transformer, where a few large elements would leave 8 bits too little for all others.
    pub(crate) fn is_stream(&self, graph: &Graph, root: usize) -> bool {
        let mut readers = graph.nodes.iter().enumerate().filter(|(idx, node)| {
            let slots = data_slots(graph, node, &self.kinds[*idx]);
            let reads = |slot: usize| node.input(slot).is_some_and(|id| self.groups.find(id) == root);
            self.fates[*idx] != Fate::Mover && self.reads_integers(graph, *idx) && slots.into_iter().any(reads)
        });
        let is_sum = |node: &Node| node.op == "Add" && node.domain.is_empty();
        let (mut normalized, mut others) = (false, false);
        readers.by_ref().for_each(|(_, node)| {
            normalized |= is_norm(node);
            others |= !is_norm(node) && !is_sum(node);
        });
        self.everywhere && normalized && !others
    }

    /// Finds masks, and the nodes that exist for them.
    fn take_masks(&mut self, graph: &Graph, recipe: &Recipe, decided: &mut [bool]) {
        let mut mask_nodes: Vec<usize> = Vec::new();
        for idx in 0..graph.nodes.len() {
            if recipe.integers(&graph.nodes[idx].name).is_none() {
                continue;
            }
            if let Some(found) = masks::masked_softmax(graph, &self.uses, idx) {
                self.part(graph, (found.add, found.slot), idx, decided);
                mask_nodes.extend(found.mask_nodes);
            } else if let Some(found) = masks::masked_mean(graph, &self.uses, idx) {
                self.part(graph, (found.mul, found.slot), idx, decided);
                self.part(graph, (found.sum, 0), idx, decided);
                self.kinds[idx] = Kind::Part(0);
                mask_nodes.extend(found.mask_nodes);
            }
        }
        // What computes a mask for others too stays what it is: they read its numbers.
        let reads_flags = |idx: usize| mask_nodes.contains(&idx) || matches!(self.kinds[idx], Kind::Part(_));
        let only_flags = |idx: &usize| {
            let outputs = &graph.nodes[*idx].outputs;
            outputs
                .iter()
                .all(|out| !self.uses.is_output(*out) && self.uses.readers(*out).iter().all(|r| reads_flags(r.0)))
        };
        let taken: Vec<usize> = mask_nodes.iter().copied().filter(only_flags).collect();
        for idx in taken {
            self.fates[idx] = Fate::Mask;
            decided[idx] = true;
        }
    }

    /// A node that is a part of the form at `head`, which comes later.
    fn part(&mut self, graph: &Graph, (idx, slot): (usize, usize), head: usize, decided: &mut [bool]) {
        self.kinds[idx] = Kind::Part(slot);
        self.fates[idx] = Fate::FusedInto(head);
        self.inner[graph.nodes[idx].outputs[0].0] = true;
        decided[idx] = true;
    }

    fn decide(&mut self, graph: &Graph, recipe: &Recipe, ranges: &Ranges<'_>, idx: usize, decided: &mut [bool]) {
        let node = &graph.nodes[idx];
        let fate = self.fate(graph, recipe, ranges, idx);
        match &fate {
            Fate::Quantized => {
                let trunk = match self.kinds[idx] {
                    Kind::Product => matches!(node.op.as_str(), "Conv" | "ConvTranspose"),
                    _ => true,
                };
                self.fuse(graph, recipe, idx, trunk, decided);
            }
            Fate::Mover => self.join(graph, idx),
            _ => {}
        }
        decided[idx] = true;
        self.fates[idx] = fate;
    }

    fn fate(&self, graph: &Graph, recipe: &Recipe, ranges: &Ranges<'_>, idx: usize) -> Fate {
        let node = &graph.nodes[idx];
        if !node.outputs.iter().all(|out| is_float(graph, *out)) || node.outputs.is_empty() {
            return Fate::Float("it does not compute 32-bit floats".to_owned());
        }
        if let Some(blocked) = blocked(graph, recipe, node) {
            return Fate::Float(blocked.reason());
        }
        if let Some(reason) = half::reason(graph, recipe, node) {
            return Fate::Float(reason);
        }
        let kind = &self.kinds[idx];
        if let Kind::Float(reason) = kind {
            return Fate::Float(reason.clone());
        }
        if recipe.for_node(&node.name).activations.is_none() {
            return Fate::Float("the recipe keeps it in float".to_owned());
        }
        let slots = data_slots(graph, node, kind);
        let data: Vec<ValueId> = slots.iter().filter_map(|&s| node.input(s)).collect();
        let computed: Vec<ValueId> = data.iter().copied().filter(|id| graph.constant(*id).is_none()).collect();
        if self.everywhere && computed.is_empty() && node.op == "Gather" && *kind == Kind::Move && !data.is_empty() {
            // A table of embeddings: rows of an integer constant.
            return Fate::Mover;
        }
        if computed.is_empty() || (data.len() < 2 && *kind == Kind::Product) {
            return Fate::Float("it does not read 32-bit floats that are computed".to_owned());
        }
        let all = |flags: &[bool]| computed.iter().all(|id| flags[id.0]);
        match kind {
            Kind::Move => match ranges.ratio(&data) {
                // Every input is requantized.
                Some(ratio) if ratio > MAX_RATIO && self.everywhere => Fate::Quantized,
                Some(ratio) if ratio > MAX_RATIO => Fate::Float(format!(
                    "the ranges of its inputs differ by a factor of {ratio:.0}: shared parameters would erase the smaller one"
                )),
                _ => Fate::Mover,
            },
            Kind::Product | Kind::Part(_) => Fate::Quantized,
            _ if self.everywhere => Fate::Quantized,
            Kind::Reserved => Fate::Float(format!("{} has no integer form that keeps its accuracy", node.op)),
            Kind::Softmax if !self.feeds_outputs(graph, idx) => {
                Fate::Float("Softmax inside a network keeps its accuracy in float".to_owned())
            }
            Kind::Softmax if all(&self.typed) => Fate::Quantized,
            Kind::Unary if all(&self.typed) && self.feeds_outputs(graph, idx) => Fate::Quantized,
            _ if all(&self.trunk) => Fate::Quantized,
            _ if all(&self.typed) => {
                Fate::Float(format!("{} behind a matrix product keeps its accuracy in float", node.op))
            }
            _ => Fate::Float("not all of its inputs come from quantized operators".to_owned()),
        }
    }

    /// Whether a node's result reaches the outputs of the network through movers only.
    fn feeds_outputs(&self, graph: &Graph, idx: usize) -> bool {
        let mut pending: Vec<ValueId> = graph.nodes[idx].outputs.clone();
        while let Some(id) = pending.pop() {
            for &(reader, _) in self.uses.readers(id) {
                if self.kinds[reader] != Kind::Move || !is_float(graph, id) {
                    return false;
                }
                pending.extend(&graph.nodes[reader].outputs);
            }
        }
        true
    }

    /// Joins the groups of what a mover reads and writes.
    fn join(&mut self, graph: &Graph, idx: usize) {
        let node = &graph.nodes[idx];
        let data: Vec<ValueId> = data_slots(graph, node, &Kind::Move).iter().filter_map(|&s| node.input(s)).collect();
        let computed: Vec<ValueId> = data.into_iter().filter(|id| graph.constant(*id).is_none()).collect();
        for out in &node.outputs {
            computed.iter().for_each(|id| self.groups.union(*id, *out));
            self.typed[out.0] = computed.iter().any(|id| self.typed[id.0]);
            self.trunk[out.0] = computed.iter().all(|id| self.trunk[id.0]);
        }
    }

    /// Follows the chain behind a quantized operator as far as it fuses, and marks what comes out.
    fn fuse(&mut self, graph: &Graph, recipe: &Recipe, start: usize, trunk: bool, decided: &mut [bool]) {
        let mut out = graph.nodes[start].outputs[0];
        let mut at = start;
        let is_product = self.kinds[start] == Kind::Product;
        if is_product {
            if let Some((add, bias)) = self.constant_bias(graph, recipe, start) {
                self.biases.push((start, add, bias));
                (at, out) = self.absorb(graph, start, add, decided);
            }
            if let Some(add) = self.residual(graph, recipe, out, trunk) {
                (at, out) = self.absorb(graph, start, add, decided);
            }
        }
        if is_product || self.kinds[at] == Kind::Pointwise {
            let fuses =
                |plan: &Self, r: usize| plan.kinds[r] == Kind::Clamp && recipe.integers(&graph.nodes[r].name).is_some();
            while let Some(clamp) = self.uses.only_reader(out).filter(|r| fuses(self, *r)) {
                (_, out) = self.absorb(graph, start, clamp, decided);
            }
        }
        self.typed[out.0] = true;
        self.trunk[out.0] = trunk;
    }

    fn absorb(&mut self, graph: &Graph, start: usize, next: usize, decided: &mut [bool]) -> (usize, ValueId) {
        for id in graph.nodes[next].inputs.iter().flatten() {
            let from_chain =
                self.uses.producer(*id).is_some_and(|p| p == start || self.fates[p] == Fate::FusedInto(start));
            if from_chain {
                self.inner[id.0] = true;
            }
        }
        self.fates[next] = Fate::FusedInto(start);
        decided[next] = true;
        (next, graph.nodes[next].outputs[0])
    }

    /// The Add behind a matrix product that is its bias: a constant over the last axis, and the product has none yet.
    fn constant_bias(&self, graph: &Graph, recipe: &Recipe, start: usize) -> Option<(usize, ValueId)> {
        let node = &graph.nodes[start];
        if node.op != "MatMul" || node.input(1).and_then(|w| graph.constant(w)).is_none() {
            return None;
        }
        let out = node.outputs[0];
        let add = self.sole_add(graph, recipe, out)?;
        let other = other_operand(&graph.nodes[add], out)?;
        let bias = graph.constant(other)?;
        let channels = graph.ty(out).shape.0.last()?.known()?;
        let along_last = bias.elements() == channels && bias.shape().last() == Some(&channels);
        let same_rank = bias.shape().len() <= graph.ty(out).shape.rank();
        (along_last && same_rank && is_float(graph, other)).then_some((add, other))
    }

    /// The residual sum behind a chain: the other operand is a quantized value.
    fn residual(&self, graph: &Graph, recipe: &Recipe, out: ValueId, trunk: bool) -> Option<usize> {
        let add = self.sole_add(graph, recipe, out)?;
        let other = other_operand(&graph.nodes[add], out)?;
        // The sum is made where its last operand is ready, so the other one has been decided by now or is not fused here.
        let quantized = trunk && self.trunk[other.0] || self.everywhere && self.typed[other.0];
        (quantized && !self.inner[other.0] && same_shape(graph, out, other)).then_some(add)
    }

    fn sole_add(&self, graph: &Graph, recipe: &Recipe, out: ValueId) -> Option<usize> {
        let add = self.uses.only_reader(out)?;
        let node: &Node = &graph.nodes[add];
        let allowed = node.op == "Add" && node.domain.is_empty() && recipe.integers(&node.name).is_some();
        allowed.then_some(add)
    }

    /// Whether a value has readers and the recipe keeps all of them in float.
    fn is_left_to_float(&self, graph: &Graph, recipe: &Recipe, id: ValueId) -> bool {
        let readers = self.uses.readers(id);
        let is_float = |&(idx, _): &(usize, usize)| recipe.integers(&graph.nodes[idx].name).is_none();
        !readers.is_empty() && readers.iter().all(is_float)
    }

    /// Marks the groups that are quantized: an operator that always quantizes writes into them, or an operator that wants
    /// integers reads from them.
    fn activate(&mut self, graph: &Graph, recipe: &Recipe) {
        for idx in 0..graph.nodes.len() {
            let node = &graph.nodes[idx];
            let Some(head) = self.head_of(idx) else { continue };
            for slot in data_slots(graph, node, &self.kinds[idx]) {
                if let Some(id) = node.input(slot).filter(|id| !self.inner[id.0] && graph.constant(*id).is_none()) {
                    let root = self.groups.find(id);
                    self.active[root] = true;
                }
            }
            // A matrix product may hand its sum on in float, and so may a convolution to nodes that the recipe keeps in
            // float; everything else writes integers.
            let out = node.outputs[0];
            let may_stay_float = matches!(graph.nodes[head].op.as_str(), "MatMul" | "Gemm")
                || (self.kinds[head] == Kind::Product && self.is_left_to_float(graph, recipe, out));
            if !self.inner[out.0] && !may_stay_float {
                let root = self.groups.find(out);
                self.active[root] = true;
            }
        }
    }
}

/// The operand of a two-operand node that is not `id`.
pub(crate) fn other_operand(node: &Node, id: ValueId) -> Option<ValueId> {
    match (node.input(0)?, node.input(1)?) {
        (a, b) if a == id && b != id => Some(b),
        (a, b) if b == id && a != id => Some(a),
        _ => None,
    }
}

fn same_shape(graph: &Graph, a: ValueId, b: ValueId) -> bool {
    graph.ty(a).shape == graph.ty(b).shape
}
