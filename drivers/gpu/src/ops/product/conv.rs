//! `Conv` in one and two dimensions, grouped or not.

use super::super::{input, output};
use super::depthwise;
use super::end::{End, row_words};
use super::factor::{self, Layout};
use super::operand::{Bytes, bad_shape, is_typed};
use super::plan::{Image, Plan, Terms};
use super::window::{self, Axis};
use crate::Form;
use crate::builder::{Buf, Builder, Launch};
use crate::form::element_bytes;
use ottava_hal::{Error, Node, Result};

/// Adds the launches of a convolution.
pub(in super::super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (xd, wd, yd) = (builder.dims(x)?, builder.dims(input(node, 1)?)?, builder.dims(y)?);
    let groups = usize::try_from(node.attrs.int("group", 1)?).unwrap_or(0);
    let fits = (3..=4).contains(&xd.len())
        && (wd.len(), yd.len()) == (xd.len(), xd.len())
        && groups > 0
        && wd[1].checked_mul(groups) == Some(xd[1])
        && wd[0] > 0
        && wd[0].is_multiple_of(groups)
        && (yd[0], yd[1]) == (xd[0], wd[0]);
    if !fits {
        return Err(bad_shape(format!("{xd:?} with weights {wd:?} in {groups} groups to {yd:?}")));
    }
    let axes = window::forward(&node.attrs, &wd[2..], &xd[2..], &yd[2..])?;
    let (depth, taps) = (wd[1], axes[0].kernel * axes[1].kernel);
    let at = |c: usize, tap: usize, d: usize| (c * depth + d) * taps + tap;
    let layout = Layout { channels: wd[0], groups, depth, taps, axis: 0, at: &at, alpha: 1.0, beta: 1.0, offset: 0 };
    let stuffing = axes.map(|a| Stuffing { before: a.before as i64, extent: a.seen(), stride: 1 });
    if depth == 1 && wd[0] == groups && groups > 1 {
        return depthwise::lower(builder, node, &layout, xd[0], axes);
    }
    let framed = axes.iter().any(Axis::is_padded).then_some(stuffing);
    run(builder, node, &layout, (xd[0], axes, false), framed)
}

/// How an axis of x is laid into a larger image: `before` elements in front (below 0: as many are cut off), a distance of
/// `stride` from element to element, `extent` in all.
#[derive(Clone, Copy)]
pub(super) struct Stuffing {
    pub before: i64,
    pub extent: usize,
    pub stride: usize,
}

/// The product behind a convolution of any kind: x in its frame, weights, launch.
pub(super) fn run(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (batch, axes, backwards): (usize, [Axis; 2], bool),
    framed: Option<[Stuffing; 2]>,
) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let ty = builder.ty(x);
    let end = End::of(builder, node)?;
    let lanes = 4 / element_bytes(ty.dtype)?;
    let (terms, factor, zero) = if is_typed(builder, node)? {
        let bytes = Bytes::of(ty)?;
        (Terms::Bytes(bytes, None), factor::bytes(builder, node, layout, bytes, &end)?, bytes.zero_word())
    } else {
        let shape = (lanes, framed.is_some());
        (Terms::Floats(ty.dtype as u32), factor::floats(builder, node, layout, shape, &end)?, 0)
    };
    let xd = builder.dims(x)?;
    let (height, width) = (if xd.len() == 4 { xd[2] } else { 1 }, xd[xd.len() - 1]);
    let from = builder.read(x, Form::Image)?;
    let mut image = Image { x: from, batch, height, width, pixel_words: row_words(ty, Form::Image)? };
    if let Some(stuffing) = framed {
        image = frame(builder, image, stuffing, zero)?;
    }
    let mask = if layout.groups == 1 { last_mask(layout.depth, lanes) } else { u32::MAX };
    let to = builder.write(y, Form::Image)?;
    let stride = row_words(builder.ty(y), Form::Image)?;
    let plan = Plan {
        image,
        terms,
        axes,
        backwards,
        w: factor.w,
        layers: factor.layers,
        words: factor.words,
        mask,
        table: factor.channels,
        channels: layout.channels,
        products: &[],
    };
    plan.launch(builder, &end, Form::Image, stride, to)
}

/// Bits of the last word of a row of elements that are not padding.
pub(super) fn last_mask(elements: usize, lanes: usize) -> u32 {
    let real = (elements + lanes - 1) % lanes + 1;
    if real == lanes { u32::MAX } else { (1 << (32 / lanes * real)) - 1 }
}

/// The image with zeros around, and between its elements.
fn frame(builder: &mut Builder<'_>, image: Image, [h, w]: [Stuffing; 2], zero: u32) -> Result<Image> {
    let words = h.extent.checked_mul(w.extent).and_then(|n| n.checked_mul(image.pixel_words * image.batch));
    let words = words.filter(|n| *n <= (i32::MAX / 4) as usize);
    let words = words.ok_or_else(|| Error::unsupported(ottava_hal::Reason::Memory, "a padded image of 2^31 bytes"))?;
    let to: Buf = builder.scratch(4 * words)?;
    let before = |s: Stuffing| s.before as i32 as u32;
    let line = w.extent * image.pixel_words;
    let (words, lines) = (image.pixel_words as u32, h.extent * image.batch);
    let params = [
        words,
        image.height as u32,
        image.width as u32,
        h.extent as u32,
        w.extent as u32,
        before(h),
        before(w),
        zero,
        h.stride as u32,
        w.stride as u32,
    ];
    builder.launch(&Launch {
        kernel: "frame",
        defines: &[],
        spec: &[],
        params: &params,
        inputs: &[image.x],
        output: to,
        items: [line, lines, 1],
        local: None,
    })?;
    Ok(Image { x: to, height: h.extent, width: w.extent, ..image })
}
