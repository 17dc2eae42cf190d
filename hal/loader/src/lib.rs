//! `ottava-loader`: finds, checks and loads driver plugins, and adapts their tables to the driver contract.
//!
//! [`load_all`] is the whole interface: it returns every candidate that was found, each with its driver or the reason why
//! there is none. A refusal never ends the process, and nothing is passed over in silence.
//!
//! | file | does |
//! |---|---|
//! | `options`, `elevated` | what the caller asks for; the environment as data |
//! | `discover`, `manifest` | where candidates come from |
//! | `policy`, `hash`, `note` | checks of the file before any of its code runs |
//! | `library`, `rust_door`, `lint` | `dlopen`, the two doors, checks of the tables |
//! | `plugin`, `host_table`, `clock` | a loaded driver: what it gets from the host, when it is shut down |
//! | `candidate` | all of this in the order of abi.md section 7 |
//! | `foreign`, `once` | reading texts and arrays that a driver returns; warnings that are told once |
//! | [`raw`] | the tables as they are, for the conformance suite |
//! | [`adapter`] | the tables as [`ottava_hal::Driver`], [`ottava_hal::Device`], ... |
//!
//! **Trust.** The policy decides which libraries may run in the process; one that runs can do anything. The checks here
//! are for drivers that are broken, not for drivers that attack: whatever they return is checked before it is used, and
//! becomes an error in words.
//!
//! Unsafe code is allowed here because calling a foreign library is; each block says what makes it right. No other crate
//! calls `dlopen` or sees the tables.
#![allow(unsafe_code)]

pub mod adapter;
mod candidate;
mod clock;
mod discover;
mod elevated;
mod foreign;
mod hash;
mod host_table;
mod library;
mod lint;
mod manifest;
mod note;
mod once;
mod options;
mod plugin;
mod policy;
pub mod raw;
mod refusal;
#[cfg(feature = "rust-door")]
mod rust_door;

pub use candidate::{Candidate, State, load_all};
pub use discover::Source;
pub use manifest::{Kind, Manifest};
pub use options::{DRIVER_FILES, DRIVER_PATH, Environment, LibrarySpec, LoadOptions, Policy, Rule, SYSTEM_DIR, Search};
pub use plugin::shutdown;
pub use refusal::Refusal;
