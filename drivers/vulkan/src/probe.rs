//! Which devices there are, and what each offers.

use crate::instance::{Instance, LEAST_VERSION, version_text};
use crate::options::Settings;
use ash::{ext, khr, vk};
use ottava_gpu::{Dot, Target};
use ottava_hal::device::{Link, LinkMode};
use ottava_hal::{DeviceInfo, DeviceKind, Error, Reason, Result};
use std::collections::BTreeSet;
use std::ffi::CStr;

/// Invocations of a work-group where nothing else is known.
const USUAL_GROUP: u32 = 64;
/// More queues than this are not used.
const MAX_QUEUES: u32 = 4;

/// What a device offers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traits {
    pub name: String,
    /// Name and version of the Vulkan driver.
    pub driver: String,
    pub driver_version: u32,
    pub api: u32,
    /// A CPU that plays a GPU.
    pub is_cpu: bool,
    /// A GPU whose memory is the host's.
    pub unified: bool,
    pub uuid: [u8; 16],
    pub cache_uuid: [u8; 16],
    pub family: u32,
    pub n_queues: u32,
    /// Nanoseconds per tick; 0 where the queue has no timestamps.
    pub tick_ns: f32,
    pub tick_bits: u32,
    pub int64: bool,
    pub dot: bool,
    pub dot_accelerated: bool,
    pub f16: bool,
    pub cooperative: bool,
    pub subgroup: u32,
    pub round_even: bool,
    pub keeps_denormals: bool,
    /// Alignment of host memory that the device can use.
    pub import: Option<u64>,
    pub calibrated: bool,
    pub max_group: u32,
    pub max_sizes: [u32; 3],
    pub max_groups: [u32; 3],
    pub shared_bytes: u32,
    pub alignment: u64,
    pub max_range: u64,
    pub max_allocation: u64,
    pub memory: u64,
    pub extensions: BTreeSet<&'static CStr>,
}

/// A device that can be opened.
#[derive(Clone)]
pub(crate) struct Found {
    pub id: String,
    pub physical: vk::PhysicalDevice,
    pub traits: Traits,
}

/// The devices, or why there is none.
pub(crate) fn find(instance: &Instance) -> Result<Vec<Found>> {
    // SAFETY: a query of a living instance.
    let all = unsafe { instance.raw.enumerate_physical_devices() };
    let all = all.map_err(|e| Error::unsupported(Reason::Other, format!("the Vulkan loader lists no devices: {e}")))?;
    let (mut found, mut refused) = (Vec::new(), Vec::new());
    for physical in all {
        match traits(instance, physical) {
            Ok(traits) => {
                let id = if found.is_empty() { "vulkan".into() } else { format!("vulkan{}", found.len()) };
                found.push(Found { id, physical, traits });
            }
            Err(why) => refused.push(why),
        }
    }
    if !refused.is_empty() {
        tracing::info!("Vulkan devices that are not used: {}", refused.join("; "));
    }
    if found.is_empty() {
        let why = if refused.is_empty() { "no Vulkan driver has a device".into() } else { refused.join("; ") };
        return Err(Error::unsupported(Reason::Other, why));
    }
    Ok(found)
}

/// Extensions that are used where a device has them.
const WANTED: [&CStr; 8] = [
    khr::shader_integer_dot_product::NAME,
    khr::shader_float_controls::NAME,
    khr::cooperative_matrix::NAME,
    khr::external_memory_fd::NAME,
    khr::external_semaphore_fd::NAME,
    ext::external_memory_host::NAME,
    ext::external_memory_dma_buf::NAME,
    ext::calibrated_timestamps::NAME,
];

/// What a device offers, or why it cannot be used.
fn traits(instance: &Instance, physical: vk::PhysicalDevice) -> Result<Traits, String> {
    // SAFETY: queries of a device of the living instance, here and below.
    let plain = unsafe { instance.raw.get_physical_device_properties(physical) };
    let name = plain.device_name_as_c_str().unwrap_or(c"a device without a name").to_string_lossy().into_owned();
    let lacks = |what: &str| format!("device `{name}`: {what}");
    if plain.api_version < LEAST_VERSION {
        return Err(lacks(&format!("its Vulkan is {}, 1.2 is needed", version_text(plain.api_version))));
    }
    let (family, n_queues, tick_bits) =
        compute_family(instance, physical).ok_or_else(|| lacks("it has no compute queue"))?;
    let extensions = extensions(instance, physical);
    let api = plain.api_version.min(instance.version);
    let mut t = Traits { name, api, family, n_queues, tick_bits, extensions, ..Traits::default() };
    limits(&mut t, &plain);
    properties(&mut t, instance, physical);
    if !features(&mut t, instance, physical) {
        return Err(format!("device `{}`: it has no timeline semaphores", t.name));
    }
    // SAFETY: as above.
    let memory = unsafe { instance.raw.get_physical_device_memory_properties(physical) };
    let local = memory.memory_heaps_as_slice().iter().filter(|h| h.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL));
    t.memory = local.map(|h| h.size).max().unwrap_or(0);
    Ok(t)
}

/// A queue family that computes: one without graphics before others, as it runs beside what a screen needs.
fn compute_family(instance: &Instance, physical: vk::PhysicalDevice) -> Option<(u32, u32, u32)> {
    // SAFETY: a query of a device of the living instance.
    let families = unsafe { instance.raw.get_physical_device_queue_family_properties(physical) };
    let computes = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let draws = |f: &vk::QueueFamilyProperties| f.queue_flags.contains(vk::QueueFlags::GRAPHICS);
    let alone = families.iter().position(|f| computes(f) && !draws(f));
    let index = alone.or_else(|| families.iter().position(computes))?;
    let family = &families[index];
    Some((u32::try_from(index).ok()?, family.queue_count.min(MAX_QUEUES), family.timestamp_valid_bits))
}

fn extensions(instance: &Instance, physical: vk::PhysicalDevice) -> BTreeSet<&'static CStr> {
    // SAFETY: a query of a device of the living instance.
    let present = unsafe { instance.raw.enumerate_device_extension_properties(physical) }.unwrap_or_default();
    let has = |name: &&CStr| present.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    WANTED.into_iter().filter(has).collect()
}

fn limits(t: &mut Traits, plain: &vk::PhysicalDeviceProperties) {
    let l = &plain.limits;
    t.is_cpu = plain.device_type == vk::PhysicalDeviceType::CPU;
    t.unified = t.is_cpu || plain.device_type == vk::PhysicalDeviceType::INTEGRATED_GPU;
    t.driver_version = plain.driver_version;
    t.cache_uuid = plain.pipeline_cache_uuid;
    t.tick_ns = if t.tick_bits == 0 { 0.0 } else { l.timestamp_period };
    t.max_sizes = l.max_compute_work_group_size;
    t.max_group = l.max_compute_work_group_invocations;
    t.max_groups = l.max_compute_work_group_count;
    t.shared_bytes = l.max_compute_shared_memory_size;
    t.alignment = l.min_storage_buffer_offset_alignment.max(16);
    t.max_range = u64::from(l.max_storage_buffer_range);
}

fn properties(t: &mut Traits, instance: &Instance, physical: vk::PhysicalDevice) {
    let has = |name: &CStr| t.extensions.contains(name);
    let dot_known = t.api >= vk::API_VERSION_1_3 || has(khr::shader_integer_dot_product::NAME);
    let import_known = has(ext::external_memory_host::NAME);
    let mut v11 = vk::PhysicalDeviceVulkan11Properties::default();
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut floats = vk::PhysicalDeviceFloatControlsProperties::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut import = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
    let mut all =
        vk::PhysicalDeviceProperties2::default().push_next(&mut v11).push_next(&mut driver).push_next(&mut floats);
    if dot_known {
        all = all.push_next(&mut dot);
    }
    if import_known {
        all = all.push_next(&mut import);
    }
    // SAFETY: every structure of the chain is one that the device's version or extensions know.
    unsafe { instance.raw.get_physical_device_properties2(physical, &mut all) };
    let text = |t: &[std::ffi::c_char; 256]| {
        let bytes: Vec<u8> = t.iter().map(|c| c.cast_unsigned()).take_while(|b| *b != 0).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    t.driver = format!("{} {}", text(&driver.driver_name), text(&driver.driver_info)).trim().to_owned();
    t.uuid = v11.device_uuid;
    t.subgroup = v11.subgroup_size;
    t.max_allocation = v11.max_memory_allocation_size;
    t.round_even = floats.shader_rounding_mode_rte_float32 == vk::TRUE;
    t.keeps_denormals = floats.shader_denorm_preserve_float32 == vk::TRUE;
    t.dot_accelerated = dot.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE;
    t.import = import_known.then_some(import.min_imported_host_pointer_alignment).filter(|a| a.is_power_of_two());
}

/// Whether the device has what the driver cannot do without.
fn features(t: &mut Traits, instance: &Instance, physical: vk::PhysicalDevice) -> bool {
    let has = |name: &CStr| t.extensions.contains(name);
    let dot_known = t.api >= vk::API_VERSION_1_3 || has(khr::shader_integer_dot_product::NAME);
    let matrix_known = has(khr::cooperative_matrix::NAME);
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
    let mut all = vk::PhysicalDeviceFeatures2::default().push_next(&mut v12);
    if dot_known {
        all = all.push_next(&mut dot);
    }
    if matrix_known {
        all = all.push_next(&mut matrix);
    }
    // SAFETY: every structure of the chain is one that the device's version or extensions know.
    unsafe { instance.raw.get_physical_device_features2(physical, &mut all) };
    t.int64 = all.features.shader_int64 == vk::TRUE;
    t.f16 = v12.shader_float16 == vk::TRUE;
    t.dot = dot.shader_integer_dot_product == vk::TRUE;
    t.cooperative = matrix.cooperative_matrix == vk::TRUE;
    t.calibrated = t.tick_bits > 0 && t.extensions.contains(ext::calibrated_timestamps::NAME);
    v12.timeline_semaphore == vk::TRUE
}

impl Found {
    /// What lowering needs to know.
    pub(crate) fn target(&self, settings: &Settings) -> Result<Target> {
        let t = &self.traits;
        if settings.dot == Some(Dot::Packed) && !t.dot {
            let what = format!("option dot: device `{}` ({}) has no integer dot product", self.id, t.name);
            return Err(Error::unsupported(Reason::Other, what));
        }
        let max_group = t.max_group.min(t.max_sizes[0]).max(1);
        let max_group = settings.work_group.map_or(max_group, |n| n.min(max_group));
        let auto = if t.dot && t.dot_accelerated { Dot::Packed } else { Dot::Plain };
        // Kernels count invocations with `int`.
        let most = i32::MAX as u32 / max_group;
        Ok(Target {
            device: self.id.clone(),
            dot: settings.dot.unwrap_or(auto),
            int64: t.int64,
            max_group,
            max_groups: t.max_groups.map(|n| n.min(most)),
            group: settings.work_group.unwrap_or(USUAL_GROUP.max(t.subgroup)).min(max_group),
            shared_bytes: t.shared_bytes,
            shared_fast: !t.is_cpu,
            alignment: usize::try_from(t.alignment).unwrap_or(256),
            max_buffer: t.max_range.min(t.max_allocation),
            exact: true,
        })
    }

    /// What the contract says about the device.
    pub(crate) fn info(&self) -> DeviceInfo {
        let t = &self.traits;
        let kind = if t.is_cpu { DeviceKind::Cpu } else { DeviceKind::Gpu };
        let base = DeviceInfo::new("vulkan", &self.id, kind);
        let fnv = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let revision = t.driver.bytes().chain(t.driver_version.to_le_bytes()).chain(t.cache_uuid);
        DeviceInfo {
            name: t.name.clone(),
            isa: self.isa(),
            memory_bytes: t.memory,
            uuid: t.uuid,
            hw_rev: revision.fold(0x811C_9DC5, fnv),
            sync_only: false,
            flushes_denormals: !t.keeps_denormals,
            alignment: usize::try_from(t.alignment).unwrap_or(256).max(64),
            max_buffer: t.max_allocation,
            link: Link {
                mode: if t.import.is_some() && t.unified { LinkMode::Import } else { LinkMode::Copy },
                bytes_per_s: 0.0,
                latency_ns: 50_000,
            },
            ..base
        }
    }

    /// Version, driver, and the features that decide which kernels run.
    fn isa(&self) -> String {
        let t = &self.traits;
        let dot = if t.dot_accelerated { "dot" } else { "dot emulated" };
        let has = [
            (t.dot, dot),
            (t.int64, "int64"),
            (t.f16, "f16"),
            (t.cooperative, "cooperative matrix"),
            (t.round_even, "rte"),
            (t.keeps_denormals, "denormals"),
        ];
        let words: Vec<&str> = has.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect();
        let version = version_text(t.api);
        format!("Vulkan {version} ({}), subgroup {}, {}", t.driver, t.subgroup, words.join(", "))
    }
}
