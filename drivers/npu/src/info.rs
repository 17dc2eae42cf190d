//! What the device says about itself.

use crate::options::Settings;
use ottava_hal::device::{Link, LinkMode, Peak};
use ottava_hal::{DeviceInfo, DeviceKind};
use ottava_npu::NpuConfig;

/// Id of the device, and name of the driver.
pub(crate) const NPU: &str = "npu";

/// The device of these settings.
pub(crate) fn info(settings: &Settings) -> DeviceInfo {
    let config = &settings.config;
    let base = DeviceInfo::new(NPU, NPU, DeviceKind::Npu);
    let hash = config.hash64();
    let mut uuid = base.uuid;
    uuid[8..].copy_from_slice(&hash.to_le_bytes());
    let array = &config.array;
    let dataflow = format!("{:?}", array.dataflow).to_lowercase();
    let clock = config.clock_hz as f64;
    DeviceInfo {
        name: format!("NPU simulator ({}, {} MHz)", config.name, config.clock_hz / 1_000_000),
        isa: format!("npuc {}x{} {dataflow}", array.rows, array.cols),
        memory_bytes: settings.memory,
        uuid,
        hw_rev: (hash ^ hash >> 32) as u32,
        sync_only: false,
        simulated: true,
        max_buffer: settings.memory,
        link: Link {
            mode: LinkMode::Copy,
            bytes_per_s: config.dram.bytes_per_cycle() * clock,
            latency_ns: nanoseconds(config, config.dram.latency()),
        },
        // A multiply-accumulate counts as two operations.
        peak: Peak { s8: 2.0 * config.n_elements() as f64 * clock, ..Peak::default() },
        ..base
    }
}

/// Modelled time of a number of cycles.
pub(crate) fn nanoseconds(config: &NpuConfig, cycles: u64) -> u64 {
    let ns = u128::from(cycles) * 1_000_000_000 / u128::from(config.clock_hz.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}
