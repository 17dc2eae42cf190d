//! `ottava-plugin-vulkan`: the Vulkan driver as a plugin.

ottava_plugin::export_driver!("vulkan", ottava_driver_vulkan::VulkanDriver::new);
