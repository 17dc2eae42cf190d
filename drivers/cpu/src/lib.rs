//! `ottava-driver-cpu`: the machine's own processor as a device.
//!
//! [`CpuDriver`] opens one device, `cpu`, with the options `threads`, `grain` and `isa`. What it runs is the operator table in
//! `kernels`; everything else has no row, so the compiler places it on the reference device.
//!
//! A program becomes a list of steps (`builder`): each operator asks for its operands in the form that its kernel wants
//! (channels-last for images, s8 held as u8; see `form`), conversions are inserted where a form is missing, weights are
//! packed, and buffers get fixed places in one arena by their lifetimes (`plan`, `arena`). A run (`executable`) takes an
//! arena from a pool and calls the steps; it allocates nothing and holds no lock meanwhile, so several inferences of
//! one executable may be in flight.
//!
//! A compiled program can be saved with its packed weights and comes back without packing them again (`blob`).
//!
//! Invariant: every result is bit-equal to the reference, integer and float, whatever the instruction set, the number of
//! threads and the batch (numerics.md, rule zero and section 7). The SIMD code and all `unsafe` are in
//! `ottava-kernels`; queue, fences and buffers are those of `ottava_hal::host`.

mod arena;
mod blob;
mod builder;
mod chains;
mod cost;
mod device;
mod elementwise;
mod executable;
mod form;
mod kernels;
mod ops;
mod parallel;
mod plan;
mod relayout;
mod rows;
mod sharing;
mod shown;
mod storage;
mod strided;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use device::{CpuDevice, CpuDriver};
pub use ottava_kernels::Isa;
