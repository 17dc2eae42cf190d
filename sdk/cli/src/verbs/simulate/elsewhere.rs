//! The nodes of a model that the chip does not run, and what it said of each.

use ottava::{Placed, Plan};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A node that another device runs.
pub struct Elsewhere {
    /// Its name.
    pub name: String,
    /// Its operator.
    pub op: String,
    macs: u64,
    /// The code of the chip's refusal; empty where the chip could have run it.
    code: String,
    /// The same in words, or why another device got it.
    reason: String,
}

/// The nodes of all partitions but those of `device`, in execution order.
pub fn elsewhere(plan: &Plan, device: &str) -> Vec<Elsewhere> {
    let macs = ottava::node_macs(plan);
    let placed: BTreeMap<&str, &Placed> = plan.placed.iter().map(|p| (p.node.as_str(), p)).collect();
    let others = plan.partitions.iter().filter(|p| p.device != device).flat_map(|p| &p.program.nodes);
    let one = |node: &ottava::Node| {
        let placed = placed.get(node.name.as_str());
        let verdict = placed.and_then(|p| p.opinions.iter().find(|o| o.device == device && !o.ok));
        let (code, reason) = match (verdict, placed) {
            (Some(o), _) => (o.code.clone(), o.text.clone()),
            (None, Some(p)) => (String::new(), p.reason.clone()),
            (None, None) => Default::default(),
        };
        let macs = macs.get(&node.name).copied().unwrap_or(0);
        Elsewhere { name: node.name.clone(), op: node.op.clone(), macs, code, reason }
    };
    others.map(one).collect()
}

/// Multiply-accumulates of all of them.
pub fn macs(nodes: &[Elsewhere]) -> u64 {
    nodes.iter().map(|e| e.macs).fold(0, u64::saturating_add)
}

/// What is said if less than half of the multiply-accumulates run on the chip, which has `here` of them: its cycles are then
/// those of a small part of the model. The reason is the one that most nodes with such work have.
pub fn mostly(nodes: &[Elsewhere], here: u64) -> Option<String> {
    let there = macs(nodes);
    if here >= there {
        return None;
    }
    let mut reasons: BTreeMap<&str, (usize, u64, &Elsewhere)> = BTreeMap::new();
    for e in nodes.iter().filter(|e| e.macs > 0) {
        let of = reasons.entry(if e.code.is_empty() { &e.reason } else { &e.code }).or_insert((0, 0, e));
        (of.0, of.1) = (of.0 + 1, of.1.saturating_add(e.macs));
    }
    let (name, (count, _, first)) = reasons.iter().max_by_key(|(_, (count, macs, _))| (*count, *macs))?;
    let share = 100.0 * here as f64 / (here as f64 + there as f64);
    let why = if first.code.is_empty() { String::new() } else { format!(": {}", first.reason) };
    Some(format!(
        "ONLY {share:.1} % OF THE MULTIPLY-ACCUMULATES RUN ON THE CHIP; {count} nodes do not because of {name}, the first is \
         `{}`{why}",
        first.name
    ))
}

impl Elsewhere {
    /// For programs.
    pub fn json(&self) -> Value {
        json!({ "node": self.name, "op": self.op, "macs": self.macs, "code": self.code, "reason": self.reason })
    }
}
