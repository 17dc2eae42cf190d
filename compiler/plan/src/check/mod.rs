//! What must hold for every plan, whoever made it: a compiler, a test or a file from a stranger.
//!
//! After [`Plan::check`] a runtime may index slots, partitions and devices as the steps say, and no allowed order of steps
//! reads what is not written yet or overwrites what is still read.

mod arena;
mod steps;
#[cfg(test)]
mod tests;

use crate::order::Order;
use crate::{Partition, Plan, Work};
use ottava_hal::{Error, Result, Tensor, TensorType};
use std::collections::BTreeSet;

/// Plans inside plans (bodies of control steps, alternatives) may be this deep.
pub const MAX_DEPTH: usize = 16;
/// More devices than this are refused.
const MAX_DEVICES: usize = 256;

impl Plan {
    /// Checks that slots are in range, written once and before they are read, that programs are well formed, and that
    /// steps, arenas, states, bodies and alternatives fit.
    pub fn check(&self) -> Result<()> {
        self.check_at(0)
    }

    fn check_at(&self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(Error::invalid(format!("plans lie more than {MAX_DEPTH} deep in each other")));
        }
        self.check_devices()?;
        self.check_slots()?;
        self.check_constants()?;
        self.check_states()?;
        let order = Order::of(self)?;
        steps::check(self, &order)?;
        arena::check(self, &order)?;
        for step in &self.steps {
            step.work.bodies().into_iter().try_for_each(|body| body.check_at(depth + 1))?;
        }
        for a in &self.alternatives {
            if depth > 0 || !a.plan.alternatives.is_empty() {
                return Err(Error::invalid(format!("the plan without device `{}` may have no alternatives", a.lost)));
            }
            a.plan.check_at(depth + 1)?;
        }
        Ok(())
    }

    /// Devices are few, and each is listed once.
    fn check_devices(&self) -> Result<()> {
        let ids: BTreeSet<&str> = self.devices.iter().map(|d| d.id.as_str()).collect();
        match self.devices.len() {
            n if n > MAX_DEVICES => Err(Error::invalid(format!("the plan has {n} devices, at most {MAX_DEVICES} are"))),
            n if n != ids.len() => Err(Error::invalid("the plan lists a device twice")),
            _ => Ok(()),
        }
    }

    /// Each slot has one source, partitions come in topological order, and every output has a source.
    fn check_slots(&self) -> Result<()> {
        let mut written = vec![false; self.slots.len()];
        for slot in self.given() {
            mark(&mut written, slot, "an input or constant")?;
        }
        for step in &self.steps {
            step.work.control_outputs().iter().try_for_each(|slot| mark(&mut written, *slot, &step.name))?;
        }
        let is_written = |written: &[bool], slot: usize| written.get(slot).copied().unwrap_or(false);
        for p in &self.partitions {
            if let Some(slot) = p.inputs.iter().find(|slot| !is_written(&written, **slot)) {
                return Err(Error::invalid(format!("partition `{}` reads slot {slot} too early", p.program.name)));
            }
            p.outputs.iter().try_for_each(|slot| mark(&mut written, *slot, &p.program.name))?;
            self.check_partition(p)?;
        }
        match self.kept().find(|s| !is_written(&written, *s)) {
            Some(slot) => Err(Error::invalid(format!("output slot {slot} is never written"))),
            None => Ok(()),
        }
    }

    /// A program is well formed, and its inputs and outputs have the sizes of their slots.
    fn check_partition(&self, p: &Partition) -> Result<()> {
        let name = &p.program.name;
        p.program.check()?;
        if p.inputs.len() != p.program.inputs.len() || p.outputs.len() != p.program.outputs.len() {
            return Err(Error::invalid(format!("partition `{name}` has another number of slots than its program")));
        }
        let slots = p.inputs.iter().chain(&p.outputs);
        for (slot, id) in slots.zip(p.program.inputs.iter().chain(&p.program.outputs)) {
            let bytes = (self.slots.get(*slot).and_then(|s| s.ty.byte_len()), p.program.ty(*id).byte_len());
            if let (Some(slot_bytes), Some(bytes)) = bytes
                && slot_bytes != bytes
            {
                return Err(Error::invalid(format!(
                    "partition `{name}`: slot {slot} has {slot_bytes} bytes, its program expects {bytes}"
                )));
            }
        }
        Ok(())
    }

    /// Constants have the types of their slots.
    fn check_constants(&self) -> Result<()> {
        for (slot, data) in &self.constants {
            if !self.slots.get(*slot).is_some_and(|s| holds(&s.ty, data)) {
                let found = data.ty();
                return Err(Error::invalid(format!("the constant of slot {slot} is {found}, which is not its type")));
            }
        }
        Ok(())
    }

    /// What a state holds after a run fits where it is before the next.
    fn check_states(&self) -> Result<()> {
        for state in &self.states {
            let ty = |slot: usize| self.slots.get(slot).map(|s| &s.ty);
            let fits = ty(state.input).is_some_and(|ty| holds(ty, &state.initial));
            if !fits || ty(state.input) != ty(state.output) {
                let (name, found) = (&state.name, state.initial.ty());
                return Err(Error::invalid(format!("state `{name}`: its slots and its first value {found} differ")));
            }
        }
        Ok(())
    }
}

/// Whether a tensor has a type's element type and shape.
fn holds(ty: &TensorType, data: &Tensor) -> bool {
    ty.dtype == data.dtype() && ty.shape.known().as_deref() == Some(data.shape())
}

fn mark(written: &mut [bool], slot: usize, who: &str) -> Result<()> {
    match written.get_mut(slot) {
        Some(flag) if !*flag => {
            *flag = true;
            Ok(())
        }
        _ => Err(Error::invalid(format!("{who} writes slot {slot}, which it may not"))),
    }
}

impl Work {
    /// The plans inside a control step.
    pub fn bodies(&self) -> Vec<&Plan> {
        match self {
            Self::Run { .. } | Self::Copy { .. } => Vec::new(),
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::Loop { body, .. } | Self::Scan { body, .. } => vec![body],
        }
    }

    /// Slots that a control step writes.
    fn control_outputs(&self) -> &[usize] {
        match self {
            Self::Run { .. } | Self::Copy { .. } => &[],
            Self::If { outputs, .. } | Self::Loop { outputs, .. } | Self::Scan { outputs, .. } => outputs,
        }
    }
}
