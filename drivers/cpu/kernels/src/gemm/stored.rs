//! [`PackedB`] as bytes: per panel its steps per run, then all offsets, then all blocks.

use alloc::format;
use alloc::vec::Vec;

use super::format::{COLS, N_RUNS, PackedB, PanelIndex, RUNS};
use crate::error::Result;
use crate::stored::{Stored, damaged, put_elements, put_u32s};

impl PackedB {
    /// Appends the packed weights.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        self.panels.iter().for_each(|panel| put_u32s(out, &panel.steps));
        put_u32s(out, &self.offsets);
        put_elements(out, &self.blocks);
    }

    /// Reads the weights of `n` columns back. The invariant of the type is checked: as many offsets and blocks as the steps
    /// ask for, and no step that reads beyond `reach` bytes of the activation row.
    pub(crate) fn restore(n: usize, reach: usize, from: &mut Stored<'_>) -> Result<Self> {
        let too_many = || damaged("more steps than fit");
        let (mut panels, mut block, mut offset) = (Vec::new(), 0usize, 0usize);
        for _ in 0..n.div_ceil(COLS) {
            let steps = from.u32s(N_RUNS)?;
            let steps: [u32; N_RUNS] = steps.try_into().map_err(|_| too_many())?;
            panels.push(PanelIndex { block, offset, steps });
            for (form, n) in RUNS.iter().zip(steps) {
                let n = n as usize;
                let grow = |at: usize, per: usize| n.checked_mul(per).and_then(|more| at.checked_add(more));
                block = grow(block, form.blocks()).ok_or_else(too_many)?;
                offset = grow(offset, 1).ok_or_else(too_many)?;
            }
        }
        let packed = Self { offsets: from.u32s(offset)?, blocks: from.elements(block)?, panels, reach };
        for (run, form) in RUNS.iter().enumerate() {
            let fits = |o: &u32| (*o as usize).checked_add(form.width()).is_some_and(|end| end <= reach);
            let mut offsets = (0..packed.panels.len()).flat_map(|i| packed.panel(i).run_at(run).offsets);
            if let Some(o) = offsets.find(|o| !fits(o)) {
                return Err(damaged(format!("a step of form {form:?} at {o} reads beyond {reach} bytes")));
            }
        }
        Ok(packed)
    }
}
