//! What a driver says about its devices, checked.

use super::error::broken;
use crate::plugin::Plugin;
use crate::{foreign, once};
use ottava_abi::{
    DeviceInfoV1, MemoryTypeV1, device_flag, device_kind, handle_type, kind, link_mode, memory_flag, text_of,
};
use ottava_hal::device::{Link, LinkMode, Peak};
use ottava_hal::{DeviceInfo, DeviceKind, Result};
use std::collections::BTreeMap;

/// A device as this crate uses it.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    /// For the host.
    pub info: DeviceInfo,
    /// Where buffers go.
    pub memory: MemoryChoice,
}

/// Which memory the adapter's buffers use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MemoryChoice {
    /// Index of the memory type.
    pub index: u32,
    /// Buffers are made of imported host memory, so that the host reads and writes them directly.
    pub import: bool,
    /// Alignment of buffers.
    pub alignment: usize,
}

/// Lines `key=value`.
pub(crate) fn pairs(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.split_once('=')).map(|(k, v)| (k.trim(), v.trim())).collect()
}

fn kind_of(who: &str, number: u32) -> DeviceKind {
    match number {
        device_kind::CPU => DeviceKind::Cpu,
        device_kind::GPU => DeviceKind::Gpu,
        device_kind::NPU => DeviceKind::Npu,
        device_kind::DSP => DeviceKind::Dsp,
        device_kind::SIM => DeviceKind::Sim,
        other => {
            let text = format!("`{who}` has a device of the unknown kind {other}; it is treated as an accelerator");
            once::warn(who, &text);
            DeviceKind::Npu
        }
    }
}

fn link_of(raw: &DeviceInfoV1) -> Link {
    let mode = match raw.link.mode {
        link_mode::NATIVE => LinkMode::Native,
        link_mode::IMPORT => LinkMode::Import,
        _ => LinkMode::Copy,
    };
    Link { mode, bytes_per_s: rate(raw.link.bytes_per_s), latency_ns: raw.link.latency_ns }
}

/// A speed; whatever is no positive number is unknown.
fn rate(value: f64) -> f64 {
    if value.is_finite() && value > 0.0 { value } else { 0.0 }
}

fn alignment_of(who: &str, value: u64) -> Result<usize> {
    let value = value.max(1);
    match usize::try_from(value) {
        Ok(n) if n.is_power_of_two() && n <= 1 << 30 => Ok(n),
        _ => Err(broken(who, "enumerate", format_args!("the alignment {value} is no power of two up to 2^30"))),
    }
}

/// The memory types that are there; [`check`] has seen their number.
fn memory_types(raw: &DeviceInfoV1) -> &[MemoryTypeV1] {
    raw.memory_types.get(..raw.n_memory_types as usize).unwrap_or(&raw.memory_types)
}

/// Refuses an element that is no device information of this version.
fn check(driver: &str, raw: &DeviceInfoV1, i: usize) -> Result<()> {
    let (found, expected) = ((raw.size, raw.kind), (size_of::<DeviceInfoV1>() as u32, kind::DEVICE_INFO));
    if found != expected {
        let what = format!("size and kind of device {i} are {found:?}, expected {expected:?}");
        return Err(broken(driver, "enumerate", what));
    }
    let most = raw.memory_types.len();
    if raw.n_memory_types as usize > most {
        let what = format!("device {i} has {} memory types, at most {most} fit", raw.n_memory_types);
        return Err(broken(driver, "enumerate", what));
    }
    Ok(())
}

/// Memory that can be imported is preferred, then memory that can be mapped, then whatever there is.
fn choose_memory(who: &str, raw: &DeviceInfoV1) -> Result<MemoryChoice> {
    let types = memory_types(raw);
    let find = |f: &dyn Fn(&MemoryTypeV1) -> bool| types.iter().position(f);
    let import = find(&|t| t.import_mask & handle_type::HOST_POINTER != 0);
    let index = import.or_else(|| find(&|t| t.flags & memory_flag::HOST_VISIBLE != 0)).unwrap_or(0);
    let own = alignment_of(who, types.get(index).map_or(1, |t| t.alignment))?;
    let alignment = own.max(alignment_of(who, raw.alignment)?);
    Ok(MemoryChoice { index: index as u32, import: import.is_some(), alignment })
}

/// The descriptions of a driver's devices. `words` gives the driver's own lines about a device, if it has any.
pub(crate) fn describe(
    plugin: &Plugin,
    devices: &[DeviceInfoV1],
    words: impl Fn(&[u8; 16]) -> String,
) -> Result<Vec<Described>> {
    let driver = &plugin.info.name;
    let mut all: Vec<Described> = Vec::with_capacity(devices.len());
    for (i, raw) in devices.iter().enumerate() {
        check(driver, raw, i)?;
        let default_id = if devices.len() == 1 { driver.clone() } else { format!("{driver}:{i}") };
        let one = describe_one(driver, raw, &words(&raw.uuid), default_id)?;
        let twin = all.iter().position(|d| d.info.uuid == one.info.uuid || d.info.id == one.info.id);
        if let Some(twin) = twin {
            let what = format!("devices {twin} and {i} have the same uuid or id `{}`", one.info.id);
            return Err(broken(driver, "enumerate", what));
        }
        all.push(one);
    }
    Ok(all)
}

fn describe_one(driver: &str, raw: &DeviceInfoV1, words: &str, default_id: String) -> Result<Described> {
    let words = pairs(words);
    let text = |key: &str| words.get(key).copied().filter(|v| !v.is_empty()).map(str::to_owned);
    let id = foreign::name(&text("id").unwrap_or(default_id));
    let name = Some(text_of(&raw.name)).filter(|n| !n.is_empty()).map_or_else(|| id.clone(), |n| foreign::name(&n));
    let flag = |bit| raw.flags & bit != 0;
    let memory = choose_memory(driver, raw)?;
    let info = DeviceInfo {
        kind: kind_of(driver, raw.device_kind),
        isa: foreign::name(&text("isa").unwrap_or_default()),
        memory_bytes: memory_types(raw).iter().map(|t| t.bytes).max().unwrap_or(0),
        threads: text("threads").and_then(|t| t.parse().ok()).unwrap_or(1),
        uuid: raw.uuid,
        hw_rev: raw.hw_rev,
        sync_only: flag(device_flag::SYNC_ONLY),
        simulated: flag(device_flag::SIMULATED),
        flushes_denormals: flag(device_flag::FLUSHES_DENORMALS),
        alignment: alignment_of(driver, raw.alignment)?,
        max_buffer: raw.max_buffer,
        link: link_of(raw),
        peak: Peak { s8: rate(raw.peak_s8), s16: rate(raw.peak_s16), f16: rate(raw.peak_f16), f32: rate(raw.peak_f32) },
        id,
        name,
    };
    Ok(Described { info, memory })
}

/// What an open device says of itself: its options may have changed it. Its id stays the one it was opened by.
pub(crate) fn refine(info: &mut DeviceInfo, words: &str) {
    let words = pairs(words);
    let text = |key: &str| words.get(key).copied().filter(|v| !v.is_empty());
    if let Some(isa) = text("isa") {
        info.isa = foreign::name(isa);
    }
    if let Some(name) = text("name") {
        info.name = foreign::name(name);
    }
    info.threads = text("threads").and_then(|n| n.parse().ok()).unwrap_or(info.threads);
    info.hw_rev = text("hw_rev").and_then(|n| n.parse().ok()).unwrap_or(info.hw_rev);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw() -> DeviceInfoV1 {
        let mut raw = DeviceInfoV1::blank();
        (raw.device_kind, raw.alignment, raw.n_memory_types) = (device_kind::NPU, 64, 2);
        raw.memory_types[0] =
            MemoryTypeV1 { flags: memory_flag::DEVICE_LOCAL, bytes: 9, alignment: 256, ..MemoryTypeV1::blank() };
        let import_mask = handle_type::HOST_POINTER;
        raw.memory_types[1] =
            MemoryTypeV1 { flags: memory_flag::HOST_VISIBLE, bytes: 5, alignment: 16, import_mask, export_mask: 0 };
        raw
    }

    #[test]
    fn words_of_the_driver_fill_what_the_struct_lacks() {
        let d = describe_one("acme", &raw(), "id=npu0\nisa = v2 \nthreads=3\nnonsense", "acme".into()).unwrap();
        assert_eq!(
            (d.info.id.as_str(), d.info.isa.as_str(), d.info.threads, d.info.memory_bytes),
            ("npu0", "v2", 3, 9)
        );
        let d = describe_one("acme", &raw(), "", "acme:1".into()).unwrap();
        assert_eq!((d.info.id.as_str(), d.info.name.as_str(), d.info.threads), ("acme:1", "acme:1", 1));
    }

    #[test]
    fn an_open_device_knows_better() {
        let mut info = describe_one("acme", &raw(), "id=npu0\nisa=auto\nthreads=8", "acme".into()).unwrap().info;
        refine(&mut info, "id=other\nisa=v3\nthreads=2\nhw_rev=7");
        assert_eq!((info.id.as_str(), info.isa.as_str(), info.threads, info.hw_rev), ("npu0", "v3", 2, 7));
        refine(&mut info, "threads=many");
        assert_eq!((info.threads, info.name.as_str()), (2, "npu0"));
    }

    #[test]
    fn importable_memory_is_preferred() {
        let choice = |raw: &DeviceInfoV1| choose_memory("acme", raw).unwrap();
        assert_eq!(choice(&raw()), MemoryChoice { index: 1, import: true, alignment: 64 });
        let mut mapped = raw();
        mapped.memory_types[1].import_mask = 0;
        assert_eq!(choice(&mapped), MemoryChoice { index: 1, import: false, alignment: 64 });
        mapped.n_memory_types = 1;
        assert_eq!(choice(&mapped), MemoryChoice { index: 0, import: false, alignment: 256 });
        mapped.alignment = 3;
        assert!(choose_memory("acme", &mapped).unwrap_err().to_string().contains("alignment 3"));
    }

    #[test]
    fn elements_of_another_form_are_refused() {
        let refused = |change: &dyn Fn(&mut DeviceInfoV1), words: &str| {
            let mut raw = raw();
            change(&mut raw);
            let e = check("acme", &raw, 2).unwrap_err().to_string();
            assert!(e.contains("`acme`, enumerate") && e.contains(words), "{e}");
        };
        assert_eq!(check("acme", &raw(), 2), Ok(()));
        refused(&|r| r.size = 8, "size and kind of device 2 are (8, 6)");
        refused(&|r| r.kind = 7, "7), expected");
        refused(&|r| r.n_memory_types = 9, "device 2 has 9 memory types, at most 8 fit");
    }

    #[test]
    fn names_are_cleaned_where_they_enter() {
        let mut raw = raw();
        ottava_abi::copy_text(&mut raw.name, "red\u{1b}[31m");
        let d = describe_one("acme", &raw, &format!("id={}\nisa=v\t2", "n".repeat(100)), "acme".into()).unwrap();
        assert_eq!((d.info.name.as_str(), d.info.isa.as_str()), ("red\\u{1b}[31m", "v\\t2"));
        assert_eq!(d.info.id, "n".repeat(61) + "...");
    }

    #[test]
    fn nonsense_rates_are_unknown() {
        assert_eq!([f64::NAN, -1.0, f64::INFINITY, 2.0].map(rate), [0.0, 0.0, 0.0, 2.0]);
    }
}
