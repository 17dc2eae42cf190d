//! `Conv` in one and two dimensions: as a product on the array, grouped or not, or as a depthwise convolution.

use super::constants::{Layout, pack};
use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Chip, Constants, Depthwise, Form, Geometry, Product, Source, window};
use crate::rows::{byte, constant, weight};
use ottava_hal::capability::Operand;
use ottava_hal::{DataType, Node, Result};

/// Image, weights, bias.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip), weight(chip), constant(&[DataType::S32, DataType::F32])]
}

/// Adds the steps of a convolution.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, w, y) = (input(node, 0)?, input(node, 1)?, output(node)?);
    let (xd, wd, yd) = (builder.dims(x)?, builder.dims(w)?, builder.dims(y)?);
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
    let [h, w_axis] = window(&node.attrs, Some(&wd[2..]), &xd[2..], &yd[2..])?;
    let (kh, kw, per_group) = (h.kernel, w_axis.kernel, wd[1]);
    // The sum runs over (kernel row, kernel column, channel).
    let at = |c: usize, k: usize| ((c * per_group + k % per_group) * kh + k / per_group / kw) * kw + k / per_group % kw;
    let k = per_group * kh * kw;
    let depthwise = per_group == 1 && groups > 1;
    let pack_groups = if depthwise { 1 } else { groups };
    let layout = Layout { channels: wd[0], groups: pack_groups, k, axis: 0, at: &at, alpha: 1.0 };
    let packed = pack(builder, node, &layout)?;
    let x_params = params_of(builder, x)?;
    let from = builder.want(x, Form::Last)?;
    let to = builder.make(y, Form::Last)?;
    if depthwise {
        let geometry = Geometry { batch: xd[0], h, w: w_axis, channels: xd[1], multiplier: wd[0] / groups };
        let constants =
            Constants { weights: packed.weights, w_dtype: packed.w_dtype, w_zp: packed.w_zp, table: packed.table };
        let step = Depthwise::new(builder.chip, geometry, (from, x_params), constants, (to, packed.epilogue))?;
        builder.step(vec![from], to, step);
        return Ok(());
    }
    let plain = h.is_identity() && w_axis.is_identity();
    let source = if plain { Source::Rows { pitch: xd[1] } } else { Source::Image { h, w: w_axis, channels: xd[1] } };
    let step = Product {
        source,
        x: from,
        x_params,
        weights: packed.weights,
        w_dtype: packed.w_dtype,
        w_zp: packed.w_zp,
        table: packed.table,
        to,
        epilogue: packed.epilogue,
        groups,
        m: xd[0] * h.output * w_axis.output,
        n: wd[0] / groups,
        k,
        tiles: Default::default(),
    };
    let step = step.plan(builder.chip)?;
    builder.step(vec![from], to, step);
    Ok(())
}
