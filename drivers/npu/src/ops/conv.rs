//! `Conv` in one and two dimensions: as a product on the array, grouped or not, or as a depthwise convolution.

use super::constants::{Layout, pack, residual};
use super::{bad_shape, input, output, params_of};
use crate::lower::{
    Batch, Builder, Chip, Constants, Depthwise, Form, Geometry, InPlace, Plan, Product, Source, window,
};
use crate::rows::{bias, element, weight};
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, Result};

/// Image, weights, bias.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), weight(chip), bias()]
}

/// The sizes of a convolution.
struct Shape {
    /// Images, windows, and output channels per input channel of a depthwise one.
    geometry: Geometry,
    groups: usize,
    /// Output channels.
    channels: usize,
    /// Input channels of a group.
    per_group: usize,
}

/// Adds the steps of a convolution.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let shape = shape(builder, node)?;
    let Shape { geometry, groups, channels, per_group } = shape;
    let wide = builder.size(input(node, 0)?) > 1;
    let depthwise = !wide
        && per_group == 1
        && groups > 1
        && !node.fused.residual
        && Depthwise::size(builder.chip, &geometry).is_some();
    let (kh, kw) = (geometry.h.kernel, geometry.w.kernel);
    // The sum runs over (kernel row, kernel column, channel).
    let at = |c: usize, k: usize| ((c * per_group + k % per_group) * kh + k / per_group / kw) * kw + k / per_group % kw;
    let (k, packed_groups) = (per_group * kh * kw, if depthwise { 1 } else { groups });
    let layout = Layout { channels, groups: packed_groups, k, axis: 0, at: &at, alpha: 1.0 };
    let constants = pack(builder, node, &layout)?;
    if depthwise {
        per_channel(builder, node, geometry, constants)
    } else {
        product(builder, node, &shape, k, constants)
    }
}

fn shape(builder: &Builder<'_>, node: &Node) -> Result<Shape> {
    let [xd, wd, yd] = [input(node, 0)?, input(node, 1)?, output(node)?].map(|id| builder.dims(id));
    let (xd, wd, yd) = (xd?, wd?, yd?);
    let groups = usize::try_from(node.attrs.int("group", 1)?).unwrap_or(0);
    let fits = (3..=4).contains(&xd.len())
        && wd.len() == xd.len()
        && yd.len() == xd.len()
        && groups > 0
        && wd[1].checked_mul(groups) == Some(xd[1])
        && wd[0].is_multiple_of(groups)
        && (yd[0], yd[1]) == (xd[0], wd[0]);
    if !fits {
        return Err(bad_shape(format!("{xd:?} with weights {wd:?} in {groups} groups to {yd:?}")));
    }
    let [h, w] = window(&node.attrs, Some(&wd[2..]), &xd[2..], &yd[2..])?;
    let geometry = Geometry { batch: xd[0], h, w, channels: xd[1], multiplier: wd[0] / groups };
    Ok(Shape { geometry, groups, channels: wd[0], per_group: wd[1] })
}

fn per_channel(builder: &mut Builder<'_>, node: &Node, geometry: Geometry, constants: Constants) -> Result<()> {
    let x = input(node, 0)?;
    let x_params = params_of(builder, x)?;
    let (from, to) = (builder.want(x, Form::Last)?, builder.make(output(node)?, Form::Last)?);
    let step = Depthwise::new(builder.chip, geometry, (from, x_params), constants, to)?;
    builder.step(vec![from], to, step);
    Ok(())
}

fn product(builder: &mut Builder<'_>, node: &Node, shape: &Shape, k: usize, constants: Constants) -> Result<()> {
    let Geometry { batch, h, w, channels, .. } = shape.geometry;
    let x = input(node, 0)?;
    let x_params = params_of(builder, x)?;
    let from = builder.want(x, Form::Last)?;
    let residual = residual(builder, node, Form::Last)?;
    let to = builder.make(output(node)?, Form::Last)?;
    let plain = h.is_identity() && w.is_identity();
    if !plain && x_params.bytes() > 1 && x_params.zp != 0 {
        return Err(Error::unsupported(Reason::QuantScheme, "16-bit images with a zero point other than 0"));
    }
    let source = if plain { Source::Rows { pitch: channels } } else { Source::Image { h, w, channels } };
    let (m, n) = (batch * h.output * w.output, shape.channels / shape.groups);
    let batch = Batch::Groups(shape.groups);
    let step = Product {
        source,
        x: from,
        x_params,
        constants,
        to,
        residual,
        batch,
        m,
        n,
        k,
        tiles: Plan::default(),
        in_place: InPlace::default(),
    };
    let step = step.plan(builder.chip)?;
    let reads = std::iter::once(from).chain(residual.map(|r| r.0)).collect();
    builder.step(reads, to, step);
    Ok(())
}
