//! Bias correction: the mean error that rounded weights make on the calibration data moves into the bias (Nagel et al.
//! 2019, section 4.2, with observed means).

use crate::apply::WeightShape;
use crate::weights::QuantizedWeights;

/// The mean error of each output channel, for the mean of each input channel.
pub(crate) fn mean_error(shape: &WeightShape, weights: &[f32], q: &QuantizedWeights, means: &[f64]) -> Vec<f64> {
    let mut errors = vec![0.0f64; shape.out_channels];
    for (idx, &w) in weights.iter().enumerate() {
        let out = shape.out_of(idx);
        errors[out] += (q.dequantized(idx) - f64::from(w)) * means[shape.in_channel(idx, out)];
    }
    errors
}
