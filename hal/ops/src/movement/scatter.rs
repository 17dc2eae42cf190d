//! ScatterElements, ScatterND and TensorScatter: a copy of the data with some elements replaced or combined.
//!
//! * (C1) negative indices count from the end; an index outside is an error.
//! * (C2) `reduction` combines in the order of the updates; f16 and bf16 are rounded at every step.
//! * (C3) quantized: moved as integers without reduction, in f32 with one.

use super::gather_nd::{element_positions, slice_positions};
use super::pick::on_wide;
use crate::elementwise::number::{Compute, Number, with_number};
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{Attr, Attrs, DataType, Error, Node, Result, Tensor, TensorType};

static ELEMENTS: OpSpec = OpSpec {
    name: "ScatterElements",
    domain: "",
    since: 11,
    inputs: (3, 3),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int), AttrSpec::optional("reduction", AttrKind::Str)],
};
static ND: OpSpec = OpSpec {
    name: "ScatterND",
    domain: "",
    since: 11,
    inputs: (3, 3),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("reduction", AttrKind::Str)],
};
static TENSOR: OpSpec = OpSpec {
    name: "TensorScatter",
    domain: "",
    since: 24,
    inputs: (2, 3),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("axis", AttrKind::Int), AttrSpec::optional("mode", AttrKind::Str)],
};

/// One index per updated element.
pub struct ScatterElements;
/// One index tuple per updated slice.
pub struct ScatterNd;
/// A cache with new rows written at a position per batch entry.
pub struct TensorScatter;

fn rule(node: &Node) -> QuantRule {
    match node.attrs.str("reduction", "none") {
        Ok("none") => QuantRule::Move,
        _ => QuantRule::Float,
    }
}

impl Op for ScatterElements {
    fn spec(&self) -> &'static OpSpec {
        &ELEMENTS
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, indices, updates) = (cx.input(0)?, cx.input(1)?, cx.input(2)?);
        if indices.shape() != updates.shape() {
            let (i, u) = (indices.shape(), updates.shape());
            return Err(Error::invalid(format!("ScatterElements: indices {i:?} and updates {u:?} differ in shape")));
        }
        let axis = util::axis(cx.attrs().int("axis", 0)?, x.shape().len())?;
        let positions = element_positions(x.shape(), indices, axis)?;
        Ok(vec![scatter(x, &positions, 1, updates, cx.attrs().str("reduction", "none")?)?])
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        rule(node)
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("scatter", "ScatterElements", 18);
        node.attrs = Attrs::default().with("axis", Attr::Int(1));
        let x = f32s(&[1, 4], &[1.0, 2.0, 3.0, 4.0]);
        let inputs = [x, ints(DataType::S64, &[1, 2], &[1, -3]), f32s(&[1, 2], &[10.0, 20.0])];
        let plain = case("c1_last_wins", node.clone(), &inputs, &[f32s(&[1, 4], &[1.0, 20.0, 3.0, 4.0])]);
        node.attrs.set("reduction", Attr::Str("add".into()));
        vec![plain, case("c2_add", node, &inputs, &[f32s(&[1, 4], &[1.0, 32.0, 3.0, 4.0])])]
    }
}

impl Op for ScatterNd {
    fn spec(&self) -> &'static OpSpec {
        &ND
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (x, indices) = (cx.input(0)?, cx.input(1)?);
        let starts = slice_positions(x.shape(), indices, 0)?;
        let tuple = indices.shape().last().copied().unwrap_or(0);
        let block = x.shape()[tuple..].iter().product();
        Ok(vec![scatter(x, &starts, block, cx.input(2)?, cx.attrs().str("reduction", "none")?)?])
    }

    fn quant_rule(&self, node: &Node) -> QuantRule {
        rule(node)
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("scatter", "ScatterND", 18);
        let x = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let inputs = [x, ints(DataType::S64, &[1, 1], &[-1]), f32s(&[1, 2], &[5.0, 3.0])];
        let rows = case("c1_rows", node.clone(), &inputs, &[f32s(&[2, 2], &[1.0, 2.0, 5.0, 3.0])]);
        node.attrs = Attrs::default().with("reduction", Attr::Str("max".into()));
        vec![rows, case("c2_max", node, &inputs, &[f32s(&[2, 2], &[1.0, 2.0, 5.0, 4.0])])]
    }
}

impl Op for TensorScatter {
    fn spec(&self) -> &'static OpSpec {
        &TENSOR
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        Ok(vec![cx.ty(cx.dtype(0)?, cx.shape(0)?.to_vec())])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let (cache, update) = (cx.input(0)?, cx.input(1)?);
        let axis = util::axis(cx.attrs().int("axis", -2)?, cache.shape().len())?;
        let circular = match cx.attrs().str("mode", "linear")? {
            "linear" => false,
            "circular" => true,
            other => return Err(Error::invalid(format!("TensorScatter: mode `{other}` is not linear or circular"))),
        };
        let first = cx.opt_ints(2)?.unwrap_or_else(|| vec![0; cache.shape().first().copied().unwrap_or(0)]);
        let starts = cache_positions(cache.shape(), update.shape(), axis, &first, circular)?;
        let block = cache.shape()[axis + 1..].iter().product();
        Ok(vec![scatter(cache, &starts, block, update, "none")?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let mut node = Node::new("scatter", "TensorScatter", 24);
        node.attrs = Attrs::default().with("mode", Attr::Str("circular".into()));
        let inputs =
            [f32s(&[1, 3, 1], &[1.0, 2.0, 3.0]), f32s(&[1, 2, 1], &[8.0, 9.0]), ints(DataType::S64, &[1], &[2])];
        vec![case("circular", node, &inputs, &[f32s(&[1, 3, 1], &[9.0, 2.0, 8.0])])]
    }
}

/// Where each row of an update goes: `first[batch] + row` along the axis.
fn cache_positions(
    cache: &[usize],
    update: &[usize],
    axis: usize,
    first: &[i64],
    circular: bool,
) -> Result<Vec<usize>> {
    let fits = update.len() == cache.len()
        && (0..cache.len()).all(|a| if a == axis { update[a] <= cache[a] } else { update[a] == cache[a] });
    if axis == 0 || !fits || first.len() != cache[0] {
        let n = first.len();
        return Err(Error::invalid(format!(
            "TensorScatter: an update {update:?} at {n} positions does not fit {cache:?}"
        )));
    }
    let (rows, extent) = (update[axis], cache[axis]);
    let block = cache[axis + 1..].iter().product::<usize>();
    let outer = cache[..axis].iter().product::<usize>();
    let per_batch = outer.checked_div(cache[0]).unwrap_or(0).max(1);
    let position = |i: usize| {
        let (outer, row) = (i / rows, i % rows);
        let at = usize::try_from(first[outer / per_batch]).ok().and_then(|f| f.checked_add(row));
        let at = if circular { at.map(|at| at % extent) } else { at.filter(|&at| at < extent) };
        let at = at.ok_or_else(|| Error::invalid(format!("TensorScatter: a row is outside a cache of {extent}")))?;
        Ok((outer * extent + at) * block)
    };
    (0..outer * rows).map(position).collect()
}

/// Blocks of consecutive elements of `updates` put to, or combined with, `x` at the given positions.
fn scatter(x: &Tensor, starts: &[usize], block: usize, updates: &Tensor, reduction: &str) -> Result<Tensor> {
    if updates.dtype() != x.dtype() || Some(updates.elements()) != starts.len().checked_mul(block) {
        return Err(Error::invalid(format!(
            "updates {} do not fit {} positions in {}",
            updates.ty(),
            starts.len(),
            x.ty()
        )));
    }
    if block == 0 {
        return Ok(x.clone());
    }
    if reduction == "none" {
        return overwrite(x, starts, block, updates);
    }
    let mut y = x.clone();
    with_number!(x.dtype(), "Scatter with a reduction", T => {
        let combine = reducer::<<T as Number>::Wide>(reduction)?;
        let blocks = starts.iter().zip(updates.as_slice::<T>()?.chunks_exact(block));
        let data = y.as_slice_mut::<T>()?;
        for (&start, update) in blocks {
            let old = data[start..start + block].iter_mut().zip(update);
            old.for_each(|(y, u)| *y = T::narrow(combine(y.widen(), u.widen())));
        }
        Ok(y)
    })
}

fn overwrite(x: &Tensor, starts: &[usize], block: usize, updates: &Tensor) -> Result<Tensor> {
    let (mut y, from) = (on_wide(x)?, on_wide(updates)?);
    let width = y.dtype().bits() / 8;
    let len = block * width;
    for (&start, update) in starts.iter().zip(from.bytes().chunks_exact(len)) {
        y.bytes_mut()[start * width..][..len].copy_from_slice(update);
    }
    if x.dtype().bits() < 8 { Tensor::from_ints(x.dtype(), x.shape(), &y.to_ints()?) } else { Ok(y) }
}

fn reducer<C: Compute>(name: &str) -> Result<fn(C, C) -> C> {
    Ok(match name {
        "add" => C::add,
        "mul" => C::mul,
        "max" => |a, b| if b > a || b.is_nan() { b } else { a },
        "min" => |a, b| if b < a || b.is_nan() { b } else { a },
        other => return Err(Error::invalid(format!("reduction `{other}` is not none, add, mul, max or min"))),
    })
}
