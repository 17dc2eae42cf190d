//! Expand: broadcast to a shape (two-way, as NumPy does), and Tile: repeat along every axis.

use super::pick::{Walk, strided};
use crate::elementwise::sample::{case_const, f32s, ints};
use crate::{Case, EvalCx, InferCx, Op, OpSpec, QuantRule, util};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

const fn spec(name: &'static str, since: u32) -> OpSpec {
    OpSpec { name, domain: "", since, inputs: (2, 2), outputs: (1, 1), attrs: &[] }
}

static EXPAND: OpSpec = spec("Expand", 8);
static TILE: OpSpec = spec("Tile", 6);

/// Broadcast to a shape.
pub struct Expand;

impl Op for Expand {
    fn spec(&self) -> &'static OpSpec {
        &EXPAND
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let Some(target) = cx.known_ints(1)? else { return Ok(vec![open_expansion(cx)?]) };
        let target: Vec<Dim> = extents(&target)?.into_iter().map(Dim::Known).collect();
        let dims = util::broadcast_dims(cx.shape(0)?, &target)?;
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let target = extents(&cx.input(1)?.to_ints()?)?;
        Ok(vec![expand_to(x, &util::broadcast(x.shape(), &target)?)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("expand", "Expand", 13);
        let (x, shape) = (f32s(&[2, 1], &[1.0, 2.0]), ints(DataType::S64, &[3], &[2, 1, 2]));
        let y = f32s(&[2, 2, 2], &[1.0, 1.0, 2.0, 2.0, 1.0, 1.0, 2.0, 2.0]);
        vec![case_const("two_way", node, 1, &[x, shape], &[y])]
    }
}

/// The type of an expansion to a shape that data decides: extents above 1 of the input stay.
fn open_expansion(cx: &InferCx) -> Result<TensorType> {
    let dims = cx.shape(0)?;
    let mut ty = cx.open(cx.dtype(0)?, cx.length(1)?.map(|n| n.max(dims.len())))?;
    if !ty.is_unranked() {
        let aligned = ty.shape.0.iter_mut().rev().zip(dims.iter().rev());
        aligned.filter(|(_, d)| d.known().is_some_and(|n| n != 1)).for_each(|(open, d)| *open = d.clone());
    }
    Ok(ty)
}

/// A tensor repeated to a shape that it broadcasts to.
pub fn expand_to(x: &Tensor, shape: &[usize]) -> Result<Tensor> {
    if x.shape() == shape {
        return Ok(x.clone());
    }
    let steps = util::broadcast_strides(x.shape(), shape).into_iter().map(|s| s as isize).collect();
    strided(x, &Walk { shape: shape.to_vec(), steps, offset: 0 })
}

/// Extents that data or an attribute gave.
pub fn extents(values: &[i64]) -> Result<Vec<usize>> {
    let one = |&v| usize::try_from(v).map_err(|_| Error::invalid(format!("extent {v} is not a size")));
    values.iter().map(one).collect()
}

/// Repetition along every axis.
pub struct Tile;

impl Op for Tile {
    fn spec(&self) -> &'static OpSpec {
        &TILE
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let dims = cx.shape(0)?;
        let Some(times) = cx.known_ints(1)? else { return Ok(vec![cx.open(cx.dtype(0)?, Some(dims.len()))?]) };
        let repeats = repeats(&times, dims.len())?;
        let one = |(i, (dim, &n)): (usize, (&Dim, &usize))| match (dim, n) {
            (dim, 1) => Ok(dim.clone()),
            (Dim::Known(d), n) => d.checked_mul(n).map(Dim::Known).ok_or_else(|| Error::invalid("Tile: too large")),
            (Dim::Sym(_), _) => Ok(cx.fresh(0, i)),
        };
        let dims = dims.iter().zip(&repeats).enumerate().map(one).collect::<Result<Vec<_>>>()?;
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let x = cx.input(0)?;
        let repeats = repeats(&cx.input(1)?.to_ints()?, x.shape().len())?;
        // Each axis becomes two: the repetition, which stands still, and the axis itself.
        let own = util::strides(x.shape());
        let (mut shape, mut steps, mut tiled) = (vec![], vec![], vec![]);
        for ((&n, &times), &step) in x.shape().iter().zip(&repeats).zip(&own) {
            shape.extend([times, n]);
            steps.extend([0, step as isize]);
            tiled.push(n.checked_mul(times).ok_or_else(|| Error::invalid("Tile: the output is too large"))?);
        }
        Ok(vec![strided(x, &Walk { shape, steps, offset: 0 })?.reshaped(&tiled)?])
    }

    fn quant_rule(&self, _node: &Node) -> QuantRule {
        QuantRule::Move
    }

    fn cases(&self) -> Vec<Case> {
        let node = Node::new("tile", "Tile", 13);
        let (x, repeats) = (f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), ints(DataType::S64, &[2], &[1, 2]));
        vec![case_const("columns", node, 1, &[x, repeats], &[f32s(&[2, 4], &[1., 2., 1., 2., 3., 4., 3., 4.])])]
    }
}

fn repeats(values: &[i64], rank: usize) -> Result<Vec<usize>> {
    if values.len() != rank {
        return Err(Error::invalid(format!("Tile: {} repeats for rank {rank}", values.len())));
    }
    extents(values)
}
