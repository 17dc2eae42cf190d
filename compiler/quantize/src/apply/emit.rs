//! Carries the plan out: rewrites constants, inserts Q/DQ nodes.

use std::collections::BTreeMap;

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{DataType, ValueId};

use super::blocked::{blocked, has_no_block};
use super::builder::Builder;
use super::half::store_halves;
use super::kinds::{Kind, data_slots};
use super::learnable::product_means;
use super::plan::{Fate, Plan};
use super::products::{Product, WeightShape, bias_values, code_tensor};
use super::ranges::{Ranges, ValueParams};
use crate::corrections::Learned;
use crate::error::{Error, Result};

/// Everything that carrying out needs to read.
pub(crate) struct Emission<'a> {
    pub(crate) graph: &'a Graph,
    pub(crate) plan: &'a Plan,
    pub(crate) ranges: &'a Ranges<'a>,
    pub(crate) params: &'a BTreeMap<usize, ValueParams>,
    pub(crate) learned: &'a Learned,
}

impl Emission<'_> {
    /// The quantized graph.
    pub(crate) fn run(&self, notes: &mut Vec<Diagnostic>) -> Result<Graph> {
        let mut builder = Builder::new(self.graph.clone());
        for idx in 0..self.graph.nodes.len() {
            if self.plan.fates[idx] == Fate::Quantized && self.plan.kinds[idx] == Kind::Product {
                self.product(&mut builder, idx, notes)?;
            } else if let Some(blocked) = blocked(self.graph, self.ranges.recipe, &self.graph.nodes[idx]) {
                builder.graph.nodes[idx].inputs[1] = Some(blocked.store(self.graph, &mut builder)?);
            }
            self.constant_operands(&mut builder, idx)?;
        }
        for id in (0..self.graph.values.len()).map(ValueId) {
            if self.plan.is_quantized(id) && self.graph.constant(id).is_none() {
                self.value(&mut builder, id)?;
            }
        }
        store_halves(self.graph, self.ranges.recipe, &mut builder)?;
        builder.finish().map_err(internal)
    }

    /// The float graph with one group of values in integers, and with the integer weights of the products that read it.
    pub(crate) fn alone(&self, root: usize) -> Result<Graph> {
        let mut builder = Builder::new(self.graph.clone());
        let is_inside = |id: ValueId| self.plan.is_quantized(id) && self.plan.groups.find(id) == root;
        for (idx, node) in self.graph.nodes.iter().enumerate() {
            let is_product = self.plan.fates[idx] == Fate::Quantized && self.plan.kinds[idx] == Kind::Product;
            if is_product && node.input(0).is_some_and(is_inside) {
                self.product(&mut builder, idx, &mut Vec::new())?;
            }
        }
        for id in (0..self.graph.values.len()).map(ValueId).filter(|id| is_inside(*id)) {
            if self.graph.constant(id).is_none() {
                self.value(&mut builder, id)?;
            }
        }
        builder.finish().map_err(internal)
    }

    fn params_of(&self, id: ValueId) -> Option<&ValueParams> {
        self.params.get(&self.plan.groups.find(id))
    }

    /// Weights and bias of a product with constant weights.
    fn product(&self, builder: &mut Builder, idx: usize, notes: &mut Vec<Diagnostic>) -> Result<()> {
        let node = &self.graph.nodes[idx];
        let (Some(x), Some(w)) = (node.input(0), node.input(1)) else { return Ok(()) };
        let (Some(x_params), Some(shape)) = (self.params_of(x), WeightShape::of(self.graph, node)) else {
            return Ok(());
        };
        let added = self.plan.biases.iter().find(|(product, ..)| *product == idx);
        let bias_id = added.map(|(_, _, bias)| *bias).or(node.input(2));
        let bias = bias_id.map(|id| bias_values(self.graph, id, shape.out_channels)).transpose()?;
        let weights = self.ranges.recipe.for_node(&node.name).weights;
        if has_no_block(self.graph, self.ranges.recipe, node) {
            let message = "its weights have a scale per output channel: it has fewer input channels than a block";
            notes.push(Diagnostic::note("Q0108", &node.name, message));
        }
        let learned = self.learned.get(self.graph.name_of(node.outputs[0]), weights);
        let means = product_means(self.plan, self.ranges, idx);
        let product = Product { node, shape, weights, x: *x_params, means, learned };
        let constants = product.constants(self.graph, bias, notes)?;

        let name = self.graph.name_of(w).to_owned();
        let dims = self.graph.constant(w).map(|t| t.shape().to_vec()).unwrap_or_default();
        let codes = code_tensor(weights.dtype, &dims, &constants.weights.codes).map_err(internal)?;
        let zero_point = constants.weights.zero_point;
        let w_dq = builder.dequantized_constant(&name, codes, &constants.weights.scales, zero_point, shape.axis);
        builder.graph.nodes[idx].inputs[1] = Some(w_dq.map_err(internal)?);
        if constants.bias.is_none() {
            return Ok(());
        }
        let name = bias_id.map_or_else(|| format!("{}/bias", node.name), |id| self.graph.name_of(id).to_owned());
        let dims = bias_id.and_then(|id| self.graph.constant(id)).map(|t| t.shape().to_vec());
        let dims = dims.filter(|d| d.iter().product::<usize>() == shape.out_channels && added.is_some());
        let dims = dims.unwrap_or_else(|| vec![shape.out_channels]);
        let codes = code_tensor(DataType::S32, &dims, &constants.bias_codes).map_err(internal)?;
        let axis = dims.len() - 1;
        let b_dq = builder.dequantized_constant(&name, codes, &constants.bias_scales, 0, axis).map_err(internal)?;
        match added {
            Some((_, add, old)) => {
                let slots = builder.graph.nodes[*add].inputs.iter_mut().flatten();
                slots.filter(|id| *id == old).for_each(|id| *id = b_dq);
            }
            None => {
                let inputs = &mut builder.graph.nodes[idx].inputs;
                inputs.resize(inputs.len().max(3), None);
                inputs[2] = Some(b_dq);
            }
        }
        Ok(())
    }

    /// Constants that an integer operator reads like activations: operands of arithmetic and parts of a concatenation.
    fn constant_operands(&self, builder: &mut Builder, idx: usize) -> Result<()> {
        if !self.plan.reads_integers(self.graph, idx) {
            return Ok(());
        }
        let node = &self.graph.nodes[idx];
        for slot in data_slots(self.graph, node, &self.plan.kinds[idx]) {
            let Some(id) = node.input(slot).filter(|id| self.graph.constant(*id).is_some()) else { continue };
            let done = builder.graph.nodes[idx].inputs[slot] != Some(id);
            if done {
                continue;
            }
            let params = match self.plan.kinds[idx] {
                Kind::Move => self.params_of(node.outputs[0]).copied(),
                _ => Some(self.own_params(idx, id)?),
            };
            let (Some(params), Some(data)) = (params, self.graph.constant(id)) else { continue };
            let (lo, hi) = params.dtype.storage_range().unwrap_or((0, 255));
            let values = data.to_f32s().map_err(internal)?;
            let quantize =
                |x: f32| ottava_hal::refmath::quantize::quantize_f32(x, params.scale, params.zero_point, lo, hi);
            let codes: Vec<i32> = values.into_iter().map(quantize).collect();
            let codes = code_tensor(params.dtype, data.shape(), &codes).map_err(internal)?;
            let name = self.graph.name_of(id).to_owned();
            let dq =
                builder.dequantized_constant(&name, codes, &[params.scale], params.zero_point, 0).map_err(internal)?;
            builder.graph.nodes[idx].inputs[slot] = Some(dq);
        }
        Ok(())
    }

    /// Parameters of a constant operand, from its own extremes.
    fn own_params(&self, idx: usize, id: ValueId) -> Result<ValueParams> {
        let choice = self.ranges.recipe.for_node(&self.graph.nodes[idx].name).activations;
        let activations = choice.unwrap_or(self.ranges.recipe.activations);
        self.ranges.own_params(id, &activations)
    }

    /// Quantizes one value. What an integer operator computes takes another name, and the old value is what comes out of
    /// DequantizeLinear: readers and outputs keep their names. Of other values only integer operators read the result.
    fn value(&self, builder: &mut Builder, id: ValueId) -> Result<()> {
        let Some(params) = self.params_of(id).copied() else { return Ok(()) };
        let name = self.graph.name_of(id).to_owned();
        let ty = self.graph.ty(id).clone();
        let producer = self.plan.uses.producer(id).filter(|p| self.plan.reads_integers(self.graph, *p));
        if let Some(producer) = producer {
            let raw = builder.value(format!("{name}/raw"), ty);
            let outputs = builder.graph.nodes[producer].outputs.iter_mut();
            outputs.filter(|out| **out == id).for_each(|out| *out = raw);
            return builder.quantize_dequantize(&name, raw, id, &params).map_err(internal);
        }
        let dq = builder.value(format!("{name}/dq"), ty);
        for &(reader, slot) in self.plan.uses.readers(id) {
            let is_data = data_slots(self.graph, &self.graph.nodes[reader], &self.plan.kinds[reader]).contains(&slot);
            if is_data && self.plan.reads_integers(self.graph, reader) {
                builder.graph.nodes[reader].inputs[slot] = Some(dq);
            }
        }
        builder.quantize_dequantize(&name, id, dq, &params).map_err(internal)
    }
}

/// Constants were checked before they got here; what remains is a size that this machine cannot hold.
pub(super) fn internal(error: ottava_hal::Error) -> Error {
    Error::Unsupported {
        what: "this graph".to_owned(),
        reason: error.to_string(),
        help: "report the model if its constants fit into memory".to_owned(),
    }
}
