//! Runs of nodes of one device, in an order in which they can run.
//!
//! Of the nodes whose inputs are ready, one for the current device goes first; when there is none, the device changes
//! to that of the first ready node. So a run grows as long as it can, and since all runs lie in one topological order,
//! runs cannot depend on each other in a circle.

use ottava_graph::{Graph, Uses};
use std::collections::{BTreeMap, BTreeSet};

/// A run: the target and its nodes, ascending.
pub(super) type Run = (usize, Vec<usize>);

/// The dependencies between the nodes of a graph.
pub(super) struct Order {
    /// For each node, how many of its operands other nodes compute.
    waiting: Vec<usize>,
    /// For each node, the readers of its results, one entry per operand.
    next: Vec<Vec<usize>>,
}

impl Order {
    /// The dependencies of a graph.
    pub fn of(graph: &Graph) -> Self {
        let uses = Uses::of(graph);
        let computed = |id: &&ottava_hal::ValueId| uses.producer(**id).is_some();
        let waiting = graph.nodes.iter().map(|n| n.inputs.iter().flatten().filter(computed).count()).collect();
        let readers = |n: &ottava_hal::Node| {
            n.outputs.iter().flat_map(|out| uses.readers(*out)).map(|(reader, _)| *reader).collect()
        };
        Self { waiting, next: graph.nodes.iter().map(readers).collect() }
    }

    /// The runs of an assignment of nodes to targets.
    pub fn runs(&self, target: impl Fn(usize) -> usize) -> Vec<Run> {
        let mut waiting = self.waiting.clone();
        let mut ready: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for i in (0..waiting.len()).filter(|i| waiting[*i] == 0) {
            ready.entry(target(i)).or_default().insert(i);
        }
        let mut runs: Vec<Run> = Vec::new();
        while let Some((on, i)) = next_ready(&mut ready, runs.last().map(|r| r.0)) {
            match runs.last_mut() {
                Some((current, nodes)) if *current == on => nodes.push(i),
                _ => runs.push((on, vec![i])),
            }
            for reader in &self.next[i] {
                waiting[*reader] -= 1;
                if waiting[*reader] == 0 {
                    ready.entry(target(*reader)).or_default().insert(*reader);
                }
            }
        }
        runs.iter_mut().for_each(|(_, nodes)| nodes.sort_unstable());
        runs
    }
}

/// A ready node of the current device, or of the device whose ready node comes first.
fn next_ready(ready: &mut BTreeMap<usize, BTreeSet<usize>>, current: Option<usize>) -> Option<(usize, usize)> {
    ready.retain(|_, nodes| !nodes.is_empty());
    let first = || ready.iter().min_by_key(|(_, nodes)| nodes.first().copied()).map(|(t, _)| *t);
    let target = current.filter(|t| ready.contains_key(t)).or_else(first)?;
    Some((target, ready.get_mut(&target)?.pop_first()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottava_hal::{DataType, Node, TensorType};

    /// `n` nodes, and for each the node that it reads.
    fn tree(parents: &[Option<usize>]) -> Graph {
        let mut graph = Graph::new("tree");
        let ty = TensorType::fixed(DataType::F32, &[1]);
        let x = graph.add_input("x", ty.clone());
        for (i, parent) in parents.iter().enumerate() {
            let mut node = Node::new(format!("n{i}"), "Relu", 14);
            node.inputs = vec![Some(parent.map_or(x, |p: usize| graph.nodes[p].outputs[0]))];
            node.outputs = vec![graph.add_value(format!("v{i}"), ty.clone())];
            graph.nodes.push(node);
        }
        graph
    }

    #[test]
    fn a_run_grows_over_branches_before_the_device_changes() {
        // Two branches of three: a b a and a a a, on devices 0 (a) and 1 (b).
        let graph = tree(&[None, Some(0), Some(1), None, Some(3), Some(4)]);
        let on = [0, 1, 0, 0, 0, 0];
        let runs = Order::of(&graph).runs(|i| on[i]);
        assert_eq!(runs, [(0, vec![0, 3, 4, 5]), (1, vec![1]), (0, vec![2])]);
    }
}
