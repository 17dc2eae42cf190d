//! Defects of kind blob.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
