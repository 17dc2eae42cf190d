//! Operators of the elementwise family.

use crate::Op;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[];
