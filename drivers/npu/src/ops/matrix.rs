//! `Gemm` and `MatMul`; the second factor of MatMul may be computed.

use super::constants::{Layout, pack, residual, stored, unpacked};
use super::{bad_shape, input, output, params_of};
use crate::lower::{Batch, Builder, Chip, Constants, Form, InPlace, Plan, Product, Source};
use crate::rows::{bias, element, factor};
use ottava_hal::capability::Operand;
use ottava_hal::{Error, Node, Reason, Result};

/// Rows, weights, bias.
pub(crate) fn inputs(chip: &Chip) -> Vec<Operand> {
    vec![element(chip), factor(chip), bias()]
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

/// Matrices of any rank: one second factor for all rows, or one for each matrix, constant or computed.
pub(crate) fn matmul(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let w = input(node, 1)?;
    let (xd, wd) = (builder.dims(input(node, 0)?)?, builder.dims(w)?);
    let ([lead_x @ .., m, k], [lead_w @ .., kb, n]) = (xd.as_slice(), wd.as_slice()) else {
        return Err(Error::unsupported(Reason::Rank, "a factor of rank 1, supported: matrices"));
    };
    if k != kb {
        return Err(bad_shape(format!("MatMul of {xd:?} and {wd:?} shares no extent")));
    }
    let (m, k, n, axis) = (*m, *k, *n, wd.len() - 1);
    let at = |c: usize, i: usize| i * n + c;
    let layout = Layout { channels: n, groups: 1, k, axis, at: &at, alpha: 1.0 };
    if lead_w.iter().all(|&d| d == 1) && lead_w.len() <= lead_x.len() {
        let rows = lead_x.iter().product::<usize>() * m;
        if builder.constant(w).is_some() {
            return lower(builder, node, rows, &layout);
        }
        return many(builder, node, rows, &layout, vec![(0, 0)]);
    }
    let Some(pairs) = pairs(lead_x, lead_w) else {
        return Err(bad_shape(format!("MatMul of {xd:?} and {wd:?}, whose leading axes do not repeat")));
    };
    many(builder, node, m, &layout, pairs)
}

/// Which matrices of either operand make each result: leading axes of extent 1 repeat. `None` where they do not fit, or
/// are too many.
fn pairs(a: &[usize], b: &[usize]) -> Option<Vec<(usize, usize)>> {
    let rank = a.len().max(b.len());
    let extent = |d: &[usize], i: usize| (i + d.len()).checked_sub(rank).map_or(1, |i| d[i]);
    let mut pairs = vec![(0, 0)];
    for i in 0..rank {
        let (x, y) = (extent(a, i), extent(b, i));
        let count = if x == 1 { y } else { x };
        if count != y && y != 1 {
            return None;
        }
        let each = |&(pa, pb): &(usize, usize)| {
            (0..count).map(move |j| (pa * x + if x == 1 { 0 } else { j }, pb * y + if y == 1 { 0 } else { j }))
        };
        if pairs.len().checked_mul(count)? > MAX_PAIRS {
            return None;
        }
        pairs = pairs.iter().flat_map(each).collect();
    }
    Some(pairs)
}

/// More matrices than this make no stream of a sensible length.
const MAX_PAIRS: usize = 1 << 20;

/// Products of matrices; the second factor stays in its own order.
fn many(
    builder: &mut Builder<'_>,
    node: &Node,
    m: usize,
    layout: &Layout<'_>,
    pairs: Vec<(usize, usize)>,
) -> Result<()> {
    let (w, y) = (input(node, 1)?, output(node)?);
    if builder.dims(y)?.iter().product::<usize>() != pairs.len() * m * layout.channels {
        return Err(bad_shape(format!("{} products {m} x {} to {:?}", pairs.len(), layout.channels, builder.dims(y)?)));
    }
    let weights = match builder.constant(w) {
        Some(data) => builder.pack(&stored(data)?)?,
        None if builder.ty(w).dtype.bits() < 8 => {
            return Err(Error::unsupported(Reason::ConstRequired, "a second factor of nibbles must be constant"));
        }
        None => builder.want(w, Form::Plain)?,
    };
    let constants = unpacked(builder, node, layout, weights)?;
    step(builder, node, (m, layout), constants, Batch::Pairs(pairs))
}

fn lower(builder: &mut Builder<'_>, node: &Node, m: usize, layout: &Layout<'_>) -> Result<()> {
    let y = output(node)?;
    if builder.dims(y)?.iter().product::<usize>() != m * layout.channels {
        return Err(bad_shape(format!("{m} rows of {} to {:?}", layout.channels, builder.dims(y)?)));
    }
    let constants = pack(builder, node, layout)?;
    step(builder, node, (m, layout), constants, Batch::Groups(1))
}

fn step(
    builder: &mut Builder<'_>,
    node: &Node,
    (m, layout): (usize, &Layout<'_>),
    constants: Constants,
    batch: Batch,
) -> Result<()> {
    let x = input(node, 0)?;
    let x_params = params_of(builder, x)?;
    let from = builder.want(x, Form::Plain)?;
    let residual = residual(builder, node, Form::Plain)?;
    let to = builder.make(output(node)?, Form::Plain)?;
    let (source, n, k) = (Source::Rows { pitch: layout.k }, layout.channels, layout.k);
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
    let reads = [from, constants.weights].into_iter().chain(residual.map(|r| r.0)).collect();
    builder.step(reads, to, step);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::pairs;

    #[test]
    fn leading_axes_repeat_like_in_numpy() {
        assert_eq!(pairs(&[2, 3], &[2, 3]).unwrap()[4], (4, 4));
        assert_eq!(pairs(&[2, 1], &[3]), Some(vec![(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]));
        assert_eq!(pairs(&[], &[2]), Some(vec![(0, 0), (0, 1)]));
        assert_eq!(pairs(&[2], &[3]), None);
        assert_eq!(pairs(&[0], &[1]), Some(vec![]));
    }
}
