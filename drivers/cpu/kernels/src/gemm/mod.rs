//! Packed weights of exact u8 x s8 products.
//!
//! Packing decides how each weight is multiplied, kernels only follow: a panel of sixteen output columns is a list of steps, each in
//! one [`Form`] whose instruction sequence is exact for every u8 input. Weights that do not fit s8 (a zero point subtracted from u8
//! weights) go to steps with 16-bit weights.
//!
//! Without dot product instructions the fast way is `vpmaddubsw`, which multiplies u8 by s8 and adds neighbours with *s16 saturation*.
//! It is exact for every u8 input when, in each 16-bit lane, the positive weights sum to at most 128 and the negative ones likewise
//! (255 * 128 = 32640 fits s16), and so is the 16-bit sum of two such products. A byte shuffle can put any of sixteen neighbouring
//! activations anywhere, differently for each column, so within a window every column is free to choose which weights share a lane:
//! large ones meet small ones or ones of the other sign. `window` searches that choice.
//!
//! `span` says which activation bytes a filter reads, `pack` which layouts there are, `format` how steps lie in memory.

mod dot;
mod format;
mod pack;
mod place;
mod span;
mod stored;
#[cfg(test)]
mod tests;
mod window;

#[cfg(any(test, target_arch = "x86_64"))]
pub(crate) use format::Content;
pub(crate) use format::{Block, COLS, Form, PackedB, Panel, RUNS, Run, WINDOW_FORMS};
pub use pack::Packing;
pub(crate) use pack::pack;
pub(crate) use span::Span;
