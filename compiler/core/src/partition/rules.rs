//! What the configuration says about placement, resolved to target indices and nodes.
//!
//! An unknown device is an error with the nearest id; a pattern that matches no node is a warning with the nearest
//! node (P0103).

use super::{Fallback, Placement, Policy, REFERENCE, Target};
use globset::{GlobBuilder, GlobMatcher};
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
            return Err(Error::invalid("no device to place the graph on"));
        }
        let reference = targets.iter().position(|t| t.id == REFERENCE);
        let fallback = match placement.fallback {
            Fallback::Reference => reference.or(targets.len().checked_sub(1)),
            Fallback::Error => None,
        };
        let mut wanted: Vec<usize> =
            placement.priority.iter().map(|id| find(targets, id, "the placement")).collect::<Result<_>>()?;
        if wanted.is_empty() {
            wanted = (0..targets.len()).filter(|t| Some(*t) != reference || targets.len() == 1).collect();
        }
        let mut pins = vec![None; graph.nodes.len()];
        for (node, target, pattern) in matches(graph, targets, &placement.pins, "pin", notes)? {
            pins[node].get_or_insert((target, pattern));
        }
        let mut bans = vec![BTreeMap::new(); graph.nodes.len()];
        for (node, target, pattern) in matches(graph, targets, &placement.bans, "ban", notes)? {
            bans[node].entry(target).or_insert(pattern);
        }
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

/// The target of an id.
fn find(targets: &[Target], id: &str, who: &str) -> Result<usize> {
    let missing = || {
        let ids: Vec<&str> = targets.iter().map(|t| t.id).collect();
        let hint = nearest(id, ids.iter().copied()).map_or(String::new(), |n| format!("did you mean `{n}`? "));
        Error::invalid(format!("{who} names device `{id}`, which there is not; {hint}devices are: {}", ids.join(", ")))
    };
    targets.iter().position(|t| t.id == id).ok_or_else(missing)
}

/// Every node that a pattern matches, with target and pattern, in the order of the patterns.
fn matches(
    graph: &Graph,
    targets: &[Target],
    list: &[(String, String)],
    what: &str,
    notes: &mut Vec<Diagnostic>,
) -> Result<Vec<(usize, usize, String)>> {
    let mut found = Vec::new();
    for (pattern, id) in list {
        let target = find(targets, id, &format!("{what} `{pattern}`"))?;
        let glob = compile(pattern, what)?;
        let hit = |name: &str| name == pattern || glob.is_match(name);
        let before = found.len();
        let nodes = graph.nodes.iter().enumerate().filter(|(_, n)| hit(&n.name));
        found.extend(nodes.map(|(i, _)| (i, target, pattern.clone())));
        if found.len() == before {
            let near = nearest(pattern, graph.nodes.iter().map(|n| n.name.as_str()));
            let hint = near.map_or("the graph has no nodes".into(), |n| format!("the nearest node is `{n}`"));
            let message = format!("{what} `{pattern}` for device `{id}` matches no node");
            notes.push(Diagnostic::warning("P0103", "", message).with_help(hint));
        }
    }
    Ok(found)
}

fn compile(pattern: &str, what: &str) -> Result<GlobMatcher> {
    let glob = GlobBuilder::new(pattern).literal_separator(false).build();
    let wrong = |e| Error::invalid(format!("{what} `{pattern}` is no pattern: {e}; write node names, `*` and `?`"));
    glob.map(|g| g.compile_matcher()).map_err(wrong)
}

/// The name that a person most likely meant.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    candidates.min_by_key(|c| strsim::damerau_levenshtein(&lower, &c.to_lowercase()))
}
