//! What the configuration says about placement, resolved to target indices and nodes.
//!
//! An unknown device is an error with the nearest id; a pattern that matches no node is a warning with the nearest
//! node (P0103). Both start with the key of the configuration that they are about: `placement`, `pins` or `bans`.

use super::patterns::{List, Names, find};
use super::{Fallback, Placement, Policy, REFERENCE, Target};
use ottava_graph::{Diagnostic, Graph, Result};
use ottava_hal::Error;
use std::collections::BTreeMap;

/// The rules of one placement.
#[derive(Clone)]
pub(super) struct Rules {
    /// Targets that are wanted, in order.
    pub wanted: Vec<usize>,
    /// The target that runs what no wanted one does.
    pub fallback: Option<usize>,
    /// Nodes go to the first target that accepts them.
    pub by_priority: bool,
    /// For each node, the target that must run it and the pattern that says so.
    pub pins: Vec<Option<(usize, String)>>,
    /// For each node, targets that must not run it and the patterns that say so.
    pub bans: Vec<BTreeMap<usize, String>>,
    /// A device that is gone.
    pub lost: Option<usize>,
}

impl Rules {
    /// Resolves a configuration.
    pub fn new(graph: &Graph, targets: &[Target], placement: &Placement, notes: &mut Vec<Diagnostic>) -> Result<Self> {
        if targets.is_empty() {
            return Err(Error::invalid("placement: no device to place the graph on"));
        }
        let reference = targets.iter().position(|t| t.id == REFERENCE);
        let fallback = match placement.fallback {
            Fallback::Reference => reference.or(targets.len().checked_sub(1)),
            Fallback::Error => None,
        };
        let mut wanted: Vec<usize> = placement
            .priority
            .iter()
            .map(|id| find(targets, id, "placement", "the order of priority"))
            .collect::<Result<_>>()?;
        if wanted.is_empty() {
            wanted = (0..targets.len()).filter(|t| Some(*t) != reference || targets.len() == 1).collect();
        }
        let mut pins: Vec<Option<(usize, String)>> = vec![None; graph.nodes.len()];
        let names = Names::of(graph);
        let list = List { key: "pins", entry: "pin", pairs: &placement.pins };
        names.resolve(list, targets, notes, |node, target, pattern| {
            pins[node].get_or_insert_with(|| (target, pattern.to_string()));
        })?;
        let mut bans: Vec<BTreeMap<usize, String>> = vec![BTreeMap::new(); graph.nodes.len()];
        let list = List { key: "bans", entry: "ban", pairs: &placement.bans };
        names.resolve(list, targets, notes, |node, target, pattern| {
            bans[node].entry(target).or_insert_with(|| pattern.to_string());
        })?;
        let by_priority = placement.policy == Policy::Priority;
        Ok(Self { wanted, fallback, by_priority, pins, bans, lost: None })
    }

    /// The same rules when a device is lost: pins to it fall away.
    pub fn without(&self, lost: usize) -> Self {
        let mut rules = Self { lost: Some(lost), ..self.clone() };
        rules.wanted.retain(|t| *t != lost);
        rules.fallback = rules.fallback.filter(|t| *t != lost);
        rules.pins.iter_mut().filter(|p| p.as_ref().is_some_and(|(t, _)| *t == lost)).for_each(|p| *p = None);
        rules
    }

    /// Targets that may run bridges: the wanted ones, then the fallback.
    pub fn usable(&self) -> Vec<usize> {
        let extra = self.fallback.filter(|t| !self.wanted.contains(t));
        self.wanted.iter().copied().chain(extra).collect()
    }
}
