//! How much working memory an inference takes on each device, beside what it would be without reuse and the least that
//! any plan needs.

use ottava_hal::{Node, Program};
use ottava_plan::Plan;
use std::collections::BTreeMap;

/// Working memory of one inference on one device, bytes, without weights.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceMemory {
    /// Id of the device.
    pub device: String,
    /// What the plan and the compiled programs take.
    pub bytes: usize,
    /// Every tensor at a place of its own.
    pub sum_bytes: usize,
    /// The most that is alive at one node: no plan that runs nodes in this order can do with less.
    pub lower_bound: usize,
}

/// The memory of a plan whose partitions' programs take `own` bytes each.
pub(crate) fn of_plan(plan: &Plan, own: &[usize]) -> Vec<DeviceMemory> {
    let of = |(i, need): (usize, &ottava_plan::DeviceNeed)| {
        let mut memory = DeviceMemory { device: need.id.clone(), ..DeviceMemory::default() };
        memory.bytes = plan.arenas.get(i).map_or(0, |a| a.bytes);
        for (p, own) in plan.partitions.iter().zip(own).filter(|(p, _)| p.device == need.id) {
            let (sum, peak) = tensors(&p.program);
            memory.bytes = memory.bytes.saturating_add(*own);
            memory.sum_bytes = memory.sum_bytes.saturating_add(sum);
            memory.lower_bound = memory.lower_bound.max(peak);
        }
        memory
    };
    plan.devices.iter().enumerate().map(of).collect()
}

/// Operators whose result is their first input under another shape.
fn is_view(node: &Node) -> bool {
    node.domain.is_empty()
        && ["Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Dropout"].contains(&node.op.as_str())
}

/// Bytes of all tensors of a program, and the most that are alive while one node runs.
fn tensors(program: &Program) -> (usize, usize) {
    // Views share the bytes of what they show.
    let mut owner: Vec<usize> = (0..program.values.len()).collect();
    for node in program.nodes.iter().filter(|n| is_view(n)) {
        if let (Some(x), Some(y)) = (node.input(0), node.outputs.first()) {
            owner[y.0] = owner[x.0];
        }
    }
    let mut life: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    let mut seen = |value: usize, at: usize| {
        if program.values[value].constant.is_none() {
            let span = life.entry(owner[value]).or_insert((at, at));
            *span = (span.0.min(at), span.1.max(at));
        }
    };
    program.inputs.iter().for_each(|id| seen(id.0, 0));
    for (at, node) in program.nodes.iter().enumerate() {
        node.inputs.iter().flatten().chain(&node.outputs).for_each(|id| seen(id.0, at));
    }
    program.outputs.iter().for_each(|id| seen(id.0, program.nodes.len().saturating_sub(1)));
    let bytes = |value: usize| program.values[value].ty.byte_len().unwrap_or(0);
    let sum = life.keys().map(|v| bytes(*v)).fold(0, usize::saturating_add);
    let alive = |at: usize| {
        let spans = life.iter().filter(|(_, (first, last))| (*first..=*last).contains(&at));
        spans.map(|(v, _)| bytes(*v)).fold(0, usize::saturating_add)
    };
    (sum, (0..program.nodes.len()).map(alive).max().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, TensorType, Value, ValueId};

    #[test]
    fn a_chain_keeps_two_tensors_alive_and_views_cost_nothing() {
        let value =
            |n: usize| Value { name: format!("v{n}"), ty: TensorType::fixed(DataType::U8, &[100]), constant: None };
        let node = |i: usize, op: &str| {
            let mut node = Node::new(format!("n{i}"), op, 14);
            node.inputs = vec![Some(ValueId(i))];
            node.outputs = vec![ValueId(i + 1)];
            node
        };
        let program = Program {
            name: "chain".into(),
            values: (0..5).map(value).collect(),
            nodes: vec![node(0, "Relu"), node(1, "Reshape"), node(2, "Relu"), node(3, "Relu")],
            inputs: vec![ValueId(0)],
            outputs: vec![ValueId(4)],
        };
        assert_eq!(tensors(&program), (400, 200));
    }
}
