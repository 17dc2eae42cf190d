//! `ottava-graph`: the one compiler IR, from an imported file to the program of a device.
//!
//! A [`Graph`] holds values and nodes (the same [`Value`] and [`Node`] that a device's program holds, so lowering is a
//! selection, not a translation), and the [`Phase`] it has reached. Quantization is part of a value's type. Passes are
//! functions `Graph -> Graph` made of small rules that return a [`Patch`]; after each phase [`verify`] checks what the
//! phase promises.
//!
//! | file | holds |
//! |---|---|
//! | `graph` | the data, building and reading it |
//! | `uses` | who produces and who reads a value |
//! | `patch` | how a rule changes a graph |
//! | `order` | topological order, dead code, compaction |
//! | `shapes` | type inference, binding of symbolic dimensions |
//! | `verify` | what each phase promises |
//! | `lower` | graph or part of it -> `Program` |
//! | `masks` | masks of attention and of pooling, as files write them |
//! | `text` | a text form that parses back |
//!
//! Invariants: a value has one producer (a node, the caller, or constant data); nodes are in topological order after
//! every pass; names are unique. No pass, no file format and no device is known here.

mod diagnostic;
mod graph;
mod lower;
pub mod masks;
mod order;
mod patch;
mod phase;
mod shapes;
pub mod text;
mod uses;
mod verify;

pub use diagnostic::{Diagnostic, Severity, has_errors};
pub use graph::{Graph, State};
pub use lower::{Extracted, extract, from_program, to_program};
pub use ottava_hal::program::Activation;
pub use ottava_hal::{Attr, Attrs, Fused, Node, Value, ValueId};
pub use patch::{Patch, rewrite};
pub use phase::Phase;
pub use shapes::{bind, infer_node, infer_types, symbols};
pub use uses::Uses;
pub use verify::verify;

/// Result of graph operations.
pub type Result<T> = ottava_hal::Result<T>;
