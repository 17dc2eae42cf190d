//! Operators of the control family: `If`, `Loop` and `Scan` of ONNX with their bodies as programs.
//!
//! They are in Ottava's own domain because they differ from ONNX in one point: a body reads nothing from outside.
//! Values of the graph around it that ONNX lets it capture are inputs of the node, behind the ones that ONNX has, and
//! of the body, behind the ones that ONNX has. The attribute `captures` of `Loop` and `Scan` is their number.
//!
//! A body is evaluated node by node by the same operator table. Its types are inferred anew on every pass, from the
//! data: extents may change from one pass to the next.

use crate::Op;

mod body;
mod branch;
mod budget;
mod repeat;
#[cfg(test)]
mod repeat_tests;
mod scan;
mod settle;

pub use body::always_continues;

/// One line per operator.
pub static TABLE: &[&dyn Op] = &[&branch::If, &repeat::Loop, &scan::Scan];

#[cfg(test)]
mod tests {
    #[test]
    fn cases_hold() {
        crate::elementwise::sample::check_table(super::TABLE);
    }
}
