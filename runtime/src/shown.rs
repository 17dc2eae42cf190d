//! Outputs that the caller only looks at: shown where they lie, without a copy in host memory where the device's buffers
//! are host memory.
//!
//! An output is shown once, at the step that would have copied it. A run that has shown something is not tried again after
//! a failure: the caller would see values twice.

use crate::compiled::kept;
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
