//! Static verification: what must hold before a stream runs.
//!
//! Encoding, shapes, types and the bounds of every access are `resolve`'s; deadlock is the timing engine's, which walks
//! the joint order of the queues with their depths. This module adds, in the order of starts:
//!
//! * (V1) the configuration hash and the length of the constants;
//! * (V2) tokens and events balance, and an event belongs to one pair of queues;
//! * (V3) two accesses of different queues to the same place, one of them a write, are ordered by tokens or events;
//! * (V4) nothing reads a scratchpad, an accumulator, `out` or `scratch` before something wrote it (tables included, so
//!   a requantizer table that is too short for its channels is found here);
//! * (V5) sums fit i32 (those of s16 rows 47 bits) by the bound of their types (biases apart, which the compiler proves with the values).
//!
//! Each violation names its instruction; at most [`MAX_VIOLATIONS`] are collected.

mod clocks;
mod shadow;
#[cfg(test)]
mod tests;

use crate::NpuConfig;
use crate::error::{Fault, Violation};
use crate::isa::{Dtype, FIRST_FENCE_EVENT, N_EVENTS, Queue, Stream, flags};
use crate::program::{Operand, Step, Work};
use crate::timing::Timing;
use clocks::Clocks;
use ottava_hal::refmath::bounds::max_operand;
use shadow::{Now, Shadow, Stamp};
use std::collections::BTreeMap;

/// Violations that are collected before verification stops.
pub const MAX_VIOLATIONS: usize = 64;

/// (V1) What the header says.
pub fn header(config: &NpuConfig, stream: &Stream) -> Vec<Violation> {
    let mut faults = Vec::new();
    let (found, expected) = (stream.config_hash, config.hash64());
    if found != expected {
        faults.push(Fault::ConfigHash { found, expected });
    }
    let (found, limit) = (stream.constants.len(), stream.regions[3]);
    if found as u64 > limit {
        faults.push(Fault::ConstantsLength { found, limit });
    }
    faults.into_iter().map(|fault| Violation { index: 0, node: None, fault }).collect()
}

/// (V2) to (V5), over the steps in the order of starts.
pub fn order(steps: &[Step], timing: &Timing) -> Vec<Violation> {
    let mut violations = shared_events(steps);
    let mut clocks = Clocks::new(steps);
    let mut shadow = Shadow::default();
    let mut indices: [Vec<usize>; 4] = Default::default();
    for span in &timing.spans {
        let step = &steps[span.step as usize];
        let clock = clocks.advance(step);
        let stamp = Stamp { queue: step.queue, position: clock[step.queue.index()] };
        indices[step.queue.index()].push(step.index);
        let bound = accumulation(step, &shadow, &mut violations);
        let now = Now { stamp, clock, floor: clocks.floor(), bound };
        for access in step.accesses() {
            if let Err(conflict) = shadow.access(&access, &now) {
                let fault = conflict.fault(&access, |s| indices[s.queue.index()][s.position as usize - 1]);
                violations.push(Violation { index: step.index, node: step.node, fault });
            }
        }
        if violations.len() >= MAX_VIOLATIONS || shadow.is_exhausted() {
            return violations;
        }
    }
    let last = steps.last();
    for fault in clocks.left() {
        violations.push(Violation { index: last.map_or(0, |s| s.index), node: last.and_then(|s| s.node), fault });
    }
    violations
}

/// (V2) Events that two queues signal or two queues wait for.
fn shared_events(steps: &[Step]) -> Vec<Violation> {
    let mut sides: BTreeMap<(u32, bool), Queue> = BTreeMap::new();
    let mut violations = Vec::new();
    for step in steps {
        let key = match step.work {
            Work::Signal(e) => (e, true),
            Work::Wait(e) => (e, false),
            _ => continue,
        };
        let first = *sides.entry(key).or_insert(step.queue);
        if first != step.queue && key.0 < FIRST_FENCE_EVENT.min(N_EVENTS) && violations.len() < MAX_VIOLATIONS {
            let fault = Fault::EventShared { event: key.0 };
            violations.push(Violation { index: step.index, node: step.node, fault });
        }
    }
    violations
}

/// (V5) The bound of the accumulators that a step writes; 0 for steps that write none.
fn accumulation(step: &Step, shadow: &Shadow, violations: &mut Vec<Violation>) -> u64 {
    let before = match (&step.work, step.accumulates_on()) {
        (Work::Shift { from, .. }, _) => shadow.bound(from),
        (_, Some(tile)) => shadow.bound(&tile),
        _ => 0,
    };
    let bound = before.saturating_add(contribution(&step.work));
    // Sums of 64 bits stay below 2^47 (numerics.md section 3).
    let wide = matches!(&step.work, Work::Gemm(g) if g.is_wide());
    if bound > if wide { (1 << 47) - 1 } else { i32::MAX as u64 } {
        violations.push(Violation { index: step.index, node: step.node, fault: Fault::AccOverflow { bound } });
    }
    bound
}

/// The most that a step can add to one sum.
fn contribution(work: &Work) -> u64 {
    let product = |factors: [u64; 3]| factors.iter().fold(1, |p: u64, f| p.saturating_mul(*f));
    match work {
        Work::Gemm(g) => product([g.w.k.into(), largest(&g.input), reach(g.w.dtype, g.w.zp)]),
        Work::Dwconv(d) => {
            let w = &d.window;
            let taps = u64::from(w.kh.min(w.ih)) * u64::from(w.kw.min(w.iw));
            product([taps, largest(&d.input), reach(d.weight_dtype, d.zw)])
        }
        Work::Redsum { from, input, .. } => product([from.rows.into(), largest(input), 1]),
        Work::Pool(p) if p.flags & flags::AVG != 0 => {
            let w = &p.window;
            let taps = u64::from(w.kh.min(w.ih)) * u64::from(w.kw.min(w.iw));
            product([taps, largest(&p.input), 1])
        }
        _ => 0,
    }
}

fn largest(operand: &Operand) -> u64 {
    reach(operand.dtype, operand.affine.zp)
}

/// The greatest `|q - zp|` of a type.
fn reach(dtype: Dtype, zp: i32) -> u64 {
    let (bits, signed) = match dtype {
        Dtype::U8 => (8, false),
        Dtype::S4 => (4, true),
        Dtype::S16 => (16, true),
        _ => (8, true),
    };
    max_operand(bits, signed, Some(zp.into())).unsigned_abs()
}
