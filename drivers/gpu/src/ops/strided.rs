//! Operands that are walked together with a result: strides per axis of the result, with neighbouring axes joined where
//! every operand allows it. An operand is read in the form in which it lies.

use super::types::{refuse, word};
use crate::Form;
use crate::builder::{Buf, Builder};
use crate::form::Stored;
use ottava_hal::{Node, Reason, Result, TensorType, ValueId};

/// Most axes that a kernel walks.
const MAX_AXES: usize = 6;

/// A value where it lies.
pub(super) struct Operand<'p> {
    pub ty: &'p TensorType,
    pub dims: Vec<usize>,
    pub stored: Stored,
    pub buf: Buf,
}

/// One axis of a walk, outermost first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lane {
    /// Extent of the result with padding.
    pub padded: usize,
    /// Indices that may be read.
    pub real: usize,
    /// Steps of the operands, in elements.
    pub steps: Vec<usize>,
    /// It must not be joined with others.
    pub alone: bool,
}

impl<'p> Operand<'p> {
    /// A value, read in the form in which it lies.
    pub fn of(builder: &mut Builder<'p>, id: ValueId) -> Result<Self> {
        let form = builder.form_of(id);
        let (ty, dims, buf) = (builder.ty(id), builder.dims(id)?, builder.read(id, form)?);
        Ok(Self { ty, dims, stored: Stored::new(ty, form)?, buf })
    }

    /// Step along an axis of a result of some rank, to whose last axes this operand is aligned.
    pub fn step(&self, axis: usize, rank: usize) -> usize {
        match (axis + self.dims.len()).checked_sub(rank) {
            Some(own) if self.dims[own] != 1 => self.stored.stride(own),
            _ => 0,
        }
    }
}

/// The form of a result: that of the first computed operand with its extents.
pub(super) fn form_for(builder: &Builder<'_>, inputs: &[ValueId], y: ValueId) -> Result<Form> {
    let dims = builder.dims(y)?;
    for &id in inputs {
        if builder.data(id).is_none() && builder.dims(id)? == dims {
            return Ok(builder.form_of(id));
        }
    }
    Ok(Form::Plain)
}

/// The walk of operands that broadcast to a result.
pub(super) fn broadcast(result: &Stored, operands: &[&Operand<'_>]) -> Result<Vec<Lane>> {
    let rank = result.axes.len();
    let lane = |a: &crate::form::Axis| Lane {
        padded: a.padded,
        real: a.extent,
        steps: operands.iter().map(|o| o.step(a.axis, rank)).collect(),
        alone: false,
    };
    joined(result.axes.iter().map(lane).collect())
}

/// Joins neighbours; axes of one element go.
pub(super) fn joined(lanes: Vec<Lane>) -> Result<Vec<Lane>> {
    let mut out: Vec<Lane> = Vec::new();
    for lane in lanes.into_iter().filter(|l| l.padded != 1 || l.alone) {
        match out.last_mut() {
            Some(last) if joins(last, &lane) => {
                last.real *= lane.padded;
                last.padded *= lane.padded;
                last.steps = lane.steps;
            }
            _ => out.push(lane),
        }
    }
    if out.len() > MAX_AXES {
        return refuse(Reason::Rank, format!("{} axes to walk, a kernel walks {MAX_AXES}", out.len()));
    }
    Ok(out)
}

/// Where every operand is laid out with the padding of the result, the padding may be read as well.
fn joins(outer: &Lane, inner: &Lane) -> bool {
    let steps = outer.steps.iter().zip(&inner.steps);
    !outer.alone && !inner.alone && steps.clone().all(|(o, i)| *o == i * inner.padded)
}

/// The walk as a kernel takes it, with the steps of `operands` operands per axis.
pub(super) fn lane_words(lanes: &[Lane], operands: usize) -> Result<Vec<u32>> {
    let mut words = Vec::with_capacity(MAX_AXES * (2 + operands));
    for lane in lanes {
        words.extend([word(lane.padded)?, word(lane.real)?]);
        for k in 0..operands {
            words.push(word(lane.steps.get(k).copied().unwrap_or(0))?);
        }
    }
    for _ in lanes.len()..MAX_AXES {
        words.extend([1, 1]);
        words.extend(std::iter::repeat_n(0, operands));
    }
    Ok(words)
}

/// Every input that is present.
pub(super) fn present(node: &Node) -> Vec<ValueId> {
    node.inputs.iter().flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(padded: usize, steps: &[usize]) -> Lane {
        Lane { padded, real: padded, steps: steps.to_vec(), alone: false }
    }

    #[test]
    fn neighbours_join_where_every_operand_allows_it() {
        let all = joined(vec![lane(2, &[12, 0]), lane(3, &[4, 0]), lane(1, &[9, 9]), lane(4, &[1, 0])]).unwrap();
        assert_eq!(all, [lane(24, &[1, 0])]);
        let two = joined(vec![lane(2, &[12, 0]), lane(3, &[4, 1]), lane(4, &[1, 0])]).unwrap();
        assert_eq!(two, [lane(2, &[12, 0]), lane(3, &[4, 1]), lane(4, &[1, 0])]);
        assert!(joined(vec![lane(1, &[1])]).unwrap().is_empty());
    }

    #[test]
    fn padding_is_read_only_where_the_operand_has_it() {
        let padded = |steps: &[usize]| Lane { padded: 4, real: 3, steps: steps.to_vec(), alone: false };
        let same = joined(vec![lane(5, &[4]), padded(&[1])]).unwrap();
        assert_eq!(same, [lane(20, &[1])]);
        let other = joined(vec![lane(5, &[3]), padded(&[1])]).unwrap();
        assert_eq!(other, [lane(5, &[3]), padded(&[1])]);
    }
}
