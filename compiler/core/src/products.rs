//! What the integer form of a product needs to know: scales per output channel, bias integers, accumulator bounds.

use crate::passes::rules::{fresh, is, is_any};
use ottava_graph::{Graph, Patch};
use ottava_hal::refmath::bias::{bias_s32_real, bias_scale_matches};
use ottava_hal::refmath::bounds::{ActivationRange, channel_bounds, max_operand};
use ottava_hal::refmath::requant::{check_fp32_multiplier, fp32_multiplier_alpha};
use ottava_hal::{DataType, Node, QuantParams, Result, Scheme, Tensor, TensorType, Value, ValueId};
use std::sync::Arc;

/// A result, or in words why there is none.
pub type OrWhy<T> = std::result::Result<T, String>;

/// A Conv, ConvTranspose, Gemm or MatMul with typed operands.
pub struct Product {
    x: ValueId,
    w: ValueId,
    /// Scale of the activations.
    xs: f32,
    /// Zero point of the activations.
    zx: i32,
    /// Weight scale per output channel (of a group); one entry if they are equal.
    ws: Vec<f32>,
    /// Axis of the weights along which output channels run, if there is one.
    channel_axis: usize,
    /// Output channels, where the shape of the weights says it.
    n_channels: Option<usize>,
    /// Groups of a ConvTranspose, whose weights hold the channels of one group; 1 otherwise.
    groups: usize,
    /// Constant factor of Gemm.
    alpha: f32,
}

/// A bias as integers of the accumulator, one per output channel.
pub struct BiasIntegers {
    /// The integers.
    pub values: Vec<i32>,
    /// The file's integers stood at another scale than that of the product.
    pub rescaled: bool,
}

/// The axis of the weights that belongs to output channels (numerics.md section 1).
fn channel_axis(node: &Node, rank: usize) -> Result<usize> {
    Ok(match node.op.as_str() {
        "Conv" => 0,
        "ConvTranspose" => 1,
        "Gemm" if node.attrs.int("transB", 0)? != 0 => 0,
        _ => rank.saturating_sub(1),
    })
}

/// Describes a product; the inner error says in words why it has no integer form.
pub fn describe(graph: &Graph, node: &Node, x: ValueId, w: ValueId) -> Result<OrWhy<Product>> {
    let (tx, tw) = (graph.ty(x), graph.ty(w));
    let axis = channel_axis(node, tw.shape.rank())?;
    let gemm = is(node, "Gemm");
    if gemm && node.attrs.int("transA", 0)? != 0 && tx.shape.rank() != 2 {
        return Ok(Err("its first operand is to be transposed and has no known rank".into()));
    }
    if tx.dtype.bits() > 16 || tw.dtype.bits() > 16 {
        return Ok(Err(format!("operands of {} and {}; the integer form has at most 16 bits", tx.dtype, tw.dtype)));
    }
    let Some((xs, zx)) = tx.quant.as_deref().and_then(QuantParams::as_per_tensor) else {
        return Ok(Err("its activations are quantized per channel; the integer form needs one scale".into()));
    };
    let ws = match weight_scales(node, tw, axis) {
        Ok(ws) => ws,
        Err(why) => return Ok(Err(why)),
    };
    let groups = if is(node, "ConvTranspose") { node.attrs.int("group", 1)?.max(1) as usize } else { 1 };
    let alpha = if gemm { node.attrs.float("alpha", 1.0)? } else { 1.0 };
    let vector = is(node, "MatMul") && tw.shape.rank() < 2;
    let extent = if vector { Some(1) } else { tw.shape.0.get(axis).and_then(ottava_hal::Dim::known) };
    let n_channels = extent.and_then(|n| n.checked_mul(groups));
    let product = Product { x, w, xs, zx, ws, channel_axis: axis, n_channels, groups, alpha };
    Ok(match (0..product.ws.len()).map(|c| product.acc_scale(c)).find(|s| !(s.is_finite() && *s > 0.0)) {
        Some(s) => Err(format!("the scale of its accumulator is {s}; it must be a positive number")),
        None => Ok(product),
    })
}

/// The scales of the weights, which run along the operator's channels.
fn weight_scales(node: &Node, tw: &TensorType, axis: usize) -> OrWhy<Vec<f32>> {
    let Some(params) = tw.quant.as_deref() else { return Err("its weights are not quantized".into()) };
    let vector = is(node, "MatMul") && tw.shape.rank() < 2;
    match params.scheme {
        Scheme::PerTensor => Ok(params.scales.clone()),
        Scheme::PerAxis { axis: found } if found == axis && !vector => Ok(params.scales.clone()),
        Scheme::PerAxis { axis: found } if vector => {
            Err(format!("its weights are quantized along axis {found}, which is summed over"))
        }
        Scheme::PerAxis { axis: found } => {
            Err(format!("its weights are quantized along axis {found}; channels of {} are axis {axis}", node.op))
        }
        Scheme::Blocked { .. } => Err("its weights are quantized in blocks; they are dequantized".into()),
    }
}

impl Product {
    /// The weight scale of an output channel.
    fn scale(&self, c: usize) -> f32 {
        self.ws[c % self.ws.len()]
    }

    /// The real value of one step of the accumulator.
    fn acc_scale(&self, c: usize) -> f32 {
        self.xs * self.scale(c) * self.alpha
    }

    /// Whether the accumulator can be brought to an output scale (numerics.md section 5: `|m| < 2^31`).
    pub fn requantizes_to(&self, ys: f32) -> bool {
        self.ws.iter().all(|ws| check_fp32_multiplier(fp32_multiplier_alpha(self.xs, *ws, self.alpha, ys)).is_ok())
    }

    /// The bias as integers at scale `xs * ws[c] * alpha`. Integers of a file are taken as they are where their scale is
    /// that of the product, and requantized otherwise.
    pub fn bias(&self, data: &Tensor, params: Option<&QuantParams>, beta: f32) -> Result<OrWhy<BiasIntegers>> {
        let found = data.elements();
        let n = self.n_channels.unwrap_or(found);
        let runs_along_channels = found == n && (n == 1 || data.shape().last() == Some(&n));
        let n_scales = params.map_or(1, |p| p.scales.len());
        if !(runs_along_channels || found == 1) || !(n_scales == 1 || n_scales == found) {
            let shape = data.shape();
            return Ok(Err(format!("its bias of shape {shape:?} is not one value per output channel ({n} of them)")));
        }
        let at = |c: usize| if found == 1 { 0 } else { c };
        let mut bias = BiasIntegers { values: Vec::with_capacity(n), rescaled: false };
        let Some(params) = params else {
            let reals = data.to_f32s()?;
            for c in 0..n {
                match self.quantize_bias(f64::from(reals[at(c)]) * f64::from(beta), c) {
                    Ok(v) => bias.values.push(v),
                    Err(why) => return Ok(Err(why)),
                }
            }
            return Ok(Ok(bias));
        };
        let integers = data.to_ints()?;
        let plain = beta == 1.0 && data.dtype() == DataType::S32;
        for c in 0..n {
            let ((bs, zp), q) = (params.channel(at(c)), integers[at(c)]);
            if plain && zp == 0 && bias_scale_matches(bs, self.xs, self.scale(c) * self.alpha) {
                bias.values.push(q as i32);
                continue;
            }
            bias.rescaled = true;
            match self.quantize_bias((q - i64::from(zp)) as f64 * f64::from(bs) * f64::from(beta), c) {
                Ok(v) => bias.values.push(v),
                Err(why) => return Ok(Err(why)),
            }
        }
        Ok(Ok(bias))
    }

    /// A real bias of a channel in steps of the accumulator; an error in words where it does not fit 32 bits.
    fn quantize_bias(&self, real: f64, c: usize) -> OrWhy<i32> {
        let real = real / f64::from(self.alpha);
        let steps = real / (f64::from(self.xs) * f64::from(self.scale(c)));
        if !steps.is_finite() || steps.abs() >= f64::from(i32::MAX) {
            return Err(format!(
                "its bias {real:.3e} of channel {c} is {steps:.3e} steps of the accumulator, more than 32 bits"
            ));
        }
        Ok(bias_s32_real(real, self.xs, self.scale(c)))
    }

    /// Says in words that an accumulator may not fit 32 bits; `None` if all do. Only for 8-bit activations and constant
    /// weights; wider activations accumulate in 64 bits.
    pub fn overflow(&self, graph: &Graph, bias: Option<&[i32]>) -> Result<Option<String>> {
        let tx = graph.ty(self.x);
        let (Some(weights), Some(params)) = (graph.constant(self.w), graph.ty(self.w).quant.as_deref()) else {
            return Ok(None);
        };
        if tx.dtype.bits() > 8 {
            return Ok(None);
        }
        let range = ActivationRange::of_storage(tx.dtype.bits() as u32, tx.dtype.is_signed(), self.zx);
        if self.is_short(weights, range, bias) {
            return Ok(None);
        }
        let n = self.n_channels.unwrap_or(1).max(1);
        for (set, column) in self.columns(weights)?.into_iter().enumerate() {
            let b = bias.and_then(|b| b.get(set % n)).copied().unwrap_or(0);
            let bounds = channel_bounds(column, params.channel(set % params.scales.len()).1, range, b);
            if !bounds.fits_i32() {
                let channel = set % n;
                let largest = bounds.largest();
                return Ok(Some(format!("ACC_OVERFLOW: channel {channel} may reach {largest}, beyond 32 bits")));
            }
        }
        Ok(None)
    }

    /// Whether even the largest weights could not take an accumulator out of 32 bits: true of almost every product, and
    /// known without a look at its weights.
    fn is_short(&self, weights: &Tensor, x: ActivationRange, bias: Option<&[i32]>) -> bool {
        let ty = weights.dtype();
        let extent = weights.shape().get(self.channel_axis).copied().unwrap_or(1).max(1);
        let k = i64::try_from(weights.elements() / extent).unwrap_or(i64::MAX);
        let activation = [x.qmin, x.qmax].map(|q| (i64::from(q) - i64::from(x.zx)).abs()).into_iter().fold(0, i64::max);
        let weight = max_operand(ty.bits() as u32, ty.is_signed(), None);
        let bias = bias.into_iter().flatten().map(|b| i64::from(*b).abs()).max().unwrap_or(0);
        let largest = k.saturating_mul(activation).saturating_mul(weight).saturating_add(bias);
        largest <= i64::from(i32::MAX)
    }

    /// The weights that each accumulator sums over: set `s` belongs to output channel `s % n_channels`.
    fn columns(&self, weights: &Tensor) -> Result<Vec<Vec<i32>>> {
        let (shape, axis) = (weights.shape(), self.channel_axis);
        let extent = shape.get(axis).copied().unwrap_or(1).max(1);
        let inner = shape.iter().skip(axis + 1).product::<usize>().max(1);
        let rows = shape.iter().take(axis).product::<usize>().max(1);
        // Conv and Gemm sum over everything but the channel; ConvTranspose over the rows of a group; a batch of
        // matrices over the rows of one matrix.
        let summed = match shape.len() {
            _ if self.groups > 1 => rows.div_ceil(self.groups),
            rank if axis + 1 == rank && rank > 1 => shape[rank - 2].max(1),
            _ => rows,
        };
        let vector = shape.len() < 2;
        let mut sets = vec![Vec::new(); if vector { 1 } else { rows.div_ceil(summed) * extent }];
        for (i, v) in weights.to_ints()?.into_iter().enumerate() {
            let (channel, row) = (i / inner % extent, i / inner / extent);
            let set = if vector { 0 } else { row / summed * extent + channel };
            sets[set].push(v as i32);
        }
        Ok(sets)
    }

    /// Adds the bias to a patch as an s32 constant, typed with the product's scale.
    pub fn bias_value(&self, graph: &Graph, patch: &mut Patch, node: &Node, bias: &[i32]) -> Result<ValueId> {
        let params = match self.ws.len() {
            1 => QuantParams::per_tensor(self.acc_scale(0), 0),
            _ => QuantParams::per_axis_symmetric(0, (0..bias.len()).map(|c| self.acc_scale(c)).collect()),
        };
        let data = Tensor::from_slice(&[bias.len()], bias)?;
        let ty = TensorType { quant: Some(Arc::new(params)), ..data.ty() };
        let name = fresh(graph, patch, &format!("{}_bias_s32", node.name));
        Ok(patch.value(Value { name, ty, constant: Some(data) }))
    }
}

/// Whether a node is a product with a typed activation and weight.
pub fn is_typed_product(graph: &Graph, node: &Node) -> bool {
    let typed = |i: usize| node.input(i).is_some_and(|id| graph.ty(id).quant.is_some());
    is_any(node, crate::passes::rules::PRODUCTS) && typed(0) && typed(1)
}
