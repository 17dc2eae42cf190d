//! Operators of the nn family: products, pools, normalizations, resampling.

use crate::Op;

pub(crate) mod conv;
pub(crate) mod gemm;
pub(crate) mod matmul;
pub(crate) mod means;
pub(crate) mod product;
pub(crate) mod real;
pub(crate) mod softmax;
mod softmax_wide;
pub(crate) mod typed;
pub mod window;

mod affine_grid;
mod attention;
mod attention_scores;
mod average_pool;
mod axis_norm;
mod batch_norm;
mod bias;
mod channel_norm;
mod col2im;
mod conv_transpose;
mod deform_conv;
mod det;
mod dft;
mod fourier;
mod fused_matmul;
mod global_pool;
mod grid_sample;
mod layer_norm;
mod masked;
mod max_pool;
mod max_unpool;
mod mel;
mod plain;
mod planar;
mod pool;
pub(crate) mod requantize;
mod resample;
mod resize;
mod resize_fixed;
mod roi_align;
mod rotary;
mod signal_window;
mod stft;
mod swiglu;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &affine_grid::AffineGrid,
    &attention::Attention,
    &average_pool::AveragePool,
    &average_pool::LpPool,
    &axis_norm::LP,
    &axis_norm::LRN,
    &axis_norm::MEAN_VARIANCE,
    &batch_norm::BatchNormalization,
    &channel_norm::GROUP,
    &channel_norm::INSTANCE,
    &col2im::Col2Im,
    &conv::Conv,
    &conv_transpose::ConvTranspose,
    &deform_conv::DeformConv,
    &det::Det,
    &dft::Dft,
    &fused_matmul::FusedMatMul,
    &gemm::Gemm,
    &global_pool::AVERAGE,
    &global_pool::LP,
    &global_pool::MAX,
    &grid_sample::GridSample,
    &layer_norm::LAYER,
    &layer_norm::RMS,
    &layer_norm::SIMPLIFIED,
    &layer_norm::SKIP,
    &layer_norm::SKIP_RMS,
    &masked::MaskedMean,
    &masked::MaskedSoftmax,
    &matmul::MatMul,
    &max_pool::MaxPool,
    &max_unpool::MaxUnpool,
    &mel::MelWeightMatrix,
    &resize::RESIZE,
    &resize::UPSAMPLE,
    &roi_align::RoiAlign,
    &rotary::MICROSOFT_ROTARY,
    &rotary::ROTARY,
    &signal_window::WINDOWS[0],
    &signal_window::WINDOWS[1],
    &signal_window::WINDOWS[2],
    &softmax::HARDMAX,
    &softmax::LOG_SOFTMAX,
    &softmax::SOFTMAX,
    &stft::Stft,
    &swiglu::SwiGlu,
];

#[cfg(test)]
mod tests {
    #[test]
    fn every_operator_computes_its_cases() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
