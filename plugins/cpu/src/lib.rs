//! `ottava-plugin-cpu`: the CPU driver as a plugin.

ottava_plugin::export_driver!("cpu", || ottava_driver_cpu::CpuDriver);
