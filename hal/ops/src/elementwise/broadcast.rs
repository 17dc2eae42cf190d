//! Two operands of different shapes walked together (NumPy broadcasting), with contiguous inner loops.

use crate::util;
use ottava_hal::Result;

/// A collapsed axis: extent, and the step of either operand (0 where it repeats).
#[derive(Clone, Copy)]
struct Axis {
    extent: usize,
    step_a: usize,
    step_b: usize,
}

/// How two shapes broadcast.
pub struct Broadcast {
    /// Shape of the result.
    pub shape: Vec<usize>,
    /// Outermost first; neighbours that are contiguous for both operands are one axis.
    axes: Vec<Axis>,
}

impl Broadcast {
    /// The broadcast of two shapes, or an error that names both.
    pub fn new(a: &[usize], b: &[usize]) -> Result<Self> {
        let shape = util::broadcast(a, b)?;
        let steps_a = util::broadcast_strides(a, &shape);
        let steps_b = util::broadcast_strides(b, &shape);
        let mut axes: Vec<Axis> = Vec::new();
        for (i, &extent) in shape.iter().enumerate().filter(|(_, n)| **n != 1) {
            let axis = Axis { extent, step_a: steps_a[i], step_b: steps_b[i] };
            match axes.last_mut() {
                Some(last) if joins(last, &axis) => {
                    *last = Axis { extent: last.extent.saturating_mul(extent), ..axis };
                }
                _ => axes.push(axis),
            }
        }
        Ok(Self { shape, axes })
    }

    /// `out[i] = f(a, b)` over the result in row-major order. The slices have the lengths of their shapes.
    pub fn map<A: Copy, B: Copy, C>(&self, a: &[A], b: &[B], out: &mut [C], f: impl Fn(A, B) -> C) {
        let Some((inner, outer)) = self.axes.split_last() else {
            if let ([x], [y], [z]) = (a, b, out) {
                *z = f(*x, *y);
            }
            return;
        };
        if out.is_empty() {
            return;
        }
        let mut index = vec![0usize; outer.len()];
        let (mut at_a, mut at_b) = (0, 0);
        for row in out.chunks_exact_mut(inner.extent) {
            map_row(&a[at_a..], &b[at_b..], row, *inner, &f);
            for (i, axis) in outer.iter().enumerate().rev() {
                index[i] += 1;
                (at_a, at_b) = (at_a + axis.step_a, at_b + axis.step_b);
                if index[i] < axis.extent {
                    break;
                }
                index[i] = 0;
                (at_a, at_b) = (at_a - axis.step_a * axis.extent, at_b - axis.step_b * axis.extent);
            }
        }
    }
}

fn joins(outer: &Axis, inner: &Axis) -> bool {
    let joins = |outer: usize, inner_step: usize| outer == inner_step.saturating_mul(inner.extent);
    joins(outer.step_a, inner.step_a) && joins(outer.step_b, inner.step_b)
}

/// One row; an operand's step along it is 1, or 0 where it repeats one element.
fn map_row<A: Copy, B: Copy, C>(a: &[A], b: &[B], row: &mut [C], axis: Axis, f: &impl Fn(A, B) -> C) {
    match (axis.step_a, axis.step_b) {
        (0, _) => {
            let x = a[0];
            row.iter_mut().zip(b).for_each(|(z, &y)| *z = f(x, y));
        }
        (_, 0) => {
            let y = b[0];
            row.iter_mut().zip(a).for_each(|(z, &x)| *z = f(x, y));
        }
        _ => row.iter_mut().zip(a.iter().zip(b)).for_each(|(z, (&x, &y))| *z = f(x, y)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(a: (&[usize], &[i32]), b: (&[usize], &[i32])) -> (Vec<usize>, Vec<i32>) {
        let plan = Broadcast::new(a.0, b.0).unwrap();
        let mut out = vec![0; plan.shape.iter().product()];
        plan.map(a.1, b.1, &mut out, |x, y| x + y);
        (plan.shape, out)
    }

    #[test]
    fn both_operands_may_repeat() {
        let (shape, out) = sums((&[2, 1], &[10, 20]), (&[3], &[1, 2, 3]));
        assert_eq!((shape, out), (vec![2, 3], vec![11, 12, 13, 21, 22, 23]));
        let (shape, out) = sums((&[2, 1, 2], &[1, 2, 3, 4]), (&[1, 2, 1], &[10, 20]));
        assert_eq!((shape, out), (vec![2, 2, 2], vec![11, 12, 21, 22, 13, 14, 23, 24]));
    }

    #[test]
    fn scalars_and_empty_shapes() {
        assert_eq!(sums((&[], &[1]), (&[1, 1], &[2])), (vec![1, 1], vec![3]));
        assert_eq!(sums((&[0, 2], &[]), (&[2], &[1, 2])), (vec![0, 2], vec![]));
        assert!(Broadcast::new(&[2], &[3]).is_err());
    }
}
