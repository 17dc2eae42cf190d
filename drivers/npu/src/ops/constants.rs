//! Constants of products: weights in the array's order, biases and multipliers per channel, and the bounds that make
//! 32-bit sums exact (numerics.md sections 3 to 5). A second factor that is computed has no constants but its table.

use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Constants, Epilogue, Form, Loc, Params, Table};
use ottava_hal::refmath::bias::{adopt_bias, bias_s32_real};
use ottava_hal::refmath::bounds::{ActivationRange, channel_bounds, max_operand};
use ottava_hal::refmath::requant::Multiplier;
use ottava_hal::refmath::{AccBounds, ScaleProduct};
use ottava_hal::{DataType, Error, Node, QuantParams, Reason, RequantMode, Result, Scheme, Tensor};
use ottava_npu::isa::Dtype;
use ottava_npu::program::Sums;

/// How the weight tensor is read.
pub(crate) struct Layout<'l> {
    /// Output channels.
    pub channels: usize,
    /// Groups of them.
    pub groups: usize,
    /// Length of the sums.
    pub k: usize,
    /// The axis of the tensor that is the channel.
    pub axis: usize,
    /// Where the weight of (channel, index of the sum) lies.
    pub at: &'l dyn Fn(usize, usize) -> usize,
    /// Gemm's alpha.
    pub alpha: f32,
}

/// Packs weights, bias (input 2) and multipliers of a node, or says why the array cannot be exact.
pub(crate) fn pack(builder: &mut Builder<'_>, node: &Node, layout: &Layout<'_>) -> Result<Constants> {
    let (x, w, y) = (params_of(builder, input(node, 0)?)?, input(node, 1)?, params_of(builder, output(node)?)?);
    let mut epilogue = Epilogue::of(builder.chip, node, y)?;
    let (ty, constant) = (builder.ty(w), |what: &str| Error::unsupported(Reason::ConstRequired, what.to_owned()));
    let data = builder.constant(w).ok_or_else(|| constant("the weights must be constant"))?;
    let quant = ty.quant.as_deref().ok_or_else(|| Error::invalid("the weights are not quantized"))?;
    check_axis(quant, layout.axis)?;
    let (w_dtype, w_zp) = storage(ty.dtype, quant)?;
    check_type_bound(layout.k, &x, w_dtype, w_zp)?;
    let codes = codes(data)?;
    let bias = biases(builder, node, layout, x.scale, (quant, epilogue.out.dtype == Dtype::F32))?;
    let product = node.scale_product(builder.ty(input(node, 0)?).dtype, quant.scales.len());
    let range = ActivationRange { qmin: x.lo, qmax: x.hi, zx: x.zp };
    let bounds = |c: usize| {
        let weights = (0..layout.k).map(|k| i32::from(codes[(layout.at)(c, k)]));
        channel_bounds(weights, w_zp, range, bias[c].0)
    };
    epilogue.sums = sums(builder, node, &x, &epilogue, || (0..layout.channels).all(|c| bounds(c).fits_i32()));
    let table = table(&bias, layout, (x.scale, quant), (&epilogue, product), bounds)?;
    let per_group = layout.channels / layout.groups;
    let mut bytes = Vec::with_capacity(codes.len());
    for group in 0..layout.groups {
        for k in 0..layout.k {
            bytes.extend((0..per_group).map(|n| codes[(layout.at)(group * per_group + n, k)] as u8));
        }
    }
    let weights = builder.pack(&bytes)?;
    let table = table.pack(builder)?;
    Ok(Constants { weights, dtype: w_dtype, zp: w_zp, table, epilogue })
}

/// The constants of products whose second factor is at `weights`, matrices of `layout.k` rows: one scale, bounds by type.
pub(crate) fn unpacked(builder: &mut Builder<'_>, node: &Node, layout: &Layout<'_>, weights: Loc) -> Result<Constants> {
    let (x, w, y) = (params_of(builder, input(node, 0)?)?, input(node, 1)?, params_of(builder, output(node)?)?);
    let mut epilogue = Epilogue::of(builder.chip, node, y)?;
    let ty = builder.ty(w);
    let quant = ty.quant.as_deref().ok_or_else(|| Error::invalid("the second factor is not quantized"))?;
    check_axis(quant, layout.axis)?;
    let (dtype, zp) = storage(ty.dtype, quant)?;
    let largest = check_type_bound(layout.k, &x, dtype, zp)?;
    let bias = biases(builder, node, layout, x.scale, (quant, epilogue.out.dtype == Dtype::F32))?;
    let product = node.scale_product(builder.ty(input(node, 0)?).dtype, quant.scales.len());
    let bounds = |c: usize| AccBounds { min: i64::from(bias[c].0) - largest, max: i64::from(bias[c].0) + largest };
    let fits = (0..layout.channels).all(|c| bounds(c).fits_i32());
    epilogue.sums = sums(builder, node, &x, &epilogue, || fits);
    // Whether 32 bits would do is then a matter of the data, and with it the rounding.
    let open = epilogue.mode == RequantMode::Fp32Rne && !epilogue.real && builder.constant(w).is_none();
    if epilogue.sums == Sums::Wide && open {
        let what = format!("a sum over {} products whose bound of {largest} leaves the rounding open", layout.k);
        return Err(Error::unsupported(Reason::AccOverflow, what));
    }
    let table = table(&bias, layout, (x.scale, quant), (&epilogue, product), bounds)?.pack(builder)?;
    Ok(Constants { weights, dtype, zp, table, epilogue })
}

/// How the accumulators of a product hold its sums: s16 rows need two each. A Q31 mode rounds them as 64 bits unless a
/// bias of 32 bits says otherwise; elsewhere that depends on whether 32 bits are proved to suffice.
fn sums(builder: &Builder<'_>, node: &Node, x: &Params, epilogue: &Epilogue, fits: impl Fn() -> bool) -> Sums {
    if x.dtype != Dtype::S16 {
        return Sums::Narrow;
    }
    let own = node.inputs.len().saturating_sub(usize::from(node.fused.residual));
    let bias = node.input(2).filter(|_| own > 2);
    let short = bias.is_some_and(|id| builder.ty(id).dtype != DataType::S64);
    let fixed = epilogue.mode != RequantMode::Fp32Rne && !epilogue.real && !short;
    if fixed || !fits() { Sums::Wide } else { Sums::Pairs }
}

/// The stored bytes of constant weights as they are; nibbles become bytes.
pub(crate) fn stored(data: &Tensor) -> Result<Vec<u8>> {
    Ok(codes(data)?.into_iter().map(|v| v as u8).collect())
}

/// The value that a product adds behind itself, in the order of its result.
pub(crate) fn residual(builder: &mut Builder<'_>, node: &Node, form: Form) -> Result<Option<(Loc, Params)>> {
    if !node.fused.residual {
        return Ok(None);
    }
    let (id, y) = (input(node, node.inputs.len().saturating_sub(1))?, output(node)?);
    let (found, expected) = (builder.dims(id)?, builder.dims(y)?);
    if found != expected {
        return Err(bad_shape(format!("a residual {found:?} of a result {expected:?}")));
    }
    let params = params_of(builder, id)?;
    if !builder.chip.elements().contains(&builder.ty(id).dtype) {
        let what = format!("a residual of {}, which the chip does not have", builder.ty(id).dtype);
        return Err(Error::unsupported(Reason::Dtype, what));
    }
    Ok(Some((builder.want(id, form)?, params)))
}

fn check_axis(quant: &QuantParams, axis: usize) -> Result<()> {
    match quant.scheme {
        Scheme::PerAxis { axis: found } if found != axis && quant.scales.len() > 1 => {
            let what = format!("scales along axis {found}, the operator's channel axis is {axis}");
            Err(Error::unsupported(Reason::QuantAxis, what))
        }
        Scheme::Blocked { .. } => Err(Error::unsupported(Reason::QuantScheme, "blocked weights")),
        _ => Ok(()),
    }
}

/// How the array names the weights, and their one zero point. Nibbles are held as bytes.
fn storage(dtype: DataType, quant: &QuantParams) -> Result<(Dtype, i32)> {
    let zp = quant.zero_points.first().copied().unwrap_or(0);
    if quant.zero_points.iter().any(|&z| z != zp) {
        return Err(Error::unsupported(Reason::QuantScheme, "weights with a zero point per channel; use one for all"));
    }
    match dtype {
        DataType::S8 | DataType::S4 => Ok((Dtype::S8, zp)),
        DataType::U8 => Ok((Dtype::U8, zp)),
        other => Err(Error::unsupported(Reason::Dtype, format!("weights of type {other}"))),
    }
}

/// The machine proves its sums from types alone; the bound.
fn check_type_bound(k: usize, x: &Params, w_dtype: Dtype, w_zp: i32) -> Result<i64> {
    let reach = |dtype: Dtype, zp: i32| {
        let bits = if dtype == Dtype::S16 { 16 } else { 8 };
        max_operand(bits, dtype != Dtype::U8, Some(zp.into()))
    };
    let largest = reach(x.dtype, x.zp).saturating_mul(reach(w_dtype, w_zp));
    let bound = i64::try_from(k).unwrap_or(i64::MAX).saturating_mul(largest);
    let (limit, bits) = if x.dtype == Dtype::S16 { ((1 << 47) - 1, 48) } else { (i64::from(i32::MAX), 32) };
    if bound <= limit {
        return Ok(bound);
    }
    let what = format!("a sum over {k} products of up to {largest} may reach {bound}; the array adds in {bits} bits");
    Err(Error::unsupported(Reason::AccOverflow, what))
}

/// The stored integers.
fn codes(data: &Tensor) -> Result<Vec<i16>> {
    Ok(match data.dtype() {
        DataType::S8 => data.as_slice::<i8>()?.iter().map(|&v| v.into()).collect(),
        DataType::U8 => data.bytes().iter().map(|&v| v.into()).collect(),
        _ => data.to_ints()?.into_iter().map(|v| v as i16).collect(),
    })
}

fn table(
    bias: &[(i32, f32)],
    layout: &Layout<'_>,
    (xs, quant): (f32, &QuantParams),
    (epilogue, product): (&Epilogue, ScaleProduct),
    bounds: impl Fn(usize) -> AccBounds,
) -> Result<Table> {
    let mut table = Table::default();
    for (c, &(bias, last)) in bias.iter().enumerate() {
        let multiplier = epilogue.multiplier((xs, quant.channel(c).0), layout.alpha, product)?;
        epilogue.check(multiplier, bounds(c))?;
        match multiplier {
            Multiplier::Fp32(m) if epilogue.out.dtype == Dtype::F32 => table.push_real(bias, m, last),
            _ => table.push(bias, multiplier),
        }
    }
    Ok(table)
}

/// Nothing to add to an f32: it keeps the sign of a zero.
const NOTHING: f32 = -0.0;

/// Per channel a bias at the accumulator's scale, and what is added to an f32 result (`real`) last.
fn biases(
    builder: &Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    xs: f32,
    (quant, real): (&QuantParams, bool),
) -> Result<Vec<(i32, f32)>> {
    let own = node.inputs.len().saturating_sub(usize::from(node.fused.residual));
    let Some(id) = node.input(2).filter(|_| own > 2) else { return Ok(vec![(0, NOTHING); layout.channels]) };
    let needed = || Error::unsupported(Reason::ConstRequired, "the bias must be constant");
    let data = builder.constant(id).ok_or_else(needed)?;
    let repeats = data.elements() == 1 && layout.channels > 1;
    let along_last = data.shape().last().is_some_and(|&n| n == layout.channels);
    if !(repeats || data.elements() == layout.channels && along_last) {
        let what = format!("a bias of shape {:?}, supported: one value per output channel", data.shape());
        return Err(Error::unsupported(Reason::ShapeLimit, what));
    }
    if repeats && quant.scales.len() > 1 {
        return Err(Error::unsupported(Reason::QuantScheme, "one bias for channels of several scales"));
    }
    let params = builder.ty(id).quant.as_deref();
    let one = |i: usize| match data.dtype() {
        DataType::F32 if real => Ok((0, data.as_slice::<f32>()?[i])),
        _ => bias(data, i, params, layout.alpha, xs, quant.channel(i).0).map(|b| (b, NOTHING)),
    };
    (0..layout.channels).map(|c| one(if repeats { 0 } else { c })).collect()
}

/// Element `i` of a bias (numerics.md section 4, "Bias").
fn bias(data: &Tensor, i: usize, params: Option<&QuantParams>, alpha: f32, xs: f32, ws: f32) -> Result<i32> {
    match data.dtype() {
        DataType::F32 => Ok(bias_s32_real(f64::from(data.as_slice::<f32>()?[i]) / f64::from(alpha), xs, ws)),
        DataType::S32 => {
            let b = data.as_slice::<i32>()?[i];
            Ok(params.map_or(b, |p| adopt_bias(b, p.channel(i).0 / alpha, xs, ws)))
        }
        DataType::S64 => {
            let b = data.as_slice::<i64>()?[i];
            let large = || Error::unsupported(Reason::AccOverflow, format!("a bias of {b}, the table holds 32 bits"));
            let b = i32::try_from(b).map_err(|_| large())?;
            Ok(params.map_or(b, |p| adopt_bias(b, p.channel(i).0 / alpha, xs, ws)))
        }
        other => Err(Error::unsupported(Reason::Dtype, format!("a bias of type {other}"))),
    }
}
