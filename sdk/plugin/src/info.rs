//! Device information and blob keys between the driver contract and the tables.

use ottava_abi::{
    BlobKeyV1, DeviceInfoV1, HostLinkV1, MemoryTypeV1, copy_text, device_flag, device_kind, handle_type, link_mode,
    memory_flag, text_of,
};
use ottava_hal::device::{BlobKey, LinkMode};
use ottava_hal::{DeviceInfo, DeviceKind};

/// A key in words of the driver contract.
pub(crate) fn blob_key(k: &BlobKeyV1) -> BlobKey {
    BlobKey {
        driver: text_of(&k.driver_name),
        driver_version: text_of(&k.driver_version),
        uuid: k.device_uuid,
        hw_rev: k.hw_rev,
        ir_version: k.ir_version,
        core_hash: k.core_hash,
        ops_hash: k.op_schema_hash,
        program_hash: k.program_hash,
        quant_hash: k.quant_hash,
        options_hash: k.options_hash,
        payload_len: k.payload_len,
        payload_sha256: k.payload_sha256,
    }
}

/// What a device is, in numbers.
pub(crate) fn device_info(info: &DeviceInfo, ordinal: u32) -> DeviceInfoV1 {
    let flag = |set, bit| if set { bit } else { 0 };
    let mut out = DeviceInfoV1 {
        uuid: info.uuid,
        ordinal,
        device_kind: kind(info.kind),
        hw_rev: info.hw_rev,
        n_queues: 1,
        flags: flag(info.sync_only, device_flag::SYNC_ONLY)
            | flag(info.simulated, device_flag::SIMULATED)
            | flag(info.flushes_denormals, device_flag::FLUSHES_DENORMALS),
        max_buffer: info.max_buffer,
        alignment: info.alignment as u64,
        peak_s8: info.peak.s8,
        peak_s16: info.peak.s16,
        peak_f16: info.peak.f16,
        peak_f32: info.peak.f32,
        n_memory_types: 1,
        link: link(info),
        ..DeviceInfoV1::blank()
    };
    out.memory_types[0] = memory_type(info);
    copy_text(&mut out.name, &info.name);
    out
}

fn kind(kind: DeviceKind) -> u32 {
    match kind {
        DeviceKind::Cpu => device_kind::CPU,
        DeviceKind::Gpu => device_kind::GPU,
        DeviceKind::Npu => device_kind::NPU,
        DeviceKind::Dsp => device_kind::DSP,
        DeviceKind::Sim => device_kind::SIM,
    }
}

fn link(info: &DeviceInfo) -> HostLinkV1 {
    let mode = match info.link.mode {
        LinkMode::Native => link_mode::NATIVE,
        LinkMode::Import => link_mode::IMPORT,
        LinkMode::Copy => link_mode::COPY,
    };
    HostLinkV1 { mode, pad: 0, bytes_per_s: info.link.bytes_per_s, latency_ns: info.link.latency_ns }
}

/// The one kind of memory that the driver contract knows. `map` works on all of it, by copies where it must.
fn memory_type(info: &DeviceInfo) -> MemoryTypeV1 {
    let copied = info.link.mode == LinkMode::Copy;
    let near = if copied { memory_flag::DEVICE_LOCAL } else { memory_flag::COHERENT | memory_flag::CACHED };
    MemoryTypeV1 {
        flags: memory_flag::HOST_VISIBLE | near,
        bytes: info.memory_bytes,
        alignment: info.alignment as u64,
        import_mask: if copied { 0 } else { handle_type::HOST_POINTER },
        export_mask: 0,
    }
}
