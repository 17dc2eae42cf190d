//! `ottava.Requantize`, `Relu` and `Clip`: other parameters, and a clamp behind them.

use super::{clamped, input, output, params_of, same_elements};
use crate::lower::{Builder, Chip, Convert, Params, Piece, Pieces};
use crate::rows::{constant, element};
use ottava_hal::capability::Operand;
use ottava_hal::refmath::dequantize;
use ottava_hal::refmath::tflite::TfliteRequant;
use ottava_hal::{DataType, Error, Node, Reason, RequantMode, Result, Tensor};

/// The value, and the bounds of Clip.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), constant(&[DataType::F32, DataType::S8, DataType::U8])]
}

/// Other parameters.
pub(crate) fn requantize(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let to = clamped(builder, node)?;
    let Some(mode) = node.requant.filter(|mode| *mode != RequantMode::Fp32Rne) else {
        return convert(builder, node, to);
    };
    let from = params_of(builder, input(node, 0)?)?;
    let constants = TfliteRequant::new(mode, from.affine(), to.target());
    constants.map_err(|e| Error::unsupported(Reason::QuantScheme, e.to_string()))?;
    each(builder, node, Convert::Fixed { from, to, mode })
}

/// `max(q, zp)` in the output's parameters.
pub(crate) fn relu(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let to = clamped(builder, node)?;
    convert(builder, node, Params { lo: to.zp.clamp(to.lo, to.hi), ..to })
}

/// `Q(clip(x, a, b)) = clip(Q(x), Q(a), Q(b))`; where the bounds cross, the upper one wins.
pub(crate) fn clip(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (open, to) = (params_of(builder, output(node)?)?, clamped(builder, node)?);
    let lo = bound(builder, node, 1, &open)?.unwrap_or(open.lo);
    let hi = bound(builder, node, 2, &open)?.unwrap_or(open.hi);
    let within = |q: i32| q.clamp(to.lo, to.hi);
    convert(builder, node, Params { lo: within(lo.min(hi)), hi: within(hi), ..to })
}

/// Bound `i` in the output's parameters; NaN is no bound.
fn bound(builder: &Builder<'_>, node: &Node, i: usize, to: &Params) -> Result<Option<i32>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    let needed = || Error::unsupported(Reason::ConstRequired, format!("bound {i} must be constant"));
    let data: &Tensor = builder.constant(id).ok_or_else(needed)?;
    let quant = builder.ty(id).quant.as_deref();
    let real = match (data.dtype(), quant.map(|q| q.channel(0))) {
        (DataType::F32, None) => data.as_slice::<f32>()?.first().copied(),
        (_, Some((scale, zp))) => data.to_ints()?.first().map(|&q| dequantize(q as i32, zp, scale)),
        _ => None,
    };
    match real.filter(|_| data.elements() == 1) {
        Some(real) => Ok(Some(to.target().quantize(real)).filter(|_| !real.is_nan())),
        None => Err(Error::unsupported(Reason::AttrValue, format!("bound {i} is {}, expected one number", data.ty()))),
    }
}

fn convert(builder: &mut Builder<'_>, node: &Node, to: Params) -> Result<()> {
    let from = params_of(builder, input(node, 0)?)?;
    each(builder, node, Convert::Rescale { from, to })
}

fn each(builder: &mut Builder<'_>, node: &Node, convert: Convert) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let form = builder.form_of(x);
    let bytes = same_elements(builder, x, y)?;
    let (at, into) = (builder.want(x, form)?, builder.make(y, form)?);
    let piece = Piece::converted(at, into, bytes, convert);
    let step = Pieces::new(builder.chip, vec![piece], None)?;
    builder.step(vec![at], into, step);
    Ok(())
}
