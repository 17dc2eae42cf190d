//! Injected faults: what goes wrong, where, when and by which seed; and what a run makes of it.
//!
//! An entry of `fault: [(kind, where, when, seed)]` strikes once (a stuck token: from then on), at the first chance from
//! cycle `when` on; the seed chooses what the entry leaves open. The same entries on the same stream and bytes always do
//! the same. Faulty runs change memory when a step *ends*, so that a step that starts too early reads old bytes.
//!
//! | kind | where | what |
//! |---|---|---|
//! | `bit_flip` | `a`, `w`, `acc` | one bit of an on-chip memory; found by `parity` when it is read |
//! | `bit_flip` | `in`, `out`, `scratch`, `const` | one bit of a DRAM region |
//! | `bit_flip` | `command` | one bit of the command words in memory; found by `crc`, the decoder or the verifier, or not |
//! | `dma_drop`, `dma_delay`, `dma_truncate` | `ld`, `st` | a transfer that does nothing, is late, or ends early |
//! | `token_lost`, `token_stuck` | `ld->ex`, `ex->ld`, ... | a token that does not arrive; a counter that always has one |
//! | `event_lost` | `any` | a SIGNAL that nobody sees |
//! | `table_corrupt` | `any` | one bit of the requantizer's table that a step is about to read |
//! | `device_lost` | `any` | the device answers no more |

mod spec;
mod strike;
mod trial;

pub use spec::{Dma, Injection, Kind, Link, Site};
pub(crate) use strike::{Fate, HostBytes, Mishap, Strikes, damaged, mishaps};
pub use trial::{Outcome, Trial, trial};
