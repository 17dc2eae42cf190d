//! `AffineGrid`: the grid of GridSample that an affine map makes, in two or three dimensions.
//!
//! * (C1) Positions run from -1 to 1: from centre to centre with `align_corners`, else half a step inside the edges.

use super::real::{Real, alloc, count, with_real};
use super::window::list;
use crate::elementwise::sample::{case, f32s, ints};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec};
use ottava_hal::{DataType, Dim, Error, Node, Result, Tensor, TensorType};

/// Positions under an affine map.
pub struct AffineGrid;

static SPEC: OpSpec = OpSpec {
    name: "AffineGrid",
    domain: "",
    since: 20,
    inputs: (2, 2),
    outputs: (1, 1),
    attrs: &[AttrSpec::optional("align_corners", AttrKind::Int)],
};

/// Shape of the grid for `size` (batch, channel, spatial extents).
fn grid_shape(size: &[i64]) -> Result<Vec<usize>> {
    if size.len() != 4 && size.len() != 5 {
        return Err(Error::invalid(format!("AffineGrid: size {size:?}, expected 4 or 5 entries")));
    }
    let size = list("size", size, size.len(), 0)?;
    let mut shape = vec![size[0]];
    shape.extend_from_slice(&size[2..]);
    shape.push(size.len() - 2);
    Ok(shape)
}

impl Op for AffineGrid {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let Some(size) = cx.known_ints(1)? else {
            return Ok(vec![cx.open(cx.dtype(0)?, cx.length(1)?)?]);
        };
        let dims = grid_shape(&size)?.into_iter().map(Dim::Known).collect();
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let theta = cx.input(0)?;
        let shape = grid_shape(&cx.input(1)?.to_ints()?)?;
        let align = cx.attrs().int("align_corners", 0)? != 0;
        let y = with_real!(theta.dtype(), "AffineGrid", T => positions::<T>(theta, &shape, align))?;
        Ok(vec![y])
    }

    fn cases(&self) -> Vec<Case> {
        let theta = f32s(&[1, 2, 3], &[1.0, 0.0, 0.5, 0.0, 2.0, 0.0]);
        let size = ints(DataType::S64, &[4], &[1, 1, 1, 2]);
        let y = f32s(&[1, 1, 2, 2], &[0.0, 0.0, 1.0, 0.0]);
        vec![case("c1_half_a_step_inside", Node::new("grid", "AffineGrid", 20), &[theta, size], &[y])]
    }
}

fn positions<T: Real>(theta: &Tensor, shape: &[usize], align: bool) -> Result<Tensor> {
    let rank = shape.len() - 2;
    if theta.shape() != [shape[0], rank, rank + 1] {
        return Err(Error::invalid(format!("AffineGrid: theta {:?} for a grid {shape:?}", theta.shape())));
    }
    let spatial = &shape[1..=rank];
    let points = count(spatial)?;
    let coordinate = |i: usize, n: usize| match (align, n) {
        (true, 0 | 1) => -1.0,
        (true, n) => 2.0 * i as f64 / (n - 1) as f64 - 1.0,
        (false, n) => (2 * i + 1) as f64 / n as f64 - 1.0,
    };
    let maps = T::read(theta)?;
    let mut y = alloc::<T>(count(shape)?)?;
    for (p, out) in y.chunks_exact_mut(rank).enumerate() {
        let map = &maps[p / points * rank * (rank + 1)..][..rank * (rank + 1)];
        // The last axis is the first coordinate.
        let mut rest = p % points;
        let mut at = [T::ONE; 4];
        for k in 0..rank {
            let n = spatial[rank - 1 - k];
            at[k] = T::of(coordinate(rest % n, n));
            rest /= n;
        }
        at[rank] = T::ONE;
        for (row, o) in out.iter_mut().enumerate() {
            let mut sum = T::default();
            for k in 0..=rank {
                sum += map[row * (rank + 1) + k] * at[k];
            }
            *o = sum;
        }
    }
    T::write(theta.dtype(), shape, &y)
}
