//! The tables of a loaded driver as the object-safe traits of the driver contract.
//!
//! | file | does |
//! |---|---|
//! | `driver`, `device`, `buffer`, `executable`, `queue`, `fence` | one trait each |
//! | `info`, `options`, `capability`, `verdict`, `blob`, `envelope` | what calls take and return |
//! | `view` | a program as plain arrays |
//! | `submission` | a submission as plain arrays, checked |
//! | `retained` | keeps what a submission uses alive until it is done |
//! | `timeline`, `notify` | where timelines may stand; their callbacks |
//! | `health` | lost and poisoned devices |
//! | `call`, `error`, `extension` | calling: errors, two-call functions, extensions |
//! | `profile`, `label` | times of nodes, and their names |
//!
//! **Lifetimes.** Every object holds the open device ([`device::Shared`]) and gives its handle back when it is dropped; the
//! device is closed when the last object is gone, and the driver is not shut down before that. That is how "buffers may
//! outlive executables, never devices" is kept.
//!
//! **Threads.** A driver's functions are thread-safe by contract, except submissions, which a mutex per queue serialises,
//! and `reset`, `close`, `shutdown`, which are exclusive by ownership or by a lock.

mod blob;
mod buffer;
mod call;
mod capability;
mod device;
mod driver;
mod envelope;
mod error;
mod executable;
mod extension;
mod fence;
mod health;
mod info;
mod label;
mod notify;
mod options;
mod profile;
mod queue;
mod retained;
mod submission;
mod timeline;
mod verdict;
mod view;

pub(crate) use driver::AbiDriver;
