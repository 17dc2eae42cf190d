//! Reads arithmetic as a polynomial, so that a formula is recognised in whatever order an exporter wrote it.
//!
//! A value becomes `sum of c[i][j] * x^i * t^j` with `i <= 3` and `j <= 1`, where `x` is the argument of a function
//! and `t` what one inner function (erf, tanh, a clip) makes of it. Coefficients are f64; they come from f32 constants,
//! so two that mean the same number agree to about 2^-23.

use super::pattern::{View, is_arithmetic};
use super::rules::is;
use ottava_hal::ValueId;
use std::collections::BTreeSet;

/// Constants of two exporters that mean the same number differ by no more than this part.
const SAME: f64 = 1e-6;
/// How many nodes a formula is deep.
const DEPTH: usize = 8;

/// Coefficients by power of `x` (0 to 3) and of `t` (0 or 1).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Poly([[f64; 2]; 4]);

impl Poly {
    fn term(i: usize, j: usize, c: f64) -> Self {
        let mut poly = Self([[0.0; 2]; 4]);
        poly.0[i][j] = c;
        poly
    }

    fn scaled(mut self, c: f64) -> Self {
        self.0.iter_mut().flatten().for_each(|v| *v *= c);
        self
    }

    fn plus(mut self, other: Self) -> Self {
        self.0.iter_mut().flatten().zip(other.0.iter().flatten()).for_each(|(a, b)| *a += b);
        self
    }

    /// The product, if its powers stay within bounds.
    fn times(self, other: Self) -> Option<Self> {
        let mut product = Self([[0.0; 2]; 4]);
        for (i, j, a) in self.terms() {
            for (k, l, b) in other.terms() {
                *product.0.get_mut(i + k)?.get_mut(j + l)? += a * b;
            }
        }
        Some(product)
    }

    fn terms(self) -> impl Iterator<Item = (usize, usize, f64)> {
        let all = (0..4).flat_map(|i| (0..2).map(move |j| (i, j)));
        all.map(move |(i, j)| (i, j, self.0[i][j])).filter(|(_, _, c)| *c != 0.0)
    }

    fn as_constant(self) -> Option<f64> {
        self.terms().all(|(i, j, _)| i + j == 0).then_some(self.0[0][0])
    }

    /// The coefficient of `x^i * t^j`.
    pub fn coefficient(self, i: usize, j: usize) -> f64 {
        self.0[i][j]
    }

    /// Whether the polynomial has exactly these terms `(power of x, power of t, coefficient)`.
    pub fn is(self, terms: &[(usize, usize, f64)]) -> bool {
        let wanted = |i: usize, j: usize| terms.iter().find(|t| (t.0, t.1) == (i, j)).map_or(0.0, |t| t.2);
        (0..4).all(|i| (0..2).all(|j| near(self.0[i][j], wanted(i, j))))
    }
}

/// Whether two coefficients mean the same number.
pub fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= SAME * b.abs()
}

/// Reads values as polynomials in `x` and `t`.
pub struct Reader<'g> {
    /// What computes what.
    pub view: View<'g>,
    /// The argument.
    pub x: ValueId,
    /// The inner function's value, once there is one.
    pub t: Option<ValueId>,
    /// Nodes that were read.
    pub inside: BTreeSet<usize>,
}

impl Reader<'_> {
    /// The polynomial of a value, `None` where it is none.
    pub fn read(&mut self, id: ValueId) -> Option<Poly> {
        self.at_depth(id, DEPTH)
    }

    fn at_depth(&mut self, id: ValueId, depth: usize) -> Option<Poly> {
        if id == self.x {
            return Some(Poly::term(1, 0, 1.0));
        }
        if Some(id) == self.t {
            return Some(Poly::term(0, 1, 1.0));
        }
        if let Some(c) = self.view.scalar(id) {
            return Some(Poly::term(0, 0, c));
        }
        let (index, node) = self.view.producer(id).filter(|(_, node)| depth > 0 && is_arithmetic(node))?;
        if !self.view.is_f32(id) {
            return None;
        }
        self.inside.insert(index);
        let a = self.at_depth(node.input(0)?, depth - 1)?;
        if is(node, "Neg") {
            return Some(a.scaled(-1.0));
        }
        let b = self.at_depth(node.input(1)?, depth - 1)?;
        match node.op.as_str() {
            "Add" => Some(a.plus(b)),
            "Sub" => Some(a.plus(b.scaled(-1.0))),
            "Mul" => a.times(b),
            "Div" => b.as_constant().filter(|c| *c != 0.0).map(|c| a.scaled(1.0 / c)),
            _ => match b.as_constant()? {
                2.0 => a.times(a),
                3.0 => a.times(a)?.times(a),
                _ => None,
            },
        }
    }
}
