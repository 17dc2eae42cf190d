//! Names and globs of nodes in the configuration.
//!
//! A name without glob characters is looked up; a glob is compiled once and tried on every node. The work is linear in
//! the names, and at most [`MAX_RULES`] are taken.

use super::Target;
use globset::{GlobBuilder, GlobMatcher};
use ottava_graph::{Diagnostic, Graph, Result};
use ottava_hal::Error;
use std::collections::BTreeMap;

/// Most entries of one list.
const MAX_RULES: usize = 10_000;

/// Most patterns without a node that get a note each, with the nearest node.
const MAX_HINTS: usize = 10;

/// A list of the configuration.
#[derive(Debug, Clone, Copy)]
pub(super) struct List<'a> {
    /// Its key; errors start with it.
    pub key: &'static str,
    /// What one entry is called.
    pub entry: &'static str,
    /// Pattern and id of a target.
    pub pairs: &'a [(String, String)],
}

/// The nodes of a graph by name.
pub(super) struct Names<'a> {
    graph: &'a Graph,
    by_name: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Names<'a> {
    /// The names of a graph.
    pub fn of(graph: &'a Graph) -> Self {
        let mut by_name: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (i, node) in graph.nodes.iter().enumerate() {
            by_name.entry(&node.name).or_default().push(i);
        }
        Self { graph, by_name }
    }

    /// Calls `hit` with node, target and pattern for every node that a pattern matches, in the order of the list.
    pub fn resolve(
        &self,
        list: List<'_>,
        targets: &[Target],
        notes: &mut Vec<Diagnostic>,
        mut hit: impl FnMut(usize, usize, &str),
    ) -> Result<()> {
        let List { key, entry, pairs } = list;
        if pairs.len() > MAX_RULES {
            let (n, help) = (pairs.len(), "name groups of nodes by globs");
            return Err(Error::invalid(format!("{key}: {n} entries, at most {MAX_RULES} are taken; {help}")));
        }
        let mut missed = Vec::new();
        for (pattern, id) in pairs {
            let target = find(targets, id, key, &format!("{entry} `{pattern}`"))?;
            let nodes = self.matches(pattern).map_err(|e| {
                let help = "write node names, `*` and `?`";
                Error::invalid(format!("{key}: {entry} `{pattern}` is no pattern: {e}; {help}"))
            })?;
            if nodes.is_empty() {
                missed.push((pattern.as_str(), id.as_str()));
            }
            nodes.into_iter().for_each(|node| hit(node, target, pattern));
        }
        self.note_missed(list, &missed, notes);
        Ok(())
    }

    fn matches(&self, pattern: &str) -> std::result::Result<Vec<usize>, globset::Error> {
        if !pattern.contains(['*', '?', '[', ']', '{', '}', '\\']) {
            return Ok(self.by_name.get(pattern).cloned().unwrap_or_default());
        }
        let glob: GlobMatcher = GlobBuilder::new(pattern).literal_separator(false).build()?.compile_matcher();
        let hit = |name: &str| name == pattern || glob.is_match(name);
        Ok((0..self.graph.nodes.len()).filter(|i| hit(&self.graph.nodes[*i].name)).collect())
    }

    fn note_missed(&self, list: List<'_>, missed: &[(&str, &str)], notes: &mut Vec<Diagnostic>) {
        let List { key, entry, .. } = list;
        for (pattern, id) in missed.iter().take(MAX_HINTS) {
            let near = nearest(pattern, self.by_name.keys().copied());
            let hint = near.map_or("the graph has no nodes".into(), |n| format!("the nearest node is `{n}`"));
            let message = format!("{key}: {entry} `{pattern}` for device `{id}` matches no node");
            notes.push(Diagnostic::warning("P0103", "", message).with_help(hint));
        }
        if let Some(more) = missed.len().checked_sub(MAX_HINTS).filter(|n| *n > 0) {
            notes.push(Diagnostic::warning("P0103", "", format!("{key}: {more} more entries match no node")));
        }
    }
}

/// The target of an id that `who` names.
pub(super) fn find(targets: &[Target], id: &str, key: &str, who: &str) -> Result<usize> {
    let missing = || {
        let ids: Vec<&str> = targets.iter().map(|t| t.id).collect();
        let hint = nearest(id, ids.iter().copied()).map_or(String::new(), |n| format!("did you mean `{n}`? "));
        let what = format!("{key}: {who} names device `{id}`, which there is not");
        Error::invalid(format!("{what}; {hint}devices are: {}", ids.join(", ")))
    };
    targets.iter().position(|t| t.id == id).ok_or_else(missing)
}

/// The name that a person most likely meant.
fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let lower = name.to_lowercase();
    candidates.min_by_key(|c| strsim::damerau_levenshtein(&lower, &c.to_lowercase()))
}
