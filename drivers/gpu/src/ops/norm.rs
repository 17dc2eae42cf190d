//! LayerNormalization and RMSNormalization: the f32 sequence, and `layernorm_int` (numerics.md section 6, with 64-bit
//! integers). Scale and offset are constants.

use super::lines::{Along, Lines, Team};
use super::rows::{float, float_constant, integer, row};
use super::types::{axis_of, bound, code, constant_floats, one_scale, range, refuse, target, word};
use super::{input, output};
use crate::Target;
use crate::builder::{Buf, Builder, Launch};
use ottava_hal::capability::{FusedSupport, Operand, QuantKind};
use ottava_hal::refmath::layernorm::{LayerNormInt, NormKind, layernorm_gain, layernorm_offset};
use ottava_hal::{DataType, Node, OpRow, Reason, Result};

/// Rows of normalizations.
pub(super) fn rows(target: &Target) -> Vec<OpRow> {
    let bytes = Operand { dtypes: vec![DataType::S8, DataType::U8], ..integer() };
    let parameter = || Operand { optional: true, ..float_constant() };
    let dtypes = [float().dtypes, integer().dtypes, vec![DataType::S32]].concat();
    let quant = vec![QuantKind::Plain, QuantKind::PerTensor];
    let any = Operand { dtypes, quant, constant: true, optional: true };
    let fused = FusedSupport { clamp: true, ..FusedSupport::default() };
    vec![row(target, vec![float(), parameter()], float()), OpRow { fused, ..row(target, vec![integer(), any], bytes) }]
}

/// Scale and offset as buffers, and which are there.
struct Parameters {
    gains: Buf,
    offsets: Buf,
    flags: u32,
}

/// What the integer form adds to the parameters of a launch.
struct Integer {
    norm: LayerNormInt,
    zx: i32,
}

/// One launch, and moves of the rows where they do not lie together.
pub(super) fn lower(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    let (from_ty, ty, rank) = (builder.ty(x), builder.ty(y), builder.dims(x)?.len());
    if rank == 0 {
        return refuse(Reason::Rank, "a scalar is normalized");
    }
    let along = Along::From(axis_of(node.attrs.int("axis", -1)?, rank)?);
    let (from, to) = (Lines::of(builder, x, along)?, Lines::of(builder, y, along)?);
    let centred = node.op == "LayerNormalization";
    let eps = node.attrs.float("epsilon", 1e-5)?;
    let integer = if ty.quant.is_some() { Some(integer_form(builder, node, (centred, eps), from.n)?) } else { None };
    if integer.is_none() && from_ty.dtype != ty.dtype {
        return refuse(Reason::Dtype, "a normalization from one type to another");
    }
    let parameters = match &integer {
        None => float_parameters(builder, node, centred, from.n)?,
        Some(_) => integer_parameters(builder, node, centred, from.n)?,
    };
    let team = Team::of(builder, from.rows, from.n, integer.is_none())?;
    let (source, result) = (from.read(builder, x)?, to.write(builder, y)?);
    let mut params = vec![word(from.rows)?, word(from.n)?, team.size, u32::from(centred), code(from_ty), code(ty)];
    params.extend([word(from.words)?, word(to.words)?, eps.to_bits(), parameters.flags]);
    match &integer {
        None => params.extend([0; 7]),
        Some(Integer { norm, zx }) => {
            let (lo, hi) = range(node, ty);
            params.extend([*zx as u32, norm.target.zp as u32, lo as u32, hi as u32, norm.fraction]);
            params.extend([norm.eps_term as u32, (norm.eps_term >> 32) as u32]);
        }
    }
    builder.launch(&Launch {
        kernel: "norm",
        defines: if integer.is_some() { &["WIDE"] } else { &[] },
        spec: &[],
        params: &params,
        inputs: &[source, parameters.gains, parameters.offsets],
        output: result,
        items: [team.items, 1, 1],
        local: Some(team.local),
    })?;
    to.finish(builder, y, result)
}

fn integer_form(builder: &Builder<'_>, node: &Node, (centred, eps): (bool, f32), n: usize) -> Result<Integer> {
    if !builder.target.int64 {
        return refuse(Reason::Dtype, "the device has no 64-bit integers");
    }
    let (from, y) = (builder.ty(input(node, 0)?), builder.ty(output(node)?));
    let (x, to, n) = (one_scale(from)?, target(node, y)?, word(n)?);
    let kind = if centred { NormKind::Layer } else { NormKind::Rms { zx: x.zp } };
    let norm = match from.dtype.bits() {
        8 => LayerNormInt::new(kind, n, x.scale, eps, to),
        _ => LayerNormInt::wide(kind, n, x.scale, eps, to),
    };
    Ok(Integer { norm: norm.map_err(bound)?, zx: x.zp })
}

/// One value per element of a row from the constant in input `i`.
fn per_element(builder: &Builder<'_>, node: &Node, i: usize, n: usize) -> Result<Option<Vec<f32>>> {
    let Some(id) = node.input(i) else { return Ok(None) };
    let values = constant_floats(builder, id, "a scale or offset")?;
    match values.len() {
        1 => Ok(Some(vec![values[0]; n])),
        len if len == n => Ok(Some(values)),
        len => refuse(Reason::ShapeLimit, format!("{len} scales or offsets for rows of {n}")),
    }
}

fn float_parameters(builder: &mut Builder<'_>, node: &Node, centred: bool, n: usize) -> Result<Parameters> {
    let gamma = per_element(builder, node, 1, n)?;
    let beta = if centred { per_element(builder, node, 2, n)? } else { None };
    let flags = u32::from(gamma.is_some()) + 2 * u32::from(beta.is_some());
    let bits = |v: Option<Vec<f32>>| v.unwrap_or_else(|| vec![0.0]).into_iter().map(f32::to_bits).collect::<Vec<_>>();
    Ok(Parameters { gains: builder.words(&bits(gamma))?, offsets: builder.words(&bits(beta))?, flags })
}

fn integer_parameters(builder: &mut Builder<'_>, node: &Node, centred: bool, n: usize) -> Result<Parameters> {
    let scale = one_scale(builder.ty(output(node)?))?.scale;
    let gamma = per_element(builder, node, 1, n)?.unwrap_or_else(|| vec![1.0; n]);
    let beta = if centred { per_element(builder, node, 2, n)? } else { None };
    let flags = 1 + 2 * u32::from(beta.is_some());
    let mut gains = Vec::with_capacity(n);
    for g in gamma {
        gains.push(layernorm_gain(g, scale).map_err(bound)? as u32);
    }
    let mut offsets = vec![];
    for b in beta.unwrap_or_else(|| vec![0.0]) {
        let offset = layernorm_offset(b, scale).map_err(bound)?;
        offsets.extend([offset as u32, (offset >> 32) as u32]);
    }
    Ok(Parameters { gains: builder.words(&gains)?, offsets: builder.words(&offsets)?, flags })
}
