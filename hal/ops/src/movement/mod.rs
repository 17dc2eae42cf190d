//! Operators of the movement family: elements change place, none is computed, so they work on every element type and
//! on quantized data as it is.

use crate::Op;

mod axes;
mod concat;
mod depth_space;
pub(crate) mod expand;
mod gather;
mod pad;
pub(crate) mod pick;
mod reshape;
mod slice;
mod split;
pub(crate) mod transpose;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[
    &axes::Flatten,
    &axes::Identity,
    &axes::Squeeze,
    &axes::Unsqueeze,
    &concat::Concat,
    &depth_space::DepthToSpace,
    &depth_space::SpaceToDepth,
    &expand::Expand,
    &expand::Tile,
    &gather::Gather,
    &pad::Pad,
    &reshape::Reshape,
    &slice::Slice,
    &split::Split,
    &transpose::Transpose,
];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
