//! What runs where, and why.

use crate::tuning::TuningReport;
use ottava_graph::Diagnostic;
use ottava_hal::Program;
use std::collections::BTreeMap;

/// What one device runs in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionReport {
    /// Id of the device.
    pub device: String,
    /// Number of operators.
    pub nodes: usize,
    /// Multiply-accumulates.
    pub macs: u64,
}

/// What a session says about itself.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Partitions in the order in which they run.
    pub partitions: Vec<PartitionReport>,
    /// Node, device, kernel.
    pub kernels: Vec<(String, String, String)>,
    /// Working memory of one inference.
    pub arena_bytes: usize,
    /// Decisions worth knowing: what fell back, was cast or kept in float, and why.
    pub diagnostics: Vec<Diagnostic>,
    /// What became of the tuning file, if the configuration names one.
    pub tuning: Option<TuningReport>,
}

impl Report {
    /// Multiply-accumulates of one inference.
    pub fn macs(&self) -> u64 {
        self.partitions.iter().map(|p| p.macs).fold(0, u64::saturating_add)
    }

    /// The devices in use, in the order of their first partition.
    pub fn devices(&self) -> Vec<&str> {
        let mut seen: Vec<&str> = Vec::new();
        for p in &self.partitions {
            if !seen.contains(&p.device.as_str()) {
                seen.push(&p.device);
            }
        }
        seen
    }
}

/// Multiply-accumulates of each node of a plan, by name.
pub fn node_macs(plan: &ottava_plan::Plan) -> BTreeMap<String, u64> {
    let nodes = |p: &ottava_plan::Partition| {
        let of = |n: &ottava_hal::Node| (n.name.clone(), macs(&p.program, n));
        p.program.nodes.iter().map(of).collect::<Vec<_>>()
    };
    plan.partitions.iter().flat_map(nodes).collect()
}

/// Multiply-accumulates of a program; operators whose shapes are not known count as 0.
pub(crate) fn program_macs(program: &Program) -> u64 {
    program.nodes.iter().map(|n| macs(program, n)).fold(0, u64::saturating_add)
}

fn macs(program: &Program, node: &ottava_hal::Node) -> u64 {
    let Ok(op) = ottava_ops::lookup(&node.domain, &node.op) else { return 0 };
    let inputs: Vec<_> = node.inputs.iter().map(|id| id.map(|v| program.ty(v))).collect();
    let outputs: Vec<_> = node.outputs.iter().map(|id| program.ty(*id)).collect();
    let known = inputs.iter().flatten().chain(&outputs).all(|ty| ty.shape.elements().is_some());
    if known { op.macs(node, &inputs, &outputs) } else { 0 }
}
