//! Adds constants and Q/DQ nodes to the graph under construction.

use std::collections::BTreeSet;

use ottava_graph::Graph;
use ottava_hal::{Attr, DataType, Node, Tensor, TensorType, ValueId};

use super::ranges::ValueParams;
use crate::weights::BlockedWeights;

/// The graph under construction and the names that are taken.
pub(crate) struct Builder {
    pub(crate) graph: Graph,
    names: BTreeSet<String>,
    /// The operator set that the nodes added so far need.
    opset: u32,
}

/// The first operator set with per-axis Q/DQ, and the first with 16 and 4 bits.
const OPSET_PER_AXIS: u32 = 13;
const OPSET_WIDE: u32 = 21;

impl Builder {
    pub(crate) fn new(graph: Graph) -> Self {
        let values = graph.values.iter().map(|v| v.name.clone());
        let names = values.chain(graph.nodes.iter().map(|n| n.name.clone())).collect();
        Self { graph, names, opset: OPSET_PER_AXIS }
    }

    /// A name that is not taken yet: `base`, or `base_1`, `base_2`, ...
    pub(crate) fn name(&mut self, base: String) -> String {
        let mut name = base.clone();
        let mut number = 0u64;
        while !self.names.insert(name.clone()) {
            number += 1;
            name = format!("{base}_{number}");
        }
        name
    }

    pub(crate) fn value(&mut self, base: String, ty: TensorType) -> ValueId {
        let name = self.name(base);
        self.graph.add_value(name, ty)
    }

    pub(crate) fn constant(&mut self, base: String, data: Tensor) -> ValueId {
        let name = self.name(base);
        self.graph.add_const(name, data)
    }

    /// Adds a node that computes an existing value.
    pub(crate) fn node_into(&mut self, op: &str, base: &str, inputs: &[ValueId], out: ValueId) -> &mut Node {
        let name = self.name(format!("{base}/{op}"));
        let mut node = Node::new(name, op, self.opset);
        node.inputs = inputs.iter().copied().map(Some).collect();
        node.outputs = vec![out];
        self.graph.nodes.push(node);
        self.graph.nodes.last_mut().expect("a node was pushed")
    }

    /// The constants of per-tensor parameters: scale and zero point.
    pub(crate) fn param_constants(&mut self, base: &str, params: &ValueParams) -> ottava_hal::Result<[ValueId; 2]> {
        self.require(params.dtype);
        let zero = Tensor::from_ints(params.dtype, &[], &[i64::from(params.zero_point)])?;
        Ok([
            self.constant(format!("{base}/scale"), Tensor::scalar(params.scale)),
            self.constant(format!("{base}/zp"), zero),
        ])
    }

    /// Quantize and dequantize `source` into `out`.
    pub(crate) fn quantize_dequantize(
        &mut self,
        base: &str,
        source: ValueId,
        out: ValueId,
        params: &ValueParams,
    ) -> ottava_hal::Result<()> {
        let [scale, zero] = self.param_constants(base, params)?;
        let ty = TensorType { dtype: params.dtype, ..self.graph.ty(source).clone() };
        let q = self.value(format!("{base}/q"), ty);
        let opset = self.opset;
        self.node_into("QuantizeLinear", base, &[source, scale, zero], q).version = opset;
        self.node_into("DequantizeLinear", base, &[q, scale, zero], out).version = opset;
        Ok(())
    }

    /// Integer data with a DequantizeLinear behind it; returns the float value. More than one scale lies along `axis`.
    pub(crate) fn dequantized_constant(
        &mut self,
        base: &str,
        data: Tensor,
        scales: &[f32],
        zero_point: i32,
        axis: usize,
    ) -> ottava_hal::Result<ValueId> {
        let dtype = data.dtype();
        self.require(dtype);
        let per_axis = scales.len() > 1;
        let dims: &[usize] = if per_axis { &[scales.len()] } else { &[] };
        let ty = TensorType::fixed(DataType::F32, data.shape());
        let scale = Tensor::from_slice(dims, scales)?;
        let zero = Tensor::from_ints(dtype, dims, &vec![i64::from(zero_point); scales.len()])?;
        let q = self.constant(format!("{base}/q"), data);
        let mut inputs = vec![q, self.constant(format!("{base}/scale"), scale)];
        // Without a zero point it is 0 of the data's type. Of an s32 tensor older readers refuse to be told; of the others
        // it would be a good part of a small file.
        let is_signed = matches!(dtype, DataType::S32 | DataType::S16 | DataType::S8 | DataType::S4);
        if !(is_signed && zero_point == 0) {
            inputs.push(self.constant(format!("{base}/zp"), zero));
        }
        let out = self.value(format!("{base}/dq"), ty);
        let node = self.node_into("DequantizeLinear", base, &inputs, out);
        if per_axis {
            node.attrs.set("axis", Attr::Int(axis as i64));
        }
        Ok(out)
    }

    /// Integer data with scales in blocks along `axis`, and a DequantizeLinear behind it; returns the float value.
    pub(crate) fn blocked_constant(
        &mut self,
        base: &str,
        data: Tensor,
        (dims, blocks): (&[usize], &BlockedWeights),
        axis: usize,
    ) -> ottava_hal::Result<ValueId> {
        self.require_opset(OPSET_WIDE);
        let (dtype, ty) = (data.dtype(), TensorType::fixed(DataType::F32, data.shape()));
        let zeros: Vec<i64> = blocks.zero_points.iter().map(|z| i64::from(*z)).collect();
        let q = self.constant(format!("{base}/q"), data);
        let mut inputs = vec![q, self.constant(format!("{base}/scale"), Tensor::from_slice(dims, &blocks.scales)?)];
        let is_signed = matches!(dtype, DataType::S8 | DataType::S4);
        if !is_signed || zeros.iter().any(|z| *z != 0) {
            inputs.push(self.constant(format!("{base}/zp"), Tensor::from_ints(dtype, dims, &zeros)?));
        }
        let out = self.value(format!("{base}/dq"), ty);
        let node = self.node_into("DequantizeLinear", base, &inputs, out);
        node.attrs.set("axis", Attr::Int(axis as i64));
        node.attrs.set("block_size", Attr::Int(i64::try_from(blocks.layout.block).unwrap_or(i64::MAX)));
        Ok(out)
    }

    /// The graph needs at least this operator set.
    pub(crate) fn require_opset(&mut self, opset: u32) {
        self.opset = self.opset.max(opset);
    }

    fn require(&mut self, dtype: DataType) {
        if matches!(dtype, DataType::S16 | DataType::U16 | DataType::S4 | DataType::U4) {
            self.require_opset(OPSET_WIDE);
        }
    }

    /// The finished graph: sorted, without what nothing reads any more, with the operator set that it needs.
    pub(crate) fn finish(mut self) -> ottava_hal::Result<Graph> {
        let declared = self.graph.opsets.entry(String::new()).or_insert(self.opset);
        *declared = (*declared).max(self.opset);
        self.graph.sort()?;
        self.graph.remove_dead();
        self.graph.compact();
        Ok(self.graph)
    }
}
