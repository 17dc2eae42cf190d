//! Defects of kind capability.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
