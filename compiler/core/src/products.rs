//! What the integer form of a product needs to know: scales per output channel, bias integers, accumulator bounds.

use crate::passes::rules::{fresh, is, is_any};
use ottava_graph::{Graph, Patch};
use ottava_hal::refmath::bias::{adopt_bias, bias_s32_real, bias_scale_matches};
use ottava_hal::refmath::bounds::{ActivationRange, channel_bounds};
use ottava_hal::{DataType, Error, Node, QuantParams, Result, Scheme, Tensor, TensorType, Value, ValueId};
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
    /// Weight scale per output channel; one entry if they are equal.
    ws: Vec<f32>,
    /// Axis of the weights along which output channels run, if there is one.
    channel_axis: usize,
    /// Constant factor of Gemm.
    alpha: f32,
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
    let per_tensor = |t: &TensorType| t.quant.as_deref().and_then(QuantParams::as_per_tensor);
    let Some((xs, zx)) = per_tensor(tx) else {
        return Ok(Err("its activations are quantized per channel; the integer form needs one scale".into()));
    };
    let Some(params) = tw.quant.as_deref() else { return Ok(Err("its weights are not quantized".into())) };
    match params.scheme {
        Scheme::PerTensor => {}
        Scheme::PerAxis { axis: found } if found == axis => {}
        Scheme::PerAxis { axis: found } => {
            return Ok(Err(format!(
                "its weights are quantized along axis {found}; channels of {} are axis {axis}",
                node.op
            )));
        }
        Scheme::Blocked { .. } => return Ok(Err("its weights are quantized in blocks; they are dequantized".into())),
    }
    let transposed = is(node, "Gemm") && node.attrs.int("transA", 0)? != 0;
    if transposed {
        return Ok(Err("transA has no integer form".into()));
    }
    let alpha = if is(node, "Gemm") { node.attrs.float("alpha", 1.0)? } else { 1.0 };
    Ok(Ok(Product { x, w, xs, zx, ws: params.scales.clone(), channel_axis: axis, alpha }))
}

impl Product {
    fn scale(&self, c: usize) -> f32 {
        self.ws[if self.ws.len() == 1 { 0 } else { c % self.ws.len() }]
    }

    /// A float bias at scale `xs * ws[c] * alpha`; an error in words where it does not fit 32 bits.
    pub fn quantize_bias(&self, bias: &[f32], beta: f64) -> OrWhy<Vec<i32>> {
        let one = |(c, b): (usize, &f32)| {
            let real = f64::from(*b) * beta / f64::from(self.alpha);
            let steps = real / (f64::from(self.xs) * f64::from(self.scale(c)));
            if !steps.is_finite() || steps.abs() >= f64::from(i32::MAX) {
                return Err(format!(
                    "its bias {b} of channel {c} is {steps:.3e} steps of the accumulator, more than 32 bits"
                ));
            }
            Ok(bias_s32_real(real, self.xs, self.scale(c)))
        };
        bias.iter().enumerate().map(one).collect()
    }

    /// An integer bias of a file: taken as it is where its scale is that of the product, requantized otherwise.
    pub fn adopt_bias(&self, data: &Tensor, params: &QuantParams, beta: f64) -> OrWhy<Vec<i32>> {
        let values = data.to_ints().map_err(|e| e.to_string())?;
        let plain = self.alpha == 1.0 && beta == 1.0 && data.dtype() == DataType::S32;
        if plain && params.scales.iter().enumerate().all(|(c, bs)| bias_scale_matches(*bs, self.xs, self.scale(c))) {
            return Ok(values.into_iter().map(|v| v as i32).collect());
        }
        if plain {
            let one = |(c, b): (usize, &i64)| adopt_bias(*b as i32, params.channel(c).0, self.xs, self.scale(c));
            return Ok(values.iter().enumerate().map(one).collect());
        }
        let real: Vec<f32> = values
            .iter()
            .enumerate()
            .map(|(c, v)| {
                let (s, z) = params.channel(c);
                ((*v - i64::from(z)) as f64 * f64::from(s)) as f32
            })
            .collect();
        self.quantize_bias(&real, beta)
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
        let values = weights.to_ints()?;
        let n_channels = weights.shape().get(self.channel_axis).copied().unwrap_or(1).max(1);
        let inner: usize = weights.shape()[self.channel_axis.min(weights.shape().len())..].iter().skip(1).product();
        let mut per_channel: Vec<Vec<i32>> = vec![Vec::new(); n_channels];
        for (i, v) in values.iter().enumerate() {
            per_channel[i / inner.max(1) % n_channels].push(*v as i32);
        }
        for (c, column) in per_channel.into_iter().enumerate() {
            let b = bias.and_then(|b| b.get(c)).copied().unwrap_or(0);
            let bounds = channel_bounds(column, params.channel(c % params.scales.len()).1, range, b);
            if !bounds.fits_i32() {
                return Ok(Some(format!("ACC_OVERFLOW: channel {c} may reach {}, beyond 32 bits", bounds.largest())));
            }
        }
        Ok(None)
    }

    /// Adds the bias to a patch as an s32 constant, typed with the product's scale.
    pub fn bias_value(&self, graph: &Graph, patch: &mut Patch, node: &Node, bias: &[i32]) -> Result<ValueId> {
        let scales: Vec<f32> = self.ws.iter().map(|w| self.xs * w * self.alpha).collect();
        if scales.iter().any(|s| !(s.is_finite() && *s > 0.0)) {
            return Err(Error::invalid(format!(
                "node `{}`: the product of its scales is not a positive number",
                node.name
            )));
        }
        let params = match scales.as_slice() {
            [s] => QuantParams::per_tensor(*s, 0),
            many if many.len() == bias.len() => QuantParams::per_axis_symmetric(0, many.to_vec()),
            _ => QuantParams::per_tensor(self.xs, 0),
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
