//! From tiles to an instruction stream.
//!
//! [`Op`] is one instruction together with the registers it reads; [`Emitter`] writes it and only those SETs that change
//! something. [`Pipeline`] puts tokens on the instructions of consecutive tiles, so that four queues work at once.
//!
//! Invariant: stream order is a valid sequential order; every wait finds its signal earlier in the stream. No stream can
//! therefore deadlock, whatever the depth of the queues.

mod emitter;
mod op;
mod pipeline;

pub(crate) use emitter::Emitter;
pub(crate) use op::{Op, Place, Rows};
pub(crate) use pipeline::{Group, Pipeline};
