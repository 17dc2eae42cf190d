//! `MaxPool` on the integers; both sides have the same parameters.

use super::{bad_shape, input, output, params_of};
use crate::lower::{Axis, Builder, Chip, Epilogue, Form, Geometry, Kind, Params, Pool, clamp_of, window};
use crate::rows::byte;
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, RequantMode, Result};
use ottava_npu::program::Sums;

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

/// A window of the node's own.
pub(crate) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let geometry = geometry(builder, node)?;
    pool(builder, node, geometry)
}

/// One window over each whole plane.
pub(crate) fn global(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let dims = builder.dims(input(node, 0)?)?;
    let &[batch, channels, ref spatial @ ..] = dims.as_slice() else {
        return Err(bad_shape(format!("a global pool of {dims:?}")));
    };
    if builder.dims(output(node)?)?.iter().product::<usize>() != batch * channels {
        return Err(bad_shape(format!("a global pool of {dims:?} to more than one element of each plane")));
    }
    // Rows of a plane may be joined: the window is the whole of it.
    let n = spatial.iter().product();
    let w = Axis { input: n, kernel: n, ..Axis::UNIT };
    w.check_sizes()?;
    pool(builder, node, Geometry { batch, h: Axis::UNIT, w, channels, multiplier: 1 })
}

fn pool(builder: &mut Builder<'_>, node: &Node, geometry: Geometry) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from, to) = (params_of(builder, x)?, params_of(builder, y)?);
    if from != to {
        let what = "a maximum between different parameters; requantize before it";
        return Err(Error::unsupported(Reason::QuantScheme, what));
    }
    let (lo, hi) = clamp_of(node, &to)?;
    let epilogue =
        Epilogue { mode: RequantMode::Fp32Rne, out: Params { lo, hi, ..to }, real: false, sums: Sums::Narrow };
    let (at, into) = (builder.want(x, Form::Last)?, builder.make(y, Form::Last)?);
    let step = Pool::new(builder.chip, Kind::Max, geometry, (at, from), (into, epilogue))?;
    builder.step(vec![at], into, step);
    Ok(())
}
