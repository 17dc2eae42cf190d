//! Packed weights of exact u8 x s8 products.
//!
//! Packing decides how each weight is multiplied, kernels only follow: a panel of sixteen output columns is a list of steps, each in
//! one [`Form`] whose instruction sequence is exact for every u8 input. Weights that do not fit s8 (a zero point subtracted from u8
//! weights) go to steps with 16-bit weights.
//!
//! `span` says which activation bytes a filter reads, `pack` which layouts there are, `format` how steps lie in memory.

mod dot;
mod format;
mod pack;
mod span;
mod stored;

pub(crate) use format::{Block, COLS, FORMS, Form, PackedB, Panel, Run};
pub use pack::Packing;
pub(crate) use pack::pack;
pub(crate) use span::Span;
