//! The logical device and everything that lives as long as it does: queues, semaphores of progress, memory.
//!
//! A *lane* is a queue of the device, or a share of one. Its progress is a timeline: submission number `n` of the lane sets it to `n`.
//! What is made of the device (buffers, recordings, fences) holds it, so nothing is destroyed before its parts.

use crate::instance::Instance;
use crate::ledger::Ledger;
use crate::options::Settings;
use crate::pipeline::Pipelines;
use crate::probe::Found;
use crate::retired::Retired;
use ash::{ext, khr, vk};
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A row of submissions of which each begins when the one before is done.
pub(crate) struct Lane {
    /// A queue takes one call at a time. Lanes share one where the device has fewer queues.
    pub queue: Arc<Mutex<vk::Queue>>,
    /// The timeline of finished submissions.
    pub progress: vk::Semaphore,
    /// The number of the last submission that was handed over.
    pub submitted: AtomicU64,
}

/// A logical device.
pub(crate) struct Gpu {
    pub raw: ash::Device,
    pub found: Found,
    pub lanes: Vec<Lane>,
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub ledger: Arc<Ledger>,
    pub pipelines: Pipelines,
    pub import: Option<ext::external_memory_host::Device>,
    pub calibrated: Option<ext::calibrated_timestamps::Device>,
    pub instance: Arc<Instance>,
    retired: Retired,
    ids: AtomicU64,
}

impl Gpu {
    /// Makes a logical device.
    pub(crate) fn new(instance: Arc<Instance>, found: Found, settings: &Settings) -> Result<Arc<Self>> {
        let raw = create(&instance, &found)?;
        // SAFETY: a query of a device of the living instance.
        let memory = unsafe { instance.raw.get_physical_device_memory_properties(found.physical) };
        let has = |name: &CStr| found.traits.extensions.contains(name);
        let import =
            has(ext::external_memory_host::NAME).then(|| ext::external_memory_host::Device::new(&instance.raw, &raw));
        let calibrated = found.traits.calibrated.then(|| ext::calibrated_timestamps::Device::new(&instance.raw, &raw));
        let ledger = Ledger::new(found.traits.memory);
        let pipelines = Pipelines::new(&raw, &found.traits, settings.cache.as_deref());
        let mut gpu = Self {
            raw,
            lanes: Vec::new(),
            memory,
            ledger,
            pipelines,
            import,
            calibrated,
            instance,
            retired: Retired::default(),
            ids: 0.into(),
            found,
        };
        // SAFETY: the queues were asked for when the device was made.
        let queue = |index| unsafe { gpu.raw.get_device_queue(gpu.found.traits.family, index) };
        let queues: Vec<_> = (0..gpu.found.traits.n_queues).map(|i| Arc::new(Mutex::new(queue(i)))).collect();
        for queue in queues.iter().cycle().take(settings.queues.unwrap_or(queues.len())) {
            let progress = gpu.timeline(0)?;
            gpu.lanes.push(Lane { queue: Arc::clone(queue), progress, submitted: AtomicU64::new(0) });
        }
        Ok(Arc::new(gpu))
    }

    /// A number that no other object of this device has.
    pub(crate) fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// A timeline semaphore; whoever asks for it destroys it.
    pub(crate) fn timeline(&self, initial: u64) -> Result<vk::Semaphore> {
        let mut kind =
            vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE).initial_value(initial);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the structures live during the call; the feature is enabled.
        unsafe { self.raw.create_semaphore(&info, None) }.map_err(|e| self.error("a timeline", e))
    }

    /// Waits until a lane has finished a submission; whether it has.
    pub(crate) fn wait(&self, semaphores: &[vk::Semaphore], values: &[u64], timeout: Duration) -> Result<bool> {
        let nanoseconds = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut info = vk::SemaphoreWaitInfo::default().semaphores(semaphores).values(values);
        if semaphores.len() > 1 {
            info = info.flags(vk::SemaphoreWaitFlags::ANY);
        }
        // SAFETY: the semaphores belong to this device and live.
        match unsafe { self.raw.wait_semaphores(&info, nanoseconds) } {
            Ok(()) => Ok(true),
            Err(vk::Result::TIMEOUT) => Ok(false),
            Err(e) => Err(self.error("waiting for the device", e)),
        }
    }

    /// Where a lane stands: the number of the last submission that is over.
    pub(crate) fn progress(&self, lane: &Lane) -> Option<u64> {
        // SAFETY: the semaphore lives as long as the device.
        unsafe { self.raw.get_semaphore_counter_value(lane.progress) }.ok()
    }

    /// Destroys a timeline that submissions have named, as soon as that is possible.
    pub(crate) fn retire(&self, semaphore: vk::Semaphore) {
        let submitted = self.lanes.iter().map(|lane| lane.submitted.load(Ordering::SeqCst)).collect();
        self.retired.keep(semaphore, submitted);
        let done: Option<Few<u64>> = self.lanes.iter().map(|lane| self.progress(lane)).collect();
        while let Some(old) = done.as_ref().and_then(|done| self.retired.take(done)) {
            // SAFETY: the submissions that named it are over, and their lanes have gone on since.
            unsafe { self.raw.destroy_semaphore(old, None) };
        }
    }

    /// Gives command buffers to a lane.
    pub(crate) fn submit(
        &self,
        lane: usize,
        commands: &[vk::CommandBuffer],
        waits: &[(vk::Semaphore, u64)],
        signals: &[(vk::Semaphore, u64)],
    ) -> Result<()> {
        let (wait_on, wait_values): (Few<_>, Few<_>) = waits.iter().copied().unzip();
        let (signal, signal_values): (Few<_>, Few<_>) = signals.iter().copied().unzip();
        let stages: Few<_> = waits.iter().map(|_| vk::PipelineStageFlags::ALL_COMMANDS).collect();
        let mut timelines = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&signal_values);
        let info = vk::SubmitInfo::default()
            .wait_semaphores(&wait_on)
            .wait_dst_stage_mask(&stages)
            .command_buffers(commands)
            .signal_semaphores(&signal)
            .push_next(&mut timelines);
        let queue = self.lanes[lane].queue.lock();
        // SAFETY: the queue is held; the command buffers are recorded and, as the semaphores, kept by the caller until
        // the lane's progress says that they are done.
        let submitted = unsafe { self.raw.queue_submit(*queue, &[info], vk::Fence::null()) };
        submitted.map_err(|e| self.error("a submission", e))
    }

    /// What a failed call means.
    pub(crate) fn error(&self, what: &str, e: vk::Result) -> Error {
        let status = match e {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
            | vk::Result::ERROR_TOO_MANY_OBJECTS
            | vk::Result::ERROR_OUT_OF_POOL_MEMORY
            | vk::Result::ERROR_FRAGMENTATION => Status::OutOfDeviceMemory,
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => Status::OutOfHostMemory,
            vk::Result::ERROR_DEVICE_LOST => return ottava_hal::fault::lost(&self.found.id),
            _ => Status::Internal,
        };
        Error::failed(status, format!("device `{}`: {what}: {e}", self.found.id))
    }

    /// The type of memory that has `wanted`, among those of a mask; the first that also has most of `liked`.
    pub(crate) fn memory_type(
        &self,
        mask: u32,
        wanted: vk::MemoryPropertyFlags,
        liked: vk::MemoryPropertyFlags,
    ) -> Option<u32> {
        let types = self.memory.memory_types_as_slice().iter().zip(0u32..);
        let fits = types.filter(|(t, i)| mask & (1 << i) != 0 && t.property_flags.contains(wanted));
        // Vulkan lists better types first, and the first of equals is taken.
        fits.min_by_key(|(t, _)| (liked & !t.property_flags).as_raw().count_ones()).map(|(_, i)| i)
    }

    /// What the validation layers objected to, if they are on.
    pub(crate) fn check_messages(&self) -> Result<()> {
        self.instance.messages.as_ref().map_or(Ok(()), |m| m.check())
    }
}

/// A list that is usually short.
pub(crate) type Few<T> = smallvec::SmallVec<[T; 4]>;

fn create(instance: &Instance, found: &Found) -> Result<ash::Device> {
    let t = &found.traits;
    let priorities = vec![1.0; t.n_queues as usize];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(t.family).queue_priorities(&priorities)];
    let skipped: [&CStr; 1] = [khr::cooperative_matrix::NAME];
    // From 1.3 on the dot product is in the core, from 1.2 on float controls are.
    let promoted = |name: &CStr| {
        name == khr::shader_float_controls::NAME
            || (name == khr::shader_integer_dot_product::NAME && t.api >= vk::API_VERSION_1_3)
    };
    let names = t.extensions.iter().filter(|n| !skipped.contains(n) && !promoted(n));
    let names: Vec<_> = names.map(|n| n.as_ptr()).collect();
    let features = vk::PhysicalDeviceFeatures::default().shader_int64(t.int64);
    let mut v12 = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true).shader_float16(t.f16);
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default().shader_integer_dot_product(t.dot);
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names)
        .enabled_features(&features)
        .push_next(&mut v12);
    if t.dot {
        info = info.push_next(&mut dot);
    }
    // SAFETY: everything asked for is what the device has said to offer; the structures live during the call.
    let made = unsafe { instance.raw.create_device(found.physical, &info, None) };
    made.map_err(|e| {
        let status = match e {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => Status::OutOfDeviceMemory,
            vk::Result::ERROR_OUT_OF_HOST_MEMORY => Status::OutOfHostMemory,
            vk::Result::ERROR_DEVICE_LOST => Status::DeviceLost,
            _ => Status::Internal,
        };
        Error::failed(status, format!("device `{}` ({}) cannot be opened: {e}", found.id, t.name))
    })
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nobody has anything of the device any more; a lost device may be destroyed, too.
        unsafe {
            // A device that is lost is idle.
            let _ = self.raw.device_wait_idle();
            self.pipelines.destroy(&self.raw);
            self.retired.take_all().into_iter().for_each(|old| self.raw.destroy_semaphore(old, None));
            self.lanes.iter().for_each(|lane| self.raw.destroy_semaphore(lane.progress, None));
            self.raw.destroy_device(None);
        }
    }
}
