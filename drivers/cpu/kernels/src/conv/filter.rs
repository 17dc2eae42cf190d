//! Packed filters of an integer convolution: dense panels per group, or depthwise blocks of sixteen channels.

use alloc::vec::Vec;

use super::shape::ConvShape;
use super::weights::Weights;
use crate::depthwise::{DepthwiseB, DepthwisePanel, DepthwiseWindow};
use crate::error::Result;
use crate::gemm::{COLS, PackedB, Packing, Panel, Span, pack};
use crate::isa::Isa;
use crate::stored::Stored;
use crate::tile::{GemmRows, GemmTile, ROWS, Rows, Tile};

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
    /// One filter per channel.
    Depthwise { packed: DepthwiseB, channels: usize },
}

impl Filter {
    /// Packs for activations whose image rows and pixels are as many bytes apart as `strides` says.
    pub(crate) fn new(s: &ConvShape, w: &Weights<'_>, strides: [usize; 2], packing: Packing) -> Result<Self> {
        if s.is_depthwise() {
            return Self::depthwise(s, w, strides);
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

    fn depthwise(s: &ConvShape, w: &Weights<'_>, strides: [usize; 2]) -> Result<Self> {
        let index = w.layout.index(s);
        let packed = DepthwiseB::pack(window(s, strides), s.in_c, &|t, c| w.get(index.of(t, c), c))?;
        Ok(Self::Depthwise { packed, channels: s.in_c })
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        match self {
            Self::Dense { groups, .. } => groups.iter().for_each(|g| g.save(out)),
            Self::Depthwise { packed, .. } => packed.save(out),
        }
    }

    /// Reads weights back that were packed for the same shape and strides.
    pub(crate) fn restore(s: &ConvShape, strides: [usize; 2], packing: Packing, from: &mut Stored<'_>) -> Result<Self> {
        if s.is_depthwise() {
            let packed = DepthwiseB::restore(window(s, strides), s.in_c, from)?;
            return Ok(Self::Depthwise { packed, channels: s.in_c });
        }
        let (n_per_group, reach) = (s.out_c / s.groups, packing.reach(&spans(s, strides)));
        let group = |_| PackedB::restore(n_per_group, reach, from);
        let groups = (0..s.groups).map(group).collect::<Result<_>>()?;
        Ok(Self::Dense { groups, n_per_group, in_per_group: s.in_c / s.groups })
    }

    /// Panels of the whole filter.
    pub(crate) fn n_panels(&self) -> usize {
        match self {
            Self::Dense { groups, n_per_group, .. } => groups.len() * n_per_group.div_ceil(COLS),
            Self::Depthwise { channels, .. } => channels.div_ceil(COLS),
        }
    }

    pub(crate) fn place(&self, panel: usize) -> PanelPlace {
        match self {
            Self::Dense { n_per_group, in_per_group, .. } => {
                let per_group = n_per_group.div_ceil(COLS);
                let (g, first) = (panel / per_group, panel % per_group * COLS);
                let cols = (n_per_group - first).min(COLS);
                PanelPlace { channel: g * n_per_group + first, cols, offset: g * in_per_group }
            }
            Self::Depthwise { channels, .. } => {
                let channel = panel * COLS;
                PanelPlace { channel, cols: (channels - channel).min(COLS), offset: channel }
            }
        }
    }

    /// The packed weights of panel `panel`.
    pub(crate) fn panel(&self, panel: usize) -> FilterPanel<'_> {
        match self {
            Self::Dense { groups, n_per_group, .. } => {
                let per_group = n_per_group.div_ceil(COLS);
                FilterPanel::Dense(groups[panel / per_group].panel(panel % per_group))
            }
            Self::Depthwise { packed, .. } => FilterPanel::Depthwise(packed.block(panel)),
        }
    }

    /// Bytes of packed weights.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dense { groups, .. } => groups.iter().map(PackedB::bytes).sum(),
            Self::Depthwise { packed, .. } => packed.bytes(),
        }
    }
}

/// One panel of a [`Filter`].
pub(crate) enum FilterPanel<'a> {
    /// Sixteen columns of a packed matrix.
    Dense(Panel<'a>),
    /// Sixteen channels of a depthwise filter.
    Depthwise(DepthwisePanel<'a>),
}

impl FilterPanel<'_> {
    /// Accumulators of a tile; `rows` include the panel's offset.
    #[inline]
    pub(crate) fn product(&self, isa: Isa, a: &[u8], rows: &GemmRows, tile: &mut GemmTile) {
        match self {
            Self::Dense(panel) => isa.gemm_u8(a, rows, panel, tile),
            Self::Depthwise(panel) => depthwise(isa, a, rows, panel, tile),
        }
    }
}

/// The depthwise kernels' tiles are half as high.
fn depthwise(isa: Isa, a: &[u8], rows: &GemmRows, panel: &DepthwisePanel<'_>, tile: &mut GemmTile) {
    for first in (0..rows.n).step_by(ROWS) {
        let (at, mut part) = (core::array::from_fn(|r| rows.at[first + r]), Tile::ZERO);
        isa.depthwise_u8(a, &Rows { at, n: (rows.n - first).min(ROWS) }, panel, &mut part);
        tile.0[first..first + ROWS].copy_from_slice(&part.0);
    }
}

/// Bytes that must be readable from a pixel's activation row on.
pub(crate) fn reach(s: &ConvShape, strides: [usize; 2], packing: Packing) -> usize {
    if s.is_depthwise() {
        return window(s, strides).max_offset() + s.in_c.next_multiple_of(COLS);
    }
    packing.reach(&spans(s, strides)) + (s.groups - 1) * (s.in_c / s.groups)
}

/// The window of a depthwise convolution.
fn window(s: &ConvShape, [line, pixel]: [usize; 2]) -> DepthwiseWindow {
    DepthwiseWindow { kernel: s.kernel, row: s.dilation[0] * line, column: s.dilation[1] * pixel }
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
