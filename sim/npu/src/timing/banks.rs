//! Bank conflicts of the scratchpads.
//!
//! What a unit needs in one cycle is an *access group*: the operands that enter the array, or those of one operation of
//! the vector unit. Operands of a group lie side by side, words of `port_bytes` go round the banks, and a bank serves
//! `ports` words per cycle. A group of w words has at most `ceil(w / banks)` requests in one bank and therefore takes
//! `ceil(ceil(w / banks) / ports)` cycles; all but one of them are conflicts. Transfers of the DMA engine are taken to
//! find free slots, depthwise convolutions to read through a buffer that keeps the rows under their window, and the
//! accumulators are as wide as the array, so none of these conflicts.

use crate::NpuConfig;
use crate::analytic::{self, ArrayShape, Fold, Gemm};
use crate::config::{Dataflow, Scratchpad};
use crate::isa::Space;
use crate::program::{Place, Step};

/// Further cycles of a group of `bytes` bytes.
pub fn conflicts(pad: &Scratchpad, bytes: u64) -> u64 {
    words(pad, bytes.div_ceil(pad.port_bytes.into()))
}

fn words(pad: &Scratchpad, words: u64) -> u64 {
    let in_one_bank = words.div_ceil(pad.banks.into());
    in_one_bank.div_ceil(pad.ports.into()).saturating_sub(1)
}

/// Conflict cycles of a product: per streamed step of each fold, the operand that moves. The one that stays enters while
/// the fold before works; for outputs that stay both move.
pub fn of_product(config: &NpuConfig, shape: &ArrayShape, gemm: &Gemm, spaces: [Space; 2]) -> analytic::Result<u64> {
    let pad = |space| match space {
        Space::W => &config.sram.w,
        _ => &config.sram.a,
    };
    let group = |fold: &Fold| match shape.dataflow {
        // Rows of A enter, columns of W enter.
        Dataflow::Os => {
            if spaces[0] == spaces[1] {
                conflicts(pad(spaces[0]), fold.r.saturating_add(fold.c))
            } else {
                conflicts(pad(spaces[0]), fold.r).max(conflicts(pad(spaces[1]), fold.c))
            }
        }
        Dataflow::Ws => conflicts(pad(spaces[0]), fold.r),
        Dataflow::Is => conflicts(pad(spaces[1]), fold.r),
    };
    let sum = shape.folds(gemm)?.kinds().fold(0_u64, |sum, (fold, n)| {
        let one = group(&fold).saturating_mul(fold.t);
        sum.saturating_add(one.saturating_mul(u64::try_from(n).unwrap_or(u64::MAX)))
    });
    Ok(sum)
}

/// Conflict cycles of one group of lanes of a vector instruction: all its scratchpad operands at once.
pub fn of_lanes(config: &NpuConfig, step: &Step) -> u64 {
    let table = step.table().map(|(_, tile)| tile);
    let mut needed = [0_u64; 2];
    for access in step.accesses() {
        let Place::Local(tile) = access.place else { continue };
        // A table is kept in the unit.
        if Some(tile) == table && !access.write {
            continue;
        }
        let (slot, pad) = match tile.space {
            Space::A => (0, &config.sram.a),
            Space::W => (1, &config.sram.w),
            Space::Acc => continue,
        };
        let lanes = u64::from(config.vector.lanes).min(tile.units());
        needed[slot] += lanes.div_ceil(pad.port_bytes.into());
    }
    words(&config.sram.a, needed[0]).max(words(&config.sram.w, needed[1]))
}
