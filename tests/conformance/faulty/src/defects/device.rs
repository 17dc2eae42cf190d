//! Defects of kind device.

use super::Defect;

pub(super) static DEFECTS: &[Defect] = &[];
