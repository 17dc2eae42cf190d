//! Shapes with known and symbolic dimensions.

use std::fmt;
use std::sync::Arc;

/// One dimension: a number, or a name that is bound before a program is compiled.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dim {
    /// A fixed extent.
    Known(usize),
    /// A symbol such as `batch`; equal names are equal extents.
    Sym(Arc<str>),
}

impl Dim {
    /// The extent, if it is fixed.
    pub fn known(&self) -> Option<usize> {
        match self {
            Self::Known(n) => Some(*n),
            Self::Sym(_) => None,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(n) => write!(f, "{n}"),
            Self::Sym(s) => f.write_str(s),
        }
    }
}

/// The dimensions of a tensor; empty for a scalar.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub Vec<Dim>);

impl Shape {
    /// A shape of fixed extents.
    pub fn fixed(dims: &[usize]) -> Self {
        Self(dims.iter().map(|&n| Dim::Known(n)).collect())
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// All extents, if every one is fixed.
    pub fn known(&self) -> Option<Vec<usize>> {
        self.0.iter().map(Dim::known).collect()
    }

    /// Number of elements, if every dimension is fixed and the product fits.
    pub fn elements(&self) -> Option<usize> {
        self.0.iter().try_fold(1usize, |n, d| n.checked_mul(d.known()?))
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            write!(f, "{d}")?;
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_need_every_dimension() {
        assert_eq!(Shape::fixed(&[2, 3]).elements(), Some(6));
        assert_eq!(Shape::default().elements(), Some(1));
        assert_eq!(Shape(vec![Dim::Sym("n".into()), Dim::Known(3)]).elements(), None);
        assert_eq!(Shape::fixed(&[usize::MAX, 2]).elements(), None);
    }

    #[test]
    fn prints_like_a_list() {
        assert_eq!(Shape(vec![Dim::Sym("n".into()), Dim::Known(3)]).to_string(), "[n,3]");
    }
}
