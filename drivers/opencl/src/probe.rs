//! Which devices there are, and what each offers.

use crate::options::Settings;
use opencl3::device::{
    CL_DEVICE_TYPE_ALL, CL_DEVICE_TYPE_CPU, CL_DEVICE_TYPE_GPU, CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT, CL_FP_DENORM,
    Device,
};
use opencl3::error_codes::{CL_PLATFORM_NOT_FOUND_KHR, ClError, DLOPEN_RUNTIME_LOAD_FAILED};
use opencl3::platform::{Platform, get_platforms};
use ottava_gpu::{Dot, Target};
use ottava_hal::device::{Link, LinkMode};
use ottava_hal::{DeviceInfo, DeviceKind};
use parking_lot::Mutex;

/// Local memory is a memory of its own (`CL_LOCAL` of the API).
const LOCAL_MEMORY: u32 = 1;
/// Invocations of a work-group where nothing else is known.
const USUAL_GROUP: u32 = 64;

/// What a device says about itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traits {
    pub platform: String,
    pub name: String,
    pub vendor: String,
    pub driver: String,
    pub version: String,
    pub is_gpu: bool,
    pub is_cpu: bool,
    pub max_group: u32,
    pub local_bytes: u64,
    pub has_local: bool,
    pub alignment: usize,
    pub max_alloc: u64,
    pub memory: u64,
    pub unified: bool,
    pub denormals: bool,
    pub rounded_division: bool,
    pub int64: bool,
    pub dot: bool,
    /// OpenCL C, 10 times the version: 12 for 1.2.
    pub language: u32,
}

/// A device that can be opened.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub id: String,
    pub device: Device,
    pub traits: Traits,
}

/// The devices, or why there is none. They are looked for under a lock and once they are found not again: some
/// implementations are not ready for a second thread while they start.
pub(crate) fn find() -> Result<Vec<Found>, String> {
    static FOUND: Mutex<Option<Vec<Found>>> = Mutex::new(None);
    let mut known = FOUND.lock();
    if let Some(found) = &*known {
        return Ok(found.clone());
    }
    let found = search()?;
    *known = Some(found.clone());
    Ok(found)
}

fn search() -> Result<Vec<Found>, String> {
    let platforms = get_platforms().map_err(|e| absent(&e))?;
    let mut found = Vec::new();
    let mut refused = Vec::new();
    for platform in &platforms {
        let name = platform.name().unwrap_or_default();
        match platform.get_devices(CL_DEVICE_TYPE_ALL) {
            Ok(ids) => ids.into_iter().for_each(|id| match traits(platform, Device::new(id)) {
                Ok(traits) => {
                    let id_text = if found.is_empty() { "opencl".into() } else { format!("opencl{}", found.len()) };
                    found.push(Found { id: id_text, device: Device::new(id), traits });
                }
                Err(why) => refused.push(why),
            }),
            Err(e) => refused.push(format!("platform `{name}`: {e} ({})", e.0)),
        }
    }
    if !refused.is_empty() {
        tracing::debug!(refused = refused.join("; "), "OpenCL devices that are not used");
    }
    match found.is_empty() {
        true if refused.is_empty() => Err("no OpenCL platform has a device".into()),
        true => Err(refused.join("; ")),
        false => Ok(found),
    }
}

/// Why there is no platform.
fn absent(error: &ClError) -> String {
    match error.0 {
        DLOPEN_RUNTIME_LOAD_FAILED => "no OpenCL library is installed (libOpenCL.so.1)".into(),
        CL_PLATFORM_NOT_FOUND_KHR => "the OpenCL library finds no platform; none is installed for it".into(),
        code => format!("the OpenCL library names no platform: {error} ({code})"),
    }
}

/// The devices that an application's choice leaves.
pub(crate) fn choose(found: Vec<Found>, settings: &Settings) -> Vec<Found> {
    let has = |name: &str, part: &str| name.to_lowercase().contains(&part.to_lowercase());
    let fits = |(number, f): &(usize, Found)| {
        settings.platform.as_ref().is_none_or(|p| has(&f.traits.platform, p))
            && settings.device.as_ref().is_none_or(|d| d.parse() == Ok(*number) || has(&f.traits.name, d))
    };
    found.into_iter().enumerate().filter(fits).map(|(_, f)| f).collect()
}

/// What a device offers, or why it cannot be used.
fn traits(platform: &Platform, device: Device) -> Result<Traits, String> {
    let name = device.name().unwrap_or_else(|_| "a device without a name".into());
    let lacks = |what: &str| Err(format!("device `{name}`: {what}"));
    if !device.available().unwrap_or(false) || !device.compiler_available().unwrap_or(false) {
        return lacks("it is not available, or it has no compiler");
    }
    if !device.endian_little().unwrap_or(true) {
        return lacks("its byte order is not the host's");
    }
    let language = language(&device.opencl_c_version().unwrap_or_default());
    if language < 12 {
        return lacks("its OpenCL C is older than 1.2");
    }
    read(platform, device, name.clone(), language).map_err(|e| format!("device `{name}`: {e} ({})", e.0))
}

fn read(platform: &Platform, device: Device, name: String, language: u32) -> opencl3::Result<Traits> {
    let extensions = device.extensions().unwrap_or_default();
    let has = |e: &str| extensions.split_whitespace().any(|x| x == e);
    let floats = device.single_fp_config().unwrap_or(0);
    let kind = device.dev_type()?;
    let sizes = device.max_work_item_sizes()?;
    let group = device.max_work_group_size()?.min(sizes.first().copied().unwrap_or(1));
    // In bits.
    let alignment = (device.mem_base_addr_align()? as usize / 8).max(4);
    Ok(Traits {
        platform: platform.name().unwrap_or_default(),
        name,
        vendor: device.vendor().unwrap_or_default(),
        driver: device.driver_version().unwrap_or_default(),
        version: device.version().unwrap_or_default(),
        is_gpu: kind & CL_DEVICE_TYPE_GPU != 0,
        is_cpu: kind & CL_DEVICE_TYPE_CPU != 0,
        max_group: u32::try_from(group).unwrap_or(u32::MAX).max(1),
        local_bytes: device.local_mem_size()?,
        has_local: device.local_mem_type()? == LOCAL_MEMORY,
        alignment: alignment.next_power_of_two(),
        max_alloc: device.max_mem_alloc_size()?,
        memory: device.global_mem_size()?,
        unified: kind & CL_DEVICE_TYPE_CPU != 0 || device.host_unified_memory().unwrap_or(false),
        denormals: floats & CL_FP_DENORM != 0,
        rounded_division: floats & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT != 0,
        int64: device.profile().is_ok_and(|p| p == "FULL_PROFILE") || has("cles_khr_int64"),
        dot: has("cl_khr_integer_dot_product"),
        language,
    })
}

/// 12 of `OpenCL C 1.2 and more`.
fn language(text: &str) -> u32 {
    let number = text.split_whitespace().nth(2).and_then(|t| t.split_once('.'));
    let parse = |(major, minor): (&str, &str)| {
        let minor: String = minor.chars().take_while(char::is_ascii_digit).collect();
        Some(10 * major.parse::<u32>().ok()? + minor.parse::<u32>().ok()?)
    };
    number.and_then(parse).unwrap_or(0)
}

impl Found {
    /// What lowering needs to know.
    pub(crate) fn target(&self, settings: &Settings) -> Target {
        let t = &self.traits;
        let max_group = settings.work_group.map_or(t.max_group, |n| n.min(t.max_group));
        let auto = if t.dot { Dot::Packed } else { Dot::Plain };
        // Kernels count invocations with `int`.
        let groups = i32::MAX as u32 / max_group;
        Target {
            device: self.id.clone(),
            dot: settings.dot.unwrap_or(auto),
            int64: t.int64,
            max_group,
            max_groups: [groups; 3],
            group: settings.work_group.unwrap_or(USUAL_GROUP).min(max_group),
            shared_bytes: u32::try_from(t.local_bytes).unwrap_or(u32::MAX),
            shared_fast: t.has_local,
            alignment: t.alignment.max(16),
            max_buffer: t.max_alloc,
            exact: true,
        }
    }

    /// What the contract says about the device.
    pub(crate) fn info(&self) -> DeviceInfo {
        let t = &self.traits;
        let base = DeviceInfo::new(&format!("opencl {} {}", t.platform, t.name), &self.id, kind(t));
        let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        DeviceInfo {
            name: t.name.clone(),
            isa: format!("OpenCL C {}.{} ({}, {})", t.language / 10, t.language % 10, t.platform, t.driver),
            memory_bytes: t.memory,
            hw_rev: t.version.bytes().chain(t.driver.bytes()).fold(0x811C_9DC5, fnv),
            sync_only: false,
            flushes_denormals: !t.denormals,
            alignment: t.alignment.max(64),
            max_buffer: t.max_alloc,
            link: Link {
                mode: if t.unified { LinkMode::Import } else { LinkMode::Copy },
                bytes_per_s: 0.0,
                latency_ns: if t.is_gpu { 20_000 } else { 50_000 },
            },
            ..base
        }
    }
}

fn kind(t: &Traits) -> DeviceKind {
    if t.is_cpu { DeviceKind::Cpu } else { DeviceKind::Gpu }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(language("OpenCL C 1.2 PoCL"), 12);
        assert_eq!(language("OpenCL C 3.0 "), 30);
        assert_eq!(language("OpenCL C 2.0beta"), 20);
        assert_eq!(language("nonsense"), 0);
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(absent(&ClError(DLOPEN_RUNTIME_LOAD_FAILED)).contains("no OpenCL library"));
        assert!(absent(&ClError(CL_PLATFORM_NOT_FOUND_KHR)).contains("no platform"));
        assert!(absent(&ClError(-6)).contains("-6"));
    }

    #[test]
    fn a_choice_names_a_number_or_a_part_of_a_name() {
        let one = |id: &str, name: &str| Found {
            id: id.into(),
            device: Device::new(std::ptr::null_mut()),
            traits: Traits { name: name.into(), platform: "Some".into(), ..Traits::default() },
        };
        let all = || vec![one("opencl", "Big GPU"), one("opencl1", "small cpu")];
        let names =
            |settings: Settings| -> Vec<String> { choose(all(), &settings).into_iter().map(|f| f.id).collect() };
        let device = |d: &str| Settings { device: Some(d.into()), ..Settings::default() };
        assert_eq!(names(Settings::default()), ["opencl", "opencl1"]);
        assert_eq!(names(device("gpu")), ["opencl"]);
        assert_eq!(names(device("1")), ["opencl1"]);
        assert!(names(Settings { platform: Some("other".into()), ..Settings::default() }).is_empty());
    }
}
