//! Pipelines: each kernel with its constants is compiled once per device.

use crate::cache::Cache;
use crate::probe::Traits;
use crate::spirv;
use ash::vk;
use ottava_gpu::{Dispatch, Feature, Kernel};
use ottava_hal::{Error, Result, Status};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// How many pipelines were made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Compiled {
    /// All of them.
    pub pipelines: u64,
    /// Those of which the driver said that they came out of its cache.
    pub cached: u64,
}

/// A kernel by address, the size of the work-group, and the constants.
type Key = (usize, [u32; 3], SmallVec<[u32; 4]>);

/// What a pipeline is used with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pipeline {
    pub raw: vk::Pipeline,
    pub layout: vk::PipelineLayout,
    pub set: vk::DescriptorSetLayout,
}

/// The pipelines of a device.
pub(crate) struct Pipelines {
    cache: vk::PipelineCache,
    disk: Option<Cache>,
    traits: Arc<Traits>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    layouts: HashMap<usize, (vk::DescriptorSetLayout, vk::PipelineLayout)>,
    modules: HashMap<usize, vk::ShaderModule>,
    pipelines: HashMap<Key, Pipeline>,
    compiled: Compiled,
    saved: u64,
}

impl Pipelines {
    /// No pipelines yet; what an earlier process has kept helps to make them.
    pub(crate) fn new(raw: &ash::Device, traits: &Traits, folder: Option<&Path>) -> Self {
        let disk = folder.map(|f| Cache::new(f, traits));
        let kept = disk.as_ref().map(Cache::load).unwrap_or_default();
        let info = vk::PipelineCacheCreateInfo::default().initial_data(&kept);
        // SAFETY: the data is what this driver has written earlier, as its checksum says; without a cache everything
        // works, only slower.
        let cache = unsafe { raw.create_pipeline_cache(&info, None) }.unwrap_or_default();
        Self { cache, disk, traits: Arc::new(traits.clone()), state: Mutex::default() }
    }

    /// The pipeline of a launch.
    pub(crate) fn get(&self, raw: &ash::Device, launch: &Dispatch) -> Result<Pipeline> {
        let key = (std::ptr::from_ref(launch.kernel).addr(), launch.local, SmallVec::from_slice(&launch.spec));
        let mut state = self.state.lock();
        if let Some(pipeline) = state.pipelines.get(&key) {
            return Ok(*pipeline);
        }
        self.check(launch)?;
        let failed = |e: vk::Result| {
            Error::failed(status_of(e), format!("kernel `{}` cannot be made: {e}", launch.kernel.full_name()))
        };
        let (set, layout) = state.layout(raw, launch.kernel.buffers).map_err(failed)?;
        let module = self.module(raw, &mut state, launch.kernel)?;
        let (pipeline, cached) = self.compile(raw, launch, module, layout).map_err(failed)?;
        state.compiled.pipelines += 1;
        state.compiled.cached += u64::from(cached);
        let pipeline = Pipeline { raw: pipeline, layout, set };
        state.pipelines.insert(key, pipeline);
        Ok(pipeline)
    }

    /// The limits that a launch must keep to; lowering knows them, and a mistake there must not reach the device.
    fn check(&self, launch: &Dispatch) -> Result<()> {
        let t = &self.traits;
        let within = launch.local.iter().zip(t.max_sizes).all(|(n, most)| (1..=most).contains(n));
        let invocations: u64 = launch.local.iter().map(|n| u64::from(*n)).product();
        let offered = launch.kernel.needs.iter().all(|need| match need {
            Feature::Int64 => t.int64,
            Feature::Dot => t.dot,
        });
        let counted = launch.buffers.len() == launch.kernel.buffers && launch.spec.len() == launch.kernel.spec.len();
        if within && invocations <= u64::from(t.max_group) && offered && counted {
            return Ok(());
        }
        let what = format!(
            "kernel `{}` with {:?} invocations does not fit the device",
            launch.kernel.full_name(),
            launch.local
        );
        Err(Error::failed(Status::Internal, what))
    }

    fn module(&self, raw: &ash::Device, state: &mut State, kernel: &'static Kernel) -> Result<vk::ShaderModule> {
        let key = std::ptr::from_ref(kernel).addr();
        if let Some(module) = state.modules.get(&key) {
            return Ok(*module);
        }
        let failed = |what: &dyn std::fmt::Display| {
            Error::failed(Status::Internal, format!("SPIR-V of kernel `{}`: {what}", kernel.full_name()))
        };
        let words = spirv::words(kernel.spirv)
            .and_then(|w| spirv::with_modes(&w, self.traits.round_even, self.traits.keeps_denormals))
            .ok_or_else(|| failed(&"it is damaged"))?;
        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: the code is a module that a compiler has made, with modes that the device offers.
        let module = unsafe { raw.create_shader_module(&info, None) }.map_err(|e| failed(&e))?;
        state.modules.insert(key, module);
        Ok(module)
    }

    fn compile(
        &self,
        raw: &ash::Device,
        launch: &Dispatch,
        module: vk::ShaderModule,
        layout: vk::PipelineLayout,
    ) -> Result<(vk::Pipeline, bool), vk::Result> {
        let values: Vec<u32> = launch.local.iter().chain(&launch.spec).copied().collect();
        let entry = |(i, _)| vk::SpecializationMapEntry { constant_id: i, offset: 4 * i, size: 4 };
        let entries: Vec<_> = (0..).zip(&values).map(entry).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        let constants = vk::SpecializationInfo::default().map_entries(&entries).data(&bytes);
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main")
            .specialization_info(&constants);
        let mut feedback = vk::PipelineCreationFeedback::default();
        let mut stages = [vk::PipelineCreationFeedback::default()];
        let mut asked = vk::PipelineCreationFeedbackCreateInfo::default()
            .pipeline_creation_feedback(&mut feedback)
            .pipeline_stage_creation_feedbacks(&mut stages);
        let mut info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
        if self.traits.api >= vk::API_VERSION_1_3 {
            info = info.push_next(&mut asked);
        }
        // SAFETY: module and layout are of this device and fit each other, as the kernel table says; the constants are
        // those that the module has.
        let made = unsafe { raw.create_compute_pipelines(self.cache, &[info], None) };
        let pipeline = made.map_err(|(_, e)| e)?.first().copied().ok_or(vk::Result::ERROR_UNKNOWN)?;
        let hit = vk::PipelineCreationFeedbackFlags::VALID
            | vk::PipelineCreationFeedbackFlags::APPLICATION_PIPELINE_CACHE_HIT;
        Ok((pipeline, feedback.flags.contains(hit)))
    }

    /// How many pipelines were made.
    pub(crate) fn compiled(&self) -> Compiled {
        self.state.lock().compiled
    }

    /// Keeps what is new for the next process.
    pub(crate) fn save(&self, raw: &ash::Device) {
        let Some(disk) = &self.disk else { return };
        let mut state = self.state.lock();
        let fresh = state.compiled.pipelines - state.compiled.cached;
        if fresh == state.saved || self.cache == vk::PipelineCache::null() {
            return;
        }
        state.saved = fresh;
        // SAFETY: the cache lives, and the lock keeps others from using it.
        match unsafe { raw.get_pipeline_cache_data(self.cache) } {
            Ok(data) => disk.save(&data),
            Err(e) => tracing::warn!("the pipeline cache cannot be read from the device: {e}"),
        }
    }

    /// Destroys everything; for the device's end.
    ///
    /// # Safety
    /// Nothing is in flight.
    pub(crate) unsafe fn destroy(&self, raw: &ash::Device) {
        let state = std::mem::take(&mut *self.state.lock());
        // SAFETY: the caller's promise; every handle is of this device and is destroyed once.
        unsafe {
            state.pipelines.values().for_each(|p| raw.destroy_pipeline(p.raw, None));
            state.modules.values().for_each(|m| raw.destroy_shader_module(*m, None));
            for (set, layout) in state.layouts.values() {
                raw.destroy_pipeline_layout(*layout, None);
                raw.destroy_descriptor_set_layout(*set, None);
            }
            raw.destroy_pipeline_cache(self.cache, None);
        }
    }
}

impl State {
    /// The layout of so many buffers.
    fn layout(
        &mut self,
        raw: &ash::Device,
        buffers: usize,
    ) -> Result<(vk::DescriptorSetLayout, vk::PipelineLayout), vk::Result> {
        if let Some(found) = self.layouts.get(&buffers) {
            return Ok(*found);
        }
        let binding = |i: u32| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0u32..).take(buffers).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the structure lives during the call.
        let set = unsafe { raw.create_descriptor_set_layout(&info, None) }?;
        let sets = [set];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&sets);
        // SAFETY: as above.
        let layout = unsafe { raw.create_pipeline_layout(&info, None) };
        let layout = layout.inspect_err(|_| {
            // SAFETY: nobody has seen the layout of the set.
            unsafe { raw.destroy_descriptor_set_layout(set, None) };
        })?;
        self.layouts.insert(buffers, (set, layout));
        Ok((set, layout))
    }
}

fn status_of(e: vk::Result) -> Status {
    match e {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY => Status::OutOfDeviceMemory,
        vk::Result::ERROR_OUT_OF_HOST_MEMORY => Status::OutOfHostMemory,
        vk::Result::ERROR_DEVICE_LOST => Status::DeviceLost,
        _ => Status::Internal,
    }
}
