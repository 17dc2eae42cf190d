//! A recipe with its pipelines, constants and recorded command buffers.
//!
//! A recording belongs to one set of bindings on one lane, so a program that runs again on the same buffers submits what
//! is there. Working memory belongs to a lane: runs of one lane follow each other (every recording begins with a
//! barrier), runs of different lanes have memory of their own.

use crate::gpu::Gpu;
use crate::job::Part;
use crate::lru::Lru;
use crate::memory::{Memory, Use};
use crate::pipeline::Pipeline;
use crate::record::{Commands, barrier, copy};
use crate::transfers::Transfers;
use ash::vk;
use ottava_gpu::{Dispatch, Place, Recipe, Slice, Step};
use ottava_hal::{Error, Executable, Program, Result, Status, TensorType};
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;

/// Sets of bindings whose recordings are kept, per executable.
const KEPT_RECORDINGS: usize = 16;

/// A lane, and buffer and offset of every binding.
type Key = (usize, SmallVec<[(u64, usize); 8]>);

/// A compiled program.
pub(crate) struct VulkanExecutable {
    gpu: Arc<Gpu>,
    recipe: Recipe,
    barriers: Vec<bool>,
    /// One per step; `None` for copies.
    pipelines: Vec<Option<Pipeline>>,
    constants: Memory,
    /// Working memory of each lane that has run.
    arenas: Mutex<Vec<Option<Arc<Memory>>>>,
    recordings: Mutex<Lru<Key, Arc<Commands>>>,
    /// What was compiled, from which the saved form is made; none of a device's own programs.
    program: Option<Program>,
}

impl VulkanExecutable {
    /// Makes the pipelines and uploads the constants.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        transfers: &Transfers,
        mut recipe: Recipe,
        program: Option<Program>,
    ) -> Result<Self> {
        let pipeline = |step: &Step| match step {
            Step::Dispatch(launch) => gpu.pipelines.get(&gpu.raw, launch).map(Some),
            Step::Copy { .. } => Ok(None),
        };
        let pipelines = recipe.steps.iter().map(pipeline).collect::<Result<_>>()?;
        gpu.pipelines.save(&gpu.raw);
        let data = std::mem::take(&mut recipe.constants);
        let constants = Memory::new(gpu, data.len() as u64, Use::Device)?;
        if !data.is_empty() {
            transfers.write(constants.buffer, 0, &data)?;
        }
        let executable = Self {
            barriers: recipe.barriers(),
            pipelines,
            constants,
            arenas: Mutex::new(vec![None; gpu.lanes.len()]),
            recordings: Mutex::new(Lru::new(KEPT_RECORDINGS)),
            gpu: Arc::clone(gpu),
            recipe,
            program,
        };
        // The first lane's memory is made now: lack of it is known when a program is compiled, and a first run is as fast
        // as any other.
        executable.arena(0)?;
        Ok(executable)
    }

    /// The device.
    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// What was compiled.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// The lowered program, without its constants.
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The recording of a set of bindings on a lane.
    pub(crate) fn recording(&self, lane: usize, inputs: &[Part], outputs: &[Part]) -> Result<Arc<Commands>> {
        let key = (lane, inputs.iter().chain(outputs).map(|p| (p.id, p.offset)).collect());
        self.recordings.lock().get_or(key, || self.record(lane, inputs, outputs, false).map(Arc::new))
    }

    /// A recording that takes two timestamps per step; it is used once.
    pub(crate) fn timed(&self, lane: usize, inputs: &[Part], outputs: &[Part]) -> Result<Arc<Commands>> {
        self.record(lane, inputs, outputs, true).map(Arc::new)
    }

    fn arena(&self, lane: usize) -> Result<Arc<Memory>> {
        let mut arenas = self.arenas.lock();
        if let Some(arena) = &arenas[lane] {
            return Ok(Arc::clone(arena));
        }
        let arena = Arc::new(Memory::new(&self.gpu, self.recipe.arena_bytes as u64, Use::Device)?);
        arenas[lane] = Some(Arc::clone(&arena));
        Ok(arena)
    }

    fn record(&self, lane: usize, inputs: &[Part], outputs: &[Part], timed: bool) -> Result<Commands> {
        let arena = self.arena(lane)?;
        let bound = Bound { inputs, outputs, arena: &arena, constants: &self.constants };
        let mut commands = Commands::empty(&self.gpu)?;
        commands.descriptors = self.descriptor_pool()?;
        if timed {
            commands.queries = self.queries()?;
        }
        let (descriptors, queries) = (commands.descriptors, commands.queries);
        commands.fill(|raw, buffer| {
            if timed {
                // SAFETY: the command buffer is being recorded, here and below; the pool has two queries per step.
                unsafe { raw.cmd_reset_query_pool(buffer, queries, 0, 2 * self.recipe.steps.len() as u32) };
            }
            for (i, step) in self.recipe.steps.iter().enumerate() {
                if self.barriers[i] {
                    barrier(raw, buffer);
                }
                let stamp = |stage, n: u32| {
                    if timed {
                        // SAFETY: see above.
                        unsafe { raw.cmd_write_timestamp(buffer, stage, queries, 2 * i as u32 + n) };
                    }
                };
                stamp(vk::PipelineStageFlags::TOP_OF_PIPE, 0);
                match (step, &self.pipelines[i]) {
                    (Step::Dispatch(launch), Some(pipeline)) => {
                        self.launch(buffer, descriptors, launch, pipeline, &bound)?;
                    }
                    (Step::Copy { from, to }, _) => {
                        copy(raw, buffer, bound.place(from)?, bound.place(to)?, from.len as u64);
                    }
                    (Step::Dispatch(_), None) => return Err(broken()),
                }
                stamp(vk::PipelineStageFlags::BOTTOM_OF_PIPE, 1);
            }
            Ok(())
        })?;
        Ok(commands)
    }

    fn launch(
        &self,
        buffer: vk::CommandBuffer,
        descriptors: vk::DescriptorPool,
        launch: &Dispatch,
        pipeline: &Pipeline,
        bound: &Bound<'_>,
    ) -> Result<()> {
        let raw = &self.gpu.raw;
        let layouts = [pipeline.set];
        let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(descriptors).set_layouts(&layouts);
        // SAFETY: the pool has a set for each launch and is this recording's own.
        let sets = unsafe { raw.allocate_descriptor_sets(&info) }.map_err(|e| self.gpu.error("a descriptor set", e))?;
        let range = |slice: &Slice| {
            let (buffer, offset) = bound.place(slice)?;
            let range = (slice.len as u64).next_multiple_of(4).max(4);
            Ok(vk::DescriptorBufferInfo { buffer, offset, range })
        };
        let ranges = launch.buffers.iter().map(range).collect::<Result<SmallVec<[_; 8]>>>()?;
        let write = vk::WriteDescriptorSet::default()
            .dst_set(sets[0])
            .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
            .buffer_info(&ranges);
        let [x, y, z] = launch.groups;
        // SAFETY: the set is new; the ranges lie inside buffers that a submission holds; the command buffer is being
        // recorded; the numbers of work-groups are within the device's limits, as lowering has checked.
        unsafe {
            raw.update_descriptor_sets(&[write], &[]);
            raw.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::COMPUTE, pipeline.raw);
            raw.cmd_bind_descriptor_sets(buffer, vk::PipelineBindPoint::COMPUTE, pipeline.layout, 0, &sets, &[]);
            raw.cmd_dispatch(buffer, x, y, z);
        }
        Ok(())
    }

    /// A pool for the sets of all launches; null if there are none.
    fn descriptor_pool(&self) -> Result<vk::DescriptorPool> {
        let (mut sets, mut buffers) = (0u32, 0u32);
        for step in &self.recipe.steps {
            if let Step::Dispatch(launch) = step {
                sets += 1;
                buffers += launch.buffers.len() as u32;
            }
        }
        if sets == 0 {
            return Ok(vk::DescriptorPool::null());
        }
        let sizes = [vk::DescriptorPoolSize { ty: vk::DescriptorType::STORAGE_BUFFER, descriptor_count: buffers }];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(sets).pool_sizes(&sizes);
        // SAFETY: the structures live during the call.
        let pool = unsafe { self.gpu.raw.create_descriptor_pool(&info, None) };
        pool.map_err(|e| self.gpu.error("a descriptor pool", e))
    }

    fn queries(&self) -> Result<vk::QueryPool> {
        let n = 2 * self.recipe.steps.len() as u32;
        if n == 0 {
            return Ok(vk::QueryPool::null());
        }
        let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(n);
        // SAFETY: the structure lives during the call.
        let pool = unsafe { self.gpu.raw.create_query_pool(&info, None) };
        pool.map_err(|e| self.gpu.error("timestamps", e))
    }
}

fn broken() -> Error {
    Error::failed(Status::Internal, "a lowered program names memory or a pipeline that it does not have")
}

/// Where the places of a recipe lie in one recording.
struct Bound<'a> {
    inputs: &'a [Part],
    outputs: &'a [Part],
    arena: &'a Memory,
    constants: &'a Memory,
}

impl Bound<'_> {
    /// Buffer and offset of a slice, which must lie inside: what is recorded here the device does not check.
    fn place(&self, slice: &Slice) -> Result<(vk::Buffer, u64)> {
        let (buffer, base, len) = match slice.place {
            Place::Arena => (self.arena.buffer, 0, self.arena.bytes),
            Place::Constants => (self.constants.buffer, 0, self.constants.bytes),
            Place::Input(i) => self.inputs.get(i).ok_or_else(broken)?.place(),
            Place::Output(i) => self.outputs.get(i).ok_or_else(broken)?.place(),
        };
        let end = slice.offset.checked_add(slice.len).ok_or_else(broken)?;
        if end as u64 > len { Err(broken()) } else { Ok((buffer, base + slice.offset as u64)) }
    }
}

impl Executable for VulkanExecutable {
    fn inputs(&self) -> &[TensorType] {
        &self.recipe.inputs
    }

    fn outputs(&self) -> &[TensorType] {
        &self.recipe.outputs
    }

    fn kernels(&self) -> Vec<(String, String)> {
        self.recipe.kernels.clone()
    }

    fn arena_bytes(&self) -> usize {
        self.recipe.arena_bytes
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
