//! Einsum: sums of products over named axes ("bij,bjk->bik").
//!
//! * (C1) a letter that is not in the output is summed over; repeated in one operand it walks a diagonal.
//! * (C2) `...` stands for axes that broadcast, aligned at the right. (C3) without `->` the output has the letters that
//!   appear once, sorted.
//! * (C4) one accumulator per output, the summed letters in the order of their first appearance, one fused
//!   multiply-add per step.

use crate::elementwise::number::{Compute, Number, with_number};
use crate::elementwise::sample::{case, f32s};
use crate::{AttrKind, AttrSpec, Case, EvalCx, InferCx, Op, OpSpec, util};
use ottava_hal::{Attr, Attrs, Dim, Error, Node, Result, Tensor, TensorType};

/// The operator.
pub struct Einsum;

static SPEC: OpSpec = OpSpec {
    name: "Einsum",
    domain: "",
    since: 12,
    inputs: (1, usize::MAX),
    outputs: (1, 1),
    attrs: &[AttrSpec::required("equation", AttrKind::Str)],
};

impl Op for Einsum {
    fn spec(&self) -> &'static OpSpec {
        &SPEC
    }

    fn infer(&self, cx: &InferCx) -> Result<Vec<TensorType>> {
        let shapes = (0..cx.inputs.len()).map(|i| cx.shape(i)).collect::<Result<Vec<_>>>()?;
        let ranks: Vec<usize> = shapes.iter().map(|s| s.len()).collect();
        let equation = Equation::parse(cx.attrs().str("equation", "")?, &ranks)?;
        let mut dims = Vec::with_capacity(equation.output.len());
        for label in &equation.output {
            let mut dim = vec![Dim::Known(1)];
            for (shape, labels) in shapes.iter().zip(&equation.operands) {
                for (axis, _) in labels.iter().enumerate().filter(|(_, l)| *l == label) {
                    dim = util::broadcast_dims(&dim, &shape[axis..=axis])?;
                }
            }
            dims.append(&mut dim);
        }
        Ok(vec![cx.ty(cx.dtype(0)?, dims)])
    }

    fn eval(&self, cx: &EvalCx) -> Result<Vec<Tensor>> {
        let inputs = (0..cx.inputs.len()).map(|i| cx.input(i)).collect::<Result<Vec<_>>>()?;
        let ranks: Vec<usize> = inputs.iter().map(|x| x.shape().len()).collect();
        let equation = Equation::parse(cx.attrs().str("equation", "")?, &ranks)?;
        let shapes: Vec<&[usize]> = inputs.iter().map(|x| x.shape()).collect();
        let outer = Axes::new(&equation.output, &equation, &shapes)?;
        let inner = Axes::new(&equation.summed(), &equation, &shapes)?;
        let mut y = util::output(inputs[0].dtype(), &outer.extents)?;
        with_number!(y.dtype(), "Einsum", T => {
            let data = inputs.iter().map(|x| x.as_slice::<T>()).collect::<Result<Vec<_>>>()?;
            let out = y.as_slice_mut::<T>()?;
            let mut at = vec![0usize; data.len()];
            let mut index = vec![0usize; outer.extents.len()];
            for y in out {
                *y = T::narrow(inner.sum_of_products(&data, &at));
                outer.advance(&mut index, &mut at);
            }
            Ok(vec![y])
        })
    }

    fn cases(&self) -> Vec<Case> {
        let node = |equation: &str| {
            let mut node = Node::new("einsum", "Einsum", 12);
            node.attrs = Attrs::default().with("equation", Attr::Str(equation.into()));
            node
        };
        let m = f32s(&[2, 2], &[1.0, 2.0, 3.0, 4.0]);
        let product = f32s(&[2, 2], &[7.0, 10.0, 15.0, 22.0]);
        vec![
            case("c1_product", node("ij, jk -> ik"), &[m.clone(), m.clone()], &[product]),
            case("c2_diagonal", node("...ii->...i"), std::slice::from_ref(&m), &[f32s(&[2], &[1.0, 4.0])]),
            case("c3_implicit", node("ba"), &[m], &[f32s(&[2, 2], &[1.0, 3.0, 2.0, 4.0])]),
        ]
    }
}

/// A letter, or an axis of the ellipsis by its distance from the right.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// A parsed equation: the labels of every axis.
struct Equation {
    operands: Vec<Vec<Label>>,
    output: Vec<Label>,
}

impl Equation {
    fn parse(text: &str, ranks: &[usize]) -> Result<Self> {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match text.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (text.as_str(), None),
        };
        let terms: Vec<&str> = left.split(',').collect();
        if terms.len() != ranks.len() {
            return Err(Error::invalid(format!(
                "Einsum `{text}` names {} operands, found {}",
                terms.len(),
                ranks.len()
            )));
        }
        let operands =
            terms.iter().zip(ranks).map(|(term, &rank)| labels(term, Some(rank))).collect::<Result<Vec<_>>>()?;
        let n_ellipsis = operands.iter().map(|o| o.iter().filter(|l| is_ellipsis(l)).count()).max().unwrap_or(0);
        let output = match right {
            Some(term) => explicit_output(term, n_ellipsis)?,
            None => implicit_output(&operands),
        };
        let known = |l: &Label| operands.iter().any(|o| o.contains(l));
        if !output.iter().all(known) || (1..output.len()).any(|i| output[..i].contains(&output[i])) {
            return Err(Error::invalid(format!("Einsum `{text}`: the output repeats a letter or has an unknown one")));
        }
        Ok(Self { operands, output })
    }

    /// The labels that the output lacks, in the order of their first appearance.
    fn summed(&self) -> Vec<Label> {
        let mut summed = Vec::new();
        for label in self.operands.iter().flatten() {
            if !self.output.contains(label) && !summed.contains(label) {
                summed.push(*label);
            }
        }
        summed
    }
}

fn is_ellipsis(label: &Label) -> bool {
    matches!(label, Label::Ellipsis(_))
}

/// The labels of a term; its rank says how many axes an ellipsis stands for.
fn labels(term: &str, rank: Option<usize>) -> Result<Vec<Label>> {
    let (before, after) = match term.split_once("...") {
        Some((before, after)) => (before, Some(after)),
        None => (term, None),
    };
    let letters = before.chars().chain(after.unwrap_or("").chars());
    if let Some(bad) = letters.clone().find(|c| !c.is_ascii_alphabetic()) {
        return Err(Error::invalid(format!("Einsum: `{bad}` in `{term}` is no letter")));
    }
    let n_letters = letters.count();
    let rank = rank.unwrap_or(n_letters);
    let n_ellipsis = rank.checked_sub(n_letters).filter(|&n| n == 0 || after.is_some());
    let n_ellipsis =
        n_ellipsis.ok_or_else(|| Error::invalid(format!("Einsum: `{term}` does not fit an operand of rank {rank}")))?;
    let mut labels: Vec<Label> = before.chars().map(Label::Letter).collect();
    labels.extend((0..n_ellipsis).rev().map(|i| Label::Ellipsis(std::cmp::Reverse(i))));
    labels.extend(after.unwrap_or("").chars().map(Label::Letter));
    Ok(labels)
}

fn explicit_output(term: &str, n_ellipsis: usize) -> Result<Vec<Label>> {
    let n_letters = term.chars().filter(|c| *c != '.').count();
    labels(term, Some(n_letters + if term.contains("...") { n_ellipsis } else { 0 }))
}

/// (C3)
fn implicit_output(operands: &[Vec<Label>]) -> Vec<Label> {
    let mut all: Vec<Label> = operands.iter().flatten().copied().collect();
    all.sort_unstable();
    let count = |l: &Label| all.iter().filter(|m| *m == l).count();
    let mut output: Vec<Label> = all.iter().filter(|l| is_ellipsis(l) || count(l) == 1).copied().collect();
    output.dedup();
    output
}

/// Some labels as loops: extents, and per loop the step of every operand.
struct Axes {
    extents: Vec<usize>,
    steps: Vec<Vec<usize>>,
}

impl Axes {
    fn new(labels: &[Label], equation: &Equation, shapes: &[&[usize]]) -> Result<Self> {
        let mut axes = Self { extents: vec![], steps: vec![] };
        for label in labels {
            let (mut extent, mut steps) = (1usize, vec![0usize; shapes.len()]);
            for (i, (shape, own)) in shapes.iter().zip(&equation.operands).enumerate() {
                let strides = util::strides(shape);
                for axis in (0..own.len()).filter(|&axis| own[axis] == *label) {
                    match (extent, shape[axis]) {
                        (_, 1) => continue,
                        (1, n) => extent = n,
                        (e, n) if e == n => {}
                        (e, n) => return Err(Error::invalid(format!("Einsum: one letter has extents {e} and {n}"))),
                    }
                    steps[i] += strides[axis];
                }
            }
            axes.extents.push(extent);
            axes.steps.push(steps);
        }
        Ok(axes)
    }

    /// The next index in row-major order, with every operand's position; wraps around to the start.
    fn advance(&self, index: &mut [usize], at: &mut [usize]) {
        for (i, &extent) in self.extents.iter().enumerate().rev() {
            index[i] += 1;
            at.iter_mut().zip(&self.steps[i]).for_each(|(at, step)| *at += step);
            if index[i] < extent {
                return;
            }
            index[i] = 0;
            at.iter_mut().zip(&self.steps[i]).for_each(|(at, step)| *at -= step * extent);
        }
    }

    /// (C4) from the operands' positions `start`.
    fn sum_of_products<T: Number>(&self, data: &[&[T]], start: &[usize]) -> T::Wide {
        let mut sum = T::Wide::ZERO;
        let Some(n) = self.extents.iter().try_fold(1usize, |n, &e| n.checked_mul(e)) else { return sum };
        let (mut at, mut index) = (start.to_vec(), vec![0usize; self.extents.len()]);
        for _ in 0..n {
            let mut product = data[0][at[0]].widen();
            for (k, (x, &i)) in data.iter().zip(&at).enumerate().skip(1) {
                if k + 1 == data.len() {
                    sum = product.mul_add(x[i].widen(), sum);
                } else {
                    product = product.mul(x[i].widen());
                }
            }
            if data.len() == 1 {
                sum = sum.add(product);
            }
            self.advance(&mut index, &mut at);
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_equations_are_errors() {
        for (text, ranks) in [("ij->k", &[2][..]), ("ij", &[3]), ("i,j->ij", &[1]), ("i1->i", &[2]), ("ij->ii", &[2])] {
            assert!(Equation::parse(text, ranks).is_err(), "{text}");
        }
        assert!(Equation::parse("...i->...", &[0]).is_err());
    }
}
