//! What must hold for every plan, whoever made it: a compiler, a test or a file from a stranger.
//!
//! After [`Plan::check`] a runtime may index slots, partitions and devices as the steps say, and no allowed order of steps
//! reads what is not written yet or overwrites what is still read.

mod arena;
mod steps;
#[cfg(test)]
mod tests;

use crate::order::Order;
use crate::{Plan, Work};
use ottava_hal::{Error, Result};

/// Plans inside plans (bodies of control steps, alternatives) may be this deep.
pub const MAX_DEPTH: usize = 16;

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
        self.check_slots()?;
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

    /// Each slot has one source, partitions come in topological order, and every output has a source.
    fn check_slots(&self) -> Result<()> {
        let mut written = vec![false; self.slots.len()];
        for slot in self.given() {
            mark(&mut written, slot, "an input or constant")?;
        }
        for step in &self.steps {
            step.work.control_outputs().iter().try_for_each(|slot| mark(&mut written, *slot, &step.name))?;
        }
        for (slot, data) in &self.constants {
            let ty = self.slots.get(*slot).map(|s| &s.ty);
            if ty.is_none_or(|ty| ty.dtype != data.dtype() || ty.shape.known().as_deref() != Some(data.shape())) {
                return Err(Error::invalid(format!(
                    "the constant of slot {slot} is {}, which is not its type",
                    data.ty()
                )));
            }
        }
        let is_written = |written: &[bool], slot: usize| written.get(slot).copied().unwrap_or(false);
        for p in &self.partitions {
            p.program.check()?;
            if p.inputs.len() != p.program.inputs.len() || p.outputs.len() != p.program.outputs.len() {
                return Err(Error::invalid(format!(
                    "partition `{}` has another number of slots than its program",
                    p.program.name
                )));
            }
            if let Some(slot) = p.inputs.iter().find(|slot| !is_written(&written, **slot)) {
                return Err(Error::invalid(format!("partition `{}` reads slot {slot} too early", p.program.name)));
            }
            p.outputs.iter().try_for_each(|slot| mark(&mut written, *slot, &p.program.name))?;
        }
        match self.kept().find(|s| !is_written(&written, *s)) {
            Some(slot) => Err(Error::invalid(format!("output slot {slot} is never written"))),
            None => Ok(()),
        }
    }

    fn check_states(&self) -> Result<()> {
        for state in &self.states {
            let ty = |slot: usize| self.slots.get(slot).map(|s| &s.ty);
            let data = &state.initial;
            let fits = ty(state.input)
                .is_some_and(|ty| ty.dtype == data.dtype() && ty.shape.known().as_deref() == Some(data.shape()));
            if !fits || ty(state.input) != ty(state.output) {
                let found = data.ty();
                return Err(Error::invalid(format!(
                    "state `{}`: its slots and its first value {found} differ",
                    state.name
                )));
            }
        }
        Ok(())
    }
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
