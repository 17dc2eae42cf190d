//! `ottava-driver-vulkan`: devices that speak Vulkan.

mod driver;

pub use driver::VulkanDriver;
