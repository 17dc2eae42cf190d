//! `MaxPool` on the integers; both sides have the same parameters.

use super::{bad_shape, input, output, params_of};
use crate::lower::{Axis, Builder, Chip, Epilogue, Form, Geometry, Kind, Pool, clamp_of, window};
use crate::rows::byte;
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, RequantMode, Result};

/// The image.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip)]
}

/// Images and windows of a pool node. Every window touches the image.
pub(super) fn geometry(builder: &Builder<'_>, node: &Node) -> Result<Geometry> {
    let (xd, yd) = (builder.dims(input(node, 0)?)?, builder.dims(output(node)?)?);
    if !(3..=4).contains(&xd.len()) || yd.len() != xd.len() || xd[..2] != yd[..2] {
        return Err(bad_shape(format!("a pool from {xd:?} to {yd:?}")));
    }
    let [h, w] = window(&node.attrs, None, &xd[2..], &yd[2..])?;
    let empty = |a: &Axis| (0..a.output).any(|o| a.taps(o) == 0);
    if empty(&h) || empty(&w) {
        return Err(Error::unsupported(Reason::AttrValue, "a window that lies in the padding"));
    }
    Ok(Geometry { batch: xd[0], h, w, channels: xd[1], multiplier: 1 })
}

/// Adds the step.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (params_of(builder, x)?, params_of(builder, y)?);
    if from != to {
        let what = "a maximum between different parameters; requantize before it";
        return Err(Error::unsupported(Reason::QuantScheme, what));
    }
    let geometry = geometry(builder, node)?;
    let (lo, hi) = clamp_of(node, &to)?;
    let epilogue = Epilogue { mode: RequantMode::Fp32Rne, out: crate::lower::Params { lo, hi, ..to } };
    let (at, into) = (builder.want(x, Form::Last)?, builder.make(y, Form::Last)?);
    let step = Pool::new(builder.chip, Kind::Max, geometry, (at, from), (into, epilogue))?;
    builder.step(vec![at], into, step);
    Ok(())
}
