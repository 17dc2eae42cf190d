//! Recognises means, variances and the normalization that is made of them, in the spellings of exporters.
//!
//! * mean: ReduceMean, or ReduceSum times `1/n` or divided by `n`, with or without a Reshape that restores the axes;
//! * variance: the mean of `d*d` or `d^2` with `d = x - mean`, or `E[x^2] - mean^2`, with or without a `max(0, .)`;
//! * `1 / sqrt(variance + eps)`: Reciprocal of Sqrt, a division by Sqrt, or a power of -1/2;
//! * without a mean, the root mean square: the same about `E[x^2]`.

use super::pattern::{View, is_plain};
use super::polynomial::near;
use super::rules::{is, is_any};
use ottava_hal::{Dim, Node, ValueId};
use std::collections::BTreeSet;

/// How many factors a normalization may have.
const MAX_FACTORS: usize = 6;

/// A normalization without its offset.
pub struct Norm {
    /// What is normalized.
    pub x: ValueId,
    /// Normalized axes, ascending.
    pub axes: Vec<usize>,
    /// Added to the variance.
    pub epsilon: f32,
    /// Whether the mean is subtracted.
    pub centred: bool,
    /// Constant factors.
    pub scales: Vec<ValueId>,
    /// Nodes of the pattern.
    pub inside: BTreeSet<usize>,
}

/// Statistics over axes of a value.
#[derive(Clone, PartialEq)]
struct Mean {
    x: ValueId,
    axes: Vec<usize>,
}

struct Matcher<'g> {
    view: View<'g>,
    /// What the factors of a product are not split into further: the value whose squares make the variance.
    whole: Option<ValueId>,
    inside: BTreeSet<usize>,
}

/// The normalization that a product computes.
pub fn core_of(view: View, y: ValueId) -> Option<Norm> {
    let mut m = Matcher { view, whole: None, inside: BTreeSet::new() };
    let (variance, _) = m.find_inverse(y, MAX_FACTORS)?;
    m.whole = m.attempt(|m| m.mean(variance).and_then(|of| m.square(of.x)));
    m.inside.clear();
    let mut factors = Vec::new();
    m.factors(y, &mut factors)?;
    let (mut scales, mut data, mut inverse) = (Vec::new(), None, None);
    for factor in factors {
        match factor {
            Factor::Value(id) if view.graph.constant(id).is_some() => scales.push(id),
            Factor::Value(id) if data.replace(id).is_none() => {}
            Factor::Inverse(variance, epsilon) if inverse.replace((variance, epsilon)).is_none() => {}
            _ => return None,
        }
    }
    let ((variance, epsilon), data) = (inverse?, data?);
    let centred = m.attempt(|m| {
        let mean = m.deviation(data)?;
        m.is_variance(variance, &mean, data).then_some(mean)
    });
    let (is_centred, mean) = match centred {
        Some(mean) => (true, mean),
        None => (false, m.mean_square(variance, data)?),
    };
    m.is_aligned(variance, &mean).then_some(())?;
    Some(Norm { x: mean.x, axes: mean.axes, epsilon: epsilon as f32, centred: is_centred, scales, inside: m.inside })
}

enum Factor {
    Value(ValueId),
    /// `1 / sqrt(value + eps)`.
    Inverse(ValueId, f64),
}

impl Matcher<'_> {
    fn op(&mut self, id: ValueId, op: &str) -> Option<Vec<ValueId>> {
        let (index, node) = self.view.op(id, op)?;
        self.inside.insert(index);
        node.inputs.iter().copied().collect()
    }

    /// Nodes that a failed search went through are no part of the pattern.
    fn attempt<T>(&mut self, search: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = self.inside.clone();
        let found = search(self);
        if found.is_none() {
            self.inside = before;
        }
        found
    }

    /// The first factor of a product that is `1 / sqrt(v + eps)`.
    fn find_inverse(&mut self, id: ValueId, depth: usize) -> Option<(ValueId, f64)> {
        if let Some(found) = self.attempt(|m| m.inverse_root(id)) {
            return Some(found);
        }
        let (_, node) =
            self.view.producer(id).filter(|(_, n)| depth > 0 && is_any(n, &["Mul", "Div"]) && is_plain(n))?;
        let (a, b) = (node.input(0)?, node.input(1)?);
        if is(node, "Div") {
            return self.attempt(|m| m.root(b)).or_else(|| self.find_inverse(a, depth - 1));
        }
        self.find_inverse(a, depth - 1).or_else(|| self.find_inverse(b, depth - 1))
    }

    /// The factors of a product.
    fn factors(&mut self, id: ValueId, found: &mut Vec<Factor>) -> Option<()> {
        if Some(id) == self.whole {
            found.push(Factor::Value(id));
        } else if let Some((variance, epsilon)) = self.attempt(|m| m.inverse_root(id)) {
            found.push(Factor::Inverse(variance, epsilon));
        } else if let Some(operands) = self.op(id, "Mul") {
            operands.into_iter().try_for_each(|id| self.factors(id, found))?;
        } else if let Some((a, variance, epsilon)) = self.attempt(|m| m.quotient(id)) {
            found.push(Factor::Inverse(variance, epsilon));
            self.factors(a, found)?;
        } else {
            found.push(Factor::Value(id));
        }
        (found.len() <= MAX_FACTORS).then_some(())
    }

    /// `a / sqrt(v + eps)`.
    fn quotient(&mut self, id: ValueId) -> Option<(ValueId, ValueId, f64)> {
        let [a, b] = self.op(id, "Div")?[..] else { return None };
        let (variance, epsilon) = self.root(b)?;
        Some((a, variance, epsilon))
    }

    /// `1 / sqrt(v + eps)`.
    fn inverse_root(&mut self, id: ValueId) -> Option<(ValueId, f64)> {
        if let Some((index, node)) = self.view.op(id, "Reciprocal") {
            let found = self.root(node.input(0)?)?;
            self.inside.insert(index);
            return Some(found);
        }
        if let Some((index, node)) = self.view.op(id, "Div") {
            if self.view.scalar(node.input(0)?)? != 1.0 {
                return None;
            }
            let found = self.root(node.input(1)?)?;
            self.inside.insert(index);
            return Some(found);
        }
        let (index, node) = self.view.op(id, "Pow")?;
        if self.view.scalar(node.input(1)?)? != -0.5 {
            return None;
        }
        let found = self.with_epsilon(node.input(0)?)?;
        self.inside.insert(index);
        Some(found)
    }

    /// `sqrt(v + eps)`.
    fn root(&mut self, id: ValueId) -> Option<(ValueId, f64)> {
        if let Some((index, node)) = self.view.op(id, "Pow") {
            let half = self.view.scalar(node.input(1)?)? == 0.5;
            self.inside.insert(index);
            return if half { self.with_epsilon(node.input(0)?) } else { None };
        }
        let of = *self.op(id, "Sqrt")?.first()?;
        self.with_epsilon(of)
    }

    fn with_epsilon(&mut self, id: ValueId) -> Option<(ValueId, f64)> {
        let (index, orders) = self.view.both_orders(id, "Add")?;
        self.inside.insert(index);
        let find = |(v, e): (ValueId, ValueId)| Some((v, self.view.scalar(e).filter(|e| *e >= 0.0)?));
        orders.into_iter().find_map(find)
    }

    /// Follows a value through nodes that only insert or drop axes of extent 1.
    fn unshaped(&mut self, mut id: ValueId) -> ValueId {
        let long =
            |id: ValueId| -> Vec<&Dim> { self.view.shape(id).0.iter().filter(|d| **d != Dim::Known(1)).collect() };
        while let Some((index, node)) = self.view.producer(id)
            && is_any(node, &["Reshape", "Unsqueeze", "Squeeze"])
            && is_plain(node)
            && let Some(source) = node.input(0)
            && long(source) == long(id)
        {
            self.inside.insert(index);
            id = source;
        }
        id
    }

    /// `mean(x)` over axes.
    fn mean(&mut self, id: ValueId) -> Option<Mean> {
        let id = self.unshaped(id);
        if let Some((index, node)) = self.view.op(id, "ReduceMean") {
            self.inside.insert(index);
            return self.reduced(node);
        }
        let (sum, part) = self.scaled(id)?;
        let sum = self.unshaped(sum);
        let (index, node) = self.view.op(sum, "ReduceSum")?;
        let mean = self.reduced(node)?;
        let extents: Option<Vec<usize>> = mean.axes.iter().map(|a| self.view.shape(mean.x).0[*a].known()).collect();
        let n: usize = extents?.iter().product();
        self.inside.insert(index);
        near(part * n as f64, 1.0).then_some(mean)
    }

    /// A value times a constant scalar.
    fn scaled(&mut self, id: ValueId) -> Option<(ValueId, f64)> {
        if let Some((index, orders)) = self.view.both_orders(id, "Mul") {
            self.inside.insert(index);
            return orders.into_iter().find_map(|(v, c)| Some((v, self.view.scalar(c)?)));
        }
        let (index, node) = self.view.op(id, "Div")?;
        self.inside.insert(index);
        Some((node.input(0)?, 1.0 / self.view.scalar(node.input(1)?)?))
    }

    /// What a reduction reduces, over constant axes.
    fn reduced(&self, node: &Node) -> Option<Mean> {
        let x = node.input(0)?;
        let rank = self.view.shape(x).rank();
        let axes = self.view.graph.constant(node.input(1)?)?.to_ints().ok()?;
        let mut axes: Vec<usize> =
            axes.into_iter().map(|a| ottava_ops::util::axis(a, rank).ok()).collect::<Option<_>>()?;
        axes.sort_unstable();
        axes.dedup();
        (!axes.is_empty()).then_some(Mean { x, axes })
    }

    /// `x - mean(x)`.
    fn deviation(&mut self, id: ValueId) -> Option<Mean> {
        let [x, mean_at] = self.op(id, "Sub")?[..] else { return None };
        let mean = self.mean(mean_at)?;
        (mean.x == x && self.is_aligned(mean_at, &mean)).then_some(mean)
    }

    /// Whether a statistic has the shape that broadcasts along the reduced axes.
    fn is_aligned(&self, at: ValueId, mean: &Mean) -> bool {
        let mut kept = self.view.shape(mean.x).clone();
        mean.axes.iter().for_each(|a| kept.0[*a] = Dim::Known(1));
        *self.view.shape(at) == kept
    }

    /// The value whose square this is.
    fn square(&mut self, id: ValueId) -> Option<ValueId> {
        if let Some((index, node)) = self.view.op(id, "Pow") {
            self.inside.insert(index);
            return (self.view.scalar(node.input(1)?)? == 2.0).then_some(node.input(0)?);
        }
        let [a, b] = self.op(id, "Mul")?[..] else { return None };
        (a == b).then_some(a)
    }

    /// The variance about `mean`; `deviation` is `x - mean`.
    fn is_variance(&mut self, id: ValueId, mean: &Mean, deviation: ValueId) -> bool {
        let id = self.not_negative(id);
        if let Some(of) = self.attempt(|m| m.mean(id)) {
            let Some(d) = self.square(of.x) else { return false };
            let same = d == deviation || self.deviation(d).as_ref() == Some(mean);
            return same && of.axes == mean.axes;
        }
        let Some([squares, squared]) = self.op(id, "Sub").as_deref().and_then(|v| <[ValueId; 2]>::try_from(v).ok())
        else {
            return false;
        };
        let of = self.mean(squares).filter(|of| of.axes == mean.axes);
        let about_zero = of.and_then(|of| self.square(of.x)) == Some(mean.x);
        let m = self.square(squared);
        about_zero && m.and_then(|m| self.mean(m)).as_ref() == Some(mean)
    }

    /// `E[x^2]`.
    fn mean_square(&mut self, id: ValueId, x: ValueId) -> Option<Mean> {
        let of = self.mean(id)?;
        (self.square(of.x)? == x).then_some(Mean { x, axes: of.axes })
    }

    /// Past a `max(0, .)` and past reshapes.
    fn not_negative(&mut self, id: ValueId) -> ValueId {
        let id = self.unshaped(id);
        if let Some((index, node)) = self.view.producer(id).filter(|(_, n)| is(n, "Relu") && is_plain(n)) {
            self.inside.insert(index);
            return node.input(0).unwrap_or(id);
        }
        let Some((index, orders)) = self.view.both_orders(id, "Max") else { return id };
        let Some((inner, _)) = orders.into_iter().find(|(_, c)| self.view.scalar(*c) == Some(0.0)) else { return id };
        self.inside.insert(index);
        inner
    }
}
