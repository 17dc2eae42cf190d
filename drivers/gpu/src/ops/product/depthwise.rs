//! Depthwise convolution: every channel has its own kernel. Four channels per invocation.

use super::super::{input, output};
use super::end::{End, row_words};
use super::factor::{self, Layout};
use super::operand::{Bytes, is_typed};
use super::plan::group;
use super::window::Axis;
use crate::Form;
use crate::builder::{Builder, Launch};
use ottava_hal::{Node, Result};

/// Rows that one invocation makes.
const ROWS: usize = 4;

/// Adds the launch.
pub(super) fn lower(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    batch: usize,
    axes: [Axis; 2],
) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let ty = builder.ty(x);
    let end = End::of(builder, node)?;
    // One word of bytes holds the tile's four channels; of floats each channel is a product of its own.
    let (terms, factor, flip, fill) = if is_typed(builder, node)? {
        let bytes = Bytes::of(ty)?;
        let factor = factor::channel_bytes(builder, node, layout, bytes, &end)?;
        (0, factor, bytes.flip(), bytes.zero_word() ^ bytes.flip())
    } else {
        (ty.dtype as u32, factor::channel_floats(builder, node, layout, &end)?, 0, 0)
    };
    let [h, w] = axes;
    let stride = row_words(builder.ty(y), Form::Image)?;
    let from = builder.read(x, Form::Image)?;
    let to = builder.write(y, Form::Image)?;
    let (end_params, other) = end.params(builder, Form::Image, stride)?;
    let rows = batch * h.output * w.output;
    let tiles = layout.channels.div_ceil(4);
    let numbers = [
        rows,
        tiles,
        factor.layers * h.kernel * w.kernel,
        1,
        layout.channels,
        row_words(ty, Form::Image)?,
        h.input,
        w.input,
        h.output,
        w.output,
        h.kernel,
        w.kernel,
        h.stride,
        w.stride,
        h.dilation,
        w.dilation,
        h.before,
        w.before,
    ];
    let mut params: Vec<u32> = numbers.iter().map(|&n| n as u32).collect();
    params.extend([flip, fill, u32::MAX, terms]);
    params.resize(32, 0);
    params.extend(end_params);
    let items = [tiles, rows.div_ceil(ROWS), 1];
    builder.launch(&Launch {
        kernel: "depthwise",
        defines: if terms == 0 { &[] } else { &["REAL"] },
        spec: &[end.code],
        params: &params,
        inputs: &[from, factor.w, factor.channels, other],
        output: to,
        items,
        local: Some(group(builder, items)),
    })
}
