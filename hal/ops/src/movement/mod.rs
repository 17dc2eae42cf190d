//! Operators of the movement family: elements change place, none is computed, so they work on every element type and
//! on quantized data as it is.

use crate::Op;

mod axes;
pub(crate) mod concat;
mod depth_space;
mod dropout;
pub(crate) mod expand;
pub(crate) mod gather;
mod gather_nd;
mod pad;
pub(crate) mod pick;
mod reshape;
mod scatter;
mod select_rows;
mod slice;
mod split;
pub(crate) mod transpose;
mod triangle;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &axes::Flatten,
    &axes::Identity,
    &axes::Squeeze,
    &axes::Unsqueeze,
    &concat::Concat,
    &depth_space::DepthToSpace,
    &depth_space::SpaceToDepth,
    &dropout::Dropout,
    &expand::Expand,
    &expand::Tile,
    &gather::Gather,
    &gather_nd::GatherElements,
    &gather_nd::GatherNd,
    &pad::Pad,
    &reshape::Reshape,
    &scatter::ScatterElements,
    &scatter::ScatterNd,
    &scatter::TensorScatter,
    &select_rows::Compress,
    &select_rows::ReverseSequence,
    &slice::Slice,
    &split::Split,
    &transpose::Transpose,
    &triangle::CenterCropPad,
    &triangle::Trilu,
];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
