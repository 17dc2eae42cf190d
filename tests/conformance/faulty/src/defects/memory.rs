//! Defects of kind memory.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
