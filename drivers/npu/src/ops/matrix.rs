//! `Gemm` and `MatMul` with constant second factors.

use super::constants::{Layout, pack, residual};
use super::{bad_shape, input, output, params_of};
use crate::lower::{Builder, Chip, Form, Plan, Product, Source};
use crate::rows::{bias, byte, weight};
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, Result};

/// Rows, weights, bias.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![byte(chip), weight(chip), bias()]
}

/// `alpha * A * B' + C`.
pub(crate) fn gemm(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let bad = |what: &str| Err(Error::unsupported(Reason::AttrValue, what.to_owned()));
    if node.attrs.int("transA", 0)? != 0 {
        return bad("transA is set, supported: rows of A as they are");
    }
    if node.attrs.float("beta", 1.0)? != 1.0 && has_bias(node) {
        return bad("beta is not 1");
    }
    let trans_b = node.attrs.int("transB", 0)? != 0;
    let alpha = node.attrs.float("alpha", 1.0)?;
    let (xd, wd) = (builder.dims(input(node, 0)?)?, builder.dims(input(node, 1)?)?);
    let (&[m, k], &[w0, w1]) = (xd.as_slice(), wd.as_slice()) else {
        return Err(bad_shape(format!("Gemm of {xd:?} and {wd:?}, expected matrices")));
    };
    let (kb, n) = if trans_b { (w1, w0) } else { (w0, w1) };
    if kb != k {
        return Err(bad_shape(format!("Gemm of {xd:?} and {wd:?} shares no extent")));
    }
    let at = |c: usize, i: usize| if trans_b { c * k + i } else { i * n + c };
    lower(builder, node, m, &Layout { channels: n, groups: 1, k, axis: usize::from(!trans_b), at: &at, alpha })
}

/// Whether input 2 is the product's own.
fn has_bias(node: &Node) -> bool {
    node.input(2).is_some() && node.inputs.len() > 2 + usize::from(node.fused.residual)
}

/// Rows of any rank times a matrix.
pub(crate) fn matmul(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (xd, wd) = (builder.dims(input(node, 0)?)?, builder.dims(input(node, 1)?)?);
    let [lead @ .., kb, n] = wd.as_slice() else {
        return Err(Error::unsupported(Reason::Rank, "a second factor of rank 1, supported: matrices"));
    };
    let (n, axis) = (*n, wd.len() - 1);
    let shared = xd.last().is_some_and(|k| k == kb);
    if !shared || lead.iter().any(|&d| d != 1) || lead.len() + 2 > xd.len().max(2) {
        return Err(bad_shape(format!("MatMul of {xd:?} and {wd:?}, supported: one matrix for all rows")));
    }
    let m = xd[..xd.len() - 1].iter().product();
    let at = |c: usize, i: usize| i * n + c;
    lower(builder, node, m, &Layout { channels: n, groups: 1, k: *kb, axis, at: &at, alpha: 1.0 })
}

fn lower(builder: &mut Builder<'_>, node: &Node, m: usize, layout: &Layout<'_>) -> Result<()> {
    let (x, y) = (input(node, 0)?, output(node)?);
    if builder.dims(y)?.iter().product::<usize>() != m * layout.channels {
        return Err(bad_shape(format!("{m} rows of {} to {:?}", layout.channels, builder.dims(y)?)));
    }
    let constants = pack(builder, node, layout)?;
    let x_params = params_of(builder, x)?;
    let from = builder.want(x, Form::Plain)?;
    let residual = residual(builder, node, Form::Plain)?;
    let to = builder.make(y, Form::Plain)?;
    let (source, n, k) = (Source::Rows { pitch: layout.k }, layout.channels, layout.k);
    let step =
        Product { source, x: from, x_params, constants, to, residual, groups: 1, m, n, k, tiles: Plan::default() };
    let step = step.plan(builder.chip)?;
    let reads = std::iter::once(from).chain(residual.map(|r| r.0)).collect();
    builder.step(reads, to, step);
    Ok(())
}
