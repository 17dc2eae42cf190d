//! A recipe with its constants on the device.

use crate::instance::{Instance, Outside, Parts, outsides, parts};
use crate::memory::Mem;
use crate::shared::Shared;
use opencl3::memory::{CL_MEM_COPY_HOST_PTR, CL_MEM_READ_ONLY};
use ottava_gpu::{Place, Recipe};
use ottava_hal::{Executable, Result, TensorType};
use parking_lot::Mutex;
use std::any::Any;
use std::ffi::c_void;
use std::sync::Arc;

/// A compiled program.
pub(crate) struct ClExecutable {
    shared: Arc<Shared>,
    recipe: Recipe,
    constants: Mem,
    constant_parts: Parts,
    outsides: Vec<Outside>,
    /// Instances that no run uses.
    idle: Mutex<Vec<Instance>>,
}

impl ClExecutable {
    /// Uploads the constants, builds every kernel and allocates the memory of a first run.
    pub(crate) fn new(shared: &Arc<Shared>, mut recipe: Recipe) -> Result<Self> {
        let mut bytes = std::mem::take(&mut recipe.constants);
        bytes.resize(bytes.len().next_multiple_of(4).max(4), 0);
        let host = bytes.as_mut_ptr().cast::<c_void>();
        let constants = Mem::new(&shared.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, bytes.len(), host)?;
        let constant_parts = parts(&recipe, Place::Constants, &constants)?;
        let (outsides, idle) = (outsides(&recipe), Mutex::default());
        let exe = Self { shared: Arc::clone(shared), recipe, constants, constant_parts, outsides, idle };
        let first = Instance::new(&exe)?;
        exe.idle.lock().push(first);
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

    /// An instance for a run; [`Self::give_back`] takes it again.
    pub(crate) fn instance(&self) -> Result<Instance> {
        if let Some(instance) = self.idle.lock().pop() {
            return Ok(instance);
        }
        Instance::new(self)
    }

    /// An instance whose run is over.
    pub(crate) fn give_back(&self, instance: Instance) {
        self.idle.lock().push(instance);
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
