//! `ottava-plugin-opencl`: the OpenCL driver as a plugin.

ottava_plugin::export_driver!("opencl", ottava_driver_opencl::OpenCLDriver::new);
