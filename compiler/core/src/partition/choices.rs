//! What is left for each node under the rules: device, form and cost.
//!
//! A pin leaves one device, a ban takes one away, the order of priority leaves the first that accepts. Where nothing is
//! left the fallback steps in; where there is none, the node is an error with every device's reason. Errors start with
//! the key of the configuration that they are about: `pins`, `bans` or `placement`.

use super::rules::Rules;
use super::survey::Survey;
use super::twin::Form;
use ottava_graph::{Graph, Result};
use ottava_hal::{Error, Reason};

/// One way to run a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Index of the target.
    pub target: usize,
    /// How activations are held.
    pub form: Form,
    /// Time of one run, nanoseconds.
    pub ns: u64,
}

/// Most nodes that an error names.
const MAX_NAMED: usize = 5;

/// The ways to run each node, at least one per node, in the order of the wanted targets.
pub(super) fn choices(graph: &Graph, rules: &Rules, survey: &Survey) -> Result<Vec<Vec<Choice>>> {
    let mut all = Vec::with_capacity(graph.nodes.len());
    let mut wrong = Vec::new();
    for index in 0..graph.nodes.len() {
        match of_node(graph, rules, survey, index) {
            Ok(choices) => all.push(choices),
            Err(found) => wrong.push(found),
        }
    }
    if wrong.is_empty() {
        return Ok(all);
    }
    Err(Error::unsupported(Reason::Policy, in_words(&wrong)))
}

/// The key of the configuration that leaves a node without a device, and why.
type Wrong = (&'static str, String);

/// The first few errors of each key.
fn in_words(wrong: &[Wrong]) -> String {
    let of_key = |key: &&str| {
        let texts: Vec<&str> = wrong.iter().filter(|(k, _)| k == key).map(|(_, text)| text.as_str()).collect();
        let more = match texts.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            more => format!("; {more} more nodes likewise"),
        };
        (!texts.is_empty()).then(|| format!("{key}: {}{more}", texts[..texts.len().min(MAX_NAMED)].join("; ")))
    };
    ["pins", "bans", "placement"].iter().filter_map(of_key).collect::<Vec<_>>().join("; ")
}

fn of_node(graph: &Graph, rules: &Rules, survey: &Survey, index: usize) -> ottava_hal::Result<Vec<Choice>, Wrong> {
    let node = &graph.nodes[index];
    let title = || format!("node `{}` ({})", node.name, node.full_op());
    let id = |t: usize| survey.targets[t].id;
    if let Some((target, pattern)) = &rules.pins[index] {
        let pinned = || format!("{} is pinned to `{}` by `{pattern}`", title(), id(*target));
        if let Some(ban) = rules.bans[index].get(target) {
            return Err(("pins", format!("{} and banned from it by `{ban}`; take one of them out", pinned())));
        }
        let choices = on(survey, index, *target);
        let why = || survey.answers[index][*target].why();
        return match choices.is_empty() {
            true => {
                let what = format!("{}, which refused it: {}", pinned(), why());
                Err(("pins", format!("{what}; take the pin out or choose another device")))
            }
            false => Ok(choices),
        };
    }
    let allowed = rules.wanted.iter().copied().filter(|t| !rules.bans[index].contains_key(t));
    let mut choices: Vec<Choice> = allowed.flat_map(|t| on(survey, index, t)).collect();
    if let Some(first) = choices.first().copied().filter(|_| rules.by_priority) {
        choices.retain(|c| c.target == first.target);
    }
    let fallback = rules.fallback.filter(|t| choices.is_empty() && !rules.bans[index].contains_key(t));
    choices.extend(fallback.into_iter().flat_map(|t| on(survey, index, t)));
    if choices.is_empty() {
        let who = refusals(rules, survey, index, None);
        let banned = rules.bans[index].keys().any(|t| !on(survey, index, *t).is_empty());
        let key = if banned { "bans" } else { "placement" };
        return Err((key, format!("{}: {who}; allow a fallback or choose another device", title())));
    }
    Ok(choices)
}

/// The forms in which a target runs a node.
fn on(survey: &Survey, index: usize, target: usize) -> Vec<Choice> {
    survey.answers[index][target].forms.iter().map(|(form, ns)| Choice { target, form: *form, ns: *ns }).collect()
}

/// What the wanted devices (those before `until`) said against a node, in one phrase; empty if nothing.
pub(super) fn refusals(rules: &Rules, survey: &Survey, index: usize, until: Option<usize>) -> String {
    let mut said = Vec::new();
    let before = rules.wanted.iter().copied().take_while(|t| Some(*t) != until);
    for target in before {
        let (id, answer) = (survey.targets[target].id, &survey.answers[index][target]);
        if let Some(pattern) = rules.bans[index].get(&target) {
            said.push(format!("{id} is banned by `{pattern}`"));
        } else if answer.forms.is_empty() {
            said.push(format!("{id} refused ({})", answer.why()));
        }
    }
    said.join(", ")
}
