//! `ottava-driver-vulkan`: devices that speak Vulkan 1.2 or later, as ordinary, asynchronous Ottava devices.
//!
//! The loader is opened at run time: without it, or without a device, the driver has no devices and says why. Which
//! kernels run and with what is decided in `ottava-gpu`; here they are compiled, recorded and submitted.
//!
//! Reading order:
//!
//! 1. `instance`, `messages`, `probe`, `options`: loader, validation, what a device offers, what is asked of it;
//! 2. `gpu`, `retired`, `memory`, `ledger`, `transfers`, `buffer`: the logical device and its memory;
//! 3. `spirv`, `pipeline`, `cache`: kernels become pipelines, which are kept on disk;
//! 4. `record`, `executable`, `moves`, `lru`: recorded command buffers, one per set of bindings;
//! 5. `fence`, `job`, `line`, `engine`, `queue`: who waits for whom, and how failures travel;
//! 6. `selftest`, `profile`, `device`, `driver`.
//!
//! Invariants: a steady state is one `vkQueueSubmit` per submission; what the device has never waits for something that
//! may not come; what a submission uses is kept until the device is done with it; nothing blocks except
//! [`ottava_hal::Fence::wait`] and transfers of buffers that the host cannot reach.
//!
//! Unsafe code is allowed because every call of Vulkan is; each block says why it keeps to the specification.
#![allow(unsafe_code)]

mod buffer;
mod cache;
mod device;
mod driver;
mod engine;
mod executable;
mod fence;
mod gpu;
mod instance;
mod job;
mod ledger;
mod line;
mod lru;
mod memory;
mod messages;
#[cfg(test)]
mod messages_tests;
mod moves;
mod options;
mod pipeline;
mod probe;
mod profile;
mod queue;
mod record;
mod retired;
mod selftest;
mod spirv;
mod transfers;

pub use device::VulkanDevice;
pub use driver::VulkanDriver;
pub use messages::Messages;
pub use pipeline::Compiled;
