//! Where the cycles of a program go, node by node.

use ottava_hal::Program;
use ottava_npu::Counters;
use ottava_npu::program::{Step, Work};
use ottava_npu::timing::Timed;
use std::collections::BTreeMap;

/// The modelled cycles of one node. They do not depend on data: every run reports the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeCycles {
    /// Name of the node.
    pub node: String,
    /// All cycles: `compute` and `stalls` together.
    pub total: u64,
    /// Cycles in which the array or the vector unit worked.
    pub compute: u64,
    /// The other cycles by the names of all reasons.
    pub stalls: BTreeMap<&'static str, u64>,
    /// Everything that was counted.
    pub counters: Counters,
    /// Bytes between chip and memory, both ways.
    pub dram_bytes: u64,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Bytes of results that stay on the chip for the nodes that read them.
    pub kept_on_chip: u64,
}

/// Per node: the bytes that its stores leave on the chip.
fn kept(steps: &[Step]) -> BTreeMap<u32, u64> {
    let mut kept = BTreeMap::new();
    for step in steps {
        let (Some(node), Work::Store { to, .. }) = (step.node, &step.work) else { continue };
        if let Some(tile) = to.local() {
            *kept.entry(node).or_insert(0) += tile.units();
        }
    }
    kept
}

/// The cycles of each node, in the order of the program; a node without steps, such as a view, has none.
pub(crate) fn cycles(program: &Program, timed: &Timed) -> Vec<NodeCycles> {
    let Timed { steps, costs, timing } = timed;
    let (times, kept) = (timing.nodes(steps, costs), kept(steps));
    let one = |(index, node): (usize, &ottava_hal::Node)| {
        let number = u32::try_from(index).ok();
        let found = number.and_then(|i| times.get(&i)).copied().unwrap_or_default();
        let counters = found.counters;
        NodeCycles {
            node: node.name.clone(),
            total: found.total(),
            compute: found.compute,
            stalls: found.stalls(),
            dram_bytes: counters.dram_bytes_read.saturating_add(counters.dram_bytes_written),
            macs: counters.macs,
            kept_on_chip: number.and_then(|i| kept.get(&i)).copied().unwrap_or(0),
            counters,
        }
    };
    program.nodes.iter().enumerate().map(one).collect()
}
