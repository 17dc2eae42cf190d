//! `ottava-plan`: the compiled artefact that compiler and runtime share.
//!
//! A [`Plan`] says which [`Program`] runs on which device, and which of its values each partition reads and writes. It
//! holds no pointers into a compiler and no device, so a runtime needs nothing else. Values that cross from one
//! partition to another are slots; slots of the plan's inputs and outputs carry their names.

use ottava_hal::{Error, Program, Result, TensorType};

/// A value that the plan's caller or more than one partition sees.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Name of the value in the model.
    pub name: String,
    /// Its type; symbolic where only a run decides the shape.
    pub ty: TensorType,
}

/// What one device runs in one go.
#[derive(Debug, Clone, PartialEq)]
pub struct Partition {
    /// Id of the device.
    pub device: String,
    /// What it runs.
    pub program: Program,
    /// Slot of each program input.
    pub inputs: Vec<usize>,
    /// Slot of each program output.
    pub outputs: Vec<usize>,
}

/// Partitions in the order in which they may run one after the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Plan {
    /// Name of the model.
    pub name: String,
    /// Slots.
    pub slots: Vec<Slot>,
    /// Partitions in topological order.
    pub partitions: Vec<Partition>,
    /// Slots that the caller fills.
    pub inputs: Vec<usize>,
    /// Slots that the caller receives; a slot may be listed twice, and may be an input.
    pub outputs: Vec<usize>,
    /// Slots whose data is known: outputs that constant folding has computed.
    pub constants: Vec<(usize, ottava_hal::Tensor)>,
}

impl Plan {
    /// Checks that slots are in range, written once and before they are read, and that programs are well formed.
    pub fn check(&self) -> Result<()> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::DataType;

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
