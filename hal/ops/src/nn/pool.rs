//! What all pools share: checked geometry and the walk over windows.

use super::real::count;
use super::window::{Axis, Window};
use crate::{AttrKind, AttrSpec, InferCx};
use ottava_hal::{Attrs, Dim, Error, Result};
use std::ops::Range;

/// The attributes that every pool has.
pub(super) const AUTO_PAD: AttrSpec = AttrSpec::optional("auto_pad", AttrKind::Str);
pub(super) const CEIL: AttrSpec = AttrSpec::optional("ceil_mode", AttrKind::Int);
pub(super) const DILATIONS: AttrSpec = AttrSpec::optional("dilations", AttrKind::Ints);
pub(super) const KERNEL: AttrSpec = AttrSpec::required("kernel_shape", AttrKind::Ints);
pub(super) const PADS: AttrSpec = AttrSpec::optional("pads", AttrKind::Ints);
pub(super) const STRIDES: AttrSpec = AttrSpec::optional("strides", AttrKind::Ints);

/// A pool over planes: batch and channels are one index.
pub(crate) struct Pool {
    /// Batch times channels.
    pub planes: usize,
    /// Depth, height, width.
    pub axes: [Axis; 3],
    /// Shape of the output.
    pub shape: Vec<usize>,
}

impl Pool {
    /// The geometry of a pool on an input of this shape.
    pub fn of(attrs: &Attrs, x: &[usize]) -> Result<Self> {
        if x.len() < 3 {
            return Err(Error::invalid(format!("a pool needs batch, channel and spatial axes, found {x:?}")));
        }
        let axes = Window::parse(attrs, None, x.len() - 2)?.axes(&x[2..])?;
        let mut shape = x[..2].to_vec();
        shape.extend(axes[3 - (x.len() - 2)..].iter().map(|a| a.output));
        Ok(Self { planes: count(&x[..2])?, axes, shape })
    }

    /// Elements of one input plane.
    pub fn plane_len(&self) -> usize {
        self.axes.iter().map(|a| a.input).product()
    }

    /// Calls `f` with the input plane and the window of each output, in the order of the output.
    pub fn for_each(&self, mut f: impl FnMut(usize, Taps)) {
        let [d, h, w] = &self.axes;
        for plane in 0..self.planes {
            for od in 0..d.output {
                for oh in 0..h.output {
                    for ow in 0..w.output {
                        f(plane, Taps::at(&self.axes, [od, oh, ow]));
                    }
                }
            }
        }
    }
}

/// The taps of one output that lie inside the input.
pub(crate) struct Taps<'a> {
    axes: &'a [Axis; 3],
    at: [usize; 3],
    ranges: [Range<usize>; 3],
}

impl<'a> Taps<'a> {
    fn at(axes: &'a [Axis; 3], at: [usize; 3]) -> Self {
        Self { axes, at, ranges: std::array::from_fn(|i| axes[i].taps(at[i])) }
    }

    /// Number of taps inside the input.
    pub fn inside(&self) -> usize {
        self.ranges.iter().map(Range::len).product()
    }

    /// Number of taps inside the input or its padding; what `ceil_mode` adds beyond the padding does not count.
    pub fn padded(&self) -> usize {
        (0..3).map(|i| self.axes[i].padded_taps(self.at[i]).len()).product()
    }

    /// Calls `f` with the index of each tap within its plane, ascending.
    pub fn for_each(&self, mut f: impl FnMut(usize)) {
        let [d, h, w] = self.axes;
        let [depths, heights, widths] = &self.ranges;
        for kd in depths.clone() {
            for kh in heights.clone() {
                let line = (d.at(self.at[0], kd) * h.input + h.at(self.at[1], kh)) * w.input;
                for kw in widths.clone() {
                    f(line + w.at(self.at[2], kw));
                }
            }
        }
    }
}

/// Shape inference of a pool.
pub(super) fn infer_dims(cx: &InferCx) -> Result<Vec<Dim>> {
    let x = cx.shape(0)?;
    if x.len() < 3 {
        return Err(Error::invalid(format!("{}: input of rank {}, expected 3 to 5", cx.node.full_op(), x.len())));
    }
    let window = Window::parse(cx.attrs(), None, x.len() - 2)?;
    let mut dims = x[..2].to_vec();
    dims.extend(super::conv::infer_spatial(cx, &window, x)?);
    Ok(dims)
}
