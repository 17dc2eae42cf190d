//! Defects of kind execution.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
