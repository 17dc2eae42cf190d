//! What a lowered program is expected to cost: a rough figure from what it moves and how often it launches.

use ottava_gpu::{Recipe, Step};
use ottava_hal::{Confidence, Cost};

/// Bytes that a device moves per nanosecond: an ordinary GPU, and a CPU that plays one.
const BYTES_PER_NS: [u64; 2] = [200, 8];
/// Nanoseconds of a launch behind a barrier: the same two.
const LAUNCH_NS: [u64; 2] = [4_000, 15_000];

/// The cost of one run.
pub(crate) fn estimate(recipe: &Recipe, is_cpu: bool) -> Cost {
    let kind = usize::from(is_cpu);
    let moved = |step: &Step| -> u64 {
        match step {
            Step::Dispatch(launch) => launch.buffers.iter().map(|b| b.len as u64).sum(),
            Step::Copy { from, to } => (from.len + to.len) as u64,
        }
    };
    let bytes: u64 = recipe.steps.iter().map(moved).sum();
    Cost {
        time_ns: bytes / BYTES_PER_NS[kind] + LAUNCH_NS[kind] * recipe.steps.len() as u64,
        energy_pj: 0,
        workspace_bytes: recipe.arena_bytes as u64,
        weight_bytes: recipe.constants.len() as u64,
        confidence: Confidence::Datasheet,
    }
}
