//! Packed weights on their way through the builder: fresh ones are kept for saving, stored ones are handed out in order,
//! to be used where they lie if their memory is shared.

use ottava_hal::Result;
use ottava_hal::wire::corrupt;
use ottava_kernels::{ConvF32, ConvU8, PackedBytes};
use std::sync::Arc;

/// The kernel plan of a product, shared with the step that runs it.
pub(crate) enum Packed {
    /// Of 8-bit operands.
    U8(Arc<ConvU8>),
    /// Of floats.
    F32(Arc<ConvF32>),
}

impl Packed {
    /// What [`ConvU8::from_packed`] or [`ConvF32::from_packed`] takes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::U8(plan) => plan.to_packed(),
            Self::F32(plan) => plan.to_packed(),
        }
    }
}

/// All packed weights of a program.
#[derive(Default)]
pub(crate) struct Packs<'b> {
    /// What is left of a payload; `None` if weights are packed afresh.
    stored: Option<std::vec::IntoIter<PackedBytes<'b>>>,
    /// Those of the steps built so far.
    kept: Vec<Packed>,
}

impl<'b> Packs<'b> {
    /// Weights of a payload.
    pub(crate) fn stored(list: Vec<PackedBytes<'b>>) -> Self {
        Self { stored: Some(list.into_iter()), kept: Vec::new() }
    }

    /// The packed weights of the next product; `None` if they are to be packed.
    pub(crate) fn next(&mut self) -> Result<Option<PackedBytes<'b>>> {
        let Some(stored) = &mut self.stored else { return Ok(None) };
        stored.next().map(Some).ok_or_else(|| corrupt("packed weights are missing"))
    }

    /// Keeps the plan of a product for saving.
    pub(crate) fn keep(&mut self, packed: Packed) {
        self.kept.push(packed);
    }

    /// All plans; an error if a payload has more than the program asked for.
    pub(crate) fn finish(self) -> Result<Vec<Packed>> {
        match self.stored.map_or(0, |left| left.len()) {
            0 => Ok(self.kept),
            n => Err(corrupt(format!("{n} packed weights too many"))),
        }
    }
}
