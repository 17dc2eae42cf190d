//! A normalization of rows that a file spells out becomes LayerNormalization or RMSNormalization.
//!
//! The value is a product of `x - mean` (or of `x`), of `1 / sqrt(variance + eps)` and of constants, to which a constant
//! may be added ([`super::moments`] says which spellings are known). The normalized axes must be the last ones; a single
//! other axis is brought to the end by a Transpose and back by another, which later passes move out of the way.
//!
//! Float results keep their meaning and change within the bounds of numerics.md section 7: the order of the sums is the
//! operator's own, and a variance spelled `E[x^2] - mean^2` loses its cancellation.

use super::moments::{Norm, core_of};
use super::pattern::{View, is_plain};
use super::rules::{fresh, is_any, patch_const};
use crate::Cx;
use ottava_graph::{Attr, Graph, Patch, Result, Uses, rewrite};
use ottava_hal::{DataType, Dim, Node, Shape, Tensor, TensorType, Value, ValueId};

/// Runs the pass.
pub fn run(graph: &mut Graph, _: &mut Cx) -> Result<usize> {
    let n = rewrite(graph, "fuse_norms", rule)?;
    Ok(n + graph.remove_dead())
}

fn rule(graph: &Graph, uses: &Uses, index: usize) -> Result<Option<Patch>> {
    let view = View { graph, uses };
    let root = &graph.nodes[index];
    let [y] = root.outputs[..] else { return Ok(None) };
    if !is_any(root, &["Mul", "Div", "Add"]) || !is_plain(root) || !view.is_f32(y) || is_scaled_later(view, y) {
        return Ok(None);
    }
    let Some(found) = with_offset(view, y).or_else(|| Some((core_of(view, y)?, None))) else { return Ok(None) };
    let (norm, offset) = found;
    if view.shape(norm.x) != view.shape(y) || !view.is_closed(&norm.inside, index) {
        return Ok(None);
    }
    let Some(rows) = Rows::of(view.shape(y), &norm.axes) else { return Ok(None) };
    let Some(operands) = operands(graph, &norm, offset, &rows)? else { return Ok(None) };
    Ok(Some(replace(graph, index, &norm, &rows, operands)))
}

/// Whether the only reader multiplies by a constant or adds one: then the pattern ends there.
fn is_scaled_later(view: View, y: ValueId) -> bool {
    let Some(reader) = view.uses.only_reader(y).map(|i| &view.graph.nodes[i]) else { return false };
    let other = reader.inputs.iter().flatten().find(|id| **id != y);
    let constant = other.is_some_and(|id| view.graph.constant(*id).is_some());
    constant && is_any(reader, &["Mul", "Add"]) && view.shape(reader.outputs[0]) == view.shape(y)
}

fn with_offset(view: View, y: ValueId) -> Option<(Norm, Option<ValueId>)> {
    let (_, orders) = view.both_orders(y, "Add")?;
    let (product, offset) = orders.into_iter().find(|(_, b)| view.graph.constant(*b).is_some())?;
    let (index, _) = view.producer(product)?;
    let mut norm = core_of(view, product)?;
    norm.inside.insert(index);
    Some((norm, Some(offset)))
}

/// How the normalized axes lie in the tensor.
struct Rows {
    /// The first normalized axis, once they are the last ones.
    axis: usize,
    /// Extents of the normalized axes.
    extents: Vec<usize>,
    /// The permutation that brings a single axis to the end, and the one that undoes it.
    moved: Option<(Vec<i64>, Vec<i64>)>,
}

impl Rows {
    fn of(shape: &Shape, axes: &[usize]) -> Option<Self> {
        let rank = shape.rank();
        let extents: Vec<usize> = axes.iter().map(|a| shape.0.get(*a).and_then(Dim::known)).collect::<Option<_>>()?;
        let axis = rank.checked_sub(axes.len())?;
        if axes.iter().copied().eq(axis..rank) {
            return Some(Self { axis, extents, moved: None });
        }
        let [single] = axes else { return None };
        let there: Vec<i64> = (0..rank).filter(|a| a != single).chain([*single]).map(|a| a as i64).collect();
        let back = (0..rank as i64).map(|a| there.iter().position(|p| *p == a).map_or(0, |p| p as i64)).collect();
        Some(Self { axis, extents, moved: Some((there, back)) })
    }
}

/// The scale, and the offset if there is one.
struct Operands {
    scale: Tensor,
    offset: Option<Tensor>,
}

fn operands(graph: &Graph, norm: &Norm, offset: Option<ValueId>, rows: &Rows) -> Result<Option<Operands>> {
    let rank = graph.ty(norm.x).shape.rank();
    let n: usize = rows.extents.iter().product();
    let mut scale = vec![1.0; n];
    for id in &norm.scales {
        let Some(factor) = per_row(graph, *id, &norm.axes, rank, &rows.extents)? else { return Ok(None) };
        scale.iter_mut().zip(factor).for_each(|(a, b)| *a *= b);
    }
    let offset = match offset {
        None => None,
        Some(id) => match per_row(graph, id, &norm.axes, rank, &rows.extents)? {
            Some(values) => Some(Tensor::from_slice(&rows.extents, &values)?),
            None => return Ok(None),
        },
    };
    Ok(Some(Operands { scale: Tensor::from_slice(&rows.extents, &scale)?, offset }))
}

/// A constant as one value per element of a row, if it varies along nothing else.
fn per_row(graph: &Graph, id: ValueId, axes: &[usize], rank: usize, row: &[usize]) -> Result<Option<Vec<f32>>> {
    let Some(data) = graph.constant(id).filter(|t| t.dtype() == DataType::F32) else { return Ok(None) };
    let n = row.iter().product();
    let values = data.to_f32s()?;
    if let [one] = values[..] {
        return Ok((data.shape().len() <= rank).then(|| vec![one; n]));
    }
    // The shape of a tensor that varies along the normalized axes only.
    let mut full = vec![1; rank];
    axes.iter().zip(row).for_each(|(a, d)| full[*a] = *d);
    let fits = full.ends_with(data.shape()) && values.len() == n;
    Ok(fits.then_some(values))
}

fn replace(graph: &Graph, index: usize, norm: &Norm, rows: &Rows, operands: Operands) -> Patch {
    let root = &graph.nodes[index];
    let mut patch = Patch::new(graph);
    let mut node = match norm.centred {
        true => Node::new(root.name.clone(), "LayerNormalization", 17),
        false => Node::new(root.name.clone(), "RMSNormalization", 23),
    };
    let mut constant = |base: &str, data| {
        let name = fresh(graph, &patch, &format!("{}_{base}", root.name));
        patch_const(&mut patch, name, data)
    };
    node.inputs = vec![Some(norm.x), Some(constant("scale", operands.scale))];
    node.inputs.extend(operands.offset.map(|data| Some(constant("offset", data))));
    node.outputs = root.outputs.clone();
    node.attrs.set("axis", Attr::Int(rows.axis as i64));
    node.attrs.set("epsilon", Attr::Float(norm.epsilon));
    patch.remove.push(index);
    match &rows.moved {
        None => patch.insert.push(node),
        Some((there, back)) => {
            let ty = permuted(graph.ty(norm.x), there);
            let (x, before) = transpose(graph, &mut patch, norm.x, &ty, there, &format!("{}_rows", root.name));
            node.inputs[0] = Some(x);
            let name = fresh(graph, &patch, &format!("{}_normalized", root.name));
            let inner = patch.value(Value { name: name.clone(), ty, constant: None });
            let mut after = Node::new(root.name.clone(), "Transpose", 13);
            after.inputs = vec![Some(inner)];
            after.outputs = std::mem::replace(&mut node.outputs, vec![inner]);
            after.attrs.set("perm", Attr::Ints(back.clone()));
            node.name = name;
            patch.insert.extend([before, node, after]);
        }
    }
    patch
}

fn permuted(ty: &TensorType, perm: &[i64]) -> TensorType {
    let dims = perm.iter().filter_map(|p| ty.shape.0.get(usize::try_from(*p).ok()?).cloned()).collect();
    TensorType { shape: Shape(dims), ..ty.clone() }
}

fn transpose(
    graph: &Graph,
    patch: &mut Patch,
    x: ValueId,
    ty: &TensorType,
    perm: &[i64],
    base: &str,
) -> (ValueId, Node) {
    let name = fresh(graph, patch, base);
    let out = patch.value(Value { name: name.clone(), ty: ty.clone(), constant: None });
    let mut node = Node::new(name, "Transpose", 13);
    node.inputs = vec![Some(x)];
    node.outputs = vec![out];
    node.attrs.set("perm", Attr::Ints(perm.to_vec()));
    (out, node)
}
