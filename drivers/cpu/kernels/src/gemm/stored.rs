//! [`PackedB`] as bytes: per panel its steps per run, then all offsets, then all blocks.

use super::format::{Block, COLS, FORMS, Form, GROUP, PackedB, PanelIndex};
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
    /// ask for, no offset beyond `max_offset`; and that shuffle controls name one of four bytes.
    pub(crate) fn restore(n: usize, max_offset: usize, from: &mut Stored<'_>) -> Result<Self> {
        let too_many = || damaged("more steps than fit");
        let (mut panels, mut block, mut offset) = (Vec::new(), 0usize, 0usize);
        for _ in 0..n.div_ceil(COLS) {
            let steps = from.u32s(FORMS.len())?;
            let steps: [u32; FORMS.len()] = steps.try_into().map_err(|_| too_many())?;
            panels.push(PanelIndex { block, offset, steps });
            for form in FORMS {
                let n = steps[form as usize] as usize;
                let grow = |at: usize, per: usize| n.checked_mul(per).and_then(|more| at.checked_add(more));
                block = grow(block, form.blocks()).ok_or_else(too_many)?;
                offset = grow(offset, form.groups()).ok_or_else(too_many)?;
            }
        }
        let packed = Self { offsets: from.u32s(offset)?, blocks: from.elements(block)?, panels, max_offset };
        if let Some(o) = packed.offsets.iter().find(|o| **o as usize > max_offset) {
            return Err(damaged(format!("offset {o} exceeds {max_offset}")));
        }
        match (0..packed.panels.len()).all(|i| packed.controls_are_sound(i)) {
            true => Ok(packed),
            false => Err(damaged("a shuffle control names a byte outside its group")),
        }
    }

    fn controls_are_sound(&self, index: usize) -> bool {
        let panel = self.panel(index);
        let mut blocks = panel.blocks;
        FORMS.iter().all(|form| {
            let (mine, rest) = blocks.split_at(panel.steps[*form as usize] as usize * form.blocks());
            blocks = rest;
            let controlled = matches!(form, Form::QuadCol | Form::PairCol);
            !controlled || mine.iter().step_by(form.blocks()).all(is_control)
        })
    }
}

/// Whether both nibbles of each byte name a byte of a group.
fn is_control(block: &Block) -> bool {
    block.0.iter().all(|b| usize::from(b & 15) < GROUP && usize::from(b >> 4) < GROUP)
}
