//! A recipe with its constants on the device.

use crate::instance::{Instance, Outside, Parts, outsides, parts};
use crate::memory::Mem;
use crate::shared::Shared;
use opencl3::command_queue::CommandQueue;
use opencl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY};
use ottava_gpu::{Place, Recipe};
use ottava_hal::{Executable, Program, Result, TensorType};
use parking_lot::Mutex;
use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, Weak};

/// A compiled program.
pub(crate) struct ClExecutable {
    shared: Arc<Shared>,
    recipe: Recipe,
    /// What the recipe was made of, for its bytes.
    program: Option<Program>,
    constants: Mem,
    constant_parts: Parts,
    outsides: Vec<Outside>,
    /// Instances by their number.
    pool: Mutex<Vec<Pooled>>,
}

/// An instance and who uses it.
struct Pooled {
    /// `None` while a run is enqueued.
    instance: Option<Instance>,
    /// The queue of its last run.
    queue: Weak<CommandQueue>,
    /// Runs that are not over.
    users: usize,
}

impl ClExecutable {
    /// Uploads the constants, builds every kernel and allocates the memory of a first run.
    pub(crate) fn new(shared: &Arc<Shared>, mut recipe: Recipe, program: Option<Program>) -> Result<Self> {
        let mut bytes = std::mem::take(&mut recipe.constants);
        bytes.resize(bytes.len().next_multiple_of(4).max(4), 0);
        let host = bytes.as_mut_ptr().cast::<c_void>();
        let constants = Mem::new(&shared.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes.len(), host)?;
        let constant_parts = parts(&recipe, Place::Constants, &constants)?;
        let (outsides, pool) = (outsides(&recipe), Mutex::default());
        let exe = Self { shared: Arc::clone(shared), recipe, program, constants, constant_parts, outsides, pool };
        let instance = Some(Instance::new(&exe, 0)?);
        exe.pool.lock().push(Pooled { instance, queue: Weak::new(), users: 0 });
        Ok(exe)
    }

    /// The device's objects.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The recipe, without its constants' bytes.
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// The program that it was compiled from.
    pub(crate) fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// The slices of the constants.
    pub(crate) fn constants(&self) -> &Parts {
        &self.constant_parts
    }

    /// All constants.
    pub(crate) fn constant_memory(&self) -> &Mem {
        &self.constants
    }

    /// The slices of inputs and outputs.
    pub(crate) fn outsides(&self) -> &[Outside] {
        &self.outsides
    }

    /// An instance for a run on `queue`: one that this queue uses, because its runs follow one another, or one that no
    /// run uses.
    pub(crate) fn take(&self, queue: &Arc<CommandQueue>) -> Result<Instance> {
        let mut pool = self.pool.lock();
        let of_queue = |p: &Pooled| p.instance.is_some() && Weak::as_ptr(&p.queue) == Arc::as_ptr(queue);
        let idle = |p: &Pooled| p.instance.is_some() && p.users == 0;
        let found = pool.iter().position(of_queue).or_else(|| pool.iter().position(idle));
        if let Some(pooled) = found.and_then(|i| pool.get_mut(i))
            && let Some(instance) = pooled.instance.take()
        {
            return Ok(instance);
        }
        let number = pool.len() as u64;
        pool.push(Pooled { instance: None, queue: Weak::new(), users: 0 });
        drop(pool);
        Instance::new(self, number)
    }

    /// An instance whose run has been enqueued; [`Self::release`] is called with the result when it is over.
    pub(crate) fn put(&self, instance: Instance, queue: &Arc<CommandQueue>) -> u64 {
        let number = instance.number;
        if let Some(pooled) = self.pool.lock().get_mut(number as usize) {
            pooled.users += 1;
            (pooled.queue, pooled.instance) = (Arc::downgrade(queue), Some(instance));
        }
        number
    }

    /// A run of an instance is over.
    pub(crate) fn release(&self, number: u64) {
        if let Some(pooled) = self.pool.lock().get_mut(number as usize) {
            pooled.users = pooled.users.saturating_sub(1);
        }
    }
}

impl Executable for ClExecutable {
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
