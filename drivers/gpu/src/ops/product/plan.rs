//! The launch of the product kernel.

use super::end::End;
use super::operand::Bytes;
use super::window::Axis;
use crate::Form;
use crate::builder::{Buf, Builder, Launch};
use crate::target::Dot;
use ottava_hal::{Error, Reason, Result};

/// The first operand: words of pixels, all taps inside.
#[derive(Clone, Copy)]
pub(super) struct Image {
    pub x: Buf,
    /// Images, or 1.
    pub batch: usize,
    pub height: usize,
    pub width: usize,
    /// Words from pixel to pixel.
    pub pixel_words: usize,
}

/// What the sums are made of.
#[derive(Clone, Copy)]
pub(super) enum Terms {
    /// Bytes, and the zero point of a computed second factor.
    Bytes(Bytes, Option<i32>),
    /// Floats of a type, whose number the kernels know.
    Floats(u32),
}

/// A launch of the product kernel.
pub(super) struct Plan<'a> {
    pub image: Image,
    pub terms: Terms,
    /// Windows of y over x.
    pub axes: [Axis; 2],
    /// Whether taps run backwards.
    pub backwards: bool,
    pub w: Buf,
    pub layers: usize,
    /// Words of a tap.
    pub words: usize,
    /// Bits of the last word of a tap that hold elements.
    pub mask: u32,
    pub table: Buf,
    pub channels: usize,
    /// First words of x and w of each of several products.
    pub products: &'a [(usize, usize)],
}

/// Rows that one invocation of the kernel makes.
const ROWS: usize = 8;
/// Up to this many rows a variant that makes one at a time wastes less.
const FEW_ROWS: usize = 2;

impl Plan<'_> {
    /// Rows of one product.
    pub(super) fn rows(&self) -> usize {
        self.image.batch * self.axes[0].output * self.axes[1].output
    }

    /// Adds the launch; `stride` is the words from row to row of the result.
    pub(super) fn launch(
        &self,
        builder: &mut Builder<'_>,
        end: &End<'_>,
        form: Form,
        stride: usize,
        y: Buf,
    ) -> Result<()> {
        let (end_params, other) = end.params(builder, form, stride)?;
        let rows = self.rows();
        let mut params = self.params(rows)?;
        params.resize(32, 0);
        params.extend(end_params);
        if !self.products.is_empty() {
            params.extend(self.products.iter().flat_map(|&(x, w)| [x as u32, w as u32]));
        }
        let single = rows <= FEW_ROWS;
        let tiles = self.channels.div_ceil(4);
        let items = [tiles, rows.div_ceil(if single { 1 } else { ROWS }), self.products.len().max(1)];
        builder.launch(&Launch {
            kernel: "product",
            defines: self.variant(builder, single),
            spec: &[end.code],
            params: &params,
            inputs: &[self.image.x, self.w, self.table, other],
            output: y,
            items,
            local: Some(group(builder, items)),
        })
    }

    fn variant(&self, builder: &Builder<'_>, single: bool) -> &'static [&'static str] {
        match (self.terms, builder.target.dot, single) {
            (Terms::Floats(_), _, false) => &["REAL"],
            (Terms::Floats(_), _, true) => &["REAL", "SINGLE"],
            (_, Dot::Packed, false) => &["DOT"],
            (_, Dot::Packed, true) => &["DOT", "SINGLE"],
            (_, Dot::Plain, false) => &[],
            (_, Dot::Plain, true) => &["SINGLE"],
        }
    }

    fn params(&self, rows: usize) -> Result<Vec<u32>> {
        let [h, w] = self.axes;
        let step = |a: Axis| if self.backwards { -(a.dilation as i32) } else { a.dilation as i32 };
        let (x_type, flip, computed) = match self.terms {
            Terms::Bytes(x, computed) => (0, x.flip(), computed),
            Terms::Floats(code) => (code, 0, None),
        };
        let counts = [rows, self.channels.div_ceil(4), self.layers * h.kernel * w.kernel, self.words, self.channels];
        let extents = [self.image.pixel_words, self.image.height, self.image.width, h.output, w.output];
        let window = [h.kernel, w.kernel, h.stride, w.stride];
        let all = counts.iter().chain(&extents).chain(&window);
        let mut params = all
            .map(|&n| u32::try_from(n))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|_| Error::unsupported(Reason::ShapeLimit, "an extent of more than 32 bits"))?;
        params.extend([step(h) as u32, step(w) as u32, 0, 0, flip, 0, self.mask, x_type]);
        params.extend([
            u32::from(computed.is_some()),
            computed.unwrap_or(0) as u32,
            u32::from(!self.products.is_empty()),
        ]);
        Ok(params)
    }
}

/// A work-group for these invocations. Few sizes: OpenCL devices may compile anew for each.
pub(super) fn group(builder: &Builder<'_>, items: [usize; 3]) -> [u32; 3] {
    let target = builder.target;
    let most = target.group.clamp(1, target.max_group.max(1));
    let across = if items[0] > 4 { 16 } else { 4 }.min(most);
    let mut down = (most / across).max(1);
    // More rows than the device starts groups: larger groups.
    while items[1].div_ceil(down as usize) > target.max_groups[1] as usize && across * down * 2 <= target.max_group {
        down *= 2;
    }
    [across, down, 1]
}
