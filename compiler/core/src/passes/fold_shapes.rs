//! The arithmetic of shapes where some extents are symbols.
//!
//! A vector of extents is followed from `Shape` through Gather, Slice, Squeeze, Unsqueeze, Cast and Concat, entry by
//! entry: what picks known extents only becomes a constant although others are symbols, and the target of a Reshape
//! becomes a constant in which
//!
//! * a symbol that stands at its own axis of the data is `0`, which copies that axis;
//! * the only other symbol, beside known extents alone, is `-1`, which the number of elements decides.
//!
//! Both say what the computed target says, for every extent, 0 included. No bit changes.

use super::fold_constants::replace_by;
use super::pattern::{View, is_plain};
use super::rules::{fresh, is, is_any, patch_const};
use super::{About, Effect};
use crate::Cx;
use ottava_graph::{Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Dim, Node, Shape, Tensor, ValueId};

/// How many nodes the arithmetic is deep.
const DEPTH: usize = 12;
/// Entries of a vector that is followed: more axes than any tensor has.
const MAX_EXTENTS: usize = 64;
/// Operators that pick or join extents.
const PICKING: &[&str] = &["Gather", "Slice", "Concat"];
/// Operators that hand a vector or a scalar on.
const HANDING: &[&str] = &["Squeeze", "Unsqueeze", "Cast", "Identity"];

/// What the pass does.
pub const ABOUT: About =
    About { what: "extents picked from shapes and targets of Reshape became constants", effect: Effect::Exact };

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fold_shapes", rule)?;
    Ok(n + graph.remove_dead())
}

/// An entry of a vector of extents.
#[derive(Debug, Clone, PartialEq)]
enum Extent {
    Known(i64),
    Symbol(Dim),
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let node = &graph.nodes[index];
    if is(node, "Reshape") {
        return reshape(view, index);
    }
    let [out] = node.outputs[..] else { return Ok(None) };
    let computed = node.inputs.iter().flatten().any(|id| graph.constant(*id).is_none());
    if !computed || !(is_any(node, PICKING) || is_any(node, HANDING)) {
        return Ok(None);
    }
    let known = |e: Extent| if let Extent::Known(v) = e { Some(v) } else { None };
    let values: Option<Vec<i64>> = extents(view, out, DEPTH).and_then(|vector| vector.into_iter().map(known).collect());
    let (Some(values), ty) = (values, graph.ty(out)) else { return Ok(None) };
    let shape = if ty.shape.rank() == 0 { vec![] } else { vec![values.len()] };
    Ok(Some(replace_by(graph, index, vec![Tensor::from_ints(ty.dtype, &shape, &values)?])))
}

/// The entries of an integer vector (or scalar) that is made of extents and constants.
fn extents(view: View, id: ValueId, depth: usize) -> Option<Vec<Extent>> {
    let ty = view.graph.ty(id);
    let integers = matches!(ty.dtype, DataType::S64 | DataType::S32) && ty.quant.is_none();
    if !integers || ty.is_unranked() || ty.shape.rank() > 1 {
        return None;
    }
    if let Some(data) = view.graph.constant(id).filter(|t| t.elements() <= MAX_EXTENTS) {
        return Some(data.to_ints().ok()?.into_iter().map(Extent::Known).collect());
    }
    let (_, node) = view.producer(id).filter(|(_, node)| depth > 0 && is_plain(node))?;
    if is(node, "Shape") {
        return shape_of(view, node);
    }
    if is(node, "Concat") {
        let parts = node.inputs.iter().map(|part| extents(view, (*part)?, depth - 1));
        let joined = parts.collect::<Option<Vec<_>>>()?.concat();
        return (joined.len() <= MAX_EXTENTS).then_some(joined);
    }
    if !is_any(node, PICKING) && !is_any(node, HANDING) {
        return None;
    }
    let vector = extents(view, node.input(0)?, depth - 1)?;
    match node.op.as_str() {
        "Gather" => gathered(view, node, &vector),
        "Slice" => sliced(view, node, &vector),
        _ => Some(vector),
    }
}

fn shape_of(view: View, node: &Node) -> Option<Vec<Extent>> {
    let ty = view.graph.ty(node.input(0)?);
    if ty.is_unranked() {
        return None;
    }
    let all: Vec<Extent> = ty.shape.0.iter().map(extent).collect::<Option<_>>()?;
    range(&all, node.attrs.int("start", 0).ok()?, node.attrs.int("end", i64::MAX).ok()?)
}

fn extent(dim: &Dim) -> Option<Extent> {
    Some(match dim {
        Dim::Known(n) => Extent::Known(i64::try_from(*n).ok()?),
        symbol => Extent::Symbol(symbol.clone()),
    })
}

/// The entries from `start` to `end`; negative ones count from the end, and both stop at the ends.
fn range(all: &[Extent], start: i64, end: i64) -> Option<Vec<Extent>> {
    let n = i64::try_from(all.len()).ok()?;
    let bound = |v: i64| usize::try_from((if v < 0 { v.saturating_add(n) } else { v }).clamp(0, n)).ok();
    let (start, end) = (bound(start)?, bound(end)?);
    all.get(start..end.max(start)).map(<[_]>::to_vec)
}

fn gathered(view: View, node: &Node, vector: &[Extent]) -> Option<Vec<Extent>> {
    let is_vector = view.shape(node.input(0)?).rank() == 1;
    if !is_vector || !matches!(node.attrs.int("axis", 0).ok()?, 0 | -1) {
        return None;
    }
    let indices = view.graph.constant(node.input(1)?)?.to_ints().ok()?;
    let n = i64::try_from(vector.len()).ok()?;
    let pick = |i: i64| vector.get(usize::try_from(if i < 0 { i + n } else { i }).ok()?).cloned();
    indices.into_iter().map(pick).collect()
}

fn sliced(view: View, node: &Node, vector: &[Extent]) -> Option<Vec<Extent>> {
    let one = |i: usize| match view.graph.constant(node.input(i)?)?.to_ints().ok()?[..] {
        [v] => Some(v),
        _ => None,
    };
    let step = if node.input(4).is_some() { one(4)? } else { 1 };
    if step != 1 || view.shape(node.input(0)?).rank() != 1 {
        return None;
    }
    range(vector, one(1)?, one(2)?)
}

/// A Reshape with a computed target that a constant one can say.
fn reshape(view: View, index: usize) -> Result<Option<Patch>> {
    let node = &view.graph.nodes[index];
    let (Some(data), Some(target)) = (node.input(0), node.input(1)) else { return Ok(None) };
    if view.graph.constant(target).is_some() || !is_plain(node) || node.attrs.int("allowzero", 0)? != 0 {
        return Ok(None);
    }
    let ty = view.graph.ty(data);
    let known = extents(view, target, DEPTH).filter(|_| !ty.is_unranked());
    let Some(values) = known.and_then(|vector| encoded(&ty.shape, &vector)) else { return Ok(None) };
    let mut patch = Patch::new(view.graph);
    let name = fresh(view.graph, &patch, &format!("{}_target", node.name));
    let mut node = node.clone();
    node.inputs[1] = Some(patch_const(&mut patch, name, Tensor::from_slice(&[values.len()], &values)?));
    patch.remove.push(index);
    patch.insert.push(node);
    Ok(Some(patch))
}

/// A target as numbers, if copies and one open extent can say it.
fn encoded(data: &Shape, target: &[Extent]) -> Option<Vec<i64>> {
    let copies = |axis: usize, symbol: &Dim| data.0.get(axis) == Some(symbol);
    let is_open = |(axis, e): &(usize, &Extent)| matches!(e, Extent::Symbol(s) if !copies(*axis, s));
    let open = target.iter().enumerate().filter(is_open).count();
    let others_are_known = || {
        let mut others = target.iter().enumerate().filter(|entry| !is_open(entry));
        others.all(|(_, e)| matches!(e, Extent::Known(v) if *v > 0))
    };
    if open > 1 || open == 1 && !others_are_known() {
        return None;
    }
    let number = |(axis, e): (usize, &Extent)| match e {
        Extent::Known(v) => *v,
        Extent::Symbol(s) if copies(axis, s) => 0,
        Extent::Symbol(_) => -1,
    };
    Some(target.iter().enumerate().map(number).collect())
}
