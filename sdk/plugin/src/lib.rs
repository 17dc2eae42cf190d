//! `ottava-plugin`: the vendor kit. A driver written against safe traits becomes a plugin by one line.
//!
//! ```
//! use ottava_plugin::hal::{DeviceInfo, DeviceKind, DriverInfo, OpRow, Result};
//! use ottava_plugin::kernels::{Kernel, KernelCx, KernelDriver};
//!
//! fn neg(cx: &mut KernelCx) -> Result<()> {
//!     let x = cx.input::<f32>(0)?;
//!     cx.output::<f32>(0)?.iter_mut().zip(x).for_each(|(y, x)| *y = -x);
//!     Ok(())
//! }
//!
//! fn driver() -> KernelDriver {
//!     let info = DriverInfo { name: "demo".into(), vendor: "me".into(), version: "1.0".into() };
//!     let device = DeviceInfo::new("demo", "demo0", DeviceKind::Dsp);
//!     KernelDriver::new(info, device, vec![Kernel { row: OpRow::any("Neg"), name: "neg", run: neg }])
//! }
//!
//! ottava_plugin::export_driver!("demo", driver);
//! ```
//!
//! A driver that needs more than a list of kernels implements `Driver`, `Device` and `Executable` of [`hal`] itself.
//!
//! The kit puts the driver behind the tables of the plugin ABI and takes care of what vendors get wrong: arguments are
//! checked, panics become errors (the device is poisoned: every call except close is refused from then on), errors have
//! words, two-call arrays count, `tracing` events reach the host's log, and devices that finish inside `submit` need no
//! fences. What it reads is hostile: program views and blobs are checked index by index.
//!
//! | file | holds |
//! |---|---|
//! | `export` | the macro |
//! | [`kernels`] | a complete driver from a list of kernels |
//! | `guard` | the edge of every function: arguments, panics, errors |
//! | `driver`, `device`, `memory`, `work`, `fences` | the tables' functions |
//! | `submission` | submissions in the words of the driver contract |
//! | `view`, `rows`, `info` | program views to programs, capabilities to operator rows, device information |
//! | `profile`, `extensions` | `ottava.profile/1`, `ottava.test_hooks/1`, `ottava.describe/1` |
//! | `log` | `tracing` to the host |
//!
//! **Handles.** Every handle is a box that the host holds as a raw pointer and gives back to the release function of the
//! table. Boxes hold `Arc`s of the driver's objects, so that releasing one while work is under way is legal. The driver's
//! context, tables and names live as long as the process, since a library is never unloaded.
//!
//! **Threads.** As the driver contract: everything is `Send + Sync`. Locks of the kit are per object (the mapping of a
//! buffer, the saved bytes of an executable, the profiles of a queue) and never held during a submission.
//!
//! Unsafe code is allowed here because the other side of the tables is foreign memory; each block says what the host
//! promises.
#![allow(unsafe_code)]

mod device;
mod driver;
mod export;
mod extensions;
mod fences;
mod guard;
mod info;
pub mod kernels;
mod log;
mod memory;
mod profile;
mod rows;
mod submission;
mod view;
mod work;

pub use driver::Constructor;
#[doc(hidden)]
pub use export::private;
pub use ottava_hal as hal;
