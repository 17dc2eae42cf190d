//! `ottava-plugin-npu`: the NPU driver as a plugin.
