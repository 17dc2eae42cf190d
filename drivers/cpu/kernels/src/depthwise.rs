//! Packed depthwise filters: per block of eight channels, the taps of two image rows side by side as 16-bit weights.
//!
//! Two rows' bytes are interleaved and widened to 16 bits, so that `vpmaddwd` adds both taps' products per channel in 32 bits: exact
//! for every u8 activation and every weight in -255..=255, for any window. A tile is [`LINES`] output rows of [`PIXELS`] pixels. Its
//! *band* is the image rows that it reads. A [`Step`] takes two rows of the band and serves every output row that has a tap in them:
//! with a 3 x 3 kernel and rows 0 to 3, rows (0, 1) carry the taps (w0, w1) of the first output row and (-, w0) of the second, rows
//! (2, 3) carry (w2, -) and (w1, w2). So each interleaved column is used by all pixels and by both output rows that it belongs to.

use alloc::vec::Vec;

use crate::elements::Elements;
use crate::epilogue::{Scales, Store};
use crate::error::{Result, product};
use crate::gemm::Block;
use crate::stored::{Stored, put_elements};

/// Channels of a block.
pub(crate) const CHANNELS: usize = 8;
/// Pixels of a tile's rows.
pub(crate) const PIXELS: usize = 4;
/// Output rows of a tile.
pub(crate) const LINES: usize = 2;

/// Sums of a tile: `[output row][pixel][channel]`.
pub(crate) type Sums = [[[i32; CHANNELS]; PIXELS]; LINES];

/// The window of a depthwise convolution.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DepthwiseWindow {
    pub(crate) kernel: [usize; 2],
    pub(crate) stride: [usize; 2],
    pub(crate) dilation: [usize; 2],
    /// Output rows per band, 1 or [`LINES`].
    pub(crate) lines: usize,
}

/// Which output rows a step adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Uses {
    First,
    Second,
    Both,
}

/// Two rows of the band and what they are multiplied for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Rows of the band; a row that has no partner is paired with itself, at weight 0.
    pub(crate) rows: [usize; 2],
    pub(crate) uses: Uses,
}

impl Uses {
    fn new(first: bool, second: bool) -> Option<Self> {
        match (first, second) {
            (true, true) => Some(Self::Both),
            (true, false) => Some(Self::First),
            (false, true) => Some(Self::Second),
            (false, false) => None,
        }
    }

    /// The output rows, in the order of their weights.
    pub(crate) fn lines(self) -> &'static [usize] {
        match self {
            Self::First => &[0],
            Self::Second => &[1],
            Self::Both => &[0, 1],
        }
    }
}

impl DepthwiseWindow {
    /// Image rows that a band reads.
    pub(crate) fn rows(&self) -> usize {
        (self.lines - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1
    }

    /// Image columns that `pixels` pixels read.
    pub(crate) fn columns(&self, pixels: usize) -> usize {
        (pixels - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1
    }

    /// The kernel row with which output row `line` reads `row` of the band.
    fn tap(&self, row: usize, line: usize) -> Option<usize> {
        let at = row.checked_sub(line * self.stride[0])?;
        let ky = at / self.dilation[0];
        (at.is_multiple_of(self.dilation[0]) && ky < self.kernel[0]).then_some(ky)
    }

    /// The kernel rows with which output row `line` reads the two rows of a step.
    fn taps(&self, rows: [usize; 2], line: usize) -> [Option<usize>; 2] {
        let [p, q] = rows;
        [self.tap(p, line), if q == p { None } else { self.tap(q, line) }]
    }

    /// Neighbouring rows where the output rows overlap without gaps; otherwise each output row's taps two by two.
    fn steps(&self) -> Vec<Step> {
        let (kh, sh, dh) = (self.kernel[0], self.stride[0], self.dilation[0]);
        if dh == 1 && sh < kh && self.lines == LINES {
            let n = self.rows();
            let used = |rows, line| self.taps(rows, line).iter().any(Option::is_some);
            let pairs = (0..n).step_by(2).map(|p| [p, (p + 1).min(n - 1)]);
            return pairs
                .filter_map(|rows| Uses::new(used(rows, 0), used(rows, 1)).map(|uses| Step { rows, uses }))
                .collect();
        }
        let step = |line: usize, ky: usize| Step {
            rows: [ky, (ky + 1).min(kh - 1)].map(|ky| line * sh + ky * dh),
            uses: if line == 0 { Uses::First } else { Uses::Second },
        };
        (0..self.lines).flat_map(|line| (0..kh).step_by(2).map(move |ky| step(line, ky))).collect()
    }
}

/// Filters of all channels.
pub(crate) struct DepthwiseB {
    window: DepthwiseWindow,
    steps: Vec<Step>,
    /// Per block of channels, step, kernel column and output row: `[channel][row of the step]` as i16.
    weights: Elements<Block>,
    /// Blocks of weights per block of channels.
    per_block: usize,
    channels: usize,
}

/// Filters of eight channels.
#[derive(Clone, Copy)]
pub(crate) struct DepthwisePanel<'a> {
    pub(crate) window: &'a DepthwiseWindow,
    pub(crate) steps: &'a [Step],
    pub(crate) weights: &'a [Block],
    /// First channel.
    pub(crate) channel: usize,
    /// Channels, at most eight.
    pub(crate) n: usize,
}

impl DepthwiseB {
    fn empty(window: DepthwiseWindow, channels: usize) -> Self {
        let steps = window.steps();
        let per_block = steps.iter().map(|s| s.uses.lines().len()).sum::<usize>() * window.kernel[1];
        Self { window, steps, weights: Elements::default(), per_block, channels }
    }

    /// Packs `weight(tap, channel)`, taps row by row.
    pub(crate) fn pack(window: DepthwiseWindow, channels: usize, weight: &dyn Fn(usize, usize) -> i16) -> Self {
        let (mut out, mut weights) = (Self::empty(window, channels), Vec::new());
        let kw = window.kernel[1];
        for block in 0..out.n_blocks() {
            let first = out.first_channel(block);
            for step in &out.steps {
                for (kx, line) in (0..kw).flat_map(|kx| step.uses.lines().iter().map(move |line| (kx, *line))) {
                    let taps = window.taps(step.rows, line);
                    let get = |i: usize| match taps[i % 2] {
                        Some(ky) if first + i / 2 < channels => weight(ky * kw + kx, first + i / 2),
                        _ => 0,
                    };
                    weights.push(pair_block(get));
                }
            }
        }
        out.weights = weights.into();
        out
    }

    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        put_elements(out, &self.weights);
    }

    /// Reads the weights of `channels` channels back; the steps follow from the window.
    pub(crate) fn restore(window: DepthwiseWindow, channels: usize, from: &mut Stored<'_>) -> Result<Self> {
        let mut out = Self::empty(window, channels);
        out.weights = from.elements(product("the packed weights", &[out.per_block, out.n_blocks()])?)?;
        Ok(out)
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[Block]>(&self.weights) + size_of_val(self.steps.as_slice())
    }

    pub(crate) fn window(&self) -> &DepthwiseWindow {
        &self.window
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub(crate) fn channels(&self) -> usize {
        self.channels
    }

    /// Blocks of channels.
    pub(crate) fn n_blocks(&self) -> usize {
        self.channels.div_ceil(CHANNELS)
    }

    /// A last, partial block begins early and repeats channels of the one before it, so that only fewer than eight channels in all
    /// need a partial block.
    fn first_channel(&self, block: usize) -> usize {
        (block * CHANNELS).min(self.channels.saturating_sub(CHANNELS))
    }

    /// The filters of a block.
    pub(crate) fn block(&self, index: usize) -> DepthwisePanel<'_> {
        let n = self.per_block;
        DepthwisePanel {
            window: &self.window,
            steps: &self.steps,
            weights: &self.weights[index * n..][..n],
            channel: self.first_channel(index),
            n: self.channels.min(CHANNELS),
        }
    }
}

fn pair_block(weight: impl Fn(usize) -> i16) -> Block {
    let mut block = Block([0; 32]);
    for (i, bytes) in block.0.as_chunks_mut::<2>().0.iter_mut().enumerate() {
        *bytes = weight(i).to_le_bytes();
    }
    block
}

/// Where the rows of a band lie: in an image, or in a ring of rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Band<'a> {
    pub(crate) a: &'a [u8],
    /// Offset of the band's first row.
    pub(crate) first: usize,
    /// Bytes from a row to the next.
    pub(crate) line: usize,
    /// Bytes of the ring; rows that would begin there begin at 0. `usize::MAX` for an image.
    pub(crate) wrap: usize,
    /// Rows.
    pub(crate) n_rows: usize,
    /// Bytes from a pixel of the image to the next.
    pub(crate) pixel: usize,
}

impl Band<'_> {
    /// Offset of a row.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> usize {
        let at = self.first + index * self.line;
        if at >= self.wrap { at - self.wrap } else { at }
    }

    /// Panics unless eight bytes at the panel's channel of every column that `pixels` pixels read lie within `a`, for each row: the one
    /// check that the unsafe loads of the kernels rest on.
    pub(crate) fn check(&self, panel: &DepthwisePanel<'_>, pixels: usize) {
        assert!(self.n_rows == panel.window.rows() && pixels > 0, "a band of {} rows", self.n_rows);
        let columns = panel.window.columns(pixels);
        let extent = (columns - 1) * self.pixel + panel.channel + CHANNELS;
        let end = self.first + (self.n_rows - 1) * self.line;
        let last = if end >= self.wrap { self.wrap - self.line } else { end };
        assert!(self.first < self.wrap && end < self.wrap.saturating_add(self.wrap), "a band leaves its ring");
        assert!(last + extent <= self.a.len(), "a band row at {last} + {extent} leaves {} bytes", self.a.len());
    }
}

/// What becomes of the sums of whole output rows. The per-channel vectors are padded by a panel.
pub(crate) struct Requant<'a> {
    pub(crate) bias: &'a [i32],
    pub(crate) scales: Scales<'a>,
    pub(crate) store: &'a Store,
    /// Pixels of an output row.
    pub(crate) wide: usize,
}
