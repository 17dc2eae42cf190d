//! Topological order, dead code, compaction.

use crate::{Graph, Result, Uses};
use ottava_hal::{Error, ValueId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

impl Graph {
    /// Sorts the nodes topologically and stably: of the nodes that are ready, the one that came first goes first.
    /// A cycle is an error that names a few nodes of it.
    pub fn sort(&mut self) -> Result<()> {
        if self.is_sorted() {
            return Ok(());
        }
        let uses = Uses::of(self);
        let mut waiting: Vec<usize> = self.nodes.iter().map(|n| n.inputs.iter().flatten().count()).collect();
        for (i, node) in self.nodes.iter().enumerate() {
            waiting[i] -= node.inputs.iter().flatten().filter(|id| uses.producer(**id).is_none()).count();
        }
        let mut ready: BinaryHeap<Reverse<usize>> =
            waiting.iter().enumerate().filter(|(_, n)| **n == 0).map(|(i, _)| Reverse(i)).collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while let Some(Reverse(i)) = ready.pop() {
            order.push(i);
            for (reader, _) in self.nodes[i].outputs.iter().flat_map(|out| uses.readers(*out)) {
                waiting[*reader] -= 1;
                if waiting[*reader] == 0 {
                    ready.push(Reverse(*reader));
                }
            }
        }
        if order.len() < self.nodes.len() {
            let stuck: Vec<&str> = (0..self.nodes.len())
                .filter(|i| waiting[*i] > 0)
                .map(|i| self.nodes[i].name.as_str())
                .take(5)
                .collect();
            return Err(Error::invalid(format!("the graph has a cycle through {}", stuck.join(", "))));
        }
        let mut nodes: Vec<_> = std::mem::take(&mut self.nodes).into_iter().map(Some).collect();
        self.nodes = order.into_iter().filter_map(|i| nodes[i].take()).collect();
        Ok(())
    }

    fn is_sorted(&self) -> bool {
        let mut computed: Vec<bool> = vec![true; self.values.len()];
        for out in self.nodes.iter().flat_map(|n| &n.outputs) {
            computed[out.0] = false;
        }
        self.nodes.iter().all(|node| {
            let ok = node.inputs.iter().flatten().all(|id| computed[id.0]);
            node.outputs.iter().for_each(|id| computed[id.0] = true);
            ok
        })
    }

    /// Takes out nodes whose results nobody reads. Returns how many. Operators have no side effects.
    pub fn remove_dead(&mut self) -> usize {
        let before = self.nodes.len();
        let mut live = vec![false; self.values.len()];
        self.outputs.iter().for_each(|id| live[id.0] = true);
        let mut keep = vec![false; before];
        for (i, node) in self.nodes.iter().enumerate().rev() {
            keep[i] = node.outputs.iter().any(|id| live[id.0]);
            if keep[i] {
                node.inputs.iter().flatten().for_each(|id| live[id.0] = true);
            }
        }
        let mut flags = keep.into_iter();
        self.nodes.retain(|_| flags.next().unwrap_or(true));
        before - self.nodes.len()
    }

    /// Drops values that nothing uses and renumbers the rest in their order.
    pub fn compact(&mut self) {
        let mut used = vec![false; self.values.len()];
        let nodes = self.nodes.iter().flat_map(|n| n.inputs.iter().flatten().chain(&n.outputs));
        for id in nodes.chain(&self.inputs).chain(&self.outputs) {
            used[id.0] = true;
        }
        let mut new_id = vec![ValueId(0); self.values.len()];
        let mut values = Vec::new();
        for (i, value) in std::mem::take(&mut self.values).into_iter().enumerate() {
            if used[i] {
                new_id[i] = ValueId(values.len());
                values.push(value);
            }
        }
        self.values = values;
        let nodes = self.nodes.iter_mut().flat_map(|n| n.inputs.iter_mut().flatten().chain(n.outputs.iter_mut()));
        for id in nodes.chain(self.inputs.iter_mut()).chain(self.outputs.iter_mut()) {
            *id = new_id[id.0];
        }
    }
}
