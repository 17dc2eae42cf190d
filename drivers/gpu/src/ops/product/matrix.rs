//! `Gemm` and `MatMul`: the rows of x are the kernel's pixels. A second factor that is computed is packed by a kernel.

use super::super::{input, output};
use super::conv::last_mask;
use super::end::{End, row_words};
use super::factor::{self, Layout};
use super::operand::{Bytes, bad_shape, bias, is_typed};
use super::plan::{Image, Plan, Terms};
use super::window::Axis;
use crate::Form;
use crate::builder::{Buf, Builder, Launch};
use crate::form::{Stored, element_bytes};
use ottava_hal::{Error, Node, Reason, Result};

/// A product of matrices.
struct Shape {
    /// Rows of one product.
    m: usize,
    k: usize,
    n: usize,
    /// Which matrices of either operand make each result; empty: one product.
    pairs: Vec<(usize, usize)>,
    /// The second factor is stored as its transpose.
    transposed: bool,
    alpha: f32,
    beta: f32,
}

/// Adds the launches of Gemm.
pub(in super::super) fn gemm(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let trans_a = node.attrs.int("transA", 0)? != 0;
    let transposed = node.attrs.int("transB", 0)? != 0;
    let (alpha, beta) = (node.attrs.float("alpha", 1.0)?, node.attrs.float("beta", 1.0)?);
    let x = input(node, 0)?;
    let (xd, wd) = (builder.dims(x)?, builder.dims(input(node, 1)?)?);
    let (&[a0, a1], &[b0, b1]) = (xd.as_slice(), wd.as_slice()) else {
        return Err(bad_shape(format!("Gemm of {xd:?} and {wd:?}, expected matrices")));
    };
    let (m, k) = if trans_a { (a1, a0) } else { (a0, a1) };
    let (kb, n) = if transposed { (b1, b0) } else { (b0, b1) };
    if k != kb || builder.dims(output(node)?)? != [m, n] {
        return Err(bad_shape(format!("Gemm of {xd:?} and {wd:?}")));
    }
    let rows = if trans_a { turned(builder, node, (m, k))? } else { builder.read(x, Form::Rows)? };
    let beta = if bias(node).is_some() { beta } else { 1.0 };
    lower(builder, node, rows, &Shape { m, k, n, pairs: Vec::new(), transposed, alpha, beta })
}

/// The rows of A, which is stored as its transpose.
fn turned(builder: &mut Builder<'_>, node: &Node, (m, k): (usize, usize)) -> Result<Buf> {
    let x = input(node, 0)?;
    let bytes = element_bytes(builder.ty(x).dtype)?;
    let padded = k.next_multiple_of(4 / bytes);
    let from = builder.read(x, Form::Plain)?;
    let to = builder.scratch(m * padded * bytes)?;
    builder.relayout(&[(m, m, 1), (padded, k, m)], (from, 0), bytes, 0, to)?;
    Ok(to)
}

/// Adds the launches of MatMul.
pub(in super::super) fn matmul(builder: &mut Builder<'_>, node: &Node) -> Result<()> {
    let (x, w) = (input(node, 0)?, input(node, 1)?);
    let (mut xd, mut wd) = (builder.dims(x)?, builder.dims(w)?);
    let yd = builder.dims(output(node)?)?;
    let wrong = || bad_shape(format!("MatMul of {:?} and {:?} to {yd:?}", builder.ty(x), builder.ty(w)));
    let (vector_x, vector_w) = (xd.len() == 1, wd.len() == 1);
    if vector_x {
        xd.insert(0, 1);
    }
    if vector_w {
        wd.push(1);
    }
    let ([lead_x @ .., m, k], [lead_w @ .., kb, n]) = (xd.as_slice(), wd.as_slice()) else { return Err(wrong()) };
    let (mut m, k, n) = (*m, *k, *n);
    let mut pairs = pairs(lead_x, lead_w).ok_or_else(wrong)?;
    if k != *kb || yd.iter().product::<usize>() != pairs.len() * m * n {
        return Err(wrong());
    }
    if lead_w.iter().all(|&d| d == 1) && lead_w.len() <= lead_x.len() {
        m *= pairs.len();
        pairs.clear();
    }
    let rows = builder.read(x, Form::Rows)?;
    lower(builder, node, rows, &Shape { m, k, n, pairs, transposed: false, alpha: 1.0, beta: 1.0 })
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
        if count != y && y != 1 || pairs.len().checked_mul(count)? > MAX_PAIRS {
            return None;
        }
        let each = |&(pa, pb): &(usize, usize)| {
            (0..count).map(move |j| (pa * x + if x == 1 { 0 } else { j }, pb * y + if y == 1 { 0 } else { j }))
        };
        pairs = pairs.iter().flat_map(each).collect();
    }
    Some(pairs)
}

/// A device starts at most so many work-groups along an axis.
const MAX_PAIRS: usize = 1 << 16;

/// A packed second factor: its buffer, words of one matrix, its zero point if it was packed by a kernel.
struct Packed {
    w: Buf,
    table: Buf,
    layers: usize,
    matrix_words: usize,
    computed: Option<i32>,
}

fn lower(builder: &mut Builder<'_>, node: &Node, rows: Buf, shape: &Shape) -> Result<()> {
    let ty = builder.ty(input(node, 0)?);
    let end = End::of(builder, node)?;
    let lanes = 4 / element_bytes(ty.dtype)?;
    let (terms, words) = (is_typed(builder, node)?, shape.k.div_ceil(lanes));
    let at = |c: usize, _: usize, d: usize| if shape.transposed { c * shape.k + d } else { d * shape.n + c };
    let rank = builder.dims(input(node, 1)?)?.len();
    let axis = if shape.transposed { 0 } else { rank.saturating_sub(1) };
    let layout = Layout {
        channels: shape.n,
        groups: 1,
        depth: shape.k,
        taps: 1,
        axis,
        at: &at,
        alpha: shape.alpha,
        beta: shape.beta,
        offset: 0,
    };
    let constant = builder.data(input(node, 1)?).is_some() && shape.pairs.is_empty();
    let packed = match constant {
        true => constant_factor(builder, node, &layout, lanes, &end)?,
        false => computed_factor(builder, node, &layout, (shape, lanes), &end)?,
    };
    let terms = if terms { Terms::Bytes(Bytes::of(ty)?, packed.computed) } else { Terms::Floats(ty.dtype as u32) };
    let starts: Vec<(usize, usize)> =
        shape.pairs.iter().map(|&(a, b)| (a * shape.m * words, b * packed.matrix_words)).collect();
    if starts.iter().any(|(a, b)| a.max(b) > &(i32::MAX as usize)) {
        return Err(Error::unsupported(Reason::Memory, "operands of more than 2^31 words"));
    }
    let image = Image { x: rows, batch: shape.m, height: 1, width: 1, pixel_words: words };
    let plan = Plan {
        image,
        terms,
        axes: [Axis::ONE; 2],
        backwards: false,
        w: packed.w,
        layers: packed.layers,
        words,
        mask: last_mask(shape.k, lanes),
        table: packed.table,
        channels: shape.n,
        products: &starts,
    };
    finish(builder, node, &plan, &end, shape)
}

/// The launch, into the result or, where a row of it does not end at a word, through rows that do.
fn finish(builder: &mut Builder<'_>, node: &Node, plan: &Plan<'_>, end: &End<'_>, shape: &Shape) -> Result<()> {
    let y = output(node)?;
    let ty = builder.ty(y);
    let bytes = element_bytes(ty.dtype)?;
    let lanes = 4 / bytes;
    if builder.dims(y)?.last() == Some(&shape.n) {
        let to = builder.write(y, Form::Rows)?;
        return plan.launch(builder, end, Form::Rows, row_words(ty, Form::Rows)?, to);
    }
    if end.has_residual() {
        return Err(bad_shape("a residual of a product with a vector"));
    }
    let (rows, padded) = (shape.m * shape.pairs.len().max(1), shape.n.next_multiple_of(lanes));
    let own = builder.scratch(rows * padded * bytes)?;
    plan.launch(builder, end, Form::Rows, padded / lanes, own)?;
    let to = builder.write(y, Form::Plain)?;
    builder.relayout(&[(rows, rows, padded), (shape.n, shape.n, 1)], (own, 0), bytes, 0, to)
}

fn constant_factor(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    lanes: usize,
    end: &End<'_>,
) -> Result<Packed> {
    let factor = if is_typed(builder, node)? {
        let x = Bytes::of(builder.ty(input(node, 0)?))?;
        factor::bytes(builder, node, layout, x, end)?
    } else {
        factor::floats(builder, node, layout, (lanes, false), end)?
    };
    let (w, table, layers) = (factor.w, factor.channels, factor.layers);
    Ok(Packed { w, table, layers, matrix_words: 0, computed: None })
}

/// Packs matrices that are only known at run time, or are several.
fn computed_factor(
    builder: &mut Builder<'_>,
    node: &Node,
    layout: &Layout<'_>,
    (shape, lanes): (&Shape, usize),
    end: &End<'_>,
) -> Result<Packed> {
    let w = input(node, 1)?;
    let ty = builder.ty(w);
    let typed = is_typed(builder, node)?;
    let (flip, zx, zw, table) = if typed {
        let (x, own) = (Bytes::of(builder.ty(input(node, 0)?))?, Bytes::of(ty)?);
        let table = factor::byte_table(builder, node, layout, (x, own), end)?;
        (own.flip(), x.held_zp(), own.held_zp(), table)
    } else {
        (0, 0, 0, factor::float_table(builder, node, layout, lanes, end)?)
    };
    let stored = Stored::new(ty, Form::Rows)?;
    let padded = if builder.dims(w)?.len() == 1 { 1 } else { stored.axes.last().map_or(1, |a| a.padded) };
    let (down, across) = if shape.transposed { (1, padded) } else { (padded, 1) };
    let (steps, tiles) = (shape.k.div_ceil(lanes), shape.n.div_ceil(4));
    // One row more of bytes: what the zero points add.
    let matrix_words = 4 * tiles * if typed { steps + 1 } else { steps * lanes };
    let matrices = shape.pairs.iter().map(|p| p.1 + 1).max().unwrap_or(1);
    let rows = stored.axes.iter().rev().nth(1).map_or(1, |a| a.padded);
    let words = matrix_words.checked_mul(matrices).filter(|n| *n <= (i32::MAX / 4) as usize);
    let words = words.ok_or_else(|| Error::unsupported(Reason::Memory, "a packed factor of 2^31 bytes"))?;
    let mut params =
        [tiles, if typed { steps } else { steps * lanes }, shape.k, shape.n, down, across].map(|n| n as u32).to_vec();
    params.extend([flip, zx as u32, zw as u32, ty.dtype as u32, matrix_words as u32]);
    params.extend((0..matrices).map(|i| (i * rows * padded) as u32));
    let (from, to) = (builder.read(w, Form::Rows)?, builder.scratch(4 * words)?);
    builder.launch(&Launch {
        kernel: "pack",
        defines: if typed { &[] } else { &["REAL"] },
        spec: &[],
        params: &params,
        inputs: &[from],
        output: to,
        items: [tiles, matrices, 1],
        local: Some([16.min(builder.target.max_group.max(1)), 1, 1]),
    })?;
    Ok(Packed { w: to, table, layers: 1, matrix_words, computed: typed.then_some(zw) })
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
