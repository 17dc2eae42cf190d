//! Which axes a reduction folds, and the walk that folds them.

use crate::util::{axis, strides};
use crate::{EvalCx, InferCx};
use ottava_hal::{Attrs, Dim, Error, Result, TensorType};

/// A reduction of a shape.
pub(crate) struct Plan {
    shape: Vec<usize>,
    /// Step in the output per axis of the input; 0 where the axis is folded.
    steps: Vec<usize>,
    /// Shape of the output.
    pub output: Vec<usize>,
    /// Elements that are folded into one output.
    pub n: usize,
}

/// Marks the axes to fold; `None` and an empty list mean all of them.
fn marks(axes: Option<&[i64]>, rank: usize) -> Result<Vec<bool>> {
    let Some(axes) = axes.filter(|a| !a.is_empty()) else { return Ok(vec![true; rank]) };
    let mut marks = vec![false; rank];
    for &a in axes {
        let a = axis(a, rank)?;
        if std::mem::replace(&mut marks[a], true) {
            return Err(Error::invalid(format!("axis {a} is listed twice")));
        }
    }
    Ok(marks)
}

/// Whether a node without axes folds nothing.
fn is_noop(attrs: &Attrs, axes: Option<&[i64]>) -> Result<bool> {
    Ok(attrs.int("noop_with_empty_axes", 0)? != 0 && axes.is_none_or(<[i64]>::is_empty))
}

impl Plan {
    /// Folds `axes` (all if `None` or empty) of a shape.
    pub fn new(shape: &[usize], axes: Option<&[i64]>, keep: bool) -> Result<Self> {
        Ok(Self::of_marks(shape, &marks(axes, shape.len())?, keep))
    }

    /// The reduction of a node whose axes are in input `axes_input`; `None` where it folds nothing.
    pub fn of(cx: &EvalCx, axes_input: usize) -> Result<Option<Self>> {
        let axes = cx.opt_ints(axes_input)?;
        if is_noop(cx.attrs(), axes.as_deref())? {
            return Ok(None);
        }
        Self::new(cx.input(0)?.shape(), axes.as_deref(), cx.attrs().int("keepdims", 1)? != 0).map(Some)
    }

    fn of_marks(shape: &[usize], marks: &[bool], keep: bool) -> Self {
        let kept: Vec<usize> = shape.iter().zip(marks).map(|(&d, &m)| if m { 1 } else { d }).collect();
        let steps = strides(&kept).into_iter().zip(marks).map(|(s, &m)| if m { 0 } else { s }).collect();
        let n = shape.iter().zip(marks).filter(|(_, m)| **m).map(|(d, _)| d).product();
        let output =
            if keep { kept } else { kept.into_iter().zip(marks).filter(|(_, m)| !**m).map(|(d, _)| d).collect() };
        Self { shape: shape.to_vec(), steps, output, n }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.output.iter().product()
    }

    /// Folds every element into the accumulator of its output. Each accumulator sees its elements in ascending index.
    pub fn fold<T: Copy, A>(&self, x: &[T], acc: &mut [A], mut f: impl FnMut(&mut A, T)) {
        let Some((&row_len, outer)) = self.shape.split_last() else {
            return x.iter().for_each(|&v| f(&mut acc[0], v));
        };
        let row_step = self.steps[outer.len()];
        let mut at = vec![0usize; outer.len()];
        for row in x.chunks_exact(row_len.max(1)) {
            let base: usize = at.iter().zip(&self.steps).map(|(i, s)| i * s).sum();
            row.iter().enumerate().for_each(|(i, &v)| f(&mut acc[base + i * row_step], v));
            for axis in (0..at.len()).rev() {
                at[axis] += 1;
                if at[axis] < outer[axis] {
                    break;
                }
                at[axis] = 0;
            }
        }
    }

    /// The output of every element, in the order of the input.
    pub fn targets(&self) -> Vec<usize> {
        let mut targets = Vec::new();
        let ones = vec![(); self.shape.iter().product()];
        let mut places: Vec<usize> = (0..self.outputs()).collect();
        self.fold(&ones, &mut places, |place, ()| targets.push(*place));
        targets
    }
}

/// Shape inference of a reduction whose axes are in input `axes_input`.
pub(crate) fn infer_dims(cx: &InferCx, axes_input: usize) -> Result<Vec<Dim>> {
    let x = cx.shape(0)?;
    let keep = cx.attrs().int("keepdims", 1)? != 0;
    let axes = match cx.opt(axes_input).map(|i| i.constant) {
        Some(None) if keep => return Ok((0..x.len()).map(|i| cx.fresh(0, i)).collect()),
        // No axes mean all axes, or none: then the rank is not known.
        Some(None) => match cx.length(axes_input)?.filter(|&n| n > 0).and_then(|n| x.len().checked_sub(n)) {
            Some(rank) => return Ok((0..rank).map(|i| cx.fresh(0, i)).collect()),
            None => return Ok(TensorType::unranked(cx.dtype(0)?).shape.0),
        },
        _ => cx.opt_const_ints(axes_input)?,
    };
    if is_noop(cx.attrs(), axes.as_deref())? {
        return Ok(x.to_vec());
    }
    let marks = marks(axes.as_deref(), x.len())?;
    let kept = x.iter().zip(&marks).filter(|(_, m)| keep || !**m);
    Ok(kept.map(|(d, &m)| if m { Dim::Known(1) } else { d.clone() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folds_any_axes_in_ascending_order() {
        let x: Vec<i64> = (0..12).collect();
        let plan = Plan::new(&[2, 3, 2], Some(&[0, -1]), false).unwrap();
        let mut seen = vec![Vec::new(); plan.outputs()];
        plan.fold(&x, &mut seen, |v, x| v.push(x));
        assert_eq!(seen, [vec![0, 1, 6, 7], vec![2, 3, 8, 9], vec![4, 5, 10, 11]]);
        assert_eq!((plan.n, plan.output), (4, vec![3]));
    }

    #[test]
    fn axes_are_checked() {
        assert!(Plan::new(&[2, 3], Some(&[0, -2]), true).is_err());
        assert!(Plan::new(&[2, 3], Some(&[2]), true).is_err());
        assert_eq!(Plan::new(&[2, 3], Some(&[]), true).unwrap().output, [1, 1]);
        assert_eq!(Plan::new(&[], None, false).unwrap().n, 1);
    }
}
