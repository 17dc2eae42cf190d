//! Quantization operators: QuantizeLinear and its kin, the QLinear and integer operators, Ottava's own bridges.

use crate::Op;
use ottava_hal::{QuantParams, Scheme};

pub mod lut;

mod bridge;
mod dynamic_matmul;
mod dynamic_product;
pub(crate) mod fixed_binary;
pub(crate) mod fixed_unary;
mod integer_product;
mod linear;
pub(crate) mod params;
pub(crate) mod qlinear_binary;
mod qlinear_form;
mod qlinear_product;
mod typed_form;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &bridge::DEQUANTIZE,
    &bridge::LUT,
    &bridge::QUANTIZE,
    &bridge::REQUANTIZE,
    &dynamic_matmul::DynamicMatMul,
    &dynamic_product::DYNAMIC,
    &dynamic_product::INTEGER,
    &integer_product::ConvInteger,
    &integer_product::MatMulInteger,
    &linear::DequantizeLinear,
    &linear::DynamicQuantizeLinear,
    &linear::QuantizeLinear,
    &qlinear_binary::ADD,
    &qlinear_binary::MUL,
    &qlinear_form::FORMS[0],
    &qlinear_form::FORMS[1],
    &qlinear_form::FORMS[2],
    &qlinear_form::FORMS[3],
    &qlinear_form::FORMS[4],
    &qlinear_form::FORMS[5],
    &qlinear_form::FORMS[6],
    &qlinear_form::FORMS[7],
    &qlinear_product::CONV,
    &qlinear_product::GEMM,
    &qlinear_product::MATMUL,
];

/// Maps a flat row-major element index to the index of its scale.
pub struct ChannelIndex {
    /// Elements that follow one step of the axis.
    inner: usize,
    /// Extent of the axis.
    extent: usize,
    /// Elements of the axis that share a scale (1 for per-axis).
    block: usize,
    /// Scales along the axis.
    n_blocks: usize,
    blocked: bool,
}

/// The map of a scheme on a shape; parameters have been checked against it.
pub fn channel_index(params: &QuantParams, shape: &[usize]) -> ChannelIndex {
    let (axis, block, blocked) = match params.scheme {
        Scheme::PerTensor => {
            return ChannelIndex { inner: usize::MAX, extent: 1, block: 1, n_blocks: 1, blocked: false };
        }
        Scheme::PerAxis { axis } => (axis, 1, false),
        Scheme::Blocked { axis, block } => (axis, block.max(1), true),
    };
    let inner = shape[axis + 1..].iter().product::<usize>().max(1);
    let extent = shape[axis].max(1);
    ChannelIndex { inner, extent, block, n_blocks: extent.div_ceil(block), blocked }
}

impl ChannelIndex {
    /// Index of the scale of element `i`.
    pub fn of(&self, i: usize) -> usize {
        let along = i / self.inner;
        let block = (along % self.extent) / self.block;
        if !self.blocked {
            return block;
        }
        let outer = along / self.extent;
        (outer * self.n_blocks + block) * self.inner + i % self.inner
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_operator_computes_its_cases() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
