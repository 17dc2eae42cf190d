//! `simulate --layers`: a list of layers in, cycles, accesses and traffic per layer out (`npu.md` sections 3, 4, 7).
//!
//! No network and no data are needed: a layer is a product of matrices, given by its sizes. [`parse`] reads the list,
//! [`simulate`] applies the closed forms of [`analytic`](crate::analytic) to each row, [`Report::csv`] writes one row per
//! layer in the columns of SCALE-Sim's reports, and [`Report`] itself is the document that `--json` prints.
//!
//! Two conventions of those columns are not ours and are kept for comparison: `Total Cycles` is the *last index* of the
//! array's cycles, one less than their number, and it does not contain waiting for memory; `Stall Cycles` and
//! `Total Cycles (incl. prefetch)` do. All other figures count cycles as lengths.
//!
//! Traffic counts operands in the form of the product, so a convolution's input with its window unrolled: the list does
//! not say how windows overlap. It is an upper bound there, and exact for products.

mod csv;
mod error;
mod ignored;
mod parse;
mod report;
mod simulate;

pub use error::LayersError;
pub use ignored::ignored;
pub use parse::{Kind, Layer, MAX_BYTES, parse};
pub use report::{LayerReport, NetworkReport, Report, Stalls, Totals, TrafficReport};
pub use simulate::{doubtful, simulate};

pub(crate) use csv::cell;
pub(crate) use parse::quoted_cells;
