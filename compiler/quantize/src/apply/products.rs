//! The constants of a product: integer weights, integer bias, and the correction of the mean error (numerics, sections 1,
//! 4 and 5).

use ottava_graph::{Diagnostic, Graph};
use ottava_hal::{DataType, Node, Tensor, ValueId};

use super::ranges::ValueParams;
use crate::bias::{bias_scale, quantize_bias, scale_for_bias};
use crate::channels::ChannelLayout;
use crate::corrections::mean_error;
use crate::error::{Error, Result};
use crate::params::Grid;
use crate::recipe::{Granularity, Weights};
use crate::weights::{QuantizedWeights, quantize_weights_with_zero, with_scales};

/// How the weights of a product lie in memory, seen from its sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WeightShape {
    /// Axis of the output channels.
    pub(crate) axis: usize,
    /// Number of output channels of the node.
    pub(crate) out_channels: usize,
    /// Output channels, as the weights lie.
    pub(crate) layout: ChannelLayout,
    /// Input channels, as the weights lie: within a group for convolutions.
    inputs: ChannelLayout,
    groups: usize,
}

impl WeightShape {
    /// The geometry of a node's weights; `None` for a shape that no per-channel scale fits.
    pub(crate) fn of(graph: &Graph, node: &Node) -> Option<Self> {
        let shape = graph.constant(node.input(1)?)?.shape().to_vec();
        let groups = usize::try_from(node.attrs.int("group", 1).ok()?).ok().filter(|g| *g > 0)?;
        let trans_b = node.attrs.int("transB", 0).ok()? != 0;
        let (axis, input_axis, groups) = match (node.op.as_str(), shape.len()) {
            ("Conv", 2..) => (0, 1, groups),
            ("ConvTranspose", 2..) => (1, 0, groups),
            ("Gemm", 2) if trans_b => (0, 1, 1),
            ("Gemm", 2) => (1, 0, 1),
            ("MatMul", rank @ 2..) => (rank - 1, rank - 2, 1),
            _ => return None,
        };
        let layout = ChannelLayout::of(&shape, axis)?;
        let inputs = ChannelLayout::of(&shape, input_axis)?;
        let repeat = if node.op == "ConvTranspose" { groups } else { 1 };
        Some(Self { axis, out_channels: layout.channels.checked_mul(repeat)?, layout, inputs, groups })
    }

    /// Whether each output channel reads one input channel of its own.
    pub(crate) fn is_depthwise(&self) -> bool {
        self.inputs.channels == 1 && self.groups > 1 && self.out_channels == self.groups
    }

    /// Groups of channels; 1 but for convolutions.
    pub(crate) fn groups(&self) -> usize {
        self.groups
    }

    /// Input channels that the node reads.
    pub(crate) fn in_channels(&self) -> usize {
        self.inputs.channels * self.groups
    }

    /// The output channel of weight `idx`, of the first group for a transposed convolution.
    pub(crate) fn out_of(&self, idx: usize) -> usize {
        (idx / self.layout.inner) % self.layout.channels
    }

    /// The input channel of weight `idx` of output channel `out`.
    pub(crate) fn in_channel(&self, idx: usize, out: usize) -> usize {
        let within = (idx / self.inputs.inner) % self.inputs.channels;
        within + out / (self.layout.channels / self.groups).max(1) * self.inputs.channels
    }
}

/// What a product needs in order to quantize its constants.
pub(crate) struct Product<'a> {
    pub(crate) node: &'a Node,
    pub(crate) shape: WeightShape,
    pub(crate) weights: Weights,
    /// Parameters of the first input.
    pub(crate) x: ValueParams,
    /// Mean of each channel of the first input, for bias correction.
    pub(crate) means: Option<Vec<f64>>,
    /// Integers of the weights that take the place of the nearest ones.
    pub(crate) learned: Option<&'a QuantizedWeights>,
}

/// The weights of a product, and their nearest integers.
pub(crate) fn nearest_weights(
    graph: &Graph,
    node: &Node,
    shape: &WeightShape,
    choice: Weights,
) -> Result<(Vec<f32>, QuantizedWeights)> {
    let id = node.input(1).expect("a product has weights");
    let name = graph.name_of(id);
    let weights = graph.constant(id).expect("its weights are constant").to_f32s().map_err(|e| bad(name, &e))?;
    let layout = match choice.granularity {
        // Blocks that reach this point have no room in the weights: see `blocked`.
        Granularity::PerChannel | Granularity::Blocked(_) => shape.layout,
        Granularity::PerTensor => ChannelLayout { channels: 1, inner: weights.len() },
    };
    let how = (choice.observer, choice.zero_point);
    let nearest = quantize_weights_with_zero(name, &weights, layout, choice.grid(), how)?;
    Ok((weights, nearest))
}

/// The integer constants of a product.
pub(crate) struct Constants {
    pub(crate) weights: QuantizedWeights,
    pub(crate) bias: Option<Vec<f32>>,
    /// Integers of the bias, and the scales they are in.
    pub(crate) bias_codes: Vec<i32>,
    pub(crate) bias_scales: Vec<f32>,
}

impl Product<'_> {
    /// Quantizes weights and bias; `bias` has one element per output channel.
    pub(crate) fn constants(
        &self,
        graph: &Graph,
        bias: Option<Vec<f32>>,
        notes: &mut Vec<Diagnostic>,
    ) -> Result<Constants> {
        let grid = self.weights.grid();
        let (weights, nearest) = nearest_weights(graph, self.node, &self.shape, self.weights)?;
        let mut quantized = self.learned.cloned().unwrap_or(nearest);
        let bias = self.corrected(bias, &weights, &quantized);
        if let Some(bias) = &bias {
            if let Some(position) = bias.iter().position(|b| !b.is_finite()) {
                let found = format!("bias {} of channel {position}", bias[position]);
                return Err(Error::BadWeights {
                    tensor: self.node.name.clone(),
                    found,
                    expected: "finite biases".into(),
                });
            }
            self.make_room(&mut quantized, &weights, bias, grid, notes);
        }
        let scale_of = |c: usize| quantized.scales[c % quantized.scales.len()];
        let real = bias.as_deref().unwrap_or_default();
        let bias_codes = real.iter().enumerate().map(|(c, &b)| quantize_bias(b, self.x.scale, scale_of(c))).collect();
        let bias_scales = match quantized.scales.len() {
            1 => vec![bias_scale(self.x.scale, quantized.scales[0]) as f32],
            _ => (0..real.len()).map(|c| bias_scale(self.x.scale, scale_of(c)) as f32).collect(),
        };
        Ok(Constants { weights: quantized, bias, bias_codes, bias_scales })
    }

    /// The bias without the mean error that the rounded weights make on the calibration data.
    fn corrected(&self, bias: Option<Vec<f32>>, weights: &[f32], q: &QuantizedWeights) -> Option<Vec<f32>> {
        let usable = |means: &&Vec<f64>| means.len() == self.shape.in_channels() && self.node.op != "ConvTranspose";
        let Some(means) = self.means.as_ref().filter(usable) else { return bias };
        let errors = mean_error(&self.shape, weights, q, means);
        let bias = bias.unwrap_or_else(|| vec![0.0; self.shape.out_channels]);
        Some(bias.iter().zip(&errors).map(|(&b, e)| (f64::from(b) - e) as f32).collect())
    }

    /// Raises the weight scale of channels whose bias would not fit an i32 beside their products.
    fn make_room(
        &self,
        quantized: &mut QuantizedWeights,
        weights: &[f32],
        bias: &[f32],
        grid: Grid,
        notes: &mut Vec<Diagnostic>,
    ) {
        let Some((qmin, qmax)) = self.x.dtype.storage_range() else { return };
        let x_span = self.x.zero_point.abs_diff(qmin).max(self.x.zero_point.abs_diff(qmax));
        let channels = quantized.scales.len();
        let mut sums = vec![0u64; channels];
        for (idx, code) in quantized.codes.iter().enumerate() {
            sums[quantized.channel_of(idx)] += u64::from(code.abs_diff(quantized.zero_point));
        }
        let per_channel = weights.len() / channels;
        let mut scales = quantized.scales.clone();
        for (c, &b) in bias.iter().enumerate() {
            let w = c % channels;
            if let Some(raised) = scale_for_bias(b, self.x.scale, quantized.scales[w], sums[w], per_channel, x_span) {
                scales[w] = scales[w].max(raised);
            }
        }
        let raised = scales.iter().zip(&quantized.scales).filter(|(new, old)| new > old).count();
        if raised > 0 {
            let message = format!("the weight scale of {raised} channels was raised so that the bias fits 32 bits");
            notes.push(Diagnostic::warning("Q0102", &self.node.name, message));
            *quantized = with_scales(weights, quantized.layout, grid, scales, quantized.zero_point);
        }
    }
}

fn bad(name: &str, error: &ottava_hal::Error) -> Error {
    Error::BadWeights { tensor: name.to_owned(), found: error.to_string(), expected: "float weights".to_owned() }
}

/// The bias of a product as one float per output channel; a single element serves all.
pub(crate) fn bias_values(graph: &Graph, id: ValueId, channels: usize) -> Result<Vec<f32>> {
    let name = graph.name_of(id);
    let values = graph.constant(id).map(Tensor::to_f32s).transpose().map_err(|e| bad(name, &e))?.unwrap_or_default();
    match values.len() {
        n if n == channels => Ok(values),
        1 => Ok(vec![values[0]; channels]),
        n => Err(Error::BadWeights {
            tensor: name.to_owned(),
            found: format!("{n} biases"),
            expected: format!("one for each of {channels} output channels"),
        }),
    }
}

/// Integer codes as a tensor of the given storage.
pub(crate) fn code_tensor(dtype: DataType, shape: &[usize], codes: &[i32]) -> ottava_hal::Result<Tensor> {
    let wide: Vec<i64> = codes.iter().map(|&c| i64::from(c)).collect();
    Tensor::from_ints(dtype, shape, &wide)
}
