//! Operators of the tensor family.

use crate::Op;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[];
