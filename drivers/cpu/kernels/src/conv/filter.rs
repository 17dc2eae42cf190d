//! Packed filters of an integer convolution: dense panels per group, or depthwise blocks of channels.

use alloc::vec::Vec;

use super::depthwise::window;
use super::shape::ConvShape;
use super::weights::Weights;
use super::winograd::WinogradB;
use crate::depthwise::DepthwiseB;
use crate::error::Result;
use crate::gemm::{COLS, PackedB, Packing, Panel, Span, pack};
use crate::stored::Stored;

/// What a panel index stands for.
#[derive(Clone, Copy)]
pub(crate) struct PanelPlace {
    /// First output channel.
    pub(crate) channel: usize,
    /// Output channels, at most 16.
    pub(crate) cols: usize,
    /// Bytes to add to a pixel's activation row.
    pub(crate) offset: usize,
}

/// The packed weights of a plan.
pub(crate) enum Filter {
    /// One packed matrix per group.
    Dense { groups: Vec<PackedB>, n_per_group: usize, in_per_group: usize },
    /// One filter per channel, run by [`super::depthwise`].
    Depthwise(DepthwiseB),
    /// Transformed weights, run by [`super::winograd`].
    Winograd(WinogradB),
}

impl Filter {
    /// Packs for activations whose image rows and pixels are as many bytes apart as `strides` says.
    pub(crate) fn new(s: &ConvShape, w: &Weights<'_>, strides: [usize; 2], packing: Packing) -> Result<Self> {
        if s.is_depthwise() {
            let index = w.layout.index(s);
            let packed = DepthwiseB::pack(window(s)?, s.in_c, &|t, c| w.get(index.of(t, c), c));
            return Ok(Self::Depthwise(packed));
        }
        let (n_in, n_out) = (s.in_c / s.groups, s.out_c / s.groups);
        let (spans, index) = (spans(s, strides), w.layout.index(s));
        let n_k = s.kernel[0] * s.kernel[1] * n_in;
        let group = |g: usize| {
            pack(&spans, n_k, n_out, packing, &|columns, to| {
                w.read(&index, g * n_out + columns.start..g * n_out + columns.end, to);
            })
        };
        let groups = (0..s.groups).map(group).collect::<Result<_>>()?;
        Ok(Self::Dense { groups, n_per_group: n_out, in_per_group: n_in })
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Dense { groups, .. } => groups.iter().for_each(|g| g.save(out)),
            Self::Depthwise(packed) => packed.save(out),
            Self::Winograd(packed) => packed.save(out),
        }
    }

    /// Reads weights back that were packed for the same shape and strides.
    pub(crate) fn restore(s: &ConvShape, strides: [usize; 2], packing: Packing, from: &mut Stored<'_>) -> Result<Self> {
        if s.is_depthwise() {
            return DepthwiseB::restore(window(s)?, s.in_c, from).map(Self::Depthwise);
        }
        let (n_per_group, reach) = (s.out_c / s.groups, packing.reach(&spans(s, strides)));
        let group = |_| PackedB::restore(n_per_group, reach, from);
        let groups = (0..s.groups).map(group).collect::<Result<_>>()?;
        Ok(Self::Dense { groups, n_per_group, in_per_group: s.in_c / s.groups })
    }

    /// Panels of the whole filter; the others have their own loops and none here.
    pub(crate) fn n_panels(&self) -> usize {
        match self {
            Self::Dense { groups, n_per_group, .. } => groups.len() * n_per_group.div_ceil(COLS),
            Self::Depthwise(_) | Self::Winograd(_) => 0,
        }
    }

    /// Place and packed weights of a panel below [`Filter::n_panels`].
    pub(crate) fn panel(&self, panel: usize) -> (PanelPlace, Panel<'_>) {
        let Self::Dense { groups, n_per_group, in_per_group } = self else {
            unreachable!("only a dense filter has panels");
        };
        let per_group = n_per_group.div_ceil(COLS);
        let (g, index) = (panel / per_group, panel % per_group);
        let (first, cols) = (index * COLS, (n_per_group - index * COLS).min(COLS));
        let place = PanelPlace { channel: g * n_per_group + first, cols, offset: g * in_per_group };
        (place, groups[g].panel(index))
    }

    /// Bytes of packed weights.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dense { groups, .. } => groups.iter().map(PackedB::bytes).sum(),
            Self::Depthwise(packed) => packed.bytes(),
            Self::Winograd(packed) => packed.bytes(),
        }
    }
}

/// Bytes that must be readable from a pixel's activation row on.
pub(crate) fn reach(s: &ConvShape, strides: [usize; 2], packing: Packing) -> usize {
    packing.reach(&spans(s, strides)) + (s.groups - 1) * (s.in_c / s.groups)
}

/// The activation bytes of one filter. Without groups and dilation a kernel row is contiguous, so that few input channels still fill
/// whole steps.
fn spans(s: &ConvShape, [line, pixel]: [usize; 2]) -> Vec<Span> {
    let n_in = s.in_c / s.groups;
    let merged = s.groups == 1 && s.dilation[1] == 1 && pixel == s.in_c;
    let (n_spans, len) = if merged { (1, s.kernel[1] * n_in) } else { (s.kernel[1], n_in) };
    let span = |y: usize, x: usize| Span {
        offset: y * s.dilation[0] * line + x * s.dilation[1] * pixel,
        k: (y * s.kernel[1] + x) * n_in,
        len,
    };
    (0..s.kernel[0]).flat_map(|y| (0..n_spans).map(move |x| span(y, x))).collect()
}
