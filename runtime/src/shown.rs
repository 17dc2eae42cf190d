//! Outputs that the caller only looks at: shown where they lie, without a copy in host memory where the device's buffers
//! are host memory.
//!
//! An output is shown once, at the step that would have copied it. A run that has shown something is not tried again after
//! a failure: the caller would see values twice.

use crate::compiled::{Compiled, kept};
use crate::context::Source;
use crate::guard;
use ottava_hal::host::HostBuffer;
use ottava_hal::{Binding, DataType, Result, Tensor, TensorType};
use ottava_plan::Plan;

/// An output for the time of a call.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Type of its elements.
    pub dtype: DataType,
    /// Extents.
    pub shape: &'a [usize],
    /// Its row-major bytes, aligned for the elements.
    pub bytes: &'a [u8],
}

impl<'a> Shown<'a> {
    /// A tensor as it is.
    pub fn of(tensor: &'a Tensor) -> Self {
        Self { dtype: tensor.dtype(), shape: tensor.shape(), bytes: tensor.bytes() }
    }
}

/// What looks at outputs: the index of an output, and its value.
pub type See<'a> = dyn FnMut(usize, Shown<'_>) + 'a;

/// Whether the whole plan runs inside one executable that shows what it computes.
pub(crate) fn shows_inside(compiled: &Compiled) -> bool {
    let [loaded] = compiled.loaded.as_slice() else { return false };
    let [partition] = compiled.plan.partitions.as_slice() else { return false };
    let in_host = |slot: &usize| matches!(compiled.sources[*slot], Source::Input(_) | Source::Constant(_));
    let known = |slot: usize| partition.outputs.contains(&slot) || in_host(&slot);
    loaded.is_static
        && loaded.executable.can_show()
        && partition.inputs.iter().all(in_host)
        && kept(&compiled.plan).all(known)
}

/// Runs such a plan: every output is shown as soon as it is computed, no memory holds all of them.
pub(crate) fn run_inside(compiled: &Compiled, inputs: &[Tensor], see: &mut See<'_>) -> Result<()> {
    let host = |slot: usize| match compiled.sources[slot] {
        Source::Input(i) => inputs.get(i),
        Source::Constant(i) => compiled.plan.constants.get(i).map(|(_, data)| data),
        _ => None,
    };
    let (Some(partition), Some(loaded)) = (compiled.plan.partitions.first(), compiled.loaded.first()) else {
        return Ok(());
    };
    for (i, value) in kept(&compiled.plan).enumerate().filter_map(|(i, slot)| Some((i, host(slot)?))) {
        see(i, Shown::of(value));
    }
    let given: Vec<&[u8]> = partition.inputs.iter().filter_map(|slot| Some(host(*slot)?.bytes())).collect();
    let types = loaded.executable.outputs();
    let shapes: Vec<Vec<usize>> = types.iter().map(|ty| ty.shape.known().unwrap_or_default()).collect();
    let mut show = |k: usize, bytes: &[u8]| {
        let (Some(slot), Some(ty), Some(shape)) = (partition.outputs.get(k), types.get(k), shapes.get(k)) else {
            return;
        };
        let outputs = kept(&compiled.plan).enumerate().filter(|(_, s)| s == slot && host(*s).is_none());
        outputs.for_each(|(i, _)| see(i, Shown { dtype: ty.dtype, shape, bytes }));
    };
    guard::call(&partition.device, || loaded.executable.run_shown(&given, &mut show))
}

/// Outputs on their way to the caller.
pub(crate) struct Show<'s, 'f> {
    see: &'s mut See<'f>,
    /// By index: it has been shown.
    done: Vec<bool>,
}

impl<'s, 'f> Show<'s, 'f> {
    pub fn new(see: &'s mut See<'f>, outputs: usize) -> Self {
        Self { see, done: vec![false; outputs] }
    }

    /// Whether the caller has seen anything.
    pub fn has_begun(&self) -> bool {
        self.done.contains(&true)
    }

    pub fn is_done(&self, i: usize) -> bool {
        self.done.get(i).is_none_or(|done| *done)
    }

    /// Shows output `i`, if it has not been shown.
    pub fn show(&mut self, i: usize, value: Shown<'_>) {
        if !self.is_done(i) {
            self.done[i] = true;
            (self.see)(i, value);
        }
    }

    /// Shows every output that is this slot, from a device's memory.
    pub fn show_slot(&mut self, plan: &Plan, slot: usize, ty: &TensorType, from: &Binding) -> Result<()> {
        let shape = ty.shape.known().unwrap_or_default();
        let mut all = |bytes: &[u8]| {
            let outputs = kept(plan).enumerate().filter(|(_, s)| *s == slot);
            outputs.for_each(|(i, _)| self.show(i, Shown { dtype: ty.dtype, shape: &shape, bytes }));
        };
        if let Some(buffer) = from.buffer.as_any().downcast_ref::<HostBuffer>() {
            return buffer.with_bytes(from.offset, from.len, all);
        }
        let mut data = Tensor::zeros(ty.dtype, &shape)?;
        from.buffer.read(from.offset, data.bytes_mut())?;
        all(data.bytes());
        Ok(())
    }
}
