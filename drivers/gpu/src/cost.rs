//! What a program is expected to cost: a rough figure from its products, what it moves and how often it launches.

use crate::{Recipe, Step};
use ottava_hal::{Confidence, Cost, Program};

/// Bytes that a device moves per nanosecond: an ordinary GPU, and a CPU that plays one.
const BYTES_PER_NS: [u64; 2] = [200, 8];
/// Multiply-adds per nanosecond: the same two.
const MACS_PER_NS: [u64; 2] = [1_000, 1];
/// Nanoseconds of a launch: the same two.
const LAUNCH_NS: [u64; 2] = [4_000, 15_000];

/// The cost of one run of a program that became a recipe.
pub fn estimate(program: &Program, recipe: &Recipe, is_cpu: bool) -> Cost {
    let kind = usize::from(is_cpu);
    let moved = |step: &Step| -> u64 {
        match step {
            Step::Dispatch(launch) => launch.buffers.iter().map(|b| b.len as u64).sum(),
            Step::Copy { from, to } => from.len as u64 + to.len as u64,
        }
    };
    let bytes: u64 = recipe.steps.iter().map(moved).sum();
    let macs = program.nodes.iter().map(|node| program.macs(node)).fold(0u64, u64::saturating_add);
    let work = (macs / MACS_PER_NS[kind]).max(bytes / BYTES_PER_NS[kind]);
    Cost {
        time_ns: work.saturating_add(LAUNCH_NS[kind] * recipe.steps.len() as u64),
        energy_pj: 0,
        workspace_bytes: recipe.arena_bytes as u64,
        weight_bytes: recipe.constants.len() as u64,
        confidence: Confidence::Datasheet,
    }
}
