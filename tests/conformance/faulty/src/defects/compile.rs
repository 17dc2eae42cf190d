//! Defects of kind compile.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
