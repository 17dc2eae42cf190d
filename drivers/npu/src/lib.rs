//! `ottava-driver-npu`: the simulated NPU as a device.
