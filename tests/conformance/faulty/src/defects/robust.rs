//! Defects of kind robust.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
