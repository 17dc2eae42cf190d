//! `ottava-plugin-npu`: the NPU driver as a plugin.

ottava_plugin::export_driver!("npu", ottava_driver_npu::NpuDriver::new);
