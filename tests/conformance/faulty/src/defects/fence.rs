//! Defects of kind fence.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
