//! A rough estimate of a program's cost: multiply-adds at the speed of the instruction set, bytes at that of memory.

use ottava_hal::{Cost, Node, Program};
use ottava_kernels::Isa;

/// Bytes that all threads together move per nanosecond.
const BYTES_PER_NS: u64 = 8;
/// Fixed cost of a node.
const NODE_NS: u64 = 300;

/// The cost of a program on `threads` threads.
pub(crate) fn estimate(program: &Program, isa: Isa, threads: usize) -> Cost {
    let [bytes, floats] = isa.speed().map(u64::from);
    let ns = |node: &Node| {
        let typed = node.input(0).is_some_and(|id| program.ty(id).quant.is_some());
        let per_ns = if typed { bytes } else { floats } * threads.max(1) as u64;
        (program.macs(node) / per_ns).max(traffic(program, node) / BYTES_PER_NS).saturating_add(NODE_NS)
    };
    let bytes = program.values.iter().filter_map(|v| v.ty.byte_len()).fold(0u64, |n, b| n.saturating_add(b as u64));
    let time_ns = program.nodes.iter().map(ns).fold(0u64, u64::saturating_add);
    Cost { time_ns, workspace_bytes: bytes, ..Cost::default() }
}

/// Bytes read and written.
fn traffic(program: &Program, node: &Node) -> u64 {
    let ids = node.inputs.iter().flatten().chain(&node.outputs);
    ids.filter_map(|id| program.ty(*id).byte_len()).fold(0, |n, b| n.saturating_add(b as u64))
}
