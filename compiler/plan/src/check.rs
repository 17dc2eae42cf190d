//! What must hold for every plan.

use crate::{Plan, Work};
use ottava_hal::{Error, Result};

impl Plan {
    /// Checks that slots are in range, written once and before they are read, that programs are well formed, and that
    /// steps, arenas and alternatives fit.
    pub fn check(&self) -> Result<()> {
        self.check_slots()?;
        self.check_steps()?;
        self.check_arenas()?;
        self.alternatives.iter().try_for_each(|a| a.plan.check())
    }

    fn check_slots(&self) -> Result<()> {
        let mut written = vec![false; self.slots.len()];
        for slot in self.inputs.iter().chain(self.constants.iter().map(|(slot, _)| slot)) {
            self.write(&mut written, *slot, "an input or constant")?;
        }
        for p in &self.partitions {
            p.program.check()?;
            if p.inputs.len() != p.program.inputs.len() || p.outputs.len() != p.program.outputs.len() {
                return Err(Error::invalid(format!(
                    "partition `{}` has another number of slots than its program",
                    p.program.name
                )));
            }
            for slot in &p.inputs {
                if !written.get(*slot).copied().unwrap_or(false) {
                    return Err(Error::invalid(format!("partition `{}` reads slot {slot} too early", p.program.name)));
                }
            }
            for slot in &p.outputs {
                self.write(&mut written, *slot, &p.program.name)?;
            }
        }
        match self.outputs.iter().find(|s| !written.get(**s).copied().unwrap_or(false)) {
            Some(slot) => Err(Error::invalid(format!("output slot {slot} is never written"))),
            None => Ok(()),
        }
    }

    fn write(&self, written: &mut [bool], slot: usize, who: &str) -> Result<()> {
        match written.get_mut(slot) {
            Some(flag) if !*flag => {
                *flag = true;
                Ok(())
            }
            _ => Err(Error::invalid(format!("{who} writes slot {slot}, which it may not"))),
        }
    }

    fn check_steps(&self) -> Result<()> {
        for (i, step) in self.steps.iter().enumerate() {
            if step.waits.iter().any(|w| *w >= i) {
                return Err(Error::invalid(format!("step {i} (`{}`) waits for a later one", step.name)));
            }
            let fits = match &step.work {
                Work::Run { partition } => *partition < self.partitions.len(),
                Work::Copy { slot, .. } => *slot < self.slots.len(),
                _ => true,
            };
            if !fits {
                return Err(Error::invalid(format!("step {i} (`{}`) names what is not there", step.name)));
            }
        }
        Ok(())
    }

    fn check_arenas(&self) -> Result<()> {
        for (arena, device) in self.arenas.iter().zip(&self.devices) {
            for (slot, offset) in &arena.slots {
                let bytes = self.slots.get(*slot).and_then(|s| s.ty.byte_len());
                let end = bytes.and_then(|b| b.checked_add(*offset));
                if end.is_none_or(|end| end > arena.bytes) {
                    return Err(Error::invalid(format!("slot {slot} is outside the arena of device `{}`", device.id)));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Slot;
    use ottava_hal::{DataType, TensorType};

    fn plan(inputs: Vec<usize>, outputs: Vec<usize>) -> Plan {
        let slot = Slot { name: "x".into(), ty: TensorType::fixed(DataType::F32, &[1]) };
        Plan { slots: vec![slot], inputs, outputs, ..Plan::default() }
    }

    #[test]
    fn a_slot_is_written_once_and_before_it_is_read() {
        assert_eq!(plan(vec![0], vec![0]).check(), Ok(()));
        assert!(plan(vec![], vec![0]).check().unwrap_err().to_string().contains("never written"));
        assert!(plan(vec![0, 0], vec![]).check().is_err());
        assert!(plan(vec![7], vec![]).check().is_err());
    }
}
