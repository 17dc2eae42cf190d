//! The object-safe traits that a driver implements.
//!
//! A [`Driver`] lists and opens devices. A [`Device`] answers what it can run, compiles a [`crate::Program`] into an
//! [`Executable`], and makes [`Buffer`]s, [`Queue`]s and [`crate::Fence`]s. Objects of one device are only used with that
//! device; handing over another's is an `Invalid` error, never undefined. Everything is `Send + Sync`; nothing blocks
//! except [`crate::Fence::wait`] and, on devices that run in the caller's thread, [`Queue::submit`].
//!
//! | file | has |
//! |---|---|
//! | `traits` | the traits |
//! | `info` | what drivers and devices say about themselves |
//! | `options` | options of drivers, devices, compilations and buffers |
//! | `blob` | keys of saved executables |
//! | `work` | submissions |
//! | `profile` | times of submissions |

mod blob;
mod info;
mod options;
mod profile;
mod traits;
mod work;

pub use blob::{BlobKey, BlobVerdict};
pub use info::{DeviceInfo, DeviceKind, DriverInfo, Link, LinkMode, Peak};
pub use options::{BufferDesc, CompileOptions, OptionSpec, Options};
pub use profile::{NodeTime, Profile, WorkKind};
pub use traits::{Buffer, Device, Driver, Executable, Queue};
pub use work::{Binding, Command, Submission};
